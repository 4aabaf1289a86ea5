"""Measurements as TensorBoard reads them. Writing takes TensorFlow only; looking takes ``pip install tensorboard``.

`tf.summary.scalar` would do, but from TensorFlow 2.21 on it raises without that package.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from fitroom.devices.timeline import Doubling, Span


class TensorBoardFile:
    """A file of events in a folder; points that come in for days become means and peaks of ever longer spans.

    Args:
        folder: what to give ``tensorboard --logdir``.
    """

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self._tf = tf
        self._thinned = Doubling()
        self._writer: Any = tf.io.TFRecordWriter(str(folder / name))
        self._write(tf.compat.v1.Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add(self, point: Span, step: int) -> None:
        """Take a point, measured after this step."""
        whole = self._thinned.add(point)
        if whole is not None:
            self._put(whole, step)

    def close(self, step: int) -> None:
        """Write what is left, and close the file."""
        rest = self._thinned.rest()
        if rest is not None:
            self._put(rest, step)
        self._writer.close()

    def _put(self, span: Span, step: int) -> None:
        values = []
        for name, figure in span.figures.items():
            values.append(self._value(f"fitroom/{name}", figure.mean))
            if span.points > 1:
                values.append(self._value(f"fitroom/{name}_peak", figure.peak))
        summary = self._tf.compat.v1.Summary(value=values)
        self._write(self._tf.compat.v1.Event(wall_time=span.last, step=step, summary=summary))

    def _value(self, tag: str, value: float) -> Any:
        return self._tf.compat.v1.Summary.Value(tag=tag, simple_value=value)

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())
        self._writer.flush()
