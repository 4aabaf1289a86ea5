"""``fitroom estimate``."""

from __future__ import annotations

import argparse

from fitroom.commands import asking, scripts
from fitroom.errors import UsageError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Fitting
    from fitroom.supervisor.asking import Question


class Estimate:
    """Tell what a script's training needs, and where it fits, without training.

    The script runs as it is up to its first training and is stopped there: nothing is trained, and nothing written that
    training would write. Its model and data are measured in small steps on this machine's CPU, for any batch size and
    for GPUs that need not be here. Exit code 1 means that it does not fit the budget or a GPU that was named.
    """

    name = "estimate"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.usage = "fitroom estimate [OPTIONS] [-m] SCRIPT [ARGUMENTS …]"
        asking.configure(parser)
        parser.add_argument("--plan", metavar="PLAN", help="with these remedies, such as micro_batch=4 or recompute")
        parser.add_argument("--budget", metavar="SIZE", help="memory that it is to fit, such as 8GiB")
        parser.add_argument(
            "--gpu", metavar="NAME", action="append", default=[], help="a GPU that it is to fit, such as T4; or all"
        )
        scripts.configure(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Ask, and print."""
        from fitroom.devices import catalogue

        answer = asking.ask(arguments, self.name, _question)
        if arguments.json:
            print(*(fitting.to_json() for fitting in answer.fittings), sep="\n")
        else:
            from rich.console import Console

            from fitroom.report import fitting as report

            for fitting in answer.fittings:
                Console().print(report.rendered(fitting))
        if answer.refused:
            return 2
        named = [] if arguments.gpu == ["all"] else [catalogue.find(name).name for name in arguments.gpu]
        return 1 if any(not _fits(fitting, named) for fitting in answer.fittings) else 0


def _question(arguments: argparse.Namespace) -> Question:
    from fitroom.remedies import read_plan
    from fitroom.supervisor.asking import Question
    from fitroom.units import parse_bytes

    read_plan(arguments.plan)
    return Question(
        batch_size=arguments.batch_size,
        plan=arguments.plan,
        budget=None if arguments.budget is None else parse_bytes(arguments.budget),
        gpus=tuple(_gpus(arguments.gpu)),
        all=arguments.all,
    )


def _gpus(names: list[str]) -> list[tuple[str, int, str]]:
    """This machine's GPUs as they are now, then those that were named, or common ones."""
    from fitroom.devices import catalogue, gpu
    from fitroom.units import format_bytes

    here = []
    for one in gpu.visible():
        held = sum(process.used or 0 for process in one.processes)
        note = f"now; others hold {format_bytes(held)}" if held else "now"
        here.append((f"{one.name} (GPU:{one.number})", catalogue.usable(one.free, one.capability), note))
    if names == ["all"]:
        cards = list(catalogue.CARDS)
    elif "all" in names:
        raise UsageError("All GPUs, or some by name", received=", ".join(names))
    else:
        cards = [catalogue.find(name) for name in names] or [card for card in catalogue.CARDS if card.is_common]
    return here + [(card.name, card.usable, "") for card in sorted(cards, key=lambda card: card.usable)]


def _fits(fitting: Fitting, named: list[str]) -> bool:
    places = [fitting.budget] if fitting.budget is not None else []
    return all(place.fits for place in (*places, *(place for place in fitting.gpus if place.name in named)))
