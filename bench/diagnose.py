"""How fast a large log is diagnosed, against `grep -c` on the same file; and how rightly posted logs are."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import posted_logs
from bench.measure import Ratio, interleaved

SIZE = 1 << 30
GOAL = 10.0
MOST = 200  # MiB
FIELDS, CAUSES = 0.97, 0.90


def training_log() -> bytes:
    """Some megabytes of a training's log: progress bars, an allocator's dump, words of all kinds."""
    lines = []
    for n in range(20_000):
        bar = "=" * (n % 30) + ">" + "." * (30 - n % 30)
        lines.append(f"{n}/20000 [{bar}] - ETA: {n % 300}s - loss: {1 / (n + 1):.4f} - accuracy: {n / 20000:.4f}\r")
        if n % 20 == 0:
            lines.append(
                f"2024-05-01 12:00:{n % 60:02}.{n:06}: I tensorflow/core/common_runtime/bfc_allocator.cc:1083] InUse "
                f"at 7f{n:010x} of size {n * 256} next {n}\n"
            )
        if n % 500 == 0:
            lines.append(f"Epoch {n // 500}/40: memory is fine, checkpoint written to /tmp/run/ckpt-{n}\n")
    return "".join(lines).encode()


def write(path: Path) -> None:
    unit = training_log()
    with path.open("wb") as file:
        while file.tell() < SIZE:
            file.write(unit)
        file.write(b"Traceback (most recent call last):\nResourceExhaustedError: OOM when allocating tensor with ")
        file.write(b"shape[64,112,112,64] and type float on /job:localhost/replica:0/task:0/device:GPU:0\n")


def run() -> Iterator[Ratio]:
    fitroom = str(Path(sys.executable).parent / "fitroom")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        write(log)

        def ours() -> None:
            done = subprocess.run([fitroom, "diagnose", log], stdout=subprocess.DEVNULL, env=environment, check=False)
            assert done.returncode == 1

        def theirs() -> None:
            subprocess.run(["grep", "-c", "out of memory", log], stdout=subprocess.DEVNULL, check=False)

        yield interleaved("a 1 GiB log: fitroom diagnose ÷ grep -c", ours, theirs, pairs=5, goal=GOAL)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        yield Ratio(f"its memory ÷ {MOST} MiB", peak / MOST, peak / MOST, peak / MOST, 1.0, f" {peak:.0f} MiB")
    cases = posted_logs.posted()
    for name, score in posted_logs.scores(cases).items() if cases else ():
        # As what is wrong ÷ what may be: goals are upper limits here.
        may = None if "inferred" in name else 1 - (CAUSES if name.startswith("cause") else FIELDS)
        wrong, count = 1 - score.share, score.right + len(score.missed)
        note = f" {score.right} of {count} right" + "".join(f"\n  {miss}" for miss in score.missed)
        yield Ratio(f"posted logs, share wrong: {name}", wrong, wrong, wrong, may, note)
