"""Fitroom makes ``model.fit`` fit.

The public names, imported on first use, so that ``import fitroom`` costs nothing and never loads TensorFlow.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import would double the time that this one takes

__version__ = "0.1.0.dev0"

_HOMES = {
    "Budget": "fitroom.core",
    "Diagnosis": "fitroom.core",
    "Finding": "fitroom.core",
    "Footprint": "fitroom.core",
    "Plan": "fitroom.core",
    "Record": "fitroom.core",
    "Remedy": "fitroom.core",
    "FitroomError": "fitroom.errors",
    "DoesNotFit": "fitroom.training.does_not_fit",
    "diagnose": "fitroom.diagnosers.diagnosing",
    "estimate": "fitroom.estimator.estimating",
    "guard": "fitroom.training.guarding",
    "isolated": "fitroom.supervisor.isolating",
    "plan": "fitroom.training.planning",
    "load_ipython_extension": "fitroom.training.notebook",  # %load_ext fitroom
    "unload_ipython_extension": "fitroom.training.notebook",
    "step": "fitroom.training.functions",
    "unguard": "fitroom.training.guarding",
}

if TYPE_CHECKING:
    from fitroom.core import Budget, Diagnosis, Finding, Footprint, Plan, Record, Remedy
    from fitroom.diagnosers.diagnosing import diagnose
    from fitroom.errors import FitroomError
    from fitroom.estimator.estimating import estimate
    from fitroom.supervisor.isolating import isolated
    from fitroom.training.does_not_fit import DoesNotFit
    from fitroom.training.functions import step
    from fitroom.training.guarding import guard, unguard
    from fitroom.training.planning import plan

__all__ = [
    "Budget",
    "Diagnosis",
    "DoesNotFit",
    "Finding",
    "FitroomError",
    "Footprint",
    "Plan",
    "Record",
    "Remedy",
    "__version__",
    "diagnose",
    "estimate",
    "guard",
    "isolated",
    "plan",
    "step",
    "unguard",
]


def __getattr__(name: str) -> object:
    if name == "callbacks":
        return import_module("fitroom.callbacks")
    if name not in _HOMES:
        raise AttributeError(f"module 'fitroom' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
