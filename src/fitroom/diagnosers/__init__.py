"""Log, exception or Record → Diagnosis: one file per cause, one explicit tuple.

    bytes ─ sieve ─► lines ─ failures ─► failures, told apart ─ reading ─► Facts ─ causes, weighed ─► Diagnosis

`fitroom.oom` alone decides whether something ran out; here it is read what, and weighed why.
"""

from __future__ import annotations

from fitroom.diagnosers import (
    batch_or_activations,
    disk_full,
    fd_limit,
    fragmentation,
    gpu_preallocation_or_growth,
    host_dataset,
    inference_too_large,
    leak_over_iterations,
    message_limit,
    other_process,
    outside_strategy_scope,
    proto_embedded_data,
    retracing,
    single_giant_tensor,
    uneven_devices,
    unknown,
    weights_or_optimizer_too_big,
    whole_batch_per_replica,
    xla_over_replicas,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.diagnosers.cause_file import CauseFile

# Where clues weigh the same, the first one counts.
CAUSES: tuple[CauseFile, ...] = (
    disk_full,
    fd_limit,
    message_limit,
    proto_embedded_data,
    outside_strategy_scope,
    xla_over_replicas,
    fragmentation,
    uneven_devices,
    other_process,
    gpu_preallocation_or_growth,
    weights_or_optimizer_too_big,
    single_giant_tensor,
    inference_too_large,
    whole_batch_per_replica,
    batch_or_activations,
    host_dataset,
    retracing,
    leak_over_iterations,
    unknown,
)
PAGES = tuple(one.PAGE for one in CAUSES)
