"""What a step is to whoever carries it through: it runs whole or in slices, and can be rolled back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol

from fitroom.errors import UsageError
from fitroom.oom import Exhaustion
from fitroom.steps import slicing
from fitroom.steps.mixing import Obstacle
from fitroom.steps.recomputation import Chooser, Saving

Phase = Literal["gradients", "update"]


class Step(Protocol):
    """One batch in, one result out, every update made exactly once.

    Attributes:
        trains: whether it trains, not evaluates or predicts.
    """

    trains: bool = True

    @property
    def phase(self) -> Phase:
        """What was under way last: where it failed, that is what failed."""

    def batch(self, data: Any) -> Any:
        """The part of the data that has a batch axis."""
        return data

    def samples(self, data: Any) -> int:
        """How many samples the batch has; 0 where it cannot be cut."""
        try:
            return slicing.batch_size(self.batch(data))
        except UsageError:
            return 0

    def whole(self, data: Any, like: Any) -> Any:
        """Run the batch in one piece; `like` is what plain Keras would trace for. Raises, and changes what it may."""

    def sliced(self, data: Any, bounds: Iterable[tuple[int, int]]) -> Any:
        """Run the batch in slices, from each start to each stop. Raises, and changes what it may."""

    def most_per_sample(self) -> int | None:
        """The bytes that one more sample in a slice takes at most; None where that cannot be told. Asked in slices."""
        return None

    def most_alive(self, data: Any, like: Any) -> int | None:
        """The bytes that a whole batch takes at once at most beside what stays, from what is traced for it anyway; None
        where that cannot be told."""
        return None

    def trained(self) -> list[Any]:
        """The variables that its updates change, once it has been traced."""
        return []

    def roll_back(self) -> None:
        """After a failure: have everything be as it was before the attempt."""

    def tighten(self) -> bool:
        """After an update that ran out: take less for it from now on. False where nothing is left to save."""

    def survived(self) -> list[Exhaustion]:
        """The failures in updates that it got over by itself, since it was last asked."""
        return []

    def recompute(self, data: Any, like: Any, choose: Chooser, samples: int | None = None) -> Saving | None:
        """Compute activations again on the way back from now on, chosen for batches of this many `samples` (those of
        `data` unless told). None where nothing can be, or there is no way back."""

    def written_variables(self) -> list[Any]:
        """The variables that it writes besides weights and slots, as far as it has been traced."""
        return []

    def layers(self) -> list[str]:
        """The names of the model's layers, where it is a model's."""
        return []

    def own_bytes(self) -> int | None:
        """What the model's and its optimizer's variables take; None where that is not known."""
        return None

    def obstacles(self, data: Any) -> list[Obstacle]:
        """Why slices would not give what the whole batch gives. May run a few samples to find out."""

    def random_layers(self) -> list[str]:
        """What draws random numbers: sliced, it draws others of the same distribution."""

    def hidden_random(self) -> set[str]:
        """Random operations whose state cannot be put back: after a failure they draw other numbers."""
