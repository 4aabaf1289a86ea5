"""The nouns: what flows between the parts of fitroom. Frozen, typed, JSON in and out, no TensorFlow."""

from fitroom.core.budget import Budget
from fitroom.core.diagnosis import Cause, Diagnosis, Evidence, Resource
from fitroom.core.finding import Finding, Fix
from fitroom.core.footprint import Footprint, LayerBytes, Parts
from fitroom.core.page import Page
from fitroom.core.plan import Plan
from fitroom.core.record import Event, Record, RecordFile
from fitroom.core.remedy import Remedy

NOUNS = (Budget, Footprint, Remedy, Plan, Record, Diagnosis, Finding)

__all__ = [
    "NOUNS",
    "Budget",
    "Cause",
    "Diagnosis",
    "Event",
    "Evidence",
    "Finding",
    "Fix",
    "Footprint",
    "LayerBytes",
    "Page",
    "Parts",
    "Plan",
    "Record",
    "RecordFile",
    "Remedy",
    "Resource",
]
