"""The guarantees, G1 to G9. Tests and documentation refer to them by number."""

from __future__ import annotations

from fitroom.core.page import Page


def _guarantee(code: str, title: str, text: str) -> Page:
    return Page(code, "guarantee", title, text)


GUARANTEES = (
    _guarantee(
        "G1",
        "No trace",
        "An attempt that ran out of memory leaves every variable of the model, the optimizer, the metrics and the "
        "random generators as it was, bit for bit.",
    ),
    _guarantee(
        "G2",
        "Exactly once",
        "Every batch that the data yields makes exactly one update: none is lost, none applied twice, none by half.",
    ),
    _guarantee(
        "G3",
        "Same update",
        "In one piece, an update is bit-identical to plain fit's. In several slices it is equal up to float rounding "
        "for models whose layers treat samples independently, with sample weights, class weights, masks and a ragged "
        "last slice weighed correctly.\n\n"
        "Random layers (dropout, noise, sampling) draw other numbers when sliced: the distribution is the same, and "
        "the summary says so. Layers that mix samples, such as BatchNormalization in training mode, are not sliced "
        "unless you allow it with --allow micro_batch.",
    ),
    _guarantee(
        "G4",
        "Death is not the end",
        "A training process that is killed or aborts is resumed after its last committed step. In deterministic mode "
        "the final weights and history equal the uninterrupted run's, bit for bit.",
    ),
    _guarantee(
        "G5",
        "Within budget",
        "A budget is enforced by the allocator where it can be (on a GPU and on the pocket device), and the plan's "
        "predicted peak stays under it.",
    ),
    _guarantee(
        "G6",
        "Nothing silent",
        "Whatever was changed is in the record and in the closing summary, with the reason.",
    ),
    _guarantee(
        "G7",
        "Ask before changing the math",
        "Remedies that change the result run only when you allow them by name.",
    ),
    _guarantee(
        "G8",
        "Private and inert",
        "No network, no telemetry. Nothing read from a file, a log, a record or a checkpoint is unpickled or "
        "executed. Reports are one offline file with everything escaped.",
    ),
    _guarantee(
        "G9",
        "No nuisance",
        "Where memory suffices, a training starts, runs and sounds as without fitroom: no extra trace, probe or line "
        "of output. Unknown versions and other backends get plain behaviour and one warning.",
    ),
)
