"""The command line: one file per subcommand, each a class whose docstring is its help.

A command adds its arguments and runs, returning the exit code: 0 fits or clean, 1 findings or does not fit, 2 wrong
use or our own failure. Its module imports nothing heavy at the top, so that ``--help`` starts at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from io import TextIOWrapper
from typing import Protocol

from fitroom import __version__
from fitroom.commands.demo import Demo
from fitroom.commands.diagnose import Diagnose
from fitroom.commands.env import Env
from fitroom.commands.estimate import Estimate
from fitroom.commands.explain import Explain
from fitroom.commands.plan import Plan
from fitroom.commands.run import Run
from fitroom.commands.top import Top
from fitroom.errors import FitroomError


class Command(Protocol):
    """What every subcommand is."""

    name: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it, and return the exit code."""


COMMANDS: tuple[type[Command], ...] = (Run, Top, Estimate, Plan, Diagnose, Env, Explain, Demo)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without this letter or block shows a ? in its place
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.command.run(arguments)
        sys.stdout.flush()
        return code
    except FitroomError as error:
        print(f"fitroom: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as head, has gone: not our failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fitroom",
        description="Makes model.fit fit: what a training needs, what there is, and what to do about it.",
        epilog="fitroom COMMAND --help tells more.",
    )
    parser.add_argument("--version", action="version", version=f"fitroom {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command_type in COMMANDS:
        text = textwrap.dedent("    " + (command_type.__doc__ or "")).strip()
        child = commands.add_parser(
            command_type.name,
            help=text.splitlines()[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command = command_type()
        command.configure(child)
        child.set_defaults(command=command)
    return parser
