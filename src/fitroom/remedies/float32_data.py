"""Arrays of 64 bits, cast batch by batch."""

from __future__ import annotations

from fitroom.core import Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Remedy

NAME = "float32_data"
WRITTEN = NAME

PAGE = Page(
    NAME,
    "remedy",
    "Arrays of 64 bits, cast batch by batch",
    "What it does: NumPy makes arrays of float64, and Keras casts them to float32 as a whole when fit, evaluate or "
    "predict begin, and then copies them into a tensor: twice half of your data again, in the host's memory. With "
    "this, each batch is taken from your array and cast when its turn comes.\n\n"
    "Does it keep the math? Yes, to the bit: the same numbers in the same order.\n\n"
    "What it costs: next to nothing. Casting the array yourself, x.astype('float32'), does as well and frees more.\n\n"
    'How to choose it by hand: fitroom.guard(model, plan="float32_data"), or --plan float32_data. The guard does it by '
    "itself where the copies would not fit into the host's memory.",
)


def read(setting: str) -> Remedy | None:
    """The remedy; None where it is given a setting."""
    return None if setting else remedy()


def remedy(*, saves_bytes: int | None = None) -> Remedy:
    """`float32_data`."""
    from fitroom.core import Remedy  # `fitroom explain` needs the page only

    return Remedy(NAME, saves_bytes=saves_bytes)
