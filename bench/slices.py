"""Slices against the whole batch, and against Keras' own gradient_accumulation_steps: time, peak, and the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench import child
from bench.measure import Ratio, interleaved
from fitroom.units import MIB

STEPS = 4


def run() -> Iterator[Ratio]:
    for name in ("cnn", "transformer"):
        for slices in (2, 4, 8):
            yield _time(name, slices)
        yield from _against_keras(name)


def _time(name: str, slices: int) -> Ratio:
    import fitroom
    from bench.models import case

    chosen = case(name)
    plain, sliced = chosen.build(), fitroom.guard(chosen.build(), plan=f"micro_batch={slices}")
    title = f"{name}, time of an epoch: {slices} slices ÷ whole batch"
    return interleaved(title, _epoch(sliced, chosen), _epoch(plain, chosen))


def _against_keras(name: str) -> Iterator[Ratio]:
    import keras

    import fitroom
    from bench.models import case

    chosen = case(name)
    how = f"micro_batch={STEPS}"
    whole, ours, keras_own = (child.run("peak", name, one)["peak"] for one in ("plain", how, f"keras{STEPS}"))
    for who, peak in (("ours", ours), ("Keras", keras_own)):
        note = f" {peak / MIB:.0f} ÷ {whole / MIB:.0f} MiB"
        yield Ratio(f"{name}, peak: {who} in {STEPS} ÷ whole batch", *[peak / whole] * 3, note=note)

    sliced = fitroom.guard(chosen.build(), plan=how)
    accumulating = chosen.build()
    optimizer = keras.optimizers.Adam(gradient_accumulation_steps=STEPS)
    accumulating.compile(optimizer, accumulating.loss, metrics=["accuracy"])
    title = f"{name}, time of an epoch: ours in {STEPS} ÷ Keras in {STEPS}"
    yield interleaved(title, _epoch(sliced, chosen), _epoch(accumulating, chosen, STEPS))
    # A batch that does not divide: every fifth sample has weight 3, and the last batch is short.
    yield _distance(name)


def _distance(name: str) -> Ratio:
    """How far the weights end from the whole batch's: ours ÷ Keras' own."""
    import keras
    import numpy as np

    import fitroom
    from bench.models import case

    chosen = case(name)
    samples = 3 * chosen.batch - chosen.batch // 3  # the last batch is short
    x, y = chosen.x[:samples], chosen.y[:samples]
    weights = np.where(np.arange(samples) % 5, 1.0, 3.0)

    def trained(how: str) -> Any:
        model = chosen.build(dropout=0.0)
        steps = STEPS if how == "keras" else None
        optimizer = keras.optimizers.SGD(0.01, gradient_accumulation_steps=steps)
        model.compile(optimizer, model.loss)
        if how == "ours":
            fitroom.guard(model, plan=f"micro_batch={STEPS}")
        size = chosen.batch // (steps or 1)
        model.fit(x, y, batch_size=size, sample_weight=weights, epochs=2, shuffle=False, verbose=0)
        return model.get_weights()

    def distance(one: Any, other: Any) -> float:
        return max(float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in zip(one, other, strict=True))

    whole = trained("whole")
    ours, theirs = distance(whole, trained("ours")), distance(whole, trained("keras"))
    note = f" {ours:.0e} ÷ {theirs:.0e} of the largest weight"
    return Ratio(
        f"{name}, distance of the weights from the whole batch's: ours ÷ Keras", *[ours / theirs] * 3, note=note
    )


def _epoch(model: Any, chosen: Any, parts: int = 1) -> Any:
    return lambda: model.fit(chosen.x, chosen.y, batch_size=chosen.batch // parts, verbose=0)
