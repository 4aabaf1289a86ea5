"""The peak, known before the first step."""

from __future__ import annotations

import json
import random
import resource
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import fitroom
from fitroom.core import Budget, Footprint
from fitroom.devices import pocket
from fitroom.errors import UsageError
from fitroom.estimator import shipping
from fitroom.units import GIB, MIB
from tests import own_cases
from tests.conftest import ROOT, Run

ARENA = """
import json, random
import tensorflow as tf
from fitroom.devices import pocket
from fitroom.estimator.arena import Arena, ArenaFull
tf.zeros([1])  # the first region
generator, arena, held, seen = random.Random({seed}), Arena(400 << 20), [], []
arena.take(256)
start, simulated = pocket.use().current, arena.in_use
for _ in range(150):
    if held and generator.random() < 0.45:
        tensor, place = held.pop(generator.randrange(len(held)))
        del tensor
        arena.give_back(place)
    else:
        size = int(2 ** generator.uniform(22, 26))
        try:
            place = arena.take(size)
        except ArenaFull:
            continue  # a real failure takes ten seconds
        held.append((tf.raw_ops.Empty(shape=[size], dtype=tf.uint8, init=False), place))
    seen.append((pocket.use().current - start, arena.in_use - simulated))
print(json.dumps(seen))
"""


def cnn(**options: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers: list[Any] = [keras.Input((32, 32, 3))]
    for filters in (16, 32):
        layers += [kl.Conv2D(filters, 3, padding="same"), kl.BatchNormalization(), kl.ReLU(), kl.MaxPooling2D()]
    layers += [kl.Dropout(0.3), kl.Flatten(), kl.Dense(64, "relu"), kl.Dense(10, name="head")]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], **options)
    return model


def seen(model: Any) -> dict[str, Any]:
    """What an estimate must leave alone."""
    return {
        "weights": [one.numpy().tolist() for one in model.variables],
        "optimizer": model.optimizer.built,
        "function": model.train_function,
        "metrics": len(model.metrics_variables),
        "random": random.getstate(),
        "numpy": np.random.get_state(legacy=False)["state"]["key"].tolist(),
    }


@pytest.fixture(scope="module")
def observed() -> Any:
    """An estimate, and this process before and after it."""
    model = cnn()
    before, used = seen(model), pocket.use().current
    found = fitroom.estimate(model, batch_size=48)
    return found, before, seen(model), pocket.use().current - used


@pytest.fixture
def estimated(observed: Any) -> Any:
    return observed[0]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_the_arena_hands_out_what_the_allocator_hands_out(seed: int, python: Run) -> None:
    done = python("-c", ARENA.format(seed=seed), env=pocket.environment("400MiB"))
    seen = json.loads(done.stdout.splitlines()[-1])
    assert len(seen) > 100
    assert [real for real, _ in seen] == [ours for _, ours in seen]


REAL = """
import json, sys
import keras, numpy as np, tensorflow as tf
from fitroom.devices import pocket
from tests.integration.test_estimate import cnn
batch = int(sys.argv[1])
model = cnn()
x, y = np.zeros((batch, 32, 32, 3), np.float32), np.zeros(batch, int)
for _ in range(4):
    model.train_on_batch(x, y)
print(pocket.use().peak)
"""


@pytest.mark.parametrize("batch", [pytest.param(40, marks=pytest.mark.chaos), 200])
def test_it_is_what_the_allocator_says(batch: int, estimated: Any, python: Run) -> None:
    done = python("-c", REAL, str(batch), env=pocket.environment("2GiB"))
    real = int(done.stdout.splitlines()[-1])
    assert estimated.at(batch).peak == pytest.approx(real, rel=0.12)


def test_its_parts_are_the_peak(estimated: Any) -> None:
    assert estimated.how == "measured"
    assert estimated.parts.total == estimated.peak
    model = cnn()
    model.optimizer.build(model.trainable_variables)
    assert estimated.parts.weights == pytest.approx(4 * model.count_params(), rel=0.01)
    assert estimated.parts.optimizer == pytest.approx(2 * 4 * model.count_params(), rel=0.02)
    assert estimated.parts.data == pytest.approx(48 * (32 * 32 * 3 * 4 + 8), rel=0.05)
    assert estimated.parts.activations > estimated.parts.data
    assert estimated.phase == "backward"


def test_the_layers_that_hold_most_are_the_first(estimated: Any) -> None:
    names = {layer.name.rstrip("_0123456789") for layer in estimated.at(400).layers[:2]}
    assert names <= {"conv2d", "batch_normalization", "re_lu", "max_pooling2d"}
    assert "head" in {layer.name for layer in estimated.layers}


def test_other_sizes_cost_nothing(estimated: Any) -> None:
    start = time.perf_counter()
    peaks = [estimated.at(batch).peak for batch in range(1, 101)]
    assert time.perf_counter() - start < 2  # one second, on a machine with nothing else to do
    assert peaks[99] > peaks[9]
    assert estimated.at(1000).peak > 5 * estimated.at(100).peak


def test_the_largest_batch_is_within_the_budget(estimated: Any) -> None:
    batch = estimated.max_batch("200MiB")
    assert estimated.at(batch).worst <= 200 * MIB
    assert estimated.at(batch).fits("200MiB")
    more = int(batch * 1.15)  # a little less than the sum would allow, because of the pieces
    assert estimated.at(more).worst > 200 * MIB
    assert not estimated.at(more).fits("200MiB")
    assert estimated.max_batch(Budget(200, "CPU:0", "pocket", True, "asked")) == batch
    assert estimated.max_batch(1) == 0


def test_evaluation_and_prediction_need_less(estimated: Any) -> None:
    assert estimated.prediction.peak < estimated.peak / 2
    assert estimated.evaluation.kind == "evaluation"
    assert estimated.evaluation.peak < estimated.peak / 2


def test_it_looks_like_a_table(estimated: Any) -> None:
    text = repr(estimated)
    assert "Training at batch 48" in text
    assert "activations" in text and "█" in text
    assert "Most would be saved on" in text
    assert str(estimated).endswith("at batch 48 (measured)")


def test_as_json_it_is_a_footprint(estimated: Any) -> None:
    again = Footprint.from_json(estimated.to_json())
    assert type(again) is Footprint
    assert (again.peak, again.parts, again.layers) == (estimated.peak, estimated.parts, estimated.layers)


def test_this_process_is_left_alone(observed: Any) -> None:
    _, before, after, used = observed
    assert before == after
    assert not before["optimizer"]
    assert used < MIB


@pytest.mark.chaos
def test_the_batch_asked_for_costs_no_memory() -> None:
    def most_of_children(batch: int) -> int:
        fitroom.estimate(cnn(), batch_size=batch)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss

    small = most_of_children(8)
    assert most_of_children(1_000_000) < 1.1 * small


@pytest.mark.chaos
def test_with_a_plan(estimated: Any) -> None:
    leaner = fitroom.estimate(cnn(), 1024, plan="micro_batch=8")
    assert leaner.plan == "micro_batch=8"
    assert leaner.peak < 0.5 * estimated.at(1024).peak
    assert leaner.parts.accumulators > 0


@pytest.mark.chaos
def test_with_recomputation(python: Run) -> None:
    """In a process with all threads: with one, as here, recomputation is put off, and saves nothing."""
    code = (
        "import fitroom; from tests.recompute_cases import make\n"
        "for plan in (None, 'recompute'): print(fitroom.estimate(make('residual'), 256, plan=plan).peak)"
    )
    done = python("-c", code, cwd=str(ROOT))
    plain, recomputed = map(int, done.stdout.split())
    assert recomputed < 0.9 * plain


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.chaos) for name in ("gan", "vae")])
def test_models_with_a_step_of_their_own(name: str) -> None:
    model = {"vae": own_cases.vae, "gan": own_cases.gan}[name](lambda: keras.optimizers.Adam(0.01))
    found = fitroom.estimate(model, 64, x=own_cases.ROWS)
    assert found.how == "measured"
    assert found.at(4096).peak > 3 * found.peak


class Closed(keras.Model):
    """Cannot be built again: who knows what `make` makes?"""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.inner = make()

    def call(self, x: Any, training: bool = False) -> Any:
        return self.inner(x, training=training)


def test_a_model_that_cannot_be_built_again_is_traced(estimated: Any) -> None:
    plain = cnn()
    model = Closed(lambda: plain)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = np.zeros((2, 32, 32, 3), np.float32), np.zeros(2, int)
    found = fitroom.estimate(model, 800, x=x, y=y)
    assert found.how == "traced"
    assert "cannot be" in found.notes[-1]
    assert found.band > estimated.band
    assert found.peak == pytest.approx(estimated.at(800).peak, rel=found.band)
    assert not model.optimizer.built
    with pytest.raises(UsageError, match="cannot be measured"):
        fitroom.estimate(model, 48, x=x, y=y, plan="micro_batch=2")


def two_of_each() -> Any:
    """Two inputs, two outputs, in half precision with an optimizer around the optimizer."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        first, second = keras.Input((256,)), keras.Input((64,))
        both = kl.Dense(1024)(kl.Concatenate()([first, second]))
        model = keras.Model([first, second], [kl.Dense(3, dtype="float32")(both), kl.Dense(2, dtype="float32")(both)])
        model.compile("adam", ["mse", "mse"])
    finally:
        keras.config.set_dtype_policy("float32")
    return model


def test_several_inputs_and_outputs_and_a_wrapped_optimizer() -> None:
    model = two_of_each()
    found = fitroom.estimate(model, 64)
    assert found.how == "measured"
    assert found.parts.weights == pytest.approx(4 * model.count_params(), rel=0.01)
    assert found.parts.optimizer == pytest.approx(8 * model.count_params(), rel=0.01)


class Sized(keras.Model):
    """Does not say what it was made with."""

    def __init__(self, units: int = 4) -> None:
        super().__init__()
        self.dense = kl.Dense(units)

    def call(self, x: Any) -> Any:
        return self.dense(x)


def sized() -> Any:
    model = Sized(512)
    model.compile("sgd", "mse")
    return model


def of_one_size() -> Any:
    model = keras.Sequential([keras.Input(batch_shape=(4, 5, 3)), kl.LSTM(4, stateful=True), kl.Dense(1)])
    model.compile("sgd", "mse")
    return model


def sequences() -> Any:
    model = keras.Sequential([keras.Input((None, 8)), kl.LSTM(16), kl.Dense(1)])
    model.compile("sgd", "mse")
    return model


def test_the_longest_sequence_counts() -> None:
    ragged = tf.ragged.constant([[[0.0] * 8] * length for length in (3, 90, 5)], ragged_rank=1)
    found = fitroom.estimate(sequences(), 64, x=ragged)
    assert "(90, 8), the largest in the data" in found.notes[0]
    assert found.peak > 64 * 90 * 4 * 16 * 4  # four gates in each of ninety turns


def uncompiled() -> Any:
    return keras.Sequential([keras.Input((4,)), kl.Dense(1)])


def unbuilt() -> Any:
    model = keras.Sequential([kl.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: fitroom.estimate(uncompiled(), 8), "not compiled.*Try: model.compile"),
        (lambda: fitroom.estimate(unbuilt(), 8), "does not tell its inputs.*Try: .*x=some_samples"),
        (lambda: fitroom.estimate(sequences(), 8), "leaves an axis of its input open.*Try: .*x=some_samples"),
        (lambda: fitroom.estimate(sized(), 8, x=np.zeros((1, 3))), "not built.*does not say what it was made with"),
        (lambda: fitroom.estimate(of_one_size(), 8), "batches of one size only"),
        (lambda: fitroom.estimate(sequences(), 0), "at least one sample. Received: 0"),
        (lambda: fitroom.estimate(sequences(), -4), "at least one sample. Received: -4"),
        (lambda: fitroom.estimate(sequences(), 2.5), "at least one sample. Received: 2.5"),
        (lambda: fitroom.estimate("model.keras", 8), "takes a Keras model. Received: str"),
        (lambda: fitroom.estimate(sequences(), 8, x=np.zeros((0, 3, 8))), "cannot read x"),
        (lambda: fitroom.estimate(sequences(), 8, plan="magic"), "Cannot read this plan"),
        (lambda: fitroom.estimate(cnn(), 8, x=np.zeros((2, 5), np.float32)), "does not run on these samples"),
    ],
)
def test_mistakes_get_an_answer(call: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call()


def test_classes_and_functions_of_a_script_are_measured(python: Run, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import keras, fitroom\n"
        "class Twice(keras.layers.Layer):\n"
        "    def call(self, x):\n"
        "        print('not an answer')\n"
        "        return 2 * x\n"
        "def loss(y, given):\n"
        "    return keras.ops.mean((y - given) ** 2)\n"
        "model = keras.Sequential([keras.Input((4,)), Twice(), keras.layers.Dense(8, activation=keras.ops.sin)])\n"
        "model.compile('adam', loss)\n"
        "print(fitroom.estimate(model, 32).how)\n"
    )
    assert python(str(script)).stdout.splitlines()[-1] == "measured"


def test_a_budget_of_a_gibibyte(estimated: Any) -> None:
    found = estimated.at(estimated.max_batch("1GiB"))
    assert found.peak <= 0.98 * GIB
    assert found.fits("1GiB")


def test_a_model_that_has_been_trained_and_has_lambdas_can_be_built_again() -> None:
    tokens = keras.Input((6,))
    doubled = keras.layers.Lambda(lambda x: tf.concat([x, keras.ops.negative(x)], axis=-1))(tokens)
    model = keras.Model(tokens, keras.layers.Dense(2)(doubled))
    model.compile("sgd", "mse")
    x, y = np.ones((4, 6), np.float32), np.ones((4, 2), np.float32)
    model.fit(x, y, verbose=0)  # leaves functions on the model
    model.predict(x, verbose=0)
    again = shipping.unpack(shipping.opened(shipping.pack(model)))
    shipping.check(again, shipping.opened(shipping.pack(model)))
    assert again(x).shape == (4, 2)
