"""Trainings that went well, and say things that look otherwise: none of them is diagnosed as having run out."""

# ruff: noqa: E501  (the lines of logs are long)

from __future__ import annotations

import pytest

import fitroom

BAR = "".join(
    f"\r{n}/100 [{'=' * (n // 4)}>{'.' * (25 - n // 4)}] - ETA: {100 - n}s - loss: {1 / (n + 1):.4f}"
    for n in range(100)
)
KERAS3 = "\n".join(
    f"Epoch {n}/5\n\x1b[1m32/32\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m2s\x1b[0m 9ms/step - loss: 0.{n}"
    for n in range(1, 6)
)
SCRATCH = (
    "2024-01-01 00:00:00.1: W bfc_allocator.cc:296] Allocator (GPU_0_bfc) ran out of memory trying to allocate {}MiB with "
    "freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could be performance "
    "gains if more memory were available.\n"
)
START = """\
2024-01-01 00:00:00.000000: I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized
2024-01-01 00:00:00.000000: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT
E0000 00:00:1700000000.000000 1 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for
E0000 00:00:1700000000.000000 1 cuda_blas.cc:1418] Unable to register cuBLAS factory: one has already been registered
Created device /job:localhost/replica:0/task:0/device:GPU:0 with 14000 MB memory:  -> device: 0, name: Tesla T4
"""
HEALTHY = {
    "keras 2 bar": f"Epoch 1/3\n{BAR}\nEpoch 2/3\n{BAR}\n",
    "keras 3 bar": KERAS3,
    "start-up": START + KERAS3,
    "scratch space": START + "".join(SCRATCH.format(n) for n in range(100, 900, 50)) + KERAS3,
    "scratch space, wrapped": SCRATCH.format(512).replace(". The", ".\n    The").replace("not a", "\nnot a") + KERAS3,
    "ten percent": "W cpu_allocator_impl.cc:82] Allocation of 1866204960 exceeds 10% of free system memory.\n" * 30 + KERAS3,
    "first piece refused": "E cuda_driver.cc:924] failed to allocate 10.09G (10830902272 bytes) from device: "
    "CUDA_ERROR_OUT_OF_MEMORY\n968/968 [==============================] - 15s 15ms/step\n",
    "first piece refused, new words": "I cuda_driver.cc:1193] failed to allocate 10.09GiB (10830902272 bytes) from device: "
    "RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory\nEpoch 1/3\n3/3 [===] - 1s - loss: 0.1\n",
    "shuffle buffer": "I shuffle_dataset_op.cc:97] Filling up shuffle buffer (this may take a while): 1034 of 10000\n"
    "I shuffle_dataset_op.cc:135] Shuffle buffer filled.\n" + KERAS3,
    "hint": "Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom\n",
    "xla": "I xla/service/service.cc:146] XLA service 0x7f initialized for platform CUDA\nI xla/stream_executor/cuda/"
    "cuda_asm_compiler.cc:393] ptxas warning : Registers are spilled to local memory in function 'loop_add', 8 bytes\n"
    "W hlo_rematerialization.cc:2946] Can't reduce memory use below 5.5GiB (5905580032 bytes) by rematerialization; only "
    "reduced to 6.1GiB\nI device_compiler.h:188] Compiled cluster using XLA!\n" + KERAS3,
    "cudnn": "I cuda_dnn.cc:424] Loaded cuDNN version 8907\nW gpu_utils.cc:60] Autotuning found a faster algorithm\n" + KERAS3,
    "driver": "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED\nPossibly insufficient driver version: 535.288\n",
    "tests": "tests/test_oom.py::test_out_of_memory_is_survived PASSED\ntests/test_oom_killer.py::test_exit_137 PASSED\n"
    "tests/unit/test_memory_error.py::test_killed_process PASSED\n=== 3 passed in 0.1s ===\n",
    "paths": "loading /data/oom/room/zoom.npy\nwriting logs/memory_exhausted_study/run1\nbloom filter: 137 of 968 rooms\n",
    "steps 137": "\n".join(f"step {n} loss: 0.3 code {n}" for n in range(130, 140)),
    "dataloader": "INFO dataloader: worker 3 allocated 120 MiB\nINFO prefetch: memory 3.1 of 12.0 GiB\nKilling idle workers\n",
    "lightgbm": "[LightGBM] [Info] Total Bins 25500\n[LightGBM] [Warning] Auto-choosing col-wise, memory is enough\n",
    "retracing": "WARNING:tensorflow:5 out of the last 5 calls to <function f> triggered tf.function retracing.\n" + KERAS3,
    "another error": 'Traceback (most recent call last):\n  File "a.py", line 3\nValueError: Input 0 of layer "dense" is '
    "incompatible with the layer: expected axis -1 to have value 72\n",
    "matrix": "InvalidArgumentError: Matrix size-incompatible: In[0]: [1,458752], In[1]: [72,2048] [Op:MatMul]\n",
    "a quota of requests": "google.api_core.exceptions.ResourceExhausted: 429 Quota exceeded for quota metric 'Read requests'",
    "memory growth": "Physical devices cannot be modified after being initialized; set_memory_growth ignored\n" + KERAS3,
    "monitor": "GPU memory: 11.2 of 12.0 GiB (93%)\nRAM: 14.1 GiB, swap: 0 B, shm: 64M\npeak memory 11.9 GiB\n" + KERAS3,
    "signals": "received SIGTERM, saving checkpoint\nexit code 143\n",
    "empty lines": "\n\n\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("log", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_log_is_no_alarm(log: str) -> None:
    found = fitroom.diagnose(log)
    assert not found.ran_out, found
    assert found.others == ()


@pytest.mark.parametrize("log", HEALTHY.values(), ids=HEALTHY)
def test_a_failure_in_it_is_found_all_the_same(log: str) -> None:
    error = "ResourceExhaustedError: OOM when allocating tensor with shape[8,32,32,3] and type float on /job:localhost/device:GPU:0"
    found = fitroom.diagnose(f"{log}\nTraceback (most recent call last):\n{error}\n")
    assert found.ran_out
    assert found.tensor_shape == (8, 32, 32, 3)
    assert found.wanted_bytes == 8 * 32 * 32 * 3 * 4


def test_there_are_twenty_of_them() -> None:
    assert len(HEALTHY) >= 20
