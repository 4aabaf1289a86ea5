"""What the commands have in common that run a script up to its first training."""

from __future__ import annotations

import argparse
import sys

from fitroom.commands import scripts
from fitroom.errors import UsageError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable

    from fitroom.supervisor.asking import Answer, Question


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options that they share."""
    parser.add_argument("--batch-size", metavar="N", type=_size, help="at this batch size instead of the script's")
    parser.add_argument("--all", action="store_true", help="pass over each training, and show all of them")
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each training")


def ask(arguments: argparse.Namespace, command: str, question: Callable[[argparse.Namespace], Question]) -> Answer:
    """What the script answers.

    Raises:
        UsageError: if there is no such script, or nothing came of it; with the reason.
    """
    from fitroom.supervisor import asking

    if not arguments.script:
        raise UsageError(f"fitroom {command} needs a script", hint=f"fitroom {command} train.py")
    if not arguments.is_module:
        scripts.check(arguments.script, command)
    asked = question(arguments)
    words = [*(["-m"] if arguments.is_module else []), arguments.script]
    answer = asking.ask([*words, *scripts.verbatim(arguments.script, arguments.arguments)], asked)
    _check(words, answer)
    for reason in answer.refused:
        print(f"fitroom: not estimated: {reason}", file=sys.stderr)
    if answer.code and arguments.all:
        print(f"fitroom: the script ended with {_ended(answer.code)}; what came after is not here", file=sys.stderr)
    return answer


def _check(words: list[str], answer: Answer) -> None:
    """Whether there is anything to show.

    Raises:
        UsageError: if not, with the reason.
    """
    if answer.fittings or answer.plans:
        return
    if answer.refused:
        raise UsageError(f"The training cannot be estimated: {answer.refused[0]}")
    if answer.code == 130:
        raise KeyboardInterrupt
    if answer.code:
        raise UsageError(
            "The script ended before its first training",
            received=f"{words[-1]}, {_ended(answer.code)}",
            expected="a script that gets to its training without a GPU: here it sees none",
            hint=f"python {' '.join(words)}",
        )
    raise UsageError(
        "The script ran to its end, and no training was recognised",
        received=words[-1],
        expected="a call of model.fit, model.train_on_batch, or of a step that applies gradients",
        hint="fitroom.estimate(model, batch_size), in Python",
    )


def _ended(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"


def _size(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 up. Received: {text}")
    return int(text)
