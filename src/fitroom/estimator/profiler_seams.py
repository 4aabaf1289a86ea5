"""The allocator's own trace, from TensorFlow's profiler. Tried with TensorFlow 2.21.

The profiler writes every allocation and every release of a device's allocator, in their real order, with the operation
that asked: events called ``MemoryAllocation`` and ``MemoryDeallocation`` in its file of planes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

_ALLOCATOR = "bfc_cpu_allocator_for_gpu"
_MARK = "fitroom/"
_TAKES, _GIVES = "MemoryAllocation", "MemoryDeallocation"


class Event(NamedTuple):
    """One request, one release, or one mark.

    Attributes:
        time: picoseconds since the trace began.
        kind: ``take``, ``give``, ``begin`` or ``end``.
        place: the chunk's address.
        bytes: as asked for.
        in_use: bytes in use on the device from here on.
        op: the operation that asked; for a mark, its name.
        role: what it is to the operation: ``output``, ``temp``, ``persist``, or nothing.
    """

    time: int
    kind: str
    place: int = 0
    bytes: int = 0
    in_use: int = 0
    op: str = ""
    role: str = ""


class Trace:
    """What was recorded: `events`, in order, once recording is over."""

    def __init__(self) -> None:
        self.events: list[Event] = []


@contextmanager
def recording() -> Iterator[Trace]:
    """Record what the allocator does."""
    trace = Trace()
    with tempfile.TemporaryDirectory(prefix="fitroom-") as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(folder, options=options)
        try:
            yield trace
        finally:
            tf.profiler.experimental.stop()
        trace.events = [one for path in Path(folder).rglob("*.xplane.pb") for one in _read(path)]
        trace.events.sort()


@contextmanager
def marked(name: str) -> Iterator[None]:
    """Mark a stretch of the trace."""
    with tf.profiler.experimental.Trace(_MARK + name):
        yield


def _read(path: Path) -> Iterator[Event]:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    for plane in space.planes:
        names = {key: one.name for key, one in plane.event_metadata.items()}
        stats = {key: one.name for key, one in plane.stat_metadata.items()}
        for line in plane.lines:
            start = line.timestamp_ns * 1000
            for event in line.events:
                name = names[event.metadata_id]
                if name in (_TAKES, _GIVES):
                    values = {stats[one.metadata_id]: _value(one, stats) for one in event.stats}
                    if values.get("allocator_name") == _ALLOCATOR:
                        yield _memory(start + event.offset_ps, name, values)
                elif name.startswith(_MARK):
                    mark, begin = name.removeprefix(_MARK), start + event.offset_ps
                    yield Event(begin, "begin", op=mark)
                    yield Event(begin + event.duration_ps, "end", op=mark)


def _memory(time: int, name: str, values: dict[str, Any]) -> Event:
    numbers = values["addr"], values["requested_bytes"], values["bytes_allocated"]
    if name == _GIVES:
        return Event(time, "give", *numbers)
    return Event(time, "take", *numbers, str(values.get("tf_op", "")), str(values.get("region_type", "")))


def _value(stat: Any, names: dict[int, str]) -> Any:
    kind = stat.WhichOneof("value")
    value = getattr(stat, kind)
    return names[value] if kind == "ref_value" else value
