"""XLA on or off, where that lowers the peak."""

from __future__ import annotations

from fitroom.core import Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Remedy

NAME = "xla"
WRITTEN = "xla=on or xla=off"
ON, OFF = "on", "off"

PAGE = Page(
    NAME,
    "remedy",
    "XLA on or off",
    "What it does: compiles the step with XLA, or no longer. XLA draws operations together, so that what is between "
    "them is never stored, but takes one block for all that a step needs at once. Which of the two is smaller depends "
    "on the model: it is measured.\n\n"
    "Does it keep the math? Yes, up to float rounding.\n\n"
    "What it costs: XLA compiles at the first step, which takes seconds to minutes; from then on steps are mostly "
    "quicker on a GPU. On a GPU Keras turns it on by itself.\n\n"
    'How to choose it by hand: fitroom.guard(model, plan="xla=off"), or --plan xla=off.',
)


def read(setting: str) -> Remedy | None:
    """The remedy with this setting; None where it makes no sense."""
    return remedy(setting) if setting in (ON, OFF) else None


def remedy(setting: str) -> Remedy:
    """`xla` on or off."""
    from fitroom.core import Remedy  # `fitroom explain` needs the page only

    return Remedy(NAME, setting)
