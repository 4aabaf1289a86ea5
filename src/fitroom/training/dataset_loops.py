"""A training function that loops over a dataset by itself: what runs inside one function cannot be cut.

    the dataset is distributed, and may not fit ─► Python loops, and each `strategy.run` in the loop is a guarded step
    otherwise                                   ─► it runs as it is; where it runs out, the call is undone, and refused

A distributed dataset's iterator inside a function may wait for ever once a replica has run out, so that it is decided
before the first step. Its batches are for `strategy.run` and nothing else, which is why the steps are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from fitroom import oom
from fitroom.devices.meter import Meter
from fitroom.steps import graph_seams
from fitroom.steps.activations import loops_in, made_in_all
from fitroom.steps.replacing import replaced
from fitroom.steps.state import State
from fitroom.steps.update import Keeper
from fitroom.training import function_seams, looking_ahead
from fitroom.training.does_not_fit import DoesNotFit

_REASON = "it draws its batches itself, and what runs inside one function cannot be cut"
_HINT = "draw outside of it, and give the function one batch at a time; or a smaller batch"

_DATASETS = (tf.data.Dataset, tf.distribute.DistributedDataset)
_ITERATORS = (tf.data.Iterator, tf.distribute.DistributedIterator)
_STRATEGY = next(owner for owner in tf.distribute.Strategy.__mro__ if "run" in vars(owner))


def draws_itself(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is given a dataset to loop over, or an iterator to draw from: what it draws is gone."""
    return any(isinstance(one, (*_DATASETS, *_ITERATORS)) for one in tf.nest.flatten((args, kwargs)))


def traced(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any | None:
    """The function's trace for such a call; None where it cannot be traced, and will say so itself."""
    try:
        return function.get_concrete_function(*args, **kwargs)
    except Exception:  # a mistake in it, most likely: its own error is what there is to say
        return None


def fits_surely(trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any], meter: Meter) -> bool:
    """Whether everything that one turn of the loop makes would be there at once."""
    sizes = [function_seams.batch_size(one) for one in _datasets(args, kwargs)]
    known = [size for size in sizes if size is not None]
    made = [made_in_all(graph, max(known, default=1)) for graph in graph_seams.inner_graphs(trace.graph)]
    if len(known) < len(sizes) or None in made:
        return False
    loops = sum(loops_in(graph) for graph in graph_seams.inner_graphs(trace.graph)) - is_distributed(args, kwargs)
    return looking_ahead.fits_surely(sum(filter(None, made)) * (looking_ahead.LOOPS if loops > 0 else 1), meter)


def is_distributed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the batches are for replicas."""
    return any(isinstance(one, tf.distribute.DistributedDataset) for one in _datasets(args, kwargs))


def undone_where_it_fails(
    trace: Any, name: str, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What `plain` gives; nothing of the call is left where it runs out of memory.

    Args:
        trace: of the function that it calls, or would.
        name: what to call it in messages.

    Raises:
        DoesNotFit: if it runs out.
    """
    keeper = Keeper()
    keeper.keep(State(graph_seams.written_variables(trace)))
    try:
        return plain(*args, **kwargs)
    except DoesNotFit:  # of a step in it, which knows more of why
        keeper.put_back()
        raise
    except BaseException as error:
        found = oom.from_exception(error) if isinstance(error, Exception) else None
        if found is None or not found.is_memory:
            raise
    # Out of the block: the failing frames, and what they held, are gone.
    keeper.put_back()
    raise DoesNotFit(
        f"{name} does not fit: {_REASON}. Nothing of this call is left",
        received=found.evidence or None,
        hint=_HINT,
    )


def as_traced(result: Any, trace: Any) -> Any:
    """What Python's loop gave, as the function itself would have given it: its numbers are tensors."""

    def converted(value: Any, given: Any) -> Any:
        is_number = isinstance(value, (bool, int, float)) and isinstance(given, (tf.Tensor, tf.TensorSpec))
        return tf.convert_to_tensor(value, given.dtype) if is_number else value

    try:
        return tf.nest.map_structure(converted, result, trace.structured_outputs)
    except (TypeError, ValueError):  # of another structure, as of nothing at all
        return result


@contextmanager
def each_run(answer: Callable[[Any, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Have what `answer(fn, on_replicas)` gives stand for each `strategy.run(fn, …)` that Python comes to.

    Args:
        answer: `on_replicas` is a function that calls `fn` on every replica with what it is given.
    """
    plain = vars(_STRATEGY)["run"]

    def run(strategy: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        given = tf.nest.flatten((args, kwargs or {}))
        has_batch = any(isinstance(one, (tf.Tensor, tf.distribute.DistributedValues)) for one in given)
        if not tf.executing_eagerly() or keeping.is_inside or not has_batch:
            return plain(strategy, fn, args, kwargs, options)
        inner = graph_seams.python_of(fn)  # a function inside of it could not be taken apart

        def on_replicas(*args: Any, **kwargs: Any) -> Any:
            return plain(strategy, inner, args, kwargs)

        on_replicas.__name__ = getattr(fn, "__name__", on_replicas.__name__)
        keeping.is_inside = True
        try:
            return answer(fn, on_replicas)(*args, **(kwargs or {}))
        finally:
            keeping.is_inside = False

    keeping = _Keeping()
    with replaced([(_STRATEGY, "run", run)]):
        yield


class _Keeping:
    """Whether a guarded step is under way: what it calls is its own."""

    is_inside = False


def _datasets(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    return [one for one in tf.nest.flatten((args, kwargs)) if isinstance(one, _DATASETS)]
