"""Other ways to predict a peak, to be compared with."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf


def outputs(model: Any, batch: int) -> int:
    """The common formula: four bytes for each number that a layer gives, for each sample, and for each weight."""
    given = 0
    for layer in model._flatten_layers(include_self=False):
        for node in getattr(layer, "_inbound_nodes", [])[:1]:
            given += sum(math.prod(size or 1 for size in one.shape[1:]) for one in node.output_tensors)
    return 4 * (batch * given + model.count_params())


def grappler(model: Any, sample: Any, batch: int) -> int | None:
    """What TensorFlow's own analysis of the training step's graph says; None where it fails."""
    from tensorflow.python.grappler import cluster, item
    from tensorflow.python.training import saver

    specs = tf.nest.map_structure(lambda leaf: tf.TensorSpec((batch, *leaf.shape[1:]), leaf.dtype), sample)
    try:
        function = tf.function(lambda data: model.train_step(data)).get_concrete_function(specs)
        graph = function.graph
        meta = saver.export_meta_graph(graph_def=graph.as_graph_def(), graph=graph)
        for name in [*(tensor.op.name for tensor in graph.outputs), *(one.name for one in graph.control_outputs)]:
            meta.collection_def["train_op"].node_list.value.append(name)
        machine = cluster.Cluster(disable_detailed_stats=True, disable_timeline=True)
        peaks = machine.DeterminePeakMemoryUsage(item.Item(meta))
    except Exception as error:  # it is not ours, and knows few graphs
        print(f"DeterminePeakMemoryUsage: {type(error).__name__}: {error}"[:200])
        return None
    return max((size for size, _ in peaks.values()), default=None)
