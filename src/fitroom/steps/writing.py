"""Parts of a way forth, written into a graph a second time."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fitroom.steps.ways import WayBack, is_pure


class Writer:
    """Writes parts a second time, the last part first.

    Args:
        back: the way back that takes from them.
        definition: the graph's, to be changed.
        xla: whether XLA compiles it.
        keeps_bits: whether the last bit counts. On a CPU that costs next to nothing; on a GPU, where kernels are rarely
            steady to the last bit anyway, it would copy tensors to the host.

    Attributes:
        takers: operations to be run although nobody takes anything from them.
    """

    def __init__(self, back: WayBack, definition: Any, *, xla: bool, keeps_bits: bool = True) -> None:
        self.back = back
        self.definition = definition
        self.xla = xla
        self.keeps_bits = keeps_bits
        self.takers: list[str] = []
        self._nodes = {node.name: node for node in definition.node}
        self._held: set[str] = set()  # what parts behind take from before them
        self._done: list[int] = []  # when these have run, the part behind is through
        self._followers = back.followers()

    def write_again(self, start: int, stop: int) -> bool:
        """Write what the way back takes from this part; False where that is nothing."""
        wanted = self._wanted(start, stop)
        if not wanted:
            return False
        back = self.back
        again, outside = self._ancestors(wanted, start)
        takers = self._takers(wanted)
        mark = f"fitroom_{back.start}_{start}"
        behind = self._behind(takers)
        arrivals = self._arrivals(takers, behind)
        # Not before the gradients arrive, and not before the part behind is through with what it made again. What has
        # a part in them cannot wait for them, or there would be a circle.
        waits = sorted({back.index[_operation(name)] for name in arrivals} | {*self._done} - behind)
        stand_ins = self._stand_ins(mark, outside, arrivals, waits)
        for name in again:
            self._copy(mark, name, again, stand_ins)
        if not self.xla and self.keeps_bits:
            self._stand_apart(mark, wanted, again)
        for taker in takers:
            node = self._nodes[back.operations[taker].name]
            for place, name in enumerate(node.input):
                if _tensor(name) in wanted:
                    node.input[place] = _marked(name, mark)
        self._held.update(outside)
        self._done = takers
        for place in waits:
            self._followers[place] += takers
        return True

    def leave(self, start: int, stop: int) -> None:
        """Leave a part as it is; parts before it wait until the way back is through with it."""
        made = [tensor.name for operation in self.back.operations[start:stop] for tensor in operation.outputs]
        takers = self._takers({name for name in made if name in self.back.from_data})
        self._done = takers or self._done

    def _takers(self, names: set[str]) -> list[int]:
        """Who on the way back takes any of these."""
        users = {user for name in names for user in self.back.users[name]}
        return sorted(user for user in users if self.back.start <= user < self.back.stop)

    def _wanted(self, start: int, stop: int) -> set[str]:
        """What the way back takes from a part, and nobody else needs when the part is through."""
        back = self.back
        made = [
            one.name for operation in back.operations[start:stop] if is_pure(operation) for one in operation.outputs
        ]
        return {
            name
            for name in made
            if name in back.from_data
            and name not in self._held
            and not back.is_needed_elsewhere(name, stop)
            and any(back.start <= user < back.stop for user in back.users[name])
        }

    def _ancestors(self, wanted: set[str], start: int) -> tuple[dict[str, None], list[str]]:
        """The operations of this part that lead to what is wanted, and the tensors that they take from elsewhere."""
        back = self.back
        again: dict[str, None] = {}
        outside: dict[str, None] = {}
        todo = sorted({_operation(name) for name in wanted})
        while todo:
            name = todo.pop()
            if name in again:
                continue
            again[name] = None
            for tensor in back.operation(name).inputs:
                if tensor.name not in back.from_data:
                    continue  # a weight, a constant: there anyway
                is_inside = back.index[tensor.op.name] >= start and is_pure(tensor.op)
                if is_inside and tensor.name not in self._held:
                    todo.append(tensor.op.name)
                else:
                    outside[tensor.name] = None
        return again, list(outside)

    def _behind(self, takers: list[int]) -> set[int]:
        """What on the way back runs after any of these: by what it takes, or by what it waits for."""
        found = set(takers)
        todo = list(takers)
        while todo:
            new = [place for place in self._followers[todo.pop()] if place not in found]
            found.update(new)
            todo += new
        return found

    def _arrivals(self, takers: list[int], behind: set[int]) -> list[str]:
        """The gradients that arrive at a part: what its takers take of the way back that does not come from them."""
        back = self.back
        found: dict[str, None] = {}
        for taker in takers:
            for tensor in back.operations[taker].inputs:
                place = back.index[tensor.op.name]
                if back.start <= place < back.stop and place not in behind:
                    found[tensor.name] = None
        return list(found)

    def _stand_ins(self, mark: str, outside: list[str], arrivals: list[str], waits: list[int]) -> dict[str, str]:
        """Stand-ins for what comes from outside, not to be had before the gradients arrive."""
        if self.xla:
            # XLA knows no order but that of the data; and it would take what is computed twice for one.
            node = self.definition.node.add(name=mark, op="XlaOptimizationBarrier")
            node.input.extend([*outside, *arrivals])
            node.attr["T"].list.type.extend(self._type(name) for name in [*outside, *arrivals])
            return {name: f"{mark}:{place}" for place, name in enumerate(outside)}
        names = [f"^{self.back.operations[place].name}" for place in waits]
        found = {}
        for name in outside:
            node = self.definition.node.add(name=f"{_operation(name)}/{mark}_{name.partition(':')[2]}", op="Identity")
            node.input.extend([name, *names])
            node.attr["T"].type = self._type(name)
            found[name] = node.name
        return found

    def _copy(self, mark: str, name: str, again: dict[str, None], stand_ins: dict[str, str]) -> None:
        plain = self._nodes[name]
        node = self.definition.node.add()
        node.CopyFrom(plain)
        node.name = _marked(name, mark)
        node.attr.pop("_class", None)
        del node.input[:]
        for taken in plain.input:
            if taken.startswith("^"):
                continue  # what a function of its inputs waited for is nothing to it
            if _tensor(taken) in stand_ins:
                node.input.append(stand_ins[_tensor(taken)])
            else:
                node.input.append(_marked(taken, mark) if _operation(taken) in again else taken)

    def _stand_apart(self, mark: str, wanted: set[str], again: dict[str, None]) -> None:
        """Have what is written twice be optimised as it was when it was written once.

        Whether Grappler draws operations together depends on who else takes what they make, and what it draws together
        it rounds otherwise. A taker that does nothing stands in for those that are gone.
        """
        true = self.definition.node.add(name=f"{mark}/true", op="Const")
        true.attr["dtype"].type = tf.bool.as_datatype_enum
        true.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(True))
        made = [tensor.name for name in again for tensor in self.back.operation(name).outputs]
        lonely = [
            name for name in made if any(self._is_gone(name, user, wanted, again) for user in self.back.users[name])
        ]
        for name, taken in [*((one, one) for one in sorted(wanted)), *((one, _marked(one, mark)) for one in lonely)]:
            node = self.definition.node.add(name=f"{mark}/taker_{len(self.takers)}", op="Assert")
            node.input.extend([true.name, taken])
            node.attr["T"].list.type.append(self._type(name))
            node.attr["summarize"].i = 1
            self.takers.append(node.name)

    def _is_gone(self, name: str, user: int, wanted: set[str], again: dict[str, None]) -> bool:
        """Whether somebody who takes a tensor does not take its copy."""
        if self.back.start <= user < self.back.stop:
            return name not in wanted
        return self.back.operations[user].name not in again

    def _type(self, name: str) -> int:
        output = int(name.partition(":")[2] or 0)
        return int(self.back.operation(_operation(name)).outputs[output].dtype.as_datatype_enum)


def _operation(name: str) -> str:
    return name.partition(":")[0]


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _marked(name: str, mark: str) -> str:
    """The name of a copy. The mark comes last: Grappler sorts what it adds up by name."""
    operation, colon, output = name.partition(":")
    return f"{operation}/{mark}{colon}{output}"
