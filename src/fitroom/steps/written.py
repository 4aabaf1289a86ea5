"""What a step that Keras did not write, writes: known once it has been traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitroom.steps import graph_seams, random_seams
from fitroom.steps.sites import Site
from fitroom.steps.state import State, native


class Written:
    """The variables that a step writes.

    Args:
        function: the traced step, its sites taken down instead of carried out.
        sites: where it applies gradients.

    Attributes:
        small: what it writes besides weights and slots: seeds, statistics, metrics.
        weights: what its sites update; `of_sites` has each site's for itself.
        all: everything.
        hidden_random: random operations in it whose state cannot be put back.
    """

    def __init__(self, function: Any, sites: Sequence[Site]) -> None:
        weights = native([one for site in sites for one in site.variables])
        slots = native([one for site in sites for one in site.optimizer.variables])
        large = {id(one) for one in (*weights, *slots)}
        small = [one for one in graph_seams.written_variables(function) if id(one) not in large]
        self.small = State(small)
        self.weights = State(_unique(weights))
        self.of_sites = [State(native(site.variables)) for site in sites]
        self.all = State(_unique([*small, *weights, *slots]))
        self.hidden_random = random_seams.hidden_random_operations(function)

    def put(self, known: list[list[Any]]) -> None:
        """Give the first sites' variables the values that they are known to come to."""
        for state, values in zip(self.of_sites, known, strict=False):
            state.write(values)


def _unique(variables: list[Any]) -> list[Any]:
    """Each variable once."""
    return list({id(one): one for one in variables}.values())
