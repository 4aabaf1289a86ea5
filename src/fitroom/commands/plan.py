"""``fitroom plan``."""

from __future__ import annotations

import argparse

from fitroom.commands import asking, scripts

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.supervisor.asking import Question


class Plan:
    """Tell how a script's training would fit a budget, without training.

    The script runs up to its first training and is stopped there. What was weighed is shown in a table: the peak, the
    time, whether the result stays the same; and what to type for the plan that was chosen. Exit code 1 means that
    nothing fits.
    """

    name = "plan"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.usage = "fitroom plan [OPTIONS] [-m] SCRIPT [ARGUMENTS …]"
        parser.add_argument("--budget", metavar="SIZE", help="memory that it is to fit, such as 8GiB; what there is")
        scripts.configure_allow(parser)
        asking.configure(parser)
        scripts.configure(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Ask, and print."""
        answer = asking.ask(arguments, self.name, _question)
        if arguments.json:
            print(*(plan.to_json() for _, plan in answer.plans), sep="\n")
        else:
            from rich.console import Console

            from fitroom.report import plan as report

            module = ["-m"] if arguments.is_module else []
            command = [*module, arguments.script, *scripts.verbatim(arguments.script, arguments.arguments)]
            for where, plan in answer.plans:
                Console().print(report.rendered(where, plan))
                for line in report.typed(plan, command, arguments.budget) if plan.fits else ():
                    print(f"  {line}")  # never wrapped: it is to be copied
        if answer.refused:
            return 2
        return 0 if all(plan.fits for _, plan in answer.plans) else 1


def _question(arguments: argparse.Namespace) -> Question:
    from fitroom import devices
    from fitroom.supervisor.asking import Question

    return Question(
        batch_size=arguments.batch_size,
        all=arguments.all,
        plan_for=devices.budget(arguments.budget).to_json(),
        allow=scripts.allowed(arguments),
    )
