"""A plan beside what else was weighed."""

from __future__ import annotations

import shlex

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fitroom.core import Plan
from fitroom.units import format_bytes


def rendered(where: str, plan: Plan) -> Group:
    """The training's place, the plans with the chosen one marked, and the reason."""
    return Group(Text(where, style="bold cyan"), _table(plan), Text(plan.reason, style="italic"))


def _table(plan: Plan) -> Table:
    assert plan.footprint is not None and plan.budget is not None
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column(f"batch {plan.footprint.batch_size}", no_wrap=True)
    each = " each" if plan.footprint.replicas else ""
    for title in ("peak", "time", "result", f"in {format_bytes(plan.budget.bytes)}{each}", "largest"):
        table.add_column(title, justify="right" if title in ("peak", "time", "largest") else "left", no_wrap=True)
    for one in (plan, *plan.alternatives):
        assert one.footprint is not None
        verdict = Text("fits", style="green") if one.fits else Text("too large", style="red")
        table.add_row(
            Text("▶" if one is plan and plan.fits else "", style="bold green"),
            Text(str(one), style="bold" if one is plan else ""),
            format_bytes(one.footprint.peak),
            f"× {one.time_factor:.2f}",
            "same" if one.exact else Text("another", style="yellow"),
            verdict,
            _largest(one),
        )
    return table


def _largest(plan: Plan) -> str:
    if plan.largest_batch is None:
        return "any" if plan.fits else ""
    return str(plan.largest_batch or "none")


def typed(plan: Plan, command: list[str], asked: str | None) -> list[str]:
    """The command and the line of code that use it.

    Args:
        plan: what was chosen.
        command: the script, with its arguments.
        asked: the budget, as it was typed.
    """
    budget = ["--budget", asked] if asked is not None else []
    if not plan.remedies:
        return [shlex.join(["fitroom", "run", *budget, *command])]
    allow = [word for one in plan.remedies if not one.exact for word in ("--allow", one.name)]
    allowed = "".join(f", allow={one.name!r}" for one in plan.remedies if not one.exact)
    return [
        shlex.join(["fitroom", "run", *budget, *allow, "--plan", str(plan), *command]),
        f'fitroom.guard(model, plan="{plan}"{allowed})',
    ]
