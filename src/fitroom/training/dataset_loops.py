"""A training function that loops over a dataset by itself: its steps cannot be cut, but a call can be undone.

Where a batch does not fit, the call is refused, with the reason, and everything is as it was before its first step:
plain TensorFlow leaves the steps that were made, and half of the one that failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from fitroom import oom
from fitroom.steps import graph_seams
from fitroom.steps.state import State
from fitroom.steps.update import Keeper
from fitroom.training.does_not_fit import DoesNotFit

REASON = "it loops over a dataset, and what runs inside one function cannot be cut"
HINT = "loop outside of it, and give the function one batch at a time"

_DATASETS = (tf.data.Dataset, tf.distribute.DistributedDataset)


def has_dataset(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is given a dataset to loop over."""
    return any(isinstance(one, _DATASETS) for one in tf.nest.flatten((args, kwargs)))


def undone_where_it_fails(
    function: Any, name: str, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What `plain` gives; nothing of the call is left where it runs out of memory.

    Args:
        function: the `tf.function` that it calls.
        name: what to call it in messages.

    Raises:
        DoesNotFit: if it runs out.
    """
    keeper = Keeper()
    try:
        traced = function.get_concrete_function(*args, **kwargs)
    except Exception:  # a mistake in it, most likely: its own error is what there is to say
        return plain(*args, **kwargs)
    keeper.keep(State(graph_seams.written_variables(traced)))
    try:
        return plain(*args, **kwargs)
    except BaseException as error:
        found = oom.from_exception(error) if isinstance(error, Exception) else None
        if found is None or not found.is_memory:
            raise
    # Out of the block: the failing frames, and what they held, are gone.
    keeper.put_back()
    raise DoesNotFit(
        f"{name} does not fit: {REASON}. Nothing of this call is left",
        received=found.evidence or None,
        hint=f"{HINT}; or a smaller batch",
    )
