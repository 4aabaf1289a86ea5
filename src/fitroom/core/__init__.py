"""The nouns: what flows between the parts of fitroom. Frozen, typed, JSON in and out, no TensorFlow.

Each is imported on first use: a command that needs one noun does not wait for the others.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False

_HOMES = {
    "Advice": "advice",
    "Attempt": "attempt",
    "Budget": "budget",
    "Cause": "cause",
    "Diagnosis": "diagnosis",
    "Event": "record",
    "Evidence": "diagnosis",
    "Finding": "finding",
    "Fitting": "fitting",
    "Fix": "finding",
    "Footprint": "footprint",
    "LayerBytes": "footprint",
    "Page": "page",
    "Place": "fitting",
    "Parts": "footprint",
    "Plan": "plan",
    "Record": "record",
    "RecordFile": "record",
    "Remedy": "remedy",
    "Resource": "resource",
    "events_of": "record",
}

if TYPE_CHECKING:
    from fitroom.core.advice import Advice
    from fitroom.core.attempt import Attempt
    from fitroom.core.budget import Budget
    from fitroom.core.cause import Cause
    from fitroom.core.diagnosis import Diagnosis, Evidence
    from fitroom.core.finding import Finding, Fix
    from fitroom.core.fitting import Fitting, Place
    from fitroom.core.footprint import Footprint, LayerBytes, Parts
    from fitroom.core.page import Page
    from fitroom.core.plan import Plan
    from fitroom.core.record import Event, Record, RecordFile, events_of
    from fitroom.core.remedy import Remedy
    from fitroom.core.resource import Resource

__all__ = [
    "Advice",
    "Attempt",
    "Budget",
    "Cause",
    "Diagnosis",
    "Event",
    "Evidence",
    "Finding",
    "Fitting",
    "Fix",
    "Footprint",
    "LayerBytes",
    "Page",
    "Parts",
    "Place",
    "Plan",
    "Record",
    "RecordFile",
    "Remedy",
    "Resource",
    "events_of",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fitroom.core' has no attribute {name!r}")
    return getattr(import_module(f"fitroom.core.{_HOMES[name]}"), name)
