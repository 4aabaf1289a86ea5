"""Evaluation and prediction in smaller pieces than training."""

from __future__ import annotations

from fitroom.core import Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Remedy

NAME = "eval_batch"
WRITTEN = "eval_batch=N, with at most N samples at once"

PAGE = Page(
    NAME,
    "remedy",
    "Evaluation and prediction in smaller pieces",
    "What it does: runs evaluate, predict and validation in slices of at most so many samples. Training is not "
    "touched.\n\n"
    "Does it keep the math? Yes, up to float rounding: losses, metrics and outputs come out as for whole batches.\n\n"
    "What it costs: little time, as long as a slice still fills the device.\n\n"
    'How to choose it by hand: fitroom.guard(model, plan="eval_batch=16"), or --plan eval_batch=16.',
)


def read(setting: str) -> Remedy | None:
    """The remedy with this setting; None where it makes no sense."""
    return remedy(int(setting)) if setting.isdigit() and int(setting) >= 1 else None


def remedy(samples: int) -> Remedy:
    """`eval_batch` with so many samples at once."""
    from fitroom.core import Remedy  # `fitroom explain` needs the page only

    return Remedy(NAME, samples)
