"""Ways to need less memory: one file each, one explicit tuple. A remedy gives settings; `steps/` carries them out."""

from __future__ import annotations

from fitroom.errors import UnitError, UsageError
from fitroom.remedies import micro_batch, recompute
from fitroom.units import parse_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Plan, Remedy

REMEDIES = (micro_batch, recompute)
NAMES = tuple(module.NAME for module in REMEDIES)
PAGES = tuple(module.PAGE for module in REMEDIES)


def read_plan(plan: Plan | str | None) -> Plan:
    """A Plan, or its short form such as ``"micro_batch=4, recompute"``, as a Plan.

    Raises:
        UsageError: if a remedy is not known, or its setting makes no sense.
    """
    from fitroom.core import Plan  # `fitroom explain` needs the pages only

    if isinstance(plan, Plan):
        return plan
    if plan is None or plan.strip() in ("", "plain"):
        return Plan()
    return Plan(tuple(_read(part.strip()) for part in plan.split(",")))


def _read(text: str) -> Remedy:
    name, _, setting = (part.strip() for part in text.partition("="))
    if name == micro_batch.NAME and setting.isdigit() and int(setting) >= 1:
        return micro_batch.remedy(int(setting))
    if name == recompute.NAME and setting in ("", recompute.HIGH, recompute.LOW):
        return recompute.remedy(setting or recompute.HIGH)
    if name == recompute.NAME:
        try:
            return recompute.remedy(parse_bytes(setting))
        except UnitError:
            pass
    raise UsageError(
        "Cannot read this plan",
        received=text,
        expected="micro_batch=N, with N slices, at least 1; recompute, recompute=low, or recompute=2GiB",
    )


def read_allowed(allow: str | tuple[str, ...] | list[str]) -> frozenset[str]:
    """The remedies that are allowed to change the math, by name.

    Raises:
        UsageError: if a name is not a remedy's.
    """
    names = frozenset([allow] if isinstance(allow, str) else allow)
    if unknown := sorted(names - set(NAMES)):
        raise UsageError("No such remedy to allow", received=", ".join(unknown), expected=", ".join(NAMES))
    return names
