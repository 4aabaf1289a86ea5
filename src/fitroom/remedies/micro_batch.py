"""Slices of the batch, one after the other, and one update for all of them."""

from __future__ import annotations

from fitroom.core import Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Remedy

NAME = "micro_batch"
WRITTEN = "micro_batch=N, with N slices"

PAGE = Page(
    NAME,
    "remedy",
    "The batch in slices, one update for all of them",
    "What it does: runs the batch in slices, adds up their gradients, each weighed by its share of the batch, and "
    "applies the sum once. The memory of activations falls with the slice; weights and optimizer stay.\n\n"
    "Does it keep the math? Yes, up to float rounding, where layers treat samples independently: sample weights, "
    "class weights, masks, every loss reduction and metrics come out as for the whole batch. Dropout and other random "
    "layers draw other numbers of the same distribution. Layers that mix samples (BatchNormalization in training mode) "
    "would see slices instead of the batch: they are not sliced unless you allow it by name.\n\n"
    "What it costs: little time, as long as a slice still fills the device; one accumulator per dense weight.\n\n"
    'How to choose it by hand: fitroom.guard(model, plan="micro_batch=4").\n\n'
    'How to allow it where samples mix: fitroom.guard(model, allow=("micro_batch",)).',
)


def read(setting: str) -> Remedy | None:
    """The remedy with this setting; None where it makes no sense."""
    return remedy(int(setting)) if setting.isdigit() and int(setting) >= 1 else None


def remedy(slices: int, *, exact: bool = True) -> Remedy:
    """`micro_batch` with this many slices."""
    from fitroom.core import Remedy  # `fitroom explain` needs the page only

    return Remedy(NAME, slices, exact=exact)
