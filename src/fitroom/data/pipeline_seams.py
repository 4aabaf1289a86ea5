"""What `tf.data` knows of a pipeline at work: its own model, by which it tunes itself. Tried on TensorFlow 2.21.0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from fitroom.data.passing import ORIGIN
from fitroom.devices.waiting import Pipeline

_AROUND = {"Root", "Model", "Options", "MaxIntraOpParallelism", "PrivateThreadPool", "AssertCardinality"}
_CALLS_PYTHON = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
_PARTIAL = {"MapAndBatch"}  # counts batches that it has only begun

_python: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # in which stages an iterator's Python code runs


def look(iterator: Any) -> Pipeline | None:
    """What an iterator's pipeline has done so far; None where TensorFlow does not tell. Takes a tenth of a ms."""
    iterator = getattr(iterator, ORIGIN, iterator)
    resource = getattr(iterator, "_iterator_resource", None)
    if resource is None:
        return None
    if iterator not in _python:  # which takes longer, and does not change
        _python[iterator] = python_stages(getattr(iterator, "_dataset", None))
    kinds = _python[iterator]
    try:
        from tensorflow.core.framework import model_pb2

        told = tf.raw_ops.IteratorGetModelProto(iterator=resource)
        model = model_pb2.ModelProto.FromString(told.numpy())
    except (ImportError, AttributeError, tf.errors.OpError):  # another version, or autotuning is off
        # Keras turns it off for a PyDataset with several workers: they make batches ahead.
        return Pipeline("Generator", 0.0, 1.0, is_python=True, is_ahead=True) if "Generator" in kinds else None
    return _read(model, kinds)


def python_stages(dataset: Any) -> set[str]:
    """The kinds of stages in which Python code runs: `Generator`, `Map`."""
    found, below = set(), [dataset]
    while below:
        one = below.pop()
        with suppress(AttributeError, TypeError):  # private to TensorFlow, and another in another version
            below += one._inputs()
            if "FlatMap" in type(one).__name__ and _calls_python(one._map_func.function.graph):
                found.add("Generator")
            elif "Map" in type(one).__name__ and _calls_python(one._map_func.function.graph):
                found.add("Map")
    return found


def _calls_python(graph: Any) -> bool:
    """Whether a function has Python code in it, or in one of the functions that it is made of."""
    if any(one.type in _CALLS_PYTHON for one in graph.get_operations()):
        return True
    inner = graph.as_graph_def().library.function
    return any(node.op in _CALLS_PYTHON for function in inner for node in function.node_def)


def _read(model: Any, python: set[str]) -> Pipeline | None:
    stages = [(stage, above) for stage, above in _below(model, model.output) if stage.name not in _AROUND]
    batches = model.nodes[model.output].num_elements if model.output in model.nodes else 0
    if not stages or not batches:
        return None
    took: dict[str, float] = {}
    for stage, above in stages:  # of an interleave's many readers all count
        seconds = stage.processing_time / 1e9 / _workers(stage) / _workers(above)
        took[stage.name] = took.get(stage.name, 0.0) + seconds
    name = max(took, key=took.__getitem__)
    slowest, above = next(one for one in stages if one[0].name == name)
    last = stages[0][0]
    is_ahead = _is_async(last)
    return Pipeline(
        slowest=name,
        seconds=sum(took.values()) / batches,
        share=took[name] / (sum(took.values()) or 1.0),
        workers=max(_workers(slowest), _workers(above)),
        is_tuned=_is_tuned(slowest) or _is_tuned(above),
        is_python="Map" in python if _is_map(name) else name == "Generator",
        is_ahead=is_ahead,
        empty=float(last.buffered_elements == 0) if is_ahead and last.name not in _PARTIAL else None,
    )


def _below(model: Any, number: int, above: Any = None) -> Iterator[tuple[Any, Any]]:
    """A stage and those that feed it, the last one first; each with the interleave that has several of it at work."""
    if number in model.nodes:
        stage = model.nodes[number]
        yield stage, above
        for one in stage.inputs:
            yield from _below(model, one, stage if "ParallelInterleave" in stage.name else above)


def _is_map(name: str) -> bool:
    return "Map" in name and "Flat" not in name


def _is_async(stage: Any) -> bool:
    kinds = type(stage).DESCRIPTOR.fields_by_name["node_class"].enum_type.values_by_number
    found = kinds.get(stage.node_class)
    return found is not None and found.name.startswith("ASYNC")


def _workers(stage: Any) -> int:
    return max((int(one.value) for one in _parallelism(stage)), default=1) or 1


def _is_tuned(stage: Any) -> bool:
    return any(one.tunable for one in _parallelism(stage))


def _parallelism(stage: Any) -> list[Any]:
    return [one for one in stage.parameters if one.name == "parallelism"] if stage is not None else []
