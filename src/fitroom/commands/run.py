"""``fitroom run``."""

from __future__ import annotations

import argparse
import sys

from fitroom.commands import scripts

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Event
    from fitroom.supervisor.job import Job


class Run:
    """Run a training script so that it survives running out of memory.

    The script runs as under plain Python, unmodified, in a process of its own. Every Keras training in it is guarded:
    where memory suffices nothing changes; where it does not, batches go in slices or activations are computed again,
    which makes the same updates. A process that is killed is started again, and its trainings go on where they were; if
    it was memory that killed it, with settings that need less. Memory that leaks is told with its cause and line. What
    happens is told on standard error and kept in a record; the exit code is the script's.
    """

    name = "run"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.usage = "fitroom run [OPTIONS] [-m] SCRIPT [ARGUMENTS …]"
        parser.add_argument("--budget", metavar="SIZE", help="how much memory may be used, such as 8GiB")
        scripts.configure_allow(parser)
        parser.add_argument(
            "--plan", metavar="PLAN", help="what to do from the start, such as micro_batch=4, recompute"
        )
        parser.add_argument("--record", metavar="DIR", help="the folder for the record; .fitroom/SCRIPT-N without it")
        parser.add_argument(
            "--resume", action="store_true", help="go on with the last run, which was stopped; SCRIPT may be left out"
        )
        parser.add_argument(
            "--checkpoint-every",
            metavar="SECONDS",
            type=_seconds,
            help="how often trainings are saved, or never; without it so often that it costs little",
        )
        parser.add_argument(
            "--leaks",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="watch for leaks, name their lines, and do what is safe about them; on if nothing is said",
        )
        parser.add_argument(
            "--lines", action="store_true", help="say which lines take the host's memory (needs fitroom[lines]; slow)"
        )
        parser.add_argument("-q", "--quiet", action="store_true", help="say nothing but what went wrong")
        parser.add_argument("-v", "--verbose", action="store_true", help="say everything that happens")
        scripts.configure(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the script to its end, and pass its exit code on."""
        from fitroom.report import run_lines
        from fitroom.report.account import Again, account
        from fitroom.supervisor.supervising import supervise

        def tell(event: Event) -> None:
            line = None if arguments.quiet else run_lines.line(event, verbose=arguments.verbose)
            if line is not None:
                _say(line)

        job = _job(arguments)
        outcome = supervise(job, tell)
        if not arguments.quiet or outcome.record.of("given_up"):
            again = Again(outcome.job.typed(), outcome.job.resumed() if outcome.kept else None)
            _say(account(outcome.record, outcome.code, outcome.folder, again))
        if arguments.lines:
            from fitroom.leaks import by_line

            _say(run_lines.lines([(one.where, one.nbytes) for one in by_line.worst(outcome.folder / by_line.FILE)]))
        return outcome.code if outcome.code >= 0 else _die_of(-outcome.code)


def _say(text: str) -> None:
    """Say something, if anybody listens: whatever became of our standard error, the script goes on."""
    if sys.stderr is not None:
        try:
            print(f"fitroom: {text}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            sys.stderr = None  # or Python fails to flush it at its end, and exits with 120


def _job(arguments: argparse.Namespace) -> Job:
    """What was asked for, checked before anything starts."""
    from fitroom.errors import UsageError
    from fitroom.remedies import check_allowed, read_plan
    from fitroom.supervisor.job import Job

    allow = scripts.allowed(arguments)
    check_allowed(read_plan(arguments.plan), frozenset(allow))
    under: tuple[str, ...] = ()
    if arguments.lines:
        from fitroom.leaks import by_line

        by_line.check()
        under = by_line.under(f"{{folder}}/{by_line.FILE}")
    if not arguments.script and not arguments.resume:
        raise UsageError("fitroom run needs a script", hint="fitroom run train.py, with the path of your script")
    if arguments.script and not arguments.is_module:
        scripts.check(arguments.script, "run")
    return Job(
        script=arguments.script or "",
        arguments=scripts.verbatim(arguments.script or "", arguments.arguments),
        is_module=arguments.is_module,
        budget=arguments.budget,
        allow=allow,
        plan=arguments.plan,
        record=arguments.record,
        resume=arguments.resume,
        every=arguments.checkpoint_every,
        under=under,
        beside=("fitroom.leaks.in_scripts",) if arguments.leaks else (),
    )


def _seconds(text: str) -> float:
    """A number of seconds; infinitely many for ``never``."""
    if text == "never":
        return float("inf")
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"a number of seconds, or never. Received: {text}")
    return seconds


def _die_of(number: int) -> int:
    """End as the script did: by the same signal, so that who started us sees what happened."""
    import os
    import resource
    import signal

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
