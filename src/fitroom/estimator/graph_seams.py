"""Where the estimator asks TensorFlow's graph optimizer. Tried with TensorFlow 2.21."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.training import saver


def optimized(function: Any) -> Any:
    """The graph of a concrete function as Grappler leaves it, functions inlined; nothing runs."""
    graph = function.graph
    fetched = [*(tensor.op.name for tensor in graph.outputs), *(one.name for one in graph.control_outputs)]
    meta = saver.export_meta_graph(graph_def=graph.as_graph_def(), graph=graph)
    for name in fetched:
        meta.collection_def["train_op"].node_list.value.append(name)
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    definition = tf_optimizer.OptimizeGraph(config, meta)
    found = tf.Graph()
    with found.as_default():
        tf.graph_util.import_graph_def(definition, name="")
    # A variable's shape is not in a graph's definition; what is taken from it can be looked up where it was traced.
    shapes = {tensor.name: tensor.shape for one in graph.get_operations() for tensor in one.outputs}
    for one in found.get_operations():
        for tensor in one.outputs:
            known = shapes.get(tensor.name)
            if known is not None and known.rank is not None and tensor.shape.is_compatible_with(known):
                tensor.set_shape(known)
    return found
