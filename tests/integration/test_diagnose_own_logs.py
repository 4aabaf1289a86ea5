"""Logs that trainings write here and now, on the pocket device, are diagnosed rightly from end to end."""

from __future__ import annotations

import json

import pytest

from fitroom.devices import pocket
from tests.conftest import ROOT, Run

WEIGHTS = {"weights_or_optimizer_too_big", "single_giant_tensor"}

# What runs out, which causes are right, the device's size in MiB, and what the advice has to say.
CASES = {
    "batch_or_activations": ("host_memory", {"batch_or_activations"}, 200, "batch 128 → at most"),
    "giant_dense": ("host_memory", WEIGHTS, 300, "196608 × 1024"),
    "huge_embedding": ("host_memory", WEIGHTS, 600, "slots"),
    "leak": ("host_memory", {"leak_over_iterations"}, 200, "float(loss)"),
    "fragmentation": ("host_memory", {"fragmentation"}, 256, "cuda_malloc_async"),
    "host_dataset": ("host_memory", {"host_dataset"}, 256, "float32"),
    "proto_embedded_data": ("proto_2gb", {"proto_embedded_data"}, 256, "from_generator"),
    "disk_full": ("disk", {"disk_full"}, 256, "df -h"),
    "fd_limit": ("file_descriptors", {"fd_limit"}, 256, "ulimit -n"),
    "inference_too_large": ("host_memory", {"inference_too_large"}, 256, "model.predict(x, batch_size="),
}
QUICK = ("batch_or_activations", "disk_full")  # the others wait ten seconds for memory to come free, or start slowly


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.chaos) for n in CASES])
def test_a_log_of_our_own_is_diagnosed(python: Run, fitroom: Run, name: str) -> None:
    resource, causes, mib, advice = CASES[name]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "0", **pocket.environment(f"{mib}MiB")}
    done = python(str(ROOT / "tests" / "scripts" / "running_out.py"), name, env=environment)
    assert done.returncode != 0, "it did not run out"
    told = fitroom("diagnose", "-", "--json", input=done.stdout + done.stderr)
    assert told.returncode == 1
    found = json.loads(told.stdout)
    assert found["resource"] == resource, done.stderr[-2000:]
    assert found["cause"] in causes, told.stdout
    assert advice in json.dumps(found["advice"], ensure_ascii=False)


def test_a_card_that_others_hold_is_told(fitroom: Run) -> None:
    """No GPU here: the words are TensorFlow's, of a process that came second."""
    log = (
        "I gpu_device.cc:1] Created device "
        "/job:localhost/replica:0/task:0/device:GPU:0 with 257 MB memory:  -> device: 0\n"
        "ResourceExhaustedError: OOM when allocating tensor with shape[32,64,112,112] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
    )
    assert json.loads(fitroom("diagnose", "-", "--json", input=log).stdout)["cause"] == "other_process"
