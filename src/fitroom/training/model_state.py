"""The variables of a training: what it writes, step by step."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fitroom.steps.keras_seams import all_variables
from fitroom.steps.state import State, native
from fitroom.training import keras_seams

_COUNTED = re.compile(r"_\d+(?=/|$)")  # Keras counts names; what else was made decides where the count stands


class Differs(Exception):
    """The model is not the one that was saved."""


def read(model: Any, arrays: list[Any], *, copy: bool) -> dict[str, Any]:
    """What a model's training has written so far; copies of the values go to `arrays`, or the variables themselves."""
    own, others = _variables(model)
    described = {"own": _described(own), "others": _described(others), "first": len(arrays)}
    arrays += [np.array(one) if copy else one for one in (*own, *others)]
    return described


def write(model: Any, described: dict[str, Any], arrays: list[Any]) -> None:
    """Give a model's variables the values that were read.

    Raises:
        Differs: if its variables are others.
    """
    own, others = _variables(model)
    wanted = described["own"]
    found = _described(own)
    if found != wanted:
        raise Differs(_difference(wanted, found))
    values = arrays[described["first"] :]
    State(own).refill(values[: len(own)])
    known = {_key(one): value for one, value in zip(described["others"], values[len(own) :], strict=False)}
    for one, about in zip(others, _described(others), strict=True):
        if _key(about) in known:
            State([one]).refill([known[_key(about)]])


def is_complete(model: Any, described: dict[str, Any]) -> bool:
    """Whether a model has the variables that were read, but for those that a training step makes on its way."""
    own, _ = _variables(model)
    return bool(_described(own) == described["own"])


def size(model: Any) -> int:
    """How many bytes there are to save."""
    return sum(one.shape.num_elements() * one.dtype.size for part in _variables(model) for one in part)


def _variables(model: Any) -> tuple[list[Any], list[Any]]:
    """The model's and its optimizers' variables; and its metrics' and others that its training step writes."""
    guard = keras_seams.hooked(model)
    metrics = native(model.metrics_variables)
    others = {id(one.handle): one for one in (*metrics, *(guard.written() if guard is not None else []))}
    everything = native(all_variables(model, getattr(model, "optimizer", None)))
    of_metrics = {id(one.handle) for one in metrics}
    own = {id(one.handle): one for one in everything if id(one.handle) not in of_metrics}
    found = list(own.values()), [one for handle, one in others.items() if handle not in own]
    return found[0], [one for one in found[1] if one.dtype.is_floating or one.dtype.is_integer or one.dtype.is_bool]


def _described(variables: list[Any]) -> list[dict[str, Any]]:
    count: dict[str, int] = {}
    found = []
    for one in variables:
        name = _COUNTED.sub("", one.name.rpartition(":")[0] or one.name)
        count[name] = count.get(name, 0) + 1
        found.append({"name": name, "number": count[name], "shape": one.shape.as_list(), "dtype": one.dtype.name})
    return found


def _key(described: dict[str, Any]) -> tuple[Any, ...]:
    return described["name"], described["number"], tuple(described["shape"]), described["dtype"]


def _difference(wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> str:
    """What differs first, in words."""
    for one, other in zip(wanted, found, strict=False):
        if one != other:
            return f"the variable {_words(one)} has become {_words(other)}"
    more, longer = ("fewer", wanted) if len(found) < len(wanted) else ("more", found)
    first = longer[min(len(found), len(wanted))]
    return f"{len(found)} variables, {more} than the {len(wanted)} of before: {_words(first)}"


def _words(described: dict[str, Any]) -> str:
    shape = "×".join(map(str, described["shape"])) or "scalar"
    return f"{described['name']} ({shape}, {described['dtype']})"
