"""Layers that compute with half the bytes, and keep their weights in full."""

from __future__ import annotations

from fitroom.core import Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Remedy

NAME = "mixed_precision"
WRITTEN = "mixed_precision, or mixed_precision=bfloat16"
FLOAT16, BFLOAT16 = "float16", "bfloat16"

PAGE = Page(
    NAME,
    "remedy",
    "Layers compute in 16 bits",
    "What it does: turns a model over, built and compiled as it is: its layers compute in float16 or bfloat16, which "
    "halves activations and their gradients; weights and optimizer stay in float32, and so does what the model "
    "returns. With float16 the loss is scaled, as Keras does it, so that small gradients are not lost. "
    "fitroom.unguard(model) turns it back.\n\n"
    "Does it keep the math? No: numbers of 16 bits have three digits (bfloat16) or four (float16). Most models train "
    "as well; that is for you to say, so it runs only when you allow it by name.\n\n"
    "What it costs: nothing on GPUs that compute with such numbers (compute capability 7 and up), where it is quicker; "
    "on CPUs it may be much slower.\n\n"
    'How to allow it: fitroom.guard(model, allow=("mixed_precision",)), or --allow mixed_precision. By hand, also '
    'plan="mixed_precision" (float16 with a loss scale) or plan="mixed_precision=bfloat16" (without one).',
)


def read(setting: str) -> Remedy | None:
    """The remedy with this setting; None where it makes no sense."""
    return remedy(setting or FLOAT16) if setting in ("", FLOAT16, BFLOAT16) else None


def remedy(setting: str = FLOAT16) -> Remedy:
    """`mixed_precision` in this type."""
    from fitroom.core import Remedy  # `fitroom explain` needs the page only

    return Remedy(NAME, setting, exact=False)
