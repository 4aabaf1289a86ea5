"""``fitroom demo``."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from rich.console import Console

STEP_BUDGET = "150MiB"
BUDGET = "170MiB"
ENOUGH = "4GiB"


class Demo:
    """Watch trainings run out of memory for real, without a GPU, and be carried through.

    A script trains two small CNNs in a loop, on a device that is too small for their batches: under plain Python, which
    it kills, and unmodified under fitroom run. Then, with memory enough, its process is killed in the middle. The
    weights are compared with those of a run with memory enough and no kill. Takes about two minutes; nothing is left
    behind.
    """

    name = "demo"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the trainings, each in a process of its own, and show what happened."""
        import json
        import tempfile
        from pathlib import Path

        from rich.console import Console

        _check_tensorflow()
        with tempfile.TemporaryDirectory(prefix="fitroom-demo-") as folder:
            show = Console(quiet=arguments.json)
            result = _watch(Path(folder), show, Console(stderr=True))
        if arguments.json:
            print(json.dumps(result, indent=2))
        return 0


def _watch(folder: Path, show: Console, progress: Console) -> dict[str, Any]:
    """Run everything, showing each part as it is done."""
    import json

    waits = "(running out takes ten seconds: TensorFlow waits for memory to come free)"
    with progress.status(f"A step that does not fit, under plain Keras {waits} …") as status:
        done = _python(folder / "step", STEP_BUDGET, "-m", "fitroom.demo.failed_step")
        step = json.loads(done.stdout.splitlines()[-1])
        _show_step(show, step)
        status.update(f"A loop of trainings under plain Python, within {BUDGET} {waits} …")
        plain = _loop(folder / "plain", BUDGET)
        _show_plain(show, plain)
        status.update(f"The same script under fitroom run, within {BUDGET} {waits} …")
        ours = _loop(folder / "fitroom", None, "-m", "fitroom", "run", "--budget", BUDGET)
        _show_ours(show, f"fitroom run --budget {BUDGET} loop.py", ours)
        status.update("The same script with memory enough, killed in its second training …")
        killed = _loop(folder / "killed", ENOUGH, "-m", "fitroom", "run", "--checkpoint-every", "0", act=_kill)
        _show_ours(show, "fitroom run loop.py, and kill -9 in the second training", killed)
        status.update("The same script under plain Python, with memory enough …")
        _loop(folder / "enough", ENOUGH)
    differences = _differences(folder / "fitroom", folder / "enough")
    after_kill = _differences(folder / "killed", folder / "enough")
    _show_differences(show, differences, after_kill)
    return {
        "step": step,
        "plain": plain,
        "fitroom": ours,
        "killed": killed,
        "differences": differences,
        "differences_after_kill": after_kill,
    }


def _kill(run: subprocess.Popen[str], folder: Path) -> None:
    """Kill the script's process, not ours, once its second training has been saved in the middle."""
    import time

    import psutil

    saved = folder / ".fitroom" / "loop-1" / "checkpoints"
    while run.poll() is None and not list(saved.glob("000001-0*.zip")):
        time.sleep(0.01)
    if run.poll() is None:
        for child in psutil.Process(run.pid).children():
            child.kill()


def _loop(
    folder: Path,
    budget: str | None,
    *prefix: str,
    act: Callable[[subprocess.Popen[str], Path], None] | None = None,
) -> dict[str, Any]:
    from pathlib import Path

    from fitroom import demo

    script = Path(demo.__file__).with_name("loop.py")
    done = _python(folder, budget, *prefix, str(script), ".", check=bool(prefix) or budget == ENOUGH, act=act)
    return {"code": done.returncode, "printed": done.stdout.splitlines(), "said": done.stderr.strip().splitlines()}


def _python(
    folder: Path,
    budget: str | None,
    *arguments: str,
    check: bool = True,
    act: Callable[[subprocess.Popen[str], Path], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python in `folder`, on a pocket device of `budget`; `act` does something to it while it runs."""
    import os
    import subprocess
    import sys

    from fitroom.devices import pocket
    from fitroom.errors import FitroomError

    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in (pocket.SWITCH, pocket.LIMIT)}
    environment |= pocket.environment(budget) if budget is not None else {}
    if budget == ENOUGH:  # the same bits every time
        environment |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    # Quiet, on the CPU, and running out anew each time.
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "FITROOM_CACHE": "off"}
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    with subprocess.Popen(command, env=environment, cwd=folder, text=True, stdout=pipe, stderr=pipe) as process:
        if act is not None:
            act(process, folder)
        out, error = process.communicate()
    done = subprocess.CompletedProcess(process.args, process.returncode, out, error)
    if check and done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise FitroomError(f"The demo's training failed with exit code {done.returncode}", received=f"\n{tail}\n")
    return done


def _check_tensorflow() -> None:
    from fitroom import versions
    from fitroom.errors import MissingPackage

    if versions.tensorflow(versions.installed()) is None:
        hint = "pip install 'fitroom[tf]'"
        raise MissingPackage("The demo trains with TensorFlow, which is not installed", hint=hint)


def _differences(ours: Path, theirs: Path) -> dict[str, float]:
    """For each training, the largest difference of any weight, relative to the largest weight."""
    import numpy as np

    found = {}
    for path in sorted(theirs.glob("*.npz")):
        with np.load(path) as wanted, np.load(ours / path.name) as got:
            largest = max(float(abs(wanted[name]).max()) for name in wanted)
            found[path.stem] = max(float(abs(wanted[name] - got[name]).max()) for name in wanted) / largest
    return found


# --- what is shown -------------------------------------------------------------------------------------------------


def _show_step(console: Console, step: dict[str, Any]) -> None:
    from fitroom.report.terminal import changed_variables
    from fitroom.units import format_bytes

    variables = [(*one["name"].split("|", 1), one["changed"]) for one in step["variables"]]
    wanted = format_bytes(step["wanted_bytes"]) if step["wanted_bytes"] else "more"
    console.rule("[bold]A step that does not fit, under plain Keras[/]", align="left")
    console.print(f"It ran out of memory: it wanted {wanted} that its {STEP_BUDGET} no longer had.")
    console.print(changed_variables(variables))
    console.print(
        f"{sum(one['changed'] for one in step['variables'])} of {len(variables)} variables are no longer what they "
        "were, though the step failed: catch the error, take a smaller batch and go on, and you train another model.\n"
    )


def _show_plain(console: Console, plain: dict[str, Any]) -> None:
    console.rule(f"[bold]A loop of trainings: python loop.py, within {BUDGET}[/]", align="left")
    error = next((line for line in plain["said"] if "OOM when allocating" in line), "")
    console.print(f"It ended with exit code {plain['code']}: [dim]{error[:90]} …[/]\n", highlight=False)


def _show_ours(console: Console, command: str, ours: dict[str, Any]) -> None:
    console.rule(f"[bold]The same script: {command}[/]", align="left")
    for line in (*ours["printed"], *ours["said"]):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()


def _show_differences(console: Console, short_of_memory: dict[str, float], killed: dict[str, float]) -> None:
    console.rule("[bold]Are the weights those of a run with memory enough and no kill?[/]", align="left")
    for title, differences in (("Short of memory", short_of_memory), ("Killed", killed)):
        for name, difference in differences.items():
            words = "bit for bit the same" if difference == 0 else f"the same to within {difference:.0e} of the largest"
            console.print(f"{title}, {name}: {words}.", highlight=False)
