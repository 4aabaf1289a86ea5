"""What happens in the script's own processes before the script."""

from __future__ import annotations

import json
import os
import signal
import sys

from fitroom.supervisor.signals import let_through

_PR_SET_PDEATHSIG = 1


def begin() -> None:
    """Let signals through, die with the supervisor, and have trainings guarded once Keras is imported."""
    if "FITROOM_RUN" not in os.environ:  # a process whose environment was cleared, but for the path
        return
    told = json.loads(os.environ["FITROOM_RUN"])
    is_script = os.getppid() == told["supervisor"]  # not a process that it started
    told["follows"] = is_script and told["checkpoints"] is not None
    if is_script:
        let_through()
        _die_with(told["supervisor"])
    try:
        from fitroom.training import scripts

        scripts.install(told)
    except Exception as error:  # whatever it is, the script is to run
        print(f"fitroom: does not guard this script ({type(error).__name__}: {error})", file=sys.stderr)


def _die_with(supervisor: int) -> None:
    """Have the kernel end this process when the supervisor is killed: nobody would watch it any more."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):  # no such call here
        return
    if os.getppid() != supervisor:  # it was killed just now
        os.kill(os.getpid(), signal.SIGKILL)
