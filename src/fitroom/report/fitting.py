"""What fits where, as tables with bars."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fitroom.core import Fitting, Place
from fitroom.units import format_bytes

_BAR = 20  # characters
_ENDLESS = 1 << 20  # the largest batch that is looked for


def rendered(fitting: Fitting) -> Group:
    """The training's place, its footprint, and the places where it fits."""
    found: list[object] = [Text(fitting.where, style="bold cyan"), fitting.footprint]
    places = [*([fitting.budget] if fitting.budget is not None else []), *fitting.gpus]
    if places:
        found += [Text(), _table(places, fitting.footprint.batch_size)]
    if fitting.gpus:
        found.append(
            Text(
                "On a GPU: free of other processes unless said otherwise; what cuDNN would like for speed is not in "
                "it, nor is what XLA, which Keras turns on there by itself, would save.",
                style="italic",
            )
        )
    return Group(*found)  # type: ignore[arg-type] # rich renders a Footprint by its own __rich__


def _table(places: list[Place], batch: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("where", no_wrap=True)
    table.add_column("has", justify="right", no_wrap=True)
    table.add_column(f"batch {batch} takes", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("largest batch", justify="right", no_wrap=True)
    for place in places:
        verdict = Text("fits", style="green") if place.fits else Text("too large", style="red")
        if not place.fits and place.peak <= place.bytes:
            verdict = Text("may fit", style="yellow")
        largest = "any" if place.largest_batch >= _ENDLESS else str(place.largest_batch or "none")
        name = f"{place.name}, {place.note}" if place.note else place.name
        table.add_row(Text(name), format_bytes(place.bytes), _bar(place), verdict, largest)
    return table


def _bar(place: Place) -> Text:
    share = place.peak / place.bytes if place.bytes else 1.0
    filled = min(round(share * _BAR), _BAR)
    style = "green" if place.fits else "yellow" if share <= 1 else "red"
    return Text("█" * filled + "░" * (_BAR - filled), style=style).append(f" {share:.0%}", style="default")
