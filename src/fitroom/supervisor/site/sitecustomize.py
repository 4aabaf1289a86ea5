"""Python imports this before a script that ``fitroom run`` started, and in every Python that the script starts.

It hands over to fitroom, and then to the ``sitecustomize`` that would have been imported without it.
"""

import importlib
import sys


def _begin() -> None:
    here = __file__.rpartition("/")[0]
    sys.path[:] = [folder for folder in sys.path if folder != here]
    try:
        from fitroom.supervisor import script_side
    except ImportError:  # another environment's Python, without fitroom
        return
    script_side.begin()


def _go_on() -> None:
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


_begin()
_go_on()
