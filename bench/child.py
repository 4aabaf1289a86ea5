"""Measurements that need a process, and a device's memory, of their own: ``python -m bench.child WHAT …``.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fitroom.devices import pocket


def run(what: str, *arguments: object, limit: str = "6GiB") -> dict[str, Any]:
    """Run one measurement in a process with a pocket device of `limit`."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "FITROOM_CACHE": "off"}
    environment = {**os.environ, **quiet, **pocket.environment(limit)}
    command = [sys.executable, "-m", "bench.child", what, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def peak(name: str, how: str) -> dict[str, Any]:
    """The peak of a batch: plain, guarded, guarded with a plan, or with Keras' own accumulation over some steps."""
    import keras
    import tensorflow as tf

    import fitroom
    from bench.models import case

    tf.config.threading.set_inter_op_parallelism_threads(1)
    chosen = case(name)
    batch = chosen.batch
    model = chosen.build()
    if how.startswith("keras"):
        steps = int(how.removeprefix("keras"))
        model.compile(keras.optimizers.Adam(gradient_accumulation_steps=steps), model.loss, metrics=["accuracy"])
        batch //= steps
    elif how != "plain":
        fitroom.guard(model, plan=None if how == "guarded" else how)
    x, y = chosen.x[: chosen.batch], chosen.y[: chosen.batch]
    peaks = []
    model.fit(x, y, batch_size=batch, verbose=0)
    for _ in range(3):
        pocket.reset_peak()
        model.fit(x, y, batch_size=batch, verbose=0)
        peaks.append(pocket.use().peak)
    return {"peak": sorted(peaks)[1]}


def on_replicas(name: str, replicas: str) -> dict[str, Any]:
    """The time of an epoch on several logical CPUs, guarded ÷ plain."""
    import dataclasses

    import tensorflow as tf

    import fitroom
    from bench.measure import interleaved
    from bench.models import case

    cpu, count = tf.config.list_physical_devices("CPU")[0], int(replicas)
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(count)])
    chosen = case(name)
    with strategy.scope():
        plain, guarded = chosen.build(), fitroom.guard(chosen.build())
    data = chosen.steady_dataset()
    epochs = max(1, 40 * chosen.batch // len(chosen.x))  # to begin and end one takes as long as some steps

    def trained(model: Any) -> Any:
        return model.fit(data, epochs=epochs, verbose=0)

    title = f"{name} on {count} replicas, time of a training: guarded ÷ plain"
    found = interleaved(title, lambda: trained(guarded), lambda: trained(plain), pairs=31, goal=1.03)
    return dataclasses.asdict(found)


def rescue(how: str, size: str) -> dict[str, Any]:
    """An epoch of a CNN whose batch does not fit: by halving, as the recipes do; guarded; or at a size that fits."""
    import gc

    import keras
    import tensorflow as tf

    import fitroom
    from bench.models import case
    from fitroom.training.guarding import events

    chosen, batch, ooms = case("cnn_large"), int(size), 0
    start = time.perf_counter()
    if how == "guarded":
        model = fitroom.guard(chosen.build())
        model.fit(chosen.x, chosen.y, batch_size=batch, verbose=0)
        ooms = sum(event.kind == "oom" for event in events(model))
    while how != "guarded":
        try:
            chosen.build().fit(chosen.x, chosen.y, batch_size=batch, verbose=0)
            break
        except tf.errors.ResourceExhaustedError:
            ooms, batch = ooms + 1, batch // 2
        keras.backend.clear_session()
        gc.collect()
    return {"seconds": time.perf_counter() - start, "ooms": ooms, "batch": batch}


def recompute_peak(name: str, side: str, batch: str, how: str, xla: str) -> dict[str, Any]:
    """The peak of a step: plain, with Fitroom's recomputation, or with Keras' own."""
    import contextlib

    import keras

    import fitroom
    from bench.models import big_case

    scope = keras.RematScope(mode="full") if how == "remat" else contextlib.nullcontext()
    with scope:
        chosen = big_case(name, int(side), int(batch))
        model = chosen.build(jit_compile=xla == "True")
        if how == "recompute":
            fitroom.guard(model, plan="recompute")
        peaks = []
        try:
            model.train_on_batch(chosen.x, chosen.y)
        except Exception as error:  # whatever Keras' own recomputation runs into
            return {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"}
        for _ in range(3):
            pocket.reset_peak()
            model.train_on_batch(chosen.x, chosen.y)
            peaks.append(pocket.use().peak)
    return {"peak": sorted(peaks)[1]}


def recompute_time(name: str, side: str, batch: str, xla: str) -> dict[str, Any]:
    """Step times with recomputation ÷ plain, in pairs whose order alternates."""
    import fitroom
    from bench.measure import seconds
    from bench.models import big_case

    chosen = big_case(name, int(side), int(batch))
    plain, ours = (chosen.build(jit_compile=xla == "True") for _ in range(2))
    fitroom.guard(ours, plan="recompute")

    def step(model: Any) -> float:
        return seconds(lambda: model.train_on_batch(chosen.x, chosen.y))

    for model in (plain, ours):
        step(model)
    ratios = []
    for turn in range(7):
        if turn % 2:
            base, mine = step(plain), step(ours)
        else:
            mine, base = step(ours), step(plain)
        ratios.append(mine / base)
    return {"ratios": ratios}


def sample_of(model: Any) -> tuple[Any, Any]:
    """A sample of a setting's inputs and targets."""
    import numpy as np

    from fitroom.estimator import samples

    x = samples.of_inputs(model) if getattr(model, "inputs", None) else np.zeros((1, 48, 48, 3), np.float32)
    return x, samples.of_targets(model, model(samples.batch(x, 1)))


def fit(model: Any, sample: Any, batches: list[int], callbacks: tuple[Any, ...] = ()) -> None:
    from fitroom.estimator import samples

    data = samples.dataset(sample, lambda: iter(batches))
    model.fit(data, verbose=0, steps_per_epoch=len(batches), callbacks=list(callbacks))


def estimated(name: str, questions: str, room: str) -> dict[str, Any]:
    """What we and others say of a setting, and how long a first step and our estimate take.

    Args:
        name: the setting.
        questions: as JSON, the sizes to be estimated, each with budgets that it may fit.
        room: a budget in MiB, whose largest batch is asked for.
    """
    import tensorflow as tf

    import fitroom
    from bench import others
    from bench.zoo import SETTINGS
    from fitroom.estimator import tracing
    from fitroom.estimator.replay import Replay

    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import keras"], capture_output=True, check=True)
    started = time.perf_counter() - start  # how long a process takes to start
    model = SETTINGS[name].build()
    sample = sample_of(model)
    budgets = {int(size): tried for size, tried in json.loads(questions).items()}
    start = time.perf_counter()
    found = fitroom.estimate(model, min(budgets), x=None if getattr(model, "inputs", None) else sample[0])
    seconds = time.perf_counter() - start - started
    start = time.perf_counter()
    for size in range(1, 101):
        found.at(3 * size)
    hundred = time.perf_counter() - start
    start = time.perf_counter()
    fit(model, sample, [min(budgets)])  # as asked for, tracing included
    first_step = time.perf_counter() - start
    peaks = []
    for batch in (2, 4):
        pocket.reset_peak()
        fit(model, sample, [batch])
        peaks.append(pocket.use().peak)
    traced = tracing.trace(model, *sample)
    replay = Replay(traced["prelude"], traced["training"])
    middle = sorted(budgets)[len(budgets) // 2]
    with tf.device("CPU:0"):
        grappler = {middle: others.grappler(model, sample, middle)}
    return {
        "seconds": seconds,
        "first_step": first_step,
        "hundred": hundred,
        "peak": {batch: found.at(batch).peak for batch in budgets},
        "fits": {batch: [found.at(batch).fits(one) for one in tried] for batch, tried in budgets.items()},
        "largest": found.max_batch(f"{room}MiB"),
        "traced": {batch: replay.peak(batch) for batch in budgets},
        "two_points": {batch: peaks[0] + (peaks[1] - peaks[0]) * (batch - 2) / 2 for batch in budgets},
        "outputs": {batch: others.outputs(model, batch) for batch in budgets},
        "grappler": {batch: grappler.get(batch) for batch in budgets},
    }


def _allowed(plan: str) -> tuple[str, ...]:
    from fitroom.remedies import INEXACT

    return tuple(name for name in INEXACT if name in plan)


def remedied(name: str, batch: str, plan: str) -> dict[str, Any]:
    """What a plan is predicted to take at its peak, and what it takes."""
    import fitroom
    from bench.zoo import SETTINGS
    from fitroom.errors import FitroomError

    model = SETTINGS[name].build()
    sample = sample_of(model)
    try:
        found = fitroom.estimate(model, int(batch), x=None if getattr(model, "inputs", None) else sample[0], plan=plan)
        fitroom.guard(model, plan=plan, allow=_allowed(plan))
        fit(model, sample, [int(batch)])
        pocket.reset_peak()
        fit(model, sample, [int(batch)] * 4)
    except FitroomError as error:
        return {"refused": str(error)}
    return {"predicted": found.peak, "measured": pocket.use().peak}


def planned(name: str, batch: str, budget: str) -> dict[str, Any]:
    """The plan for a budget."""
    import fitroom
    from bench.zoo import SETTINGS

    model = SETTINGS[name].build()
    x = None if getattr(model, "inputs", None) else sample_of(model)[0]
    return {"plan": str(fitroom.plan(model, int(batch), budget, x=x))}


def guarded_run(name: str, batch: str, steps: str, plan: str = "") -> dict[str, Any]:
    """Some steps under the guard: how often they ran out, how long the quickest took; or why they did not run."""
    import keras

    import fitroom
    from bench.zoo import SETTINGS
    from fitroom.training.guarding import events

    times: list[float] = []
    model = fitroom.guard(SETTINGS[name].build(), plan=plan or None)
    sample = sample_of(model)
    begin = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: times.append(time.perf_counter()),
        on_train_batch_end=lambda batch, logs: times.append(time.perf_counter() - times.pop()),
    )
    try:
        fit(model, sample, [int(batch)] * int(steps), (begin,))
    except fitroom.DoesNotFit as error:
        return {"error": str(error)[:200]}
    told = events(model)
    plans = [str(event.data["plan"]) for event in told if event.kind == "planned"]
    return {"ooms": sum(event.kind == "oom" for event in told), "seconds": min(times), "plans": plans}


_SEEDS = Path(__file__).parents[1] / "examples" / "seeds"
_EXPECT = json.loads((_SEEDS / "expect.json").read_text())
SEEDS = [name for name, one in _EXPECT.items() if one["kind"] == "device_oom"]


def seed(name: str) -> int:
    """How often a step of a seed script ran out at its budget under `fitroom run`; 99 where it was not rescued."""
    from fitroom.core import Record

    entry = _EXPECT[name]
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "FITROOM_CACHE": "off"}
        command = [sys.executable, "-m", "fitroom", "run", "--record", f"{folder}/record", "--budget", entry["budget"]]
        command += [str(_SEEDS / name), *entry["arguments"]]
        done = subprocess.run(command, capture_output=True, cwd=folder, env={**os.environ, **quiet}, check=False)
        record = Record.read(Path(folder) / "record" / "record.jsonl")
    return len(record.of("oom")) if done.returncode == 0 else 99


def on_card(name: str, card: str) -> dict[str, Any]:
    """The largest batch that we say fits a GPU."""
    import fitroom
    from bench.gpus import BUILD
    from fitroom.devices import catalogue

    found = fitroom.estimate(BUILD[name](), 8).on_gpu
    return {"batch": found.max_batch(catalogue.find(card).usable)}


if __name__ == "__main__":
    measurements = (
        peak,
        on_replicas,
        rescue,
        recompute_peak,
        recompute_time,
        estimated,
        remedied,
        planned,
        guarded_run,
        on_card,
    )
    print(json.dumps({one.__name__: one for one in measurements}[sys.argv[1]](*sys.argv[2:])))
