"""Activations computed again on the way back, instead of kept."""

from __future__ import annotations

from fitroom.core import Page
from fitroom.errors import UnitError
from fitroom.units import parse_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Remedy

NAME = "recompute"
WRITTEN = "recompute, recompute=low, or recompute=2GiB"
HIGH, LOW = "high", "low"

PAGE = Page(
    NAME,
    "remedy",
    "Activations computed again instead of kept",
    "What it does: cuts the traced step into runs of operations, where few bytes cross. On the way forth a run keeps "
    "its inputs only; on the way back it is computed once more, when its turn comes. The memory of activations falls "
    "to the inputs of the runs and the inside of the largest one; weights, gradients and optimizer stay.\n\n"
    "Does it keep the math? Yes: to the bit on a CPU, up to float rounding under XLA and on a GPU. Batch "
    "normalisation's statistics are set once, dropout draws the same mask both times, masks, added losses and the "
    "training flag go along. That is what sets it apart from keras.RematScope and tf.recompute_grad, which set the "
    "statistics twice and draw another mask. So it needs no permission, and is what Fitroom tries first for models "
    "that mix samples.\n\n"
    "What it costs: one more way forth at most, a third of a step; less where only the runs are computed again that "
    "save most for their time.\n\n"
    'How to choose it by hand: fitroom.guard(model, plan="recompute") for the lowest peak, "recompute=low" for about '
    'half of the saving at less time, "recompute=2GiB" for activations of at most 2 GiB in the least time. It goes '
    'along with slices: plan="micro_batch=4, recompute".\n\n'
    "What it leaves alone: what cannot run twice (numpy_function, random operations without a seed, writes to "
    "TensorFlow variables) runs once, and what it gives is kept. Steps that run eagerly have no graph to change; "
    "Fitroom says so.",
)


def read(setting: str) -> Remedy | None:
    """The remedy with this setting; None where it makes no sense."""
    if setting in ("", HIGH, LOW):
        return remedy(setting or HIGH)
    try:
        return remedy(parse_bytes(setting))
    except UnitError:
        return None


def remedy(setting: str | int = HIGH, *, saves_bytes: int | None = None, time_factor: float = 4 / 3) -> Remedy:
    """`recompute`: "high", "low", or how many bytes of activations may be kept."""
    from fitroom.core import Remedy  # `fitroom explain` needs the page only

    return Remedy(NAME, setting, saves_bytes=saves_bytes, time_factor=time_factor)
