"""Ways to need less memory: one file each, one explicit tuple. A remedy gives settings; `steps/` carries them out.

A remedy's file has its NAME, its PAGE, how it is WRITTEN in a plan, and `read(setting)`, which makes it of that.
"""

from __future__ import annotations

from fitroom.errors import UsageError
from fitroom.remedies import (
    allocator,
    eval_batch,
    float32_data,
    lean_optimizer,
    micro_batch,
    mixed_precision,
    recompute,
    xla,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.core import Plan, Remedy

REMEDIES = (micro_batch, recompute, eval_batch, float32_data, xla, allocator, mixed_precision, lean_optimizer)
NAMES = tuple(module.NAME for module in REMEDIES)
PAGES = tuple(module.PAGE for module in REMEDIES)
INEXACT = (micro_batch.NAME, mixed_precision.NAME, lean_optimizer.NAME)  # the first only where samples mix


def read_plan(plan: Plan | str | None) -> Plan:
    """A Plan, or its short form such as ``"micro_batch=4, recompute"``, as a Plan.

    Raises:
        UsageError: if a remedy is not known or there twice, or its setting makes no sense.
    """
    from fitroom.core import Plan  # `fitroom explain` needs the pages only

    if isinstance(plan, Plan):
        return plan
    if plan is None or plan.strip() in ("", "plain"):
        return Plan()
    found = tuple(_read(part.strip()) for part in plan.split(","))
    if len({one.name for one in found}) < len(found):
        raise UsageError("A plan has each remedy once", received=plan)
    return Plan(found)


def _read(text: str) -> Remedy:
    name, _, setting = (part.strip() for part in text.partition("="))
    module = next((one for one in REMEDIES if name == one.NAME), None)
    found: Remedy | None = module.read(setting) if module is not None else None
    if found is None:
        expected = "; ".join(one.WRITTEN for one in (REMEDIES if module is None else (module,)))
        raise UsageError("Cannot read this plan", received=text, expected=expected)
    return found


def read_allowed(allow: str | tuple[str, ...] | list[str]) -> frozenset[str]:
    """The remedies that are allowed to change the math, by name.

    Raises:
        UsageError: if a name is not a remedy's.
    """
    names = frozenset([allow] if isinstance(allow, str) else allow)
    if unknown := sorted(names - set(NAMES)):
        raise UsageError("No such remedy to allow", received=", ".join(unknown), expected=", ".join(NAMES))
    return names


def check_allowed(plan: Plan, allowed: frozenset[str]) -> None:
    """Whether what always changes the math in a plan is allowed to; where samples mix shows later.

    Raises:
        UsageError: if it is not.
    """
    always = [one.name for one in plan.remedies if one.name in INEXACT and one.name != micro_batch.NAME]
    refused = [name for name in always if name not in allowed]
    if refused:
        raise UsageError(
            f"{refused[0]} changes the math, and runs only when it is allowed by name",
            received=f"plan={str(plan)!r}",
            hint=f"allow=({refused[0]!r},) in Python, --allow {refused[0]} on the command line",
        )


def turns(plan: Plan) -> dict[str, str]:
    """What a plan changes of the model itself, as `steps.turning.turn` takes it."""
    names = {"xla": xla.NAME, "precision": mixed_precision.NAME, "optimizer": lean_optimizer.NAME}
    return {key: str(plan.setting(name)) for key, name in names.items() if plan.setting(name) is not None}
