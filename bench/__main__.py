"""``python -m bench [NAME…]``: run the benchmarks and print their ratios."""

from __future__ import annotations

import importlib
import sys

from rich.console import Console
from rich.table import Table

BENCHMARKS = (
    "startup",
    "run",
    "overhead",
    "replicas",
    "monitor",
    "first_step",
    "slices",
    "rescue",
    "recompute",
    "resume",
    "estimate",
    "gpus",
    "plan",
    "diagnose",
    "leaks",
)


def main(names: list[str]) -> int:
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        print(f"No such benchmark. Received: {', '.join(unknown)}. Expected: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    console = Console()
    missed = 0
    for name in names or BENCHMARKS:
        module = importlib.import_module(f"bench.{name}")
        table = Table(
            "ratio", "median", "95 % interval", "goal", "", title=f"{name}: {module.__doc__}", title_justify="left"
        )
        with Console(stderr=True).status(f"{name} …"):
            for row in module.run():
                missed += row.met is False
                mark = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[row.met]
                goal = "" if row.goal is None else f"≤ {row.goal:.2f}"
                table.add_row(row.what, f"{row.median:.2f}", f"{row.low:.2f} to {row.high:.2f}", goal, mark + row.note)
        console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
