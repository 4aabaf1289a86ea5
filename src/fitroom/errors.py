"""Everything fitroom raises on purpose.

    FitroomError
    ├── UsageError            the caller's mistake; commands exit with 2
    │   ├── UnitError         a number of bytes that cannot be read
    │   ├── SchemaError       a file or text that is not the noun it should be
    │   └── UnknownCode       a code that no registry has
    ├── DeviceError           a device cannot do what was asked of it
    ├── HalfUpdated           an update could neither be finished nor undone
    ├── ProcessDied           a process of ours ended without a result
    │   └── DiedOfMemory      … because memory ran out; also a MemoryError
    └── MissingPackage        an optional package is needed here and not installed

Each says what happened, then ``Received:``, ``Expected:`` and ``Try:`` where they help.
"""

from __future__ import annotations


class FitroomError(Exception):
    """What happened, what was received, what was expected, and what to try next."""

    def __init__(
        self,
        what: str,
        *,
        received: object = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        parts = [what.rstrip(".") + "."]
        if received is not None:
            parts.append(f"Received: {received if isinstance(received, str) else repr(received)}.")
        if expected is not None:
            parts.append(f"Expected: {expected.rstrip('.')}.")
        if hint is not None:
            parts.append(f"Try: {hint}")
        Exception.__init__(self, " ".join(parts))  # a subclass may be another library's error, too


class UsageError(FitroomError):
    """The caller asked for something that makes no sense."""


class UnitError(UsageError, ValueError):
    """A number of bytes that cannot be read."""


class SchemaError(UsageError, ValueError):
    """A text that does not hold the noun it should hold."""


class UnknownCode(UsageError, LookupError):
    """A code that no registry has."""


class DeviceError(FitroomError):
    """A device cannot do what was asked of it."""


class HalfUpdated(FitroomError):
    """An update could neither be finished nor undone."""


class ProcessDied(FitroomError):
    """A process ended without a result."""


class DiedOfMemory(ProcessDied, MemoryError):
    """A process ended without a result, because memory ran out."""


class MissingPackage(FitroomError, ImportError):
    """An optional package is needed here and not installed."""
