"""Trainings on several devices: which one ran out, and what a strategy has to do with it."""

# ruff: noqa: E501  (the lines of logs are long)

from __future__ import annotations

import pytest

import fitroom
from fitroom.core import Cause, Diagnosis
from fitroom.diagnosers import dump
from fitroom.units import GIB, MIB

JOB = "/job:localhost/replica:0/task:0/device:"
TWO = f"INFO:tensorflow:Using MirroredStrategy with devices ('{JOB}GPU:0', '{JOB}GPU:1')\n"
TURNED = f"INFO:tensorflow:Using MirroredStrategy with devices ('{JOB}GPU:3', '{JOB}GPU:1')\n"


def oom(shape: str, number: int = 0, node: str = "") -> str:
    where = f"on {JOB}GPU:{number} by allocator GPU_{number}_bfc"
    names = f"\n\t [[{{{{node {node}}}}}]]" if node else ""
    return f"ResourceExhaustedError: OOM when allocating tensor with shape[{shape}] and type float {where}{names}\n"


IMAGES = "64,112,112,64"


# --- which device ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "replica", "words"),
    [
        (oom(IMAGES, 1, "replica_1/model/conv/Relu"), 1, " on GPU:1, the second replica"),
        (oom(IMAGES, 1, "gradient_tape/replica_1/model/conv/ReluGrad"), 1, " on GPU:1, the second replica"),
        (oom(IMAGES, 1, "StatefulPartitionedCall/replica_1/model/conv/Relu"), 1, " on GPU:1, the second replica"),
        (TWO + oom(IMAGES, 1), 1, " on GPU:1, the second replica"),
        (TWO + "Epoch 1/9\n" * 5000 + oom(IMAGES, 1), 1, " on GPU:1, the second replica"),
        (TWO + oom(IMAGES, 0, "model/conv/Relu"), 0, " on GPU:0, the first replica"),
        (TURNED + oom(IMAGES, 1), 1, " on GPU:1, the second replica"),
        (TURNED + oom(IMAGES, 3), 0, " on GPU:3, the first replica"),
        ("Number of devices: 4\n" + oom(IMAGES, 2), 2, " on GPU:2, the third replica"),
        (oom(IMAGES, 9, "replica_9/model/conv/Relu"), 9, " on GPU:9, the 10th replica"),
        (oom(IMAGES, 0, "model/conv/Relu") + "[[{{node replica_1/model/conv/Relu}}]]", 0, " on GPU:0, the first replica"),
        ("W bfc_allocator.cc:1] Allocator (GPU_1_bfc) ran out of memory trying to allocate 2.00GiB (rounded to 2147483648)"
         "requested by op replica_1/model/conv/Relu\n", 1, " on GPU:1, the second replica"),
        # Nothing tells of replicas.
        (oom(IMAGES, 0, "model/conv/Relu"), None, ""),
        (oom(IMAGES, 2, "model/conv/Relu"), None, " on GPU:2"),
        (TWO + oom(IMAGES, 3), None, " on GPU:3"),
        ("Number of devices: 1\n" + oom(IMAGES, 0), None, ""),
        (oom(IMAGES, 0, "my_replica_1/model/conv/Relu"), None, ""),
    ],
)  # fmt: skip
def test_the_device_and_its_replica_are_named(log: str, replica: int | None, words: str) -> None:
    found = fitroom.diagnose(log)
    assert found.replica == replica
    assert repr(found).startswith(f"The GPU's memory ran out{words}\n")
    assert str(found).startswith(f"The GPU's memory ran out{words}: ")


def test_an_allocators_name_tells_the_device() -> None:
    words = (
        "Allocator (GPU_3_bfc) ran out of memory trying to allocate 2.00GiB (rounded to 2147483648)requested by op Add"
    )
    assert fitroom.diagnose(words).device == "GPU:3"
    assert fitroom.diagnose(words.replace("GPU_3_bfc", "cuda_host_bfc")).device is None


# --- uneven use -----------------------------------------------------------------------------------------------------


def smi(*used: int, processes: tuple[tuple[int, int], ...] = ()) -> str:
    """What nvidia-smi prints for cards of 11178 MiB, with processes as (card, MiB)."""
    lines = ["+-----------------------------------------------------------------------------+"]
    for number, one in enumerate(used):
        lines.append(
            f"|   {number}  GeForce GTX 108...  Off  | 00000000:0{number + 1}:00.0 Off |                  N/A |"
        )
        lines.append(f"| 30%   45C    P2    60W / 250W |  {one:>5}MiB / 11178MiB |     98%      Default |")
    lines += [
        f"|    {card}   N/A  N/A   {100 + n}      C   python    {size}MiB |" for n, (card, size) in enumerate(processes)
    ]
    return "\n".join([*lines, ""])


def account(number: int, in_use: int) -> str:
    return (
        f"Allocator (GPU_{number}_bfc) ran out of memory trying to allocate 2.00GiB (rounded to 2147483648)requested by "
        f"op Add\nStats:\nLimit:  {8 * GIB}\nInUse:  {in_use}\nMaxInUse:  {in_use}\n"
    )


GPUSTAT = "[0] GeForce GTX 1080 | 71'C,  98 % | 10989 / 11178 MB | me:python/12(10989M)\n[1] GeForce GTX 1080 | 30'C,   0 % |   157 / 11178 MB |\n"
UNEVEN = {
    "nvidia-smi": TWO + smi(10989, 157) + oom(IMAGES),
    "its own process": TWO + smi(10989, 157, processes=((0, 10980), (1, 150))) + oom(IMAGES),
    "csv": TWO
    + "index, memory.used [MiB], memory.total [MiB]\n0, 10989 MiB, 11178 MiB\n1, 157 MiB, 11178 MiB\n"
    + oom(IMAGES),
    "gpustat": TWO + GPUSTAT + oom(IMAGES),
    "allocators": TWO + account(1, 512 * MIB) + account(0, 8 * GIB - 9) + oom(IMAGES),
    "a strategy in the source": "with strategy.scope():\n" + smi(157, 157, 10989) + oom(IMAGES, 2),
    "words": TWO + "only GPU 0 is used, the other GPU is nearly empty\n" + oom(IMAGES),
    "words of four": TWO + "the other three GPUs are sitting idle; the remaining GPUs are idle\n" + oom(IMAGES),
}


@pytest.mark.parametrize("log", UNEVEN.values(), ids=UNEVEN)
def test_a_card_that_is_full_beside_empty_ones_is_told(log: str) -> None:
    found = fitroom.diagnose(log)
    assert found.cause is Cause.UNEVEN_DEVICES, found
    assert "strategy.scope()" in found.advice[0].code


def test_how_full_each_is_is_told() -> None:
    assert (
        fitroom.diagnose(UNEVEN["nvidia-smi"]).why[0]
        == "GPU:0 had 10.7 GiB of 10.9 GiB in use, GPU:1 157 MiB of 10.9 GiB"
    )


def test_an_account_belongs_to_the_allocator_above_it() -> None:
    found = dump.accounts("Allocator (GPU_1_bfc) ran out of memory trying to allocate 2.00GiB\n" + account(0, 3 * GIB))
    assert {number: one.in_use for number, one in found.items()} == {0: 3 * GIB}


EVEN = {
    "both are full": TWO + smi(10989, 10970) + oom(IMAGES),
    "one is half full": TWO + smi(10989, 6000) + oom(IMAGES),
    "the empty one failed": TWO + smi(10989, 157) + oom(IMAGES, 1),
    "no strategy, one card is meant": smi(10989, 157) + oom(IMAGES),
    "one card": TWO + smi(10989) + oom(IMAGES),
    "both allocators are full": TWO + account(1, 8 * GIB - 9) + account(0, 8 * GIB - 9) + oom(IMAGES),
    "words without a strategy": "the other GPU is idle\n" + oom(IMAGES),
}


@pytest.mark.parametrize("log", EVEN.values(), ids=EVEN)
def test_cards_that_are_as_full_as_is_meant_are_not_blamed(log: str) -> None:
    assert fitroom.diagnose(log).cause is Cause.BATCH_OR_ACTIVATIONS


def test_another_process_on_the_full_card_is_blamed() -> None:
    log = TWO + smi(10989, 157, processes=((0, 7000), (0, 3980))) + oom(IMAGES)
    assert fitroom.diagnose(log).cause is Cause.OTHER_PROCESS


def created(number: int, mib: int, name: str = "Tesla T4") -> str:
    return f"Created device {JOB}GPU:{number} with {mib} MB memory:  -> device: {number}, name: {name}, pci bus id: 0\n"


def test_little_of_a_card_whose_twin_was_free_is_another_process() -> None:
    log = created(0, 14000) + created(1, 5000)
    found = fitroom.diagnose(log + oom(IMAGES, 1))
    assert found.cause is Cause.OTHER_PROCESS
    assert "4.9 GiB of this card, and 13.7 GiB of GPU:0" in found.why[0]
    assert fitroom.diagnose(log + oom(IMAGES, 0)).cause is Cause.BATCH_OR_ACTIVATIONS
    other = created(0, 14000) + created(1, 5000, "GeForce GTX 1060")
    assert fitroom.diagnose(other + oom(IMAGES, 1)).cause is Cause.BATCH_OR_ACTIVATIONS


def test_of_several_cards_the_one_that_failed_counts() -> None:
    log = created(0, 14000) + created(1, 300, "GeForce GT 710") + oom(IMAGES, 1)
    assert fitroom.diagnose(log).cause is Cause.OTHER_PROCESS


# --- the whole batch for each ---------------------------------------------------------------------------------------

ON_BATCH = '  File "train.py", line 9, in <module>\n    loss = model.train_on_batch(x, y)\n'
SECOND = "replica_1/model/conv/Relu"
MULTIPLIED = "BATCH_SIZE = 64\nglobal_batch = BATCH_SIZE * strategy.num_replicas_in_sync\n"
WHOLE = {
    "train_on_batch": ON_BATCH + oom(IMAGES, 1, SECOND),
    "train_on_batch, by the strategy's line": TWO + ON_BATCH + oom("512,128,8"),
    "predict_on_batch": TWO + "trainer.py, line 3, in predict_on_batch\n" + oom(IMAGES),
    "the global batch": TWO + "Global batch size: 64\n" + oom(IMAGES, 1),
    "a constant of the source": "GLOBAL_BATCH_SIZE = 64\n" + oom(IMAGES, 1, SECOND),
    "the product": TWO + MULTIPLIED + oom("128,112,112,64"),
}
SHARED = {
    "train_on_batch on one device": ON_BATCH + oom(IMAGES),
    "fit": TWO + "    model.fit(x, y, batch_size=128)\n" + oom(IMAGES, 1),
    "a share of the global batch": TWO + "Global batch size: 128\n" + oom(IMAGES, 1),
    "a global batch on one device": "Number of devices: 1\nGlobal batch size: 64\n" + oom(IMAGES),
    "multiplied, and shared out": TWO + MULTIPLIED + oom(IMAGES),
    "twice the batch, of something else": TWO + "BATCH_SIZE = 64\n" + oom("128,112,112,64"),
    "a kernel": TWO + "Global batch size: 3\n" + oom("3,3,512,512", 1, "replica_1/model/conv/Conv2D"),
}


@pytest.mark.parametrize("log", WHOLE.values(), ids=WHOLE)
def test_a_replica_that_gets_the_whole_batch_is_told(log: str) -> None:
    assert fitroom.diagnose(log).cause is Cause.WHOLE_BATCH_PER_REPLICA


@pytest.mark.parametrize("log", SHARED.values(), ids=SHARED)
def test_a_share_is_not_taken_for_the_whole(log: str) -> None:
    assert fitroom.diagnose(log).cause is not Cause.WHOLE_BATCH_PER_REPLICA


def test_what_each_should_get_is_told() -> None:
    found = fitroom.diagnose(WHOLE["the global batch"])
    assert found.why[0] == "the tensor of one replica begins with 64, the global batch instead of 32"
    assert found.advice[0].effect == "32 samples on each of 2 replicas instead of 64"
    assert "model.fit(" in fitroom.diagnose(WHOLE["train_on_batch"]).advice[0].code
    assert "model.predict(" in fitroom.diagnose(WHOLE["predict_on_batch"]).advice[0].code


# --- a loop over the data inside of a function ----------------------------------------------------------------------

EPOCH = "[Op:__inference_train_epoch_988]"
IN_LOOP = {
    "the second replica": (oom("524288,32", 1, "while/body/_10/while/replica_1/sequential_1/dense_1/MatMul") + EPOCH, True),
    "a loop that is called": (oom("524288,32", 1, "while/replica_1/sequential_1/dense_1/MatMul") + EPOCH, True),
    "the first replica": (oom("524288,32", 0, "while/body/_10/while/sequential_1/dense_1/MatMul") + EPOCH, True),
    "both": (
        oom("524288,32", 0, "while/body/_10/while/sequential_1/dense/MatMul")
        + "[[{{node while/body/_10/while/replica_1/sequential_1/dense/MatMul}}]] [Op:__inference_train_988]",
        True,
    ),
    "steps_per_execution": (
        oom("524288,32", 1, "while/body/_10/while/cond/then/_280/while/cond/StatefulPartitionedCall/replica_1/sequential_1/dense_1/MatMul")
        + "[Op:__inference_multi_step_on_iterator_5]",
        False,
    ),
    "a recurrent layer": (oom("524288,32", 1, "replica_1/sequential_1/lstm/while/body/_5/while/MatMul") + EPOCH, False),
    "one step": (oom("524288,32", 1, "replica_1/sequential_1/dense_1/MatMul") + "[Op:__inference_train_step_988]", False),
    "a recurrent layer, called": (oom("524288,32", 1, "replica_1/sequential_1/lstm/while/MatMul") + EPOCH, False),
    "a loop over words": (TWO + oom("524288,32", 0, "while/body/_1/while/decoder/MatMul") + "[Op:__inference_step_9]", False),
}  # fmt: skip


@pytest.mark.parametrize(("log", "is_loop"), IN_LOOP.values(), ids=IN_LOOP)
def test_a_loop_over_the_data_in_a_function_is_told(log: str, is_loop: bool) -> None:
    found = fitroom.diagnose(log)
    assert found.cause is Cause.BATCH_OR_ACTIVATIONS
    assert ("Take the loop over the data out of" in found.advice[0].what) == is_loop
    assert any("in a loop over the data" in one for one in found.why) == is_loop


# --- a constant that found no room ----------------------------------------------------------------------------------


def test_a_constant_that_finds_no_room_on_a_replica_is_the_step() -> None:
    words = (
        "InvalidArgumentError: Graph execution error:\n\nCannot parse tensor from proto: dtype: DT_FLOAT\ntensor_shape {\n"
        "  dim {\n    size: 8388608\n  }\n}\nfloat_val: 0\n\n\t [[{{node replica_1/model/conv/zeros}}]]\n"
    )
    found = fitroom.diagnose(words)
    assert (found.ran_out, found.cause, found.replica) == (True, Cause.BATCH_OR_ACTIVATIONS, 1)
    assert any("on one replica" in one for one in found.why)
    alone = fitroom.diagnose(words.replace("replica_1/", ""))
    assert alone.confidence < found.confidence


# --- errors that memory has no part in: the words are TensorFlow 2.20's, of two logical CPUs ------------------------

MIRRORED = "<tensorflow.python.distribute.mirrored_strategy.MirroredStrategy object at 0x7fe41a1de110>"
DEFAULT = "<tensorflow.python.distribute.distribute_lib._DefaultDistributionStrategy object at 0x7fe419f7bb10>"
SCOPE = {
    "model outside": (f'RuntimeError: Need to be inside "with strategy.scope()" for {MIRRORED}', "model's variables"),
    "compile outside": (f"RuntimeError: Mixing different tf.distribute.Strategy objects: {MIRRORED} is not {DEFAULT}", "optimizer"),
    "in user code": (
        'RuntimeError: in user code:\n\n    File "p.py", line 48, in step  *\n        optimizer.apply(g)\n\n    RuntimeError: '
        f"Mixing different tf.distribute.Strategy objects: {MIRRORED} is not {DEFAULT}\n",
        "optimizer",
    ),
    "two strategies": (
        f"RuntimeError: Mixing different tf.distribute.Strategy objects: {MIRRORED} is not {MIRRORED[:-5]}2190>", "two strategies"
    ),
    "optimizer inside, model outside": (
        "ValueError: `colocate_vars_with` must only be passed a variable created in this tf.distribute.Strategy.scope(), not: "
        "<tf.Variable 'sequential_5/dense_10/kernel:0' shape=(4, 8) dtype=float32, numpy=\narray([[-0.00231642,  0.44083732]])>",
        "model's variables",
    ),
    "keras 2, slots": (
        f"ValueError: Trying to create optimizer slot variable under the scope for tf.distribute.Strategy ({DEFAULT}), which is "
        "different from the scope used for the original variable (MirroredVariable:{\n  0: <tf.Variable 'Variable:0' shape=()>\n})",
        "optimizer",
    ),
    "keras 2, variables": (
        f"ValueError: Variable (<tf.Variable 'dense/kernel:0' shape=(4, 8)>) was not created in the distribution strategy scope of "
        f"({MIRRORED}). It is most likely because some layers, model, or optimizer was being created outside",
        "model's variables",
    ),
    "keras 2, metrics": (
        f"ValueError: Metric (<Mean object>) passed to model.compile was created inside of a different distribution strategy scope "
        f"than the model. All metrics must be created in the same distribution strategy scope as the model (in this case {MIRRORED}).",
        "another scope",
    ),
}  # fmt: skip
ACROSS = (
    "InvalidArgumentError: Graph execution error:\n\nDetected at node StatefulPartitionedCall defined at (most recent call last):\n"
    f"Trying to access resource sequential_11/dense_22/kernel/replica_1/160 (defined @ core.py:43) located in device {JOB}CPU:1 from "
    f"device {JOB}CPU:0\n Cf. https://www.tensorflow.org/xla/known_issues#tfvariable_on_a_different_device\n"
)


def check_nothing_ran_out(found: Diagnosis, cause: Cause) -> None:
    assert (found.cause, found.ran_out, found.confidence) == (cause, False, 1.0)
    text = repr(found)
    assert text.startswith("Nothing ran out\n")
    for words in (cause.words[:40], "It says", "What to do", f"fitroom explain {cause.value}"):
        assert words in text


@pytest.mark.parametrize(("error", "why"), SCOPE.values(), ids=SCOPE)
def test_what_was_made_outside_the_scope_is_told(error: str, why: str) -> None:
    found = fitroom.diagnose(f"Epoch 1/2\nTraceback (most recent call last):\n{error}\n")
    check_nothing_ran_out(found, Cause.OUTSIDE_STRATEGY_SCOPE)
    assert why in found.why[0]
    name, _, message = error.partition(": ")
    raised = fitroom.diagnose({"RuntimeError": RuntimeError, "ValueError": ValueError}[name](message))
    check_nothing_ran_out(raised, Cause.OUTSIDE_STRATEGY_SCOPE)
    assert raised.why == found.why
    assert raised.evidence[0].text.startswith(f"{name}: ")


def test_an_update_without_slots_fails_without_words() -> None:
    traceback = 'Traceback (most recent call last):\n  File "optimizer.py", line 134, in {}\n    distribution.extended.update(\nAssertionError\n'
    found = fitroom.diagnose(traceback.format("_distributed_tf_update_step"))
    check_nothing_ran_out(found, Cause.OUTSIDE_STRATEGY_SCOPE)
    assert "model's variables" in found.why[0]
    assert fitroom.diagnose(traceback.format("my_update")).cause is Cause.UNKNOWN


def test_xla_on_several_devices_is_told() -> None:
    check_nothing_ran_out(fitroom.diagnose(ACROSS), Cause.XLA_OVER_REPLICAS)
    assert "jit_compile=False" in fitroom.diagnose(ACROSS).advice[0].code
    plain = ACROSS.replace("/replica_1", "")  # a variable that somebody placed by hand, on a second card
    check_nothing_ran_out(fitroom.diagnose(plain), Cause.XLA_OVER_REPLICAS)


INNOCENT = {
    "the program went on": f"{SCOPE['model outside'][0]}\ntrying without\nEpoch 1/2\n32/32 - 1s - loss: 0.3\n",
    "a comment": "# Mixing different tf.distribute.Strategy objects is an error\nstrategy = make()\n",
    "a variable on the host": ACROSS.replace("/replica_1", "").replace("CPU:0", "GPU:0"),
    "another error": "RuntimeError: Method requires being in cross-replica context, use get_replica_context().merge_call()",
    "a healthy training": TWO + "Number of devices: 2\nEpoch 1/2\n32/32 - 1s - loss: 0.3\n",
}


@pytest.mark.parametrize("log", INNOCENT.values(), ids=INNOCENT)
def test_what_is_no_misuse_is_left_alone(log: str) -> None:
    found = fitroom.diagnose(log)
    assert (found.cause, found.ran_out, found.advice) == (Cause.UNKNOWN, False, ())


def test_memory_that_ran_out_comes_before_a_misuse() -> None:
    found = fitroom.diagnose(f"{SCOPE['model outside'][0]}\n{oom(IMAGES)}")
    assert (found.ran_out, found.cause) == (True, Cause.BATCH_OR_ACTIVATIONS)
