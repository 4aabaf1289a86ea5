"""What is out of memory, what only looks like it, and what else runs out. Messages are as the runtimes word them."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from fitroom import oom
from fitroom.core import Resource
from fitroom.devices import pocket
from fitroom.oom import from_exception, from_exit, from_text
from tests.conftest import ROOT

GPU, HOST, TPU = Resource.GPU_MEMORY, Resource.HOST_MEMORY, Resource.TPU_MEMORY
ON_GPU = "on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
ON_CPU = "on /job:localhost/replica:0/task:0/device:CPU:0 by allocator mklcpu"

TEXTS = [
    (f"OOM when allocating tensor with shape[64,112,112,64] and type float {ON_GPU}", GPU, 64 * 112 * 112 * 64 * 4),
    (f"OOM when allocating tensor with shape[8,2] and type double {ON_CPU} [Op:AddV2]", HOST, 8 * 2 * 8),
    ("{{function_node __wrapped__Sigmoid_device_/job:localhost/replica:0/task:0/device:GPU:0}} "
     "failed to allocate memory [Op:Sigmoid] name:", GPU, None),
    ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 86.89GiB.", GPU, 93297427087),
    ("Out of memory while trying to allocate 127001552000 bytes.", GPU, 127001552000),
    ("Failed to allocate request for 48.00GiB (51543802528B) on device ordinal 0", GPU, 51543802528),
    ("Failed copying input tensor from /job:localhost/replica:0/task:0/device:CPU:0 to "
     "/job:localhost/replica:0/task:0/device:GPU:0 in order to run Equal: Dst tensor is not initialized.", GPU, None),
    ("Allocator (GPU_0_bfc) ran out of memory trying to allocate 120.12MiB (rounded to 125960192)", GPU, 125960192),
    ("Allocator (gpu_host_bfc) ran out of memory trying to allocate 2.00GiB", HOST, 2 * 1024**3),
    ("CUBLAS_STATUS_ALLOC_FAILED", GPU, None),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 146.00 MiB. GPU 0 has", GPU, 146 * 1024**2),
    ("Ran out of memory in memory space hbm. Used 31.28G of 31.25G hbm.", TPU, None),
    ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.50 GiB for an array with shape (9, 5)", HOST,
     3 * 1024**3 // 2),
    ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", HOST, None),
    ("Out of memory: Killed process 4242 (python) total-vm:90000kB", HOST, None),
    ("[  12.3] Memory cgroup out of memory: Killed process 7 (python3)", HOST, None),
    ("Your notebook tried to allocate more memory than is available. It has restarted.", HOST, None),
    ("OSError: [Errno 12] Cannot allocate memory", HOST, None),
    ("cudnn_ops_infer64_8.dll. Error code 1455", HOST, None),
    ("RESOURCE_EXHAUSTED:  /data/cache.tempstate; No space left on device\nHint: If you want to see a list of "
     "allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions", Resource.DISK, None),
    ("ResourceExhaustedError: /data/x.tfrecord; Too many open files", Resource.FILE_DESCRIPTORS, None),
    ("8 RESOURCE_EXHAUSTED: Received message larger than max (10485832 vs 4194304)", Resource.MESSAGE_SIZE, None),
    ("ValueError: Cannot create a tensor proto whose content is larger than 2GB.", Resource.PROTO_2GB, None),
    ("EigenAllocator for GPU ran out of memory when allocating 0. See error logs", GPU, None),
    ("Limit:                 10198757376\nInUse:                 10029289984", GPU, None),
    (f"OM when allocating tensor with shape[100,256,28,28] and type float {ON_GPU}", GPU, 100 * 256 * 28 * 28 * 4),
    ('the process keeps ending with "Killed".', HOST, None),
    ("The RAM usage keeps on increasing till it is full and gets killed.", HOST, None),
    ("The node was low on resource: memory.", HOST, None),
    ("two jobs were killed by OOM after two hours", HOST, None),
    ("Failed copying input tensor from /job:localhost/replica:0/task:0/device:CPU:0 to "
     "/job:localhost/replica:0/task:0/device:GPU:0 in order to run _Ea", GPU, None),
    ("[enforce fail at CPUAllocator.cpp:56] posix_memalign(&data, gAlignment, nbytes) == 0. 12 vs 0", HOST, None),
    ("ResourceExhaustedError: ./model/model-49.tempstate5787507096018461664", Resource.DISK, None),
    ("OSError: [Errno 122] Disk quota exceeded", Resource.DISK, None),
    ("Cannot allocate buffer larger than kint32max for StringOutputStream", Resource.PROTO_2GB, None),
]  # fmt: skip

DECOYS = [
    "",
    "Epoch 1/5\n32/32 - 1s - loss: 0.3",
    "Allocation of 1866204960 exceeds 10% of free system memory.",
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 546.16MiB with freed_by_count=0. The caller indicates "
    "that this is not a failure, but may mean that there could be performance gains if more memory were available.",
    "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.5GiB with freed_by_count=0. The caller\n indicates "
    "that this is\n not a failure, but this may",
    "Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom",
    "If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will",
    "Filling up shuffle buffer (this may take a while): 1034 of 10000",
    "failed to allocate 10.09G (10830902272 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY\n968/968 [====] - 15s",
    "Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED\nPossibly insufficient driver version: 535.288.1",
    "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0.\nFailed to get convolution algorithm. "
    "This is probably because cuDNN failed to initialize, so try looking",
    "could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED\ndriver version file contents\npossibly insufficient "
    "driver version: 384.69.0\ncould not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED",
    "RESOURCE_EXHAUSTED: Quota exceeded for quota metric 'Read requests'",
    "InvalidArgumentError: Matrix size-incompatible: In[0]: [1,458752], In[1]: [72,2048]",
    "exit code 1",
]


@pytest.mark.parametrize(("text", "resource", "wanted"), TEXTS, ids=[text[:40] for text, _, _ in TEXTS])
def test_exhaustion_is_recognised_in_text(text: str, resource: Resource, wanted: int | None) -> None:
    found = from_text(f"Epoch 1/3\n12:00:01 I something: {text}\nmore")
    assert found is not None
    assert found.resource is resource
    assert found.evidence in f"12:00:01 I something: {text}"
    if wanted:
        assert found.wanted_bytes == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("text", DECOYS, ids=[text[:40] or "nothing" for text in DECOYS])
def test_a_decoy_is_not_recognised(text: str) -> None:
    assert from_text(text) is None
    assert from_exit(1, text) is None


def test_the_first_certain_sign_comes_before_a_likely_one() -> None:
    text = f"Killed\nDst tensor is not initialized\nOOM when allocating tensor with shape[2] and type float {ON_GPU}"
    found = from_text(text)
    assert found is not None
    assert found.face == "dst-tensor-not-initialized"


@given(st.text(max_size=400))
def test_any_text_is_answered(text: str) -> None:
    from_text(text)


def test_a_long_line_takes_linear_time() -> None:
    # A quadratic pattern would need hours for this.
    assert from_text("ran out of memory trying " * 200_000) is None
    assert from_text("a" * 5_000_000) is None


# --- exceptions: the real thing wherever the pocket device can -----------------------------------------------------


def test_a_real_out_of_memory_error_is_recognised() -> None:
    with pocket.ballast("20MiB"), pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        tf.zeros([32 << 18])
    found = from_exception(caught.value)
    assert found is not None
    assert found.is_memory
    assert found.certain
    assert found.wanted_bytes == 32 << 20
    assert found.device == "/job:localhost/replica:0/task:0/device:CPU:0"


def test_a_real_memory_error_inside_a_graph_is_recognised() -> None:
    def fail(x: np.ndarray) -> np.ndarray:
        raise MemoryError("no room")

    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        tf.function(lambda x: tf.numpy_function(fail, [x], tf.float32))(tf.zeros([2]))
    found = from_exception(caught.value)
    assert found is not None
    assert found.is_memory


def test_a_real_numpy_array_that_is_too_large_is_recognised() -> None:
    with pytest.raises(MemoryError) as caught:
        np.zeros((1 << 60,), np.uint8)
    found = from_exception(caught.value)
    assert found is not None
    assert found.resource is HOST
    assert found.wanted_bytes == 1 << 60


def test_a_real_full_disk_is_a_disk() -> None:
    with pytest.raises(OSError) as caught, Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")
    found = from_exception(caught.value)
    assert found is not None
    assert found.resource is Resource.DISK
    assert not found.is_memory


def test_tensorflow_on_a_full_disk_is_a_disk() -> None:
    with pytest.raises(tf.errors.OpError) as caught, tf.io.TFRecordWriter("/dev/full") as writer:
        writer.write(b"x" * 10_000_000)
    found = from_exception(caught.value)
    assert found is not None
    assert found.resource is Resource.DISK


def test_a_real_two_gigabyte_constant_is_a_protocol_buffer() -> None:
    with pytest.raises(ValueError, match="2GB") as caught, tf.Graph().as_default():
        tf.constant(np.broadcast_to(np.float32(1), (1 << 29,)))
    found = from_exception(caught.value)
    assert found is not None
    assert found.resource is Resource.PROTO_2GB


@pytest.mark.parametrize(
    ("error", "resource"),
    [
        (OSError(errno.EMFILE, "Too many open files"), Resource.FILE_DESCRIPTORS),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), HOST),
        (MemoryError(), HOST),
        (tf.errors.InternalError(None, None, "Dst tensor is not initialized."), GPU),
        (tf.errors.InvalidArgumentError(None, None, "Cannot parse tensor from proto: dtype: DT_FLOAT"), GPU),
        (tf.errors.ResourceExhaustedError(None, None, "in words that nobody knows"), HOST),
        (tf.errors.ResourceExhaustedError(None, None, "/d/cache; No space left on device"), Resource.DISK),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), GPU),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_faces_that_exceptions_have(error: Exception, resource: Resource) -> None:
    found = from_exception(error)
    assert found is not None
    assert found.resource is resource


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        ValueError("could not read the log: it says MemoryError"),
        RuntimeError("Killed"),
        OSError(errno.ENOENT, "No such file"),
        tf.errors.InvalidArgumentError(None, None, "Matrix size-incompatible"),
        tf.errors.ResourceExhaustedError(None, None, "Quota exceeded for requests per minute"),
        KeyError("out of memory"),
    ],
    ids=lambda value: f"{type(value).__name__} {value}"[:40],
)
def test_other_exceptions_are_not_exhaustion(error: BaseException) -> None:
    assert from_exception(error) is None


def test_an_error_raised_from_an_out_of_memory_error_is_one() -> None:
    outer = RuntimeError("the training failed")
    outer.__cause__ = MemoryError("no room")
    assert from_exception(outer) is not None


def test_a_circle_of_causes_ends() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    assert from_exception(one) is None


# --- exit codes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [137, -9])
def test_a_kill_is_a_suspicion_until_the_kernel_confirms_it(code: int) -> None:
    suspected, confirmed = from_exit(code), from_exit(code, memory_kills=1)
    assert suspected is not None
    assert not suspected.certain
    assert confirmed is not None
    assert confirmed.certain


@pytest.mark.parametrize("code", [134, -6])
def test_an_abort_is_exhaustion_only_if_its_text_says_so(code: int) -> None:
    assert from_exit(code, "Fatal Python error: Aborted") is None
    found = from_exit(code, "terminate called after throwing an instance of 'std::bad_alloc'")
    assert found is not None
    assert found.resource is HOST


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130, 139, -11])
def test_other_exits_are_not_exhaustion(code: int) -> None:
    assert from_exit(code) is None


def test_a_clean_exit_is_never_exhaustion() -> None:
    assert from_exit(0, "std::bad_alloc") is None


# --- logs that people posted, where they are at hand ----------------------------------------------------------------

POSTED = sorted(path for folder in ROOT.parent.glob("*/oom-logs") for path in folder.glob("*.json"))


@pytest.mark.skipif(not POSTED, reason="the collection of posted logs is not part of the project")
def test_posted_logs_are_told_rightly() -> None:
    cases = [json.loads(path.read_text()) for path in POSTED]
    told = [case for case in cases if case["truth"].get("resource_in_log") is not False]
    wrong = []
    for case in told:
        found = from_text(case["log"])
        if (found.resource.value if found else "not_exhaustion") != case["truth"]["resource"]:
            wrong.append(case["id"])
    assert len(wrong) <= 0.03 * len(told), wrong
    decoys = {case["id"] for case in told if not case["truth"]["resource"].endswith("_memory")}
    assert not decoys & set(wrong)


def test_every_face_is_found_by_its_own_page() -> None:
    assert {page.code for page in oom.PAGES} == {face.code for face in oom.FACES}
