"""What was measured, as Footprints: by part and by layer, for any batch size.

Steps are recorded on one device. Of a training on several replicas each has its share of the batch, all the weights and
slots, and room to exchange gradients in: what counts is the replica with the largest share.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from fitroom.core.footprint import Footprint, LayerBytes, Parts
from fitroom.estimator.replay import Replay, largest
from fitroom.estimator.tape import Request, Tape

Kind = Literal["training", "evaluation", "prediction"]
Phase = Literal["", "forward", "backward", "update"]

_BACK = "gradient_tape"
_GPU_BAND = 0.15
_SPARE = 0.02  # of the predicted peak: what has to be left, where every request is known to find a place
_ROOMS = (1.0, 0.99)  # parts of the budget in all of which they have to: in one they may by luck
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
    """What stays on the device between steps: the path of a weight, and the bytes of it or of a slot of it.

    Attributes:
        accumulators: what slices add up in, where there are slices.
        trained: the bytes of the weights that are trained.
    """

    weights: tuple[tuple[str, int], ...]
    slots: tuple[tuple[str, int], ...] = ()
    accumulators: int = 0
    trained: int = 0


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
        others: measures the kinds that are missing.
        seconds: of recorded training steps, with their sizes.
        is_compiled: whether XLA compiles the steps.
        is_one_region: whether the allocator has all its memory in one piece, as on a GPU without growth.
        replicas: the devices that share a batch; none where there is one.
    """

    replays: dict[Kind, Replay]
    resident: Resident
    names: Names
    how: Literal["traced", "measured"]
    band: float
    plan: str = "plain"
    notes: tuple[str, ...] = ()
    missing: dict[Kind, str] = field(default_factory=dict)
    others: Callable[[], Footprints] | None = None
    seconds: tuple[tuple[int, float], ...] = ()
    is_compiled: bool = False
    is_one_region: bool = False
    replicas: tuple[str, ...] = ()
    _found: dict[tuple[Kind, int], Footprint] = field(default_factory=dict)
    _sorts: dict[tuple[int, str], tuple[list[str], npt.NDArray[np.int64]]] = field(default_factory=dict)

    def at(self, kind: Kind, batch: int) -> Footprint:
        """The footprint of a step of this kind at this batch size."""
        if (kind, batch) not in self._found:
            found = self._footprint(kind, self._share(batch))
            parts = dataclasses.replace(found.parts, exchange=self._exchange(kind))
            self._found[kind, batch] = dataclasses.replace(found, batch_size=batch, parts=parts, replicas=self.replicas)
        return self._found[kind, batch]

    def _share(self, batch: int) -> int:
        """The largest replica's part of a batch."""
        return -(-batch // max(len(self.replicas), 1))

    def _exchange(self, kind: Kind) -> int:
        """What a replica takes for the sum of all replicas' gradients, beside its own."""
        return self.resident.trained if self.replicas and kind == "training" else 0

    def with_others(self) -> Footprints:
        """The same with the kinds that were missing, where they can be measured: once."""
        if self.others is not None:
            found, self.others = self.others(), None
            self.replays |= found.replays
            self.missing = {kind: why for kind, why in found.missing.items() if kind not in self.replays}
        return self

    def largest(self, kind: Kind, room: int, most: int) -> int:
        """The largest batch that fits into `room`, up to `most`; 0 where none does."""
        count, room = max(len(self.replicas), 1), room - self._exchange(kind)
        found = largest(lambda size: self.replays[kind].tensors(size) * (1 + self._spare) <= room, -(-most // count))
        while found and not self._fits(kind, found, room):
            found = min(found - 1, found * 99 // 100)
        return min(found * count, most)

    def fits(self, kind: Kind, batch: int, room: int) -> bool:
        """Whether the peak is within `room`, with a little to spare, and every request finds a place there."""
        return self._fits(kind, self._share(batch), room - self._exchange(kind))

    def _fits(self, kind: Kind, share: int, room: int) -> bool:
        is_within = self.replays[kind].peak(share) * (1 + self._spare) <= room
        return is_within and self._finds_places(kind, share, room)

    @property
    def _spare(self) -> float:
        """What has to be left of the budget: little where steps were recorded as they run there."""
        return _SPARE if self.how == "measured" and not self.is_compiled and not self.is_one_region else self.band

    def sliced(self, batch: int, slices: int) -> Footprint:
        """A training step at this batch size in so many slices: a slice's peak, accumulators, and the whole batch."""
        if slices == 1:
            return self.at("training", batch)
        share = self._share(batch)
        size = -(-share // slices)
        whole = self.at("training", size * max(len(self.replicas), 1))
        parts = dataclasses.replace(
            whole.parts, accumulators=self.resident.trained, data=whole.parts.data * share // size
        )
        plan = ", ".join([f"micro_batch={slices}", *([self.plan] if self.plan != "plain" else [])])
        return dataclasses.replace(whole, batch_size=batch, parts=parts, plan=plan)

    def fitting_slice(self, batch: int, room: int) -> int:
        """The largest slice of a batch whose worst case is within `room`, with a place for every request; else 0."""
        count, share = max(len(self.replicas), 1), self._share(batch)
        found = largest(lambda size: self.sliced(batch, -(-share // size)).worst <= room, share)
        while found and not self._is_placed(batch, found, room):
            found = min(found - 1, found * 9 // 10)
        return min(found * count, batch)

    def _is_placed(self, batch: int, size: int, room: int) -> bool:
        """Whether a slice's requests find places beside the accumulators and the rest of the batch."""
        slices = -(-self._share(batch) // size)
        size = -(-self._share(batch) // slices)
        own = self.at("training", size * max(len(self.replicas), 1))
        others = self.sliced(batch, slices).peak - own.peak + own.parts.exchange
        return self._finds_places("training", size, room - others)

    def _finds_places(self, kind: Kind, batch: int, room: int) -> bool:
        replay = self.replays[kind]
        return all(replay.runs_in(int(room * part), batch, in_one_region=self.is_one_region) for part in _ROOMS)

    def time(self, batch: int) -> float | None:
        """How long a training step takes, by the line through those that were recorded; None where none was."""
        if not self.seconds:
            return None
        quickest: dict[int, float] = {}
        for size, seconds in self.seconds:
            quickest[size] = min(seconds, quickest.get(size, seconds))
        sizes, times = np.array(list(quickest)), np.array(list(quickest.values()))
        each = max(float(np.polyfit(sizes, times, 1)[0]), 0.0) if len(sizes) > 1 else 0.0
        once = max(float(np.mean(times - each * sizes)), 0.0)
        return once + each * self._share(batch)

    def on_gpu(self) -> Footprints:
        """The same without what a CPU's kernels take for themselves."""
        return dataclasses.replace(
            self,
            replays={kind: replay.without("temp") for kind, replay in self.replays.items()},
            band=max(self.band, _GPU_BAND),
            others=None if self.others is None else lambda: self.with_others().on_gpu(),
            is_one_region=True,
            _found={},
            _sorts={},
        )

    def _footprint(self, kind: Kind, batch: int) -> Footprint:
        replay = self.replays[kind]
        tensors, slack = replay.tensors(batch), replay.slack(batch)
        tape, until = replay.highest(batch)
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
