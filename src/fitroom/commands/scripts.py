"""A script and its arguments on the command line, for the commands that take one."""

from __future__ import annotations

import argparse
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the script and its arguments."""
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help="the script to run")
    parser.add_argument("arguments", metavar="ARGUMENTS", nargs=argparse.REMAINDER, help="the script's own arguments")


def configure_allow(parser: argparse.ArgumentParser) -> None:
    """Add what may change the math."""
    parser.add_argument(
        "--allow",
        metavar="REMEDY",
        action="append",
        default=[],
        help="a remedy that may change the math: micro_batch, mixed_precision or lean_optimizer",
    )


def allowed(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The remedies that were allowed.

    Raises:
        UsageError: if one is not a remedy's name.
    """
    from fitroom.remedies import read_allowed

    names = tuple(name.strip() for names in arguments.allow for name in names.split(","))
    read_allowed(names)
    return names


def verbatim(script: str, parsed: list[str]) -> tuple[str, ...]:
    """The script's arguments as they were typed: argparse drops a ``--`` that begins them."""
    count = len(parsed) + 2
    return ("--", *parsed) if sys.argv[-count:] == [script, "--", *parsed] else tuple(parsed)


def check(script: str, command: str) -> None:
    """Whether there is such a script.

    Raises:
        UsageError: if there is not; names one that is close.
    """
    import difflib
    from pathlib import Path

    from fitroom.errors import UsageError

    path = Path(script)
    if path.exists():
        return
    folder = path.parent
    there = [str(folder / one.name) for one in folder.glob("*.py")] if folder.is_dir() else []
    near = difflib.get_close_matches(str(path), there, 1)
    hint = f"fitroom {command} {near[0]}" if near else f"fitroom {command} train.py, with the path of your script"
    raise UsageError("No such script", received=script, hint=hint)
