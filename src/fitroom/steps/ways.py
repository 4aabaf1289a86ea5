"""The way forth of a traced step, and a way back: what the one makes and the other takes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable
from typing import Any

from fitroom.steps import graph_seams
from fitroom.steps.activations import ALIASES, bytes_of, work_of
from fitroom.steps.cutting import Piece
from fitroom.steps.graph_seams import Span

_PLACES = 100  # how many places to cut at are looked at


def is_pure(operation: Any) -> bool:
    """Whether an operation is a function of its inputs, so that running it again gives the same."""
    return not operation.op_def.is_stateful and operation.type != "Placeholder"


class WayBack:
    """One way back in a graph, and the way forth before it.

    Args:
        function: a concrete function.
        span: where the way back is.
        first: where the way forth begins.
        samples: how many samples a batch of no known size has.
    """

    def __init__(self, function: Any, span: Span, first: int, samples: int) -> None:
        self.first, self.start, self.stop = first, span.start, span.stop
        self.device = span.device
        self.operations = function.graph.get_operations()
        self.samples = samples
        self.index = {operation.name: place for place, operation in enumerate(self.operations)}
        self.returned = {tensor.name for tensor in function.graph.outputs}
        captured = graph_seams.captured(function.graph)
        self.given = {tensor.name for tensor in function.graph.inputs} - captured
        self.alias: dict[str, str] = {}
        self.from_data = self._from_data()
        self.users: dict[str, list[int]] = defaultdict(list)
        alive = _alive(function.graph)
        for place, operation in enumerate(self.operations):
            for tensor in operation.inputs if operation.name in alive else ():
                self.users[tensor.name].append(place)

    def _from_data(self) -> set[str]:
        """The tensors that come from the batch, or from random numbers: what there is per sample."""
        found = set(self.given)
        for operation in self.operations[: self.start]:
            if self.device is not None and operation.device not in ("", self.device):
                continue  # another replica's
            if "Random" in operation.type or any(tensor.name in found for tensor in operation.inputs):
                found.update(tensor.name for tensor in operation.outputs)
                if operation.type in ALIASES:
                    source = operation.inputs[0].name
                    self.alias[operation.outputs[0].name] = self.alias.get(source, source)
        return found

    def pieces(self) -> tuple[list[Piece], list[int]]:
        """The way forth as a row of pieces, and the places between them."""
        edges = self._edges()
        return [self._piece(start, stop) for start, stop in itertools.pairwise(edges)], edges

    def _edges(self) -> list[int]:
        """Places to cut at, evenly over what is kept, each where the fewest bytes cross."""
        change, alone, kept = ([0] * (self.start + 1) for _ in range(3))
        for place in range(self.first, self.start):
            for tensor in self.operations[place].outputs:
                if tensor.name not in self.from_data:
                    continue
                # Across a cut it is taken twice. Where it has one taker only, Grappler might draw the two together:
                # then it would no longer, and the result might be rounded otherwise.
                users = self.users[tensor.name]
                is_drawn = self.operations[place].type != "Placeholder" and tensor.shape.rank != 0
                is_alone = is_drawn and len(users) == 1 and users[0] < self.start
                alone[place + 1] += is_alone
                alone[min(max(users, default=place), self.start - 1) + 1] -= is_alone
                if tensor.name in self.alias:
                    continue
                size, last = bytes_of(tensor, self.samples), max(self._forward_users(tensor.name), default=place)
                change[place + 1] += size
                change[last + 1] -= size
                kept[place] += size if self.is_kept(tensor.name) else 0
        crossing, apart, sofar = (list(itertools.accumulate(one)) for one in (change, alone, kept))
        step = max(sofar[-1] / _PLACES, 1.0)
        best: dict[int, int] = {}
        for place in range(self.first + 1, self.start):
            group = int(sofar[place - 1] / step)
            if not apart[place] and (group not in best or crossing[place] < crossing[best[group]]):
                best[group] = place
        return sorted({self.first, *best.values(), self.start})

    def _piece(self, start: int, stop: int) -> Piece:
        makes: dict[Hashable, int] = {}
        keeps: dict[Hashable, int] = {}
        uses: set[Hashable] = set()
        weights: dict[str, int] = {}
        work = 0.0
        for operation in self.operations[start:stop]:
            inputs = [tensor.name for tensor in operation.inputs if tensor.name in self.from_data]
            uses.update(self._source(name) for name in inputs)
            if not inputs and "Random" not in operation.type:
                continue
            work += work_of(operation, self.samples)
            weights.update((tensor.name, bytes_of(tensor)) for tensor in operation.inputs if self._is_weight(tensor))
            for tensor in operation.outputs:
                if tensor.name in self.alias:
                    continue
                makes[self._source(tensor.name)] = bytes_of(tensor, self.samples)
                if self.is_kept(tensor.name) and is_pure(operation):
                    keeps[self._source(tensor.name)] = bytes_of(tensor, self.samples)
        return Piece(makes, frozenset(uses - set(makes)), keeps, work, sum(weights.values()))

    def _is_weight(self, tensor: Any) -> bool:
        return tensor.name not in self.from_data and tensor.dtype.is_floating and tensor.op.type != "Const"

    def _source(self, name: str) -> str:
        """The first of a tensor's names."""
        return self.alias.get(name, name)

    def _forward_users(self, name: str) -> list[int]:
        """Where a tensor is used on the way forth, also under its other names."""
        found = []
        for user in self.users[name]:
            if user < self.start:
                found.append(user)
                for tensor in self.operations[user].outputs:
                    found += self._forward_users(tensor.name) if tensor.name in self.alias else []
        return found

    def is_kept(self, name: str) -> bool:
        """Whether the way back takes a tensor, also under its other names."""
        for user in self.users[name]:
            if self.start <= user < self.stop:
                return True
            if user < self.start and any(
                one.name in self.alias and self.is_kept(one.name) for one in self.operations[user].outputs
            ):
                return True
        return False

    def followers(self) -> dict[int, list[int]]:
        """Who on the way back runs after whom: it takes what he makes, or waits for him."""
        found: dict[int, list[int]] = defaultdict(list)
        for place in range(self.start, self.stop):
            operation = self.operations[place]
            for before in {tensor.op.name for tensor in operation.inputs} | {
                one.name for one in operation.control_inputs
            }:
                found[self.index[before]].append(place)
        return found

    def operation(self, name: str) -> Any:
        """The operation of this name."""
        return self.operations[self.index[name]]

    def is_needed_elsewhere(self, name: str, stop: int) -> bool:
        """Whether a tensor is used behind `stop` on the way forth, or after the way back."""
        return name in self.returned or any(stop <= user < self.start or user >= self.stop for user in self.users[name])


def _alive(graph: Any) -> set[str]:
    """The operations that lead to a result or an effect; TensorFlow drops the others before it looks at anything."""
    todo = [*(tensor.op for tensor in graph.outputs), *graph.control_outputs]
    found: set[str] = set()
    while todo:
        operation = todo.pop()
        if operation.name not in found:
            found.add(operation.name)
            todo += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return found
