"""What the words tell of a training on several replicas: how many, which one failed, and the loop it failed in."""

from __future__ import annotations

from dataclasses import dataclass

from fitroom.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.diagnosers.facts import Facts


@dataclass(frozen=True)
class Replicas:
    """What a strategy, or who made it, says of its replicas.

    Attributes:
        count: how many there are; 0 where nobody says so.
        devices: the device of each, such as ``GPU:1``, in their order, where they are listed.
    """

    count: int = 0
    devices: tuple[str, ...] = ()


_LISTED = Pattern(r"Using MirroredStrategy with devices \(([^)\n]{1,4000})\)")
_DEVICE = Pattern(r"\b([GCT]PU:\d{1,3})\b")
# As TensorFlow's guides print them.
_COUNTED = Pattern(r"\b(?:[Nn]umber of devices|num_replicas(?:_in_sync)?|REPLICAS)['\"]?\s*[:=]\s*(\d{1,4})\b")
# MirroredStrategy names the operations of every replica but the first so (mirrored_run.py). "replica:0" in the name of
# a device is another thing, a job's.
_NAMED = Pattern(r"(?:^|[\s/{'])replica_(\d{1,3})/")
_STRATEGY = Pattern(r"MirroredStrategy|\bstrategy\.(?:scope|run|num_replicas_in_sync)\b")
_INDEX = Pattern(r"(?i:[GCT]PU):(\d{1,3})$")
_ARENA = Pattern(r"^GPU_(\d{1,3})_bfc$")


def told(text: str) -> Replicas:
    """The replicas that a log tells of: those of its last strategy."""
    listed, counted = _LISTED.findall(text), _COUNTED.findall(text)
    devices = tuple(_DEVICE.findall(listed[-1])) if listed else ()
    return Replicas(len(devices) or (int(counted[-1]) if counted else 0), devices)


def of_allocator(name: str | None) -> str | None:
    """The device that an allocator serves, where its name tells: ``GPU_1_bfc`` is GPU:1's."""
    match = _ARENA.match(name or "")
    return f"GPU:{match[1]}" if match else None


def index(device: str | None) -> int | None:
    """The number of a device among those of its kind."""
    match = _INDEX.search(device or "")
    return int(match[1]) if match else None


def failed(facts: Facts) -> int | None:
    """The replica that failed, counted from 0: by the operation's name, or by its device; None where none is known."""
    if match := _NAMED.search(facts.op or ""):
        return int(match[1])
    number, kind = index(facts.device), (facts.device or "").upper().rpartition(":")[0][-3:]
    if number is None:
        return None
    if len(facts.replicas.devices) > 1:
        name = f"{kind}:{number}"
        return facts.replicas.devices.index(name) if name in facts.replicas.devices else None
    if facts.replicas.count > 1 and kind == "GPU" and number < facts.replicas.count:
        return number
    return 0 if number == 0 and _NAMED.search(facts.words) else None


def are_several(facts: Facts) -> bool:
    """Whether the training ran on several replicas, for all that is known."""
    return facts.replicas.count > 1 or (failed(facts) or 0) > 0 or _NAMED.search(facts.words) is not None


def has_strategy(facts: Facts) -> bool:
    """Whether a strategy is spoken of, or its replicas are seen."""
    return are_several(facts) or any(_STRATEGY.search(words) for words in (facts.words, facts.before[-40_000:]))


# A while loop at the top of a function, whose body is the step: train_epoch's "for batch in dataset". The loops of
# layers lie deeper, within their names; with steps_per_execution Keras makes such a loop itself, and asks in each round
# whether data is left. A loop over words that a step runs looks the same on the first replica, whose name is left out.
# TensorFlow writes the loop out into its function, "while/body/_10/while/…", or calls it: "while/…".
_LOOP = Pattern(r"^(?:StatefulPartitionedCall/)?while/\w")
_REPLICA_IN_LOOP = Pattern(r"(?:^|[\s{'])(?:StatefulPartitionedCall/)?while/(?:body/_\d+/while/)?replica_\d+/")
_FUNCTION = Pattern(r"\[Op:__inference_(\w{1,80}?)_\d+\]")


def loop(facts: Facts) -> str | None:
    """The function that runs a loop over the data and in whose loop it failed; None where it is not one."""
    if not _LOOP.search(facts.op or ""):
        return None
    match = _FUNCTION.search(facts.words)
    if _REPLICA_IN_LOOP.search(facts.words) or (match and "epoch" in match[1]):
        return match[1] if match else "the tf.function"
    return None
