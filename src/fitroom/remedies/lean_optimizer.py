"""An optimizer that keeps fewer numbers for each weight."""

from __future__ import annotations

from fitroom.core import Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Remedy

NAME = "lean_optimizer"
WRITTEN = "lean_optimizer=adafactor, lion or sgd"
ADAFACTOR, LION, SGD = "adafactor", "lion", "sgd"
KINDS = (ADAFACTOR, LION, SGD)

PAGE = Page(
    NAME,
    "remedy",
    "An optimizer that keeps less",
    "What it does: Adam and its relatives keep two numbers for each weight. Adafactor keeps one row and one column of "
    "each matrix, Lion and SGD with momentum one number for each weight. The model gets such an optimizer in the place "
    "of its own; fitroom.unguard(model) gives it its own back.\n\n"
    "Does it keep the math? No, it is another training. What goes along: weight decay, clipping, moving averages, "
    "accumulation. The learning rate is carried over by a rule of thumb: times 10 for Adafactor, which scales it with "
    "the size of each weight, a fifth for Lion (with weight decay times 5), times 10 for SGD, whose momentum is Adam's "
    "beta_1. What was set is in the record and in the closing line. It runs only when you allow it by name.\n\n"
    "What it costs: no time; some tuning.\n\n"
    'How to allow it: fitroom.guard(model, allow=("lean_optimizer",)), or --allow lean_optimizer. By hand, also '
    'plan="lean_optimizer=lion".',
)


def read(setting: str) -> Remedy | None:
    """The remedy with this setting; None where it makes no sense."""
    return remedy(setting or ADAFACTOR) if setting in ("", *KINDS) else None


def remedy(setting: str = ADAFACTOR) -> Remedy:
    """`lean_optimizer` of this kind."""
    from fitroom.core import Remedy  # `fitroom explain` needs the page only

    return Remedy(NAME, setting, exact=False)
