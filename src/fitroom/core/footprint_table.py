"""A Footprint as a table with bars: what you see when you look at one."""

from __future__ import annotations

from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from rich.console import Group

    from fitroom.core.footprint import Footprint

_BAR = 24  # characters of the longest bar
_LAYERS = 8
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LOWERS = {
    "weights": "fewer or smaller layers, or half precision",
    "optimizer": "an optimizer with fewer slots: SGD, Adafactor",
    "accumulators": "no slices",
    "activations": 'slices, plan="micro_batch=4", or plan="recompute"; a smaller batch',
    "gradients": 'slices, plan="micro_batch=4"; a smaller batch',
    "workspace": "a smaller batch, or smaller kernels",
    "data": "smaller or lower-precision samples",
    "exchange": "fewer or smaller layers; replicas exchange one gradient per weight",
    "slack": "nothing of yours: the allocator hands out whole chunks",
}


def rendered(footprint: Footprint) -> Group:
    """A headline, parts and layers with the largest first, and what would lower it most."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    where = f", in the {footprint.phase} pass" if footprint.phase in ("forward", "backward") else ""
    where = ", in the update" if footprint.phase == "update" else where
    plan = "" if footprint.plan == "plain" else f" with {footprint.plan}"
    share = -(-footprint.batch_size // max(len(footprint.replicas), 1))
    shared = f", {share} on each of {', '.join(footprint.replicas)}" if footprint.replicas else ""
    headline = (
        f"{footprint.kind.capitalize()} at batch {footprint.batch_size}{shared}{plan}: "
        f"{format_bytes(footprint.peak)} ± {footprint.band:.0%} ({footprint.how}){where}"
    )
    found = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    found.add_column("at the peak", no_wrap=True)
    found.add_column("bytes", justify="right", no_wrap=True)
    found.add_column("", style="cyan", no_wrap=True)
    found.add_column("share", justify="right", no_wrap=True)
    parts = {name: size for name, size in vars(footprint.parts).items() if size}
    for name, size in sorted(parts.items(), key=lambda one: -one[1]):
        found.add_row(name, *_cells(size, footprint.peak))
    layers = footprint.layers[:_LAYERS]
    if layers:
        found.add_section()
        found.add_row("[bold]by layer[/]", "", "", "")
        for layer in layers:
            found.add_row(_escaped(layer.name), *_cells(layer.bytes, footprint.peak))
        rest = len(footprint.layers) - len(layers)
        if rest:
            size = sum(layer.bytes for layer in footprint.layers[_LAYERS:])
            found.add_row(f"[dim]{rest} more[/]", *_cells(size, footprint.peak))
    lines = [*footprint.notes]
    if parts:
        largest = max((name for name in parts if name != "slack"), key=lambda name: parts[name], default="slack")
        lowers = _LOWERS[largest] if footprint.kind == "training" else "a smaller batch"
        lines.append(f"Most would be saved on {largest}: {lowers}.")
    return Group(Text(headline, style="bold"), found, *(Text(line, style="italic") for line in lines))


def text(footprint: Footprint) -> str:
    """The same without colour."""
    from rich.console import Console

    console = Console(width=100, color_system=None, force_terminal=False, record=False)
    with console.capture() as captured:
        console.print(rendered(footprint))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _cells(size: int, whole: int) -> tuple[str, str, str]:
    return format_bytes(size), _bar(size / whole if whole else 0), f"{size / whole if whole else 0:.0%}"


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def _escaped(value: str) -> str:
    from rich.markup import escape

    return escape(value)
