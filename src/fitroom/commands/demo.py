"""``fitroom demo``."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from rich.console import Console

BUDGET = "150MiB"


class Demo:
    """Watch a training run out of memory for real, without a GPU, and be carried through.

    A small CNN gets a batch that does not fit its device: under plain Keras, guarded, and guarded where slices
    keep the math. Takes about a minute; nothing is written.
    """

    name = "demo"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the trainings, each in a process of its own, and show what happened."""
        from rich.console import Console

        result: dict[str, Any] = {}
        with Console(stderr=True).status("") as status:
            for name, (mode, budget, words) in _RUNS.items():
                status.update(f"{words} (running out takes ten seconds: TensorFlow waits for memory to come free) …")
                result[name] = _train(mode, budget)
        result["difference"] = _difference(result["carried"].pop("weights"), result["unlimited"].pop("weights"))
        if arguments.json:
            import json

            print(json.dumps(result, indent=2))
        else:
            _show(Console(), result)
        return 0


_RUNS = {
    "plain": ("plain", BUDGET, f"A CNN trains under plain Keras, within {BUDGET}"),
    "guarded": ("guarded", BUDGET, f"The same, guarded, within {BUDGET}"),
    "carried": ("carried", BUDGET, f"With layers that treat samples independently, guarded, within {BUDGET}"),
    "unlimited": ("carried", "4GiB", "The same with memory enough"),
}


def _train(mode: str, budget: str) -> dict[str, Any]:
    import json
    import os
    import subprocess
    import sys

    from fitroom import versions
    from fitroom.devices import pocket
    from fitroom.errors import FitroomError, MissingPackage

    if versions.tensorflow(versions.installed()) is None:
        hint = "pip install 'fitroom[tf]'"
        raise MissingPackage("The demo trains with TensorFlow, which is not installed", hint=hint)
    environment = {
        **os.environ,
        **pocket.environment(budget),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
        "FITROOM_CACHE": "off",  # it is to run out anew each time
    }
    command = [sys.executable, "-m", "fitroom.demo.training", mode]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise FitroomError(f"The demo's training failed with exit code {done.returncode}", received=f"\n{tail}\n")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """The largest difference of any weight, relative to the largest weight."""
    pairs = [(a, b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)]
    return max(abs(a - b) for a, b in pairs) / max(abs(b) for _, b in pairs)


def _show(console: Console, result: dict[str, Any]) -> None:
    from fitroom.report.terminal import changed_variables
    from fitroom.units import format_bytes

    plain, guarded, carried = result["plain"], result["guarded"], result["carried"]
    variables = [(*one["name"].split("|", 1), one["changed"]) for one in plain["variables"]]
    count = len(variables)
    wanted = format_bytes(plain["wanted_bytes"]) if plain["wanted_bytes"] else "more"
    console.rule("[bold]Plain Keras[/]", align="left")
    console.print(f"The step ran out of memory: it wanted {wanted} that its {BUDGET} no longer had.")
    console.print(f"[dim]{plain['evidence']}[/]", soft_wrap=True, highlight=False)
    console.print(changed_variables(variables))
    console.print(
        f"{sum(one['changed'] for one in plain['variables'])} of {count} variables are no longer what they were, "
        "though the step failed: catch the error, take a smaller batch and go on, and you train another model."
    )
    console.print()
    console.rule("[bold]fitroom.guard(model)[/]", align="left")
    console.print(f"{sum(one['changed'] for one in guarded['variables'])} of {count} variables changed. It says:")
    console.print(f"[dim]{guarded['message']}[/]", highlight=False)
    console.print()
    console.rule("[bold]fitroom.guard(model), with LayerNormalization and no Dropout[/]", align="left")
    times = "once" if carried["out_of_memory"] == 1 else f"{carried['out_of_memory']} times"
    console.print(
        f"Carried through: ran out of memory {times}, then ran in slices of at most {carried['slice']}, and made "
        f"{carried['updates']} updates. Its weights are those of a run with memory enough, to within "
        f"{result['difference']:.0e} of the largest weight."
    )
