"""One way to need less memory."""

from __future__ import annotations

from dataclasses import dataclass

from fitroom.core.noun import Noun


@dataclass(frozen=True)
class Remedy(Noun):
    """One way to need less: what it saves, what it costs, and whether the math stays the same.

    Attributes:
        name: its name in the registry and in ``--allow``, such as ``micro_batch``.
        setting: its parameter, such as the number of slices; None where it has none.
        exact: whether the training's result is the one that was asked for (up to float rounding).
        saves_bytes: what it is expected to save at the peak; None where that is not known.
        time_factor: expected step time with it ÷ without it.
        needs_restart: whether it takes a new process to come into force.
    """

    name: str
    setting: int | str | None = None
    exact: bool = True
    saves_bytes: int | None = None
    time_factor: float = 1.0
    needs_restart: bool = False

    def __str__(self) -> str:
        return self.name if self.setting is None else f"{self.name}={self.setting}"
