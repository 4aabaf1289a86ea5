"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def changed_variables(variables: Sequence[tuple[str, str, bool]]) -> Table:
    """The variables that a failed step changed, out of ``(group, name, changed)``; the others only counted."""
    table = Table(title="What the failed step had already changed", title_justify="left", title_style="bold")
    table.add_column("state")
    table.add_column("variable")
    table.add_column("afterwards")
    for group in dict.fromkeys(group for group, _, _ in variables):
        members = [(name, changed) for one, name, changed in variables if one == group]
        changed_names = [name for name, changed in members if changed]
        for name in changed_names:
            table.add_row(group if name is changed_names[0] else "", name, "[bold red]changed[/]")
        rest = len(members) - len(changed_names)
        if rest:
            table.add_row("" if changed_names else group, f"[dim]{rest} more[/]", "[dim]as before[/]")
        table.add_section()
    return table
