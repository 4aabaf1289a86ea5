"""Activations computed again on the way back, instead of kept: a change to the graph of a traced step.

The way back takes from the way forth what its gradients need. In the parts that are chosen, the operations on the way
forth that lead to it are written into the graph a second time, behind the gradients that arrive at the part, and the
way back takes theirs. Nothing else changes: the gradients are the same operations in the same order, so that the result
is the same to the last bit, whatever the model is made of. Only what is a function of its inputs is written twice: what
is read from a variable, drawn from a hidden state or done by Python stays as it is, and is kept.

    forth    x ──► conv ──► norm ──► relu ──► y ──►  …  ──► loss
                                                              │
    back     dx ◄── conv' ◄── norm' ◄── relu' ◄── dy ◄── … ◄──┘
                     ▲         ▲         ▲         ┊
    again    x ──► conv ──► norm ──► relu     (waits for dy)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from fitroom.steps import cutting, graph_seams
from fitroom.steps.cutting import Cut, Piece
from fitroom.steps.ways import WayBack
from fitroom.steps.writing import Writer

Chooser = Callable[[list[Piece]], Cut]


@dataclass(frozen=True)
class Saving:
    """What recomputation is expected to come to.

    Attributes:
        plain: the bytes of activations and gradients at the peak of plain training.
        kept: those at the peak with it.
        work: what is computed again, as a share of one way forth.
        parts: how many parts are computed again.
    """

    plain: int
    kept: int
    work: float
    parts: int

    @property
    def saved(self) -> int:
        """The bytes that it saves at the peak."""
        return self.plain - self.kept

    @property
    def time_factor(self) -> float:
        """Step time with it ÷ without it: the way back takes about twice the work of the way forth."""
        return 1 + self.work / 3


class Recomputation:
    """Changes traced steps so that they keep less.

    Args:
        choose: picks a cut of a row of pieces.
        samples: how many samples a batch has, to size it by.
        xla: whether XLA compiles the step.

    Attributes:
        saving: of the last step that was changed; None where nothing could be.
    """

    def __init__(self, choose: Chooser = cutting.most, *, samples: int = 1, xla: bool = False) -> None:
        self.choose = choose
        self.samples = samples
        self.xla = xla
        self.saving: Saving | None = None

    def __call__(self, function: Any, spans: list[graph_seams.Span]) -> Any:
        """The same concrete function, keeping less between the way forth and the ways back in `spans`."""
        definition = function.graph.as_graph_def()
        savings, takers = [], []
        first: dict[str | None, int] = defaultdict(int)  # on each replica
        for span in spans:
            if span.graph is function.graph:
                back = WayBack(function, span, first[span.device], self.samples)
                writer = Writer(back, definition, xla=self.xla, keeps_bits=not tf.config.list_logical_devices("GPU"))
                saving = self._changed(writer)
                savings += [saving] if saving is not None else []
                takers += writer.takers
                first[span.device] = span.stop
        if not savings:
            return function
        changed = graph_seams.changed_function(function, definition, takers)
        self.saving = Saving(
            plain=max(one.plain for one in savings),
            kept=max(one.kept for one in savings),
            work=max(one.work for one in savings),
            parts=sum(one.parts for one in savings),
        )
        return changed

    def _changed(self, writer: Writer) -> Saving | None:
        """Write the parts that are chosen a second time; None where there are none."""
        pieces, edges = writer.back.pieces()
        if not any(piece.keeps for piece in pieces):
            return None
        cut = self.choose(pieces)
        # From the last to the first, as the way back goes: what a part takes from before it is not made again there.
        written = 0
        for part in reversed(cut.parts):
            start, stop = edges[part.start], edges[part.stop]
            if part.is_recomputed:
                written += writer.write_again(start, stop)
            else:
                writer.leave(start, stop)
        return Saving(cutting.plain(pieces).kept, cut.kept, cut.work, written) if written else None
