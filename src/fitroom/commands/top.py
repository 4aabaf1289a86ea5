"""``fitroom top``."""

from __future__ import annotations

import argparse
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable

    from fitroom.report.top import View

_PERIOD = 1.0  # seconds between two pictures


class Top:
    """Show a run live: memory against its limits, what is in force, what it waits for.

    RUN is a run's folder, or its name under .fitroom. Without it, the run that is under way here is shown; where none
    is, this machine's devices. Ends with the run, or with Ctrl-C. Nothing is changed, and the training is not touched.
    """

    name = "top"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("run", nargs="?", metavar="RUN", help="a run's folder or name, such as train-3")
        parser.add_argument("--once", action="store_true", help="show it once, and end")
        parser.add_argument("--json", action="store_true", help="print it as JSON, once")

    def run(self, arguments: argparse.Namespace) -> int:
        """Show it."""
        from fitroom.commands.top_view import looking

        look = looking(arguments.run)
        if arguments.json:
            import json
            from dataclasses import asdict

            print(json.dumps({"schema": "fitroom/top/1", **asdict(look())}, ensure_ascii=False))
            return 0
        if arguments.once or not sys.stdout.isatty():
            _print(look())
        else:
            _print(_live(look))
        return 0


def _print(view: View) -> None:
    from rich.console import Console

    from fitroom.report.top import Picture

    Console().print(Picture(view))


def _live(look: Callable[[], View]) -> View:
    """Draw it again and again, and when the terminal's size changes; returns what was drawn last."""
    import signal

    from rich.console import Console
    from rich.live import Live

    from fitroom.report.top import Picture

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # the terminal is put right first
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})  # it is waited for
    view = look()
    with Live(Picture(view, is_cut=True), console=Console(), screen=True, auto_refresh=False) as live:
        try:
            while view.is_running:
                view = look()
                live.update(Picture(view, is_cut=True), refresh=True)
                signal.sigtimedwait({signal.SIGWINCH}, _PERIOD)
        except KeyboardInterrupt:
            pass
    return view
