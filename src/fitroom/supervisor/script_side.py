"""What happens in the script's own processes before the script."""

from __future__ import annotations

import json
import os
import sys

from fitroom.orphans import die_with
from fitroom.supervisor.signals import let_through

TYPE_CHECKING = False  # as in typing: every Python that a script starts imports this module

if TYPE_CHECKING:
    from typing import Any


def begin() -> None:
    """Die with the supervisor, and have trainings guarded, or stopped at, once Keras is imported."""
    if "FITROOM_ESTIMATE" in os.environ:
        _estimate(json.loads(os.environ["FITROOM_ESTIMATE"]))
    elif "FITROOM_RUN" in os.environ:  # or the environment was cleared, but for the path
        _run(json.loads(os.environ["FITROOM_RUN"]))


def _estimate(told: dict[str, Any]) -> None:
    if "script" not in told:
        told["script"] = os.getpid()
        os.environ["FITROOM_ESTIMATE"] = json.dumps(told)  # for the processes that it starts: they may train, too
        die_with(told["supervisor"])
    from fitroom.training import stopping

    stopping.install(told)


def _run(told: dict[str, Any]) -> None:
    is_script = os.getppid() == told["supervisor"]  # not a process that it started
    told["follows"] = is_script and told["checkpoints"] is not None
    if is_script:
        let_through()
        die_with(told["supervisor"])
    try:
        from fitroom.training import scripts

        scripts.install(told)
        from importlib import import_module

        for name in told.get("beside", ()):  # what lies below us in the layout, named by who sees everything
            import_module(name).install(told)
    except Exception as error:  # whatever it is, the script is to run
        print(f"fitroom: does not guard this script ({type(error).__name__}: {error})", file=sys.stderr)
