"""What was measured, as Footprints: by part and by layer, for any batch size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from fitroom.core.footprint import Footprint, LayerBytes, Parts
from fitroom.estimator.replay import Replay
from fitroom.estimator.tape import Request, Tape

Kind = Literal["training", "evaluation", "prediction"]
Phase = Literal["", "forward", "backward", "update"]

_BACK = "gradient_tape"
_NUMBER = re.compile(r"_\d+$")


class Names:
    """What the operations of a model are called by.

    Args:
        layers: the layers' names.
        optimizers: the optimizers' names.
        data: the scope in which batches are made.
    """

    def __init__(self, layers: Iterable[str], optimizers: Iterable[str], data: str) -> None:
        self.layers = frozenset(layers)
        self.optimizers = frozenset(optimizers)
        self.data = data

    def layer(self, path: str) -> str | None:
        """The innermost layer that a name tells of: Keras writes ``model_1/layer_2/operation``."""
        names = (name for part in reversed(path.split("/")) for name in (part, _NUMBER.sub("", part)))
        return next((name for name in names if name in self.layers), None)

    def part(self, request: Request) -> str:
        """Which part of a footprint a request belongs to."""
        components = request.op.split("/")
        if self.data in components:
            return "data"
        if request.role in ("temp", "persist") or self.optimizers.intersection(components):
            return "workspace"
        return "gradients" if _BACK in components else "activations"

    def phase(self, tape: Tape, until: int) -> Phase:
        """Where in the step a move is."""
        for move in reversed(tape.moves[: until + 1]):
            components = tape.requests[move.request].op.split("/") if move.takes else []
            if self.optimizers.intersection(components):
                return "update"
            if _BACK in components:
                return "backward"
            if self.layer(tape.requests[move.request].op) is not None and move.takes:
                return "forward"
        return ""


@dataclass(frozen=True)
class Resident:
    """What stays on the device between steps: the path of a weight, and the bytes of it or of a slot of it."""

    weights: tuple[tuple[str, int], ...]
    slots: tuple[tuple[str, int], ...] = ()
    accumulators: int = 0


@dataclass
class Footprints:
    """The footprints of a model's steps.

    Args:
        replays: the recorded steps of each kind.
        resident: what stays.
        names: what operations are called by.
        how: whether they were recorded or only traced.
        band: the relative error to reckon with.
        plan, notes: as a Footprint has them.
        missing: why there is nothing recorded of a kind.
    """

    replays: dict[Kind, Replay]
    resident: Resident
    names: Names
    how: Literal["traced", "measured"]
    band: float
    plan: str = "plain"
    notes: tuple[str, ...] = ()
    missing: dict[Kind, str] = field(default_factory=dict)
    _found: dict[tuple[Kind, int], Footprint] = field(default_factory=dict)
    _sorts: dict[tuple[int, str], tuple[list[str], npt.NDArray[np.int64]]] = field(default_factory=dict)

    def at(self, kind: Kind, batch: int) -> Footprint:
        """The footprint of a step of this kind at this batch size."""
        if (kind, batch) not in self._found:
            self._found[kind, batch] = self._footprint(kind, batch)
        return self._found[kind, batch]

    def peak(self, kind: Kind, batch: int) -> int:
        """Its peak alone, which takes less time."""
        return self.replays[kind].peak(batch)

    def _footprint(self, kind: Kind, batch: int) -> Footprint:
        replay = self.replays[kind]
        tensors, slack = replay.tensors(batch), replay.slack(batch)
        tape, until = replay.usual(batch)
        live = np.where(tape.live(until), tape.sizes(batch), 0)
        parts = Counter({"slack": slack, "accumulators": self.resident.accumulators})
        parts["weights"] = sum(size for _, size in self.resident.weights)
        parts["optimizer"] = sum(size for _, size in self.resident.slots)
        parts.update(self._sums(tape, live, self.names.part))
        # Constants, metrics, what variables are rounded up to; less what the step has released by then.
        parts["workspace"] += tensors - sum(parts.values()) + slack
        for name in ("gradients", "activations", "optimizer", "weights"):  # released already: new values are there
            taken = max(min(parts[name], -parts["workspace"]), 0)
            parts[name] -= taken
            parts["workspace"] += taken
        return Footprint(
            batch_size=batch,
            parts=Parts(**parts),
            how=self.how,
            band=self.band,
            layers=self._layers(tape, live),
            kind=kind,
            phase=self.names.phase(tape, until),
            plan=self.plan,
            notes=self.notes,
        )

    def _layers(self, tape: Tape, live: npt.NDArray[np.int64]) -> tuple[LayerBytes, ...]:
        held = Counter(self._sums(tape, live, self._layer))
        for name, size in self._resident_layers:
            held[name] += size
        del held[""]
        return tuple(LayerBytes(name, size) for name, size in held.most_common() if size)

    def _layer(self, request: Request) -> str:
        return self.names.layer(request.op) or ""

    @cached_property
    def _resident_layers(self) -> list[tuple[str, int]]:
        return [(self.names.layer(path) or "", size) for path, size in (*self.resident.weights, *self.resident.slots)]

    def _sums(self, tape: Tape, sizes: npt.NDArray[np.int64], sort: Callable[[Request], str]) -> dict[str, int]:
        """The sizes of the requests, added up by what `sort` says of each."""
        key = id(tape), sort.__name__
        if key not in self._sorts:
            kinds = [sort(request) for request in tape.requests]
            names = sorted(set(kinds))
            place = {name: number for number, name in enumerate(names)}
            self._sorts[key] = names, np.array([place[kind] for kind in kinds], np.int64)
        names, kinds_of = self._sorts[key]
        sums = np.bincount(kinds_of, sizes, minlength=len(names))
        return {name: int(size) for name, size in zip(names, sums, strict=True)}
