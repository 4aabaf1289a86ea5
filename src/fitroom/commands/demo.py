"""``fitroom demo``."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from rich.console import Console

BUDGET = "150MiB"


class Demo:
    """Watch a training run out of memory for real, without a GPU, and see what that leaves behind.

    A small CNN is trained with plain Keras on a device with too little memory. Takes under a minute;
    nothing is written.
    """

    name = "demo"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the training in a process of its own, and show what happened."""
        from rich.console import Console

        with Console(stderr=True).status(
            f"A CNN with BatchNormalization and Dropout trains under plain Keras, within {BUDGET} "
            "(running out takes ten seconds: TensorFlow waits for memory to come free) …"
        ):
            result = _train()
        if arguments.json:
            import json

            print(json.dumps(result, indent=2))
        else:
            _show(Console(), result)
        return 0


def _train() -> dict[str, Any]:
    import json
    import os
    import subprocess
    import sys

    from fitroom import versions
    from fitroom.devices import pocket
    from fitroom.errors import FitroomError, MissingPackage

    if versions.tensorflow(versions.installed()) is None:
        raise MissingPackage(
            "The demo trains with TensorFlow, which is not installed", hint="pip install 'fitroom[tf]'"
        )
    environment = {
        **os.environ,
        **pocket.environment(BUDGET),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "fitroom.demo.training"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise FitroomError(f"The demo's training failed with exit code {done.returncode}", received=f"\n{tail}\n")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _show(console: Console, result: dict[str, Any]) -> None:
    from fitroom.report.terminal import changed_variables
    from fitroom.units import format_bytes

    variables = [(*one["name"].split("|", 1), one["changed"]) for one in result["variables"]]
    changed = sum(one["changed"] for one in result["variables"])
    wanted = format_bytes(result["wanted_bytes"]) if result["wanted_bytes"] else "more"
    console.print(f"The step ran out of memory: it wanted {wanted} that its {BUDGET} no longer had.")
    console.print(f"[dim]{result['evidence']}[/]", soft_wrap=True, highlight=False)
    console.print()
    console.print(changed_variables(variables))
    console.print(
        f"\n{changed} of {len(variables)} variables are no longer what they were, though the step failed: "
        "catch the error, take a smaller batch and go on, and you train another model from the one you asked for."
    )
