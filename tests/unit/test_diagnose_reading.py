"""What is read in messages, as the runtimes' sources word them: old and new, wrapped, quoted, escaped, cut."""

from __future__ import annotations

import pytest

import fitroom
from fitroom.core import Cause, Diagnosis, Resource
from fitroom.units import GIB, MIB

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
OOM = f"OOM when allocating tensor with shape[64,112,112,64] and type float on {GPU} by allocator GPU_0_bfc"
BYTES = 64 * 112 * 112 * 64 * 4

OLD_DUMP = """\
I tensorflow/core/common_runtime/bfc_allocator.cc:643] Bin (256): Total Chunks: 3, Chunks in use: 0 768B allocated
I tensorflow/core/common_runtime/bfc_allocator.cc:678] Chunk at 0x1303f80000 of size 1280
I tensorflow/core/common_runtime/bfc_allocator.cc:687] Free at 0x1303f8a000 of size 30000128
I tensorflow/core/common_runtime/bfc_allocator.cc:687] Free at 0x1303f8b000 of size 512
I tensorflow/core/common_runtime/bfc_allocator.cc:688] 4 Chunks of size 12845056 totalling 49.00MiB
I tensorflow/core/common_runtime/bfc_allocator.cc:692] Sum Total of in-use chunks: 1.38GiB
I tensorflow/core/common_runtime/bfc_allocator.cc:694] Stats:
Limit:                  1500000000
InUse:                  1400000000
MaxInUse:               1450000000
NumAllocs:                 2405088
MaxAllocSize:            393082624

W tensorflow/core/common_runtime/bfc_allocator.cc:270] *******************************xxxxxxxxxxxxx
W tensorflow/core/common_runtime/bfc_allocator.cc:271] Ran out of memory trying to allocate 29.91MiB.  See logs
W tensorflow/core/framework/op_kernel.cc:900] Resource exhausted: OOM when allocating tensor with shape[10000,1,28,28]
  [[Node: Conv2D = Conv2D[T=DT_FLOAT, padding="SAME", _device="/job:localhost/replica:0/task:0/gpu:0"](a, b)]]
"""
NEW_DUMP = f"""\
W0000 00:00:1794848949.807911   27041 bfc_allocator.cc:502] Allocator (GPU_0_bfc) ran out of memory trying to allocate \
196.00MiB (rounded to {BYTES})requested by op StatefulPartitionedCall/model/conv/Relu
If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve
Current allocation summary follows.
I0000 00:00:1794848949.808111   27041 bfc_allocator.cc:1105] Free  at 7ff0772ff040 of size 13631488 next 18446744073709
I0000 00:00:1794848949.808466   27041 bfc_allocator.cc:1113] 1 Chunks of size 73400320 totalling 70.00MiB
I0000 00:00:1794848949.808468   27041 bfc_allocator.cc:1117] Sum Total of in-use chunks: 7.20GiB
I0000 00:00:1794848949.808471   27041 bfc_allocator.cc:1119] Total size in pool: 7.50GiB memory_limit_: 7.50GiB \
available size: 0B curr_region_allocation_bytes_: 16.00GiB
I0000 00:00:1794848949.808474   27041 bfc_allocator.cc:1128] Stats:
Limit:                         7.50GiB
InUse:                         7.20GiB
MaxInUse:                      7.30GiB
NumAllocs:                        1892
MaxAllocSize:                 70.00MiB
LargestFreeBlock:                   0B

W0000 00:00:1794848949.808499   27041 op_kernel.cc:1858] OP_REQUIRES failed at x.h:962 : RESOURCE_EXHAUSTED: {OOM}
  [[{{{{function_node __inference_one_step_on_data_1169}}}}{{{{node model/conv/Relu}}}}]]
"""


def told(text: str, **expected: object) -> Diagnosis:
    found = fitroom.diagnose(text)
    assert {name: getattr(found, name) for name in expected} == expected
    return found


def test_the_dump_of_old_tensorflow() -> None:
    found = told(
        OLD_DUMP,
        resource=Resource.GPU_MEMORY,
        device="/job:localhost/replica:0/task:0/gpu:0",
        wanted_bytes=31360000,
        tensor_shape=(10000, 1, 28, 28),
        dtype="float",
        op="Conv2D",
        limit_bytes=1_500_000_000,
        in_use_bytes=1_400_000_000,
        largest_free_bytes=30000128,
    )
    assert found.fragmentation == pytest.approx(0.7, rel=1e-3)


def test_the_dump_in_words() -> None:
    told(
        NEW_DUMP,
        resource=Resource.GPU_MEMORY,
        device=GPU,
        allocator="GPU_0_bfc",
        wanted_bytes=BYTES,
        op="model/conv/Relu",
        layer="conv",
        limit_bytes=15 * GIB // 2,
        in_use_bytes=int(7.2 * GIB),
        largest_free_bytes=13631488,
    )


@pytest.mark.parametrize(
    "text",
    [
        OOM,
        OOM.replace(" ", "\n"),
        f"    # {OOM}",
        f"> {OOM} [Op:Conv2D]",
        f'{{"log":"2024-01-01 W op_kernel.cc:1 : {OOM}\\n\\t [[{{{{node a/b}}}}]]\\n","stream":"stderr"}}',
        f"\x1b[0;31mResourceExhaustedError\x1b[0m: {OOM}\x1b[K",
        f'      "\\u001b[0;31mResourceExhaustedError\\u001b[0m: {OOM}\\n",',
        f"<pre><span class='err'>{OOM}</span></pre>",
        f"10/20 [==>..] - ETA: 3s\r11/20 [==>..]\r{OOM}",
        f"[worker 3] [2024-01-01T00:00:00Z] ERROR root: {OOM}",
        f"{OOM}\n{OOM}\n{OOM}",
    ],
    ids=["plain", "wrapped", "comment", "quote", "docker", "colours", "notebook", "html", "bar", "prefix", "again"],
)
def test_the_same_is_read_in_whatever_wrapping(text: str) -> None:
    told(
        text,
        device=GPU,
        allocator="GPU_0_bfc",
        wanted_bytes=BYTES,
        tensor_shape=(64, 112, 112, 64),
        dtype="float",
        others=(),
    )


def test_what_powershell_writes_is_read() -> None:
    assert fitroom.diagnose(b"\xff\xfe" + f"{OOM}\r\n".encode("utf-16-le")).wanted_bytes == BYTES


@pytest.mark.parametrize(
    ("text", "op"),
    [
        (f"{OOM}\n\t [[node a/b/Conv2D (defined at x.py:3) ]]\n\t [[total_loss/_77]]", "a/b/Conv2D"),
        (f"{OOM}\n\t [[{{{{node a/b/Conv2D}}}}]]", "a/b/Conv2D"),
        (f"{OOM}\n\t [[Node: a/b/Conv2D = Conv2D[T=DT_FLOAT](c, d)]]", "a/b/Conv2D"),
        (f"{OOM}\n\t [[{{{{node loss/_9}}}} = _Recv[x]()]]\n\t [[node a/b (defined at x)]]", "a/b"),
        (
            f"Graph execution error:\n\nDetected at node 'a/b/MatMul' defined at (most recent call last):\n{OOM}",
            "a/b/MatMul",
        ),
        (f"Detected at node a/b/MatMul defined at (most recent call last):\n{OOM} [Op:__inference_f_3]", "a/b/MatMul"),
        (f"{OOM} [Op:AddV2] name: add/", "AddV2"),
        (f"{{{{function_node __wrapped__Cast_device_{GPU}}}}} failed to allocate memory [Op:Cast]", "Cast"),
        (f"Failed copying input tensor from {CPU} to {GPU} in order to run Mul: Dst tensor is not initialized.", "Mul"),
        ("RESOURCE_EXHAUSTED: failed to allocate memory\nCaused by op u'x/Relu', defined at:", "x/Relu"),
    ],
    ids=str,
)
def test_the_operation_is_named(text: str, op: str) -> None:
    told(text, op=op, resource=Resource.GPU_MEMORY)


def test_a_copy_lacks_room_at_its_end() -> None:
    copy = f"Failed copying input tensor from {CPU} to {GPU} in order to run Mul: Dst tensor is not initialized."
    told(copy, device=GPU, resource=Resource.GPU_MEMORY)


@pytest.mark.parametrize(
    ("text", "resource", "wanted", "limit"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5.00GiB.", "gpu_memory", 5 * GIB, None),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 144480 bytes.", "gpu_memory", 144480, None),
        ("Failed to allocate request for 48.00GiB (51543802528B) on device ordinal 0", "gpu_memory", 51543802528, None),
        (
            "Ran out of memory in memory space hbm. Used 20.00G of 16.00G hbm. Exceeded hbm capacity by 4.00G.",
            "tpu_memory",
            20 * GIB,
            16 * GIB,
        ),
        (
            "Allocation (size=2147) would exceed memory (size=1717) :: #a [shape = 'f32[3,4]{1,0}'",
            "tpu_memory",
            2147,
            1717,
        ),
        (
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.00 GiB total capacity; 9.00 GiB already "
            "allocated; 13.44 MiB free; 9.50 GiB reserved in total by PyTorch)",
            "gpu_memory",
            20 * MIB,
            10 * GIB,
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 146.00 MiB. GPU 0 has a total capacity of "
            "24.00 GiB of which 12.38 MiB is free. Process 12 has 20.00 GiB memory in use.",
            "gpu_memory",
            146 * MIB,
            24 * GIB,
        ),
        ("cuMemAllocAsync failed to allocate 1024 bytes", "gpu_memory", 1024, None),
        (
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.66 GiB for an array with shape (5449718, "
            "41) and data type float64",
            "host_memory",
            5449718 * 41 * 8,
            None,
        ),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 800000000 bytes. Error code 12 (Cannot allocate memory)",
            "host_memory",
            800000000,
            None,
        ),
        ("8 RESOURCE_EXHAUSTED: Received message larger than max (1000 vs. 400)", "message_size", 1000, 400),
        ("tensorflow.GraphDef exceeded maximum protobuf size of 2GB: 2295967222", "proto_2gb", 2295967222, None),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.batch.", "host_memory", None, None),
        ("./run.sh: line 3: 12345 Killed                  python train.py", "host_memory", None, None),
        ("State: Terminated\n  Reason: OOMKilled\n  Exit Code:    137", "host_memory", None, None),
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", "host_memory", None, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_others_say(text: str, resource: str, wanted: int | None, limit: int | None) -> None:
    told(text, resource=Resource(resource), wanted_bytes=wanted, limit_bytes=limit)


def test_a_process_that_is_listed_may_be_the_one_that_failed() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 518.00 MiB. GPU 0 has a total capacity of 21.67 GiB of which 4.00 MiB "
        "is free. Process 2417 has 21.65 GiB memory in use. Of the allocated memory 21.32 GiB is allocated by PyTorch, "
        "and 1018.00 KiB is reserved by PyTorch but unallocated."
    )
    assert fitroom.diagnose(text).cause is not Cause.OTHER_PROCESS


def test_memory_that_pytorch_holds_idle_is_fragmented() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 0.5 GiB is "
        "free. Including non-PyTorch memory, this process has 23.40 GiB memory in use. Of the allocated memory 15.00 "
        "GiB is allocated by PyTorch, and 7.90 GiB is reserved by PyTorch but unallocated."
    )
    assert fitroom.diagnose(text).cause is Cause.FRAGMENTATION


@pytest.mark.parametrize(
    ("node", "dtype"),
    [
        ("a = Relu[T=DT_HALF, x=1](b)", "half"),
        ("a = RandomUniform[T=DT_INT32, dtype=DT_FLOAT](b)", "float"),
        ('a = Gather[_class=["loc:@x"], dtype=DT_DOUBLE, element_shape=[?,2048]](b)', "double"),
    ],
)
def test_the_type_of_the_result_is_read_in_the_node(node: str, dtype: str) -> None:
    assert fitroom.diagnose(f"OOM when allocating tensor with shape[8,9]\n [[Node: {node}]]").dtype == dtype


def test_a_text_of_numpy_has_four_bytes_for_a_character() -> None:
    found = fitroom.diagnose("MemoryError: Unable to allocate array with shape (26577,) and data type <U1847338")
    assert (found.wanted_bytes, found.dtype) == (26577 * 1847338 * 4, "U1847338")


def test_evidence_is_the_very_lines_with_their_numbers() -> None:
    found = fitroom.diagnose(f"Epoch 1/2\n\nsomething else\n{OOM}\nbye\n")
    assert [(one.line, one.text) for one in found.evidence] == [(4, OOM)]


def test_failures_are_told_apart_and_the_first_comes_first() -> None:
    smaller = OOM.replace("64,112", "32,112")
    text = f"{OOM}\nretrying\nEpoch 1/5\n 3/9 [==>..] - loss: 0.3\n{smaller}\nOSError: No space left on device"
    found = fitroom.diagnose(text)
    assert found.tensor_shape == (64, 112, 112, 64)
    assert [other.tensor_shape for other in found.others] == [(32, 112, 112, 64), None]
    assert found.others[-1].cause is Cause.DISK_FULL


def test_the_same_failure_again_and_again_is_one_that_came_often() -> None:
    found = fitroom.diagnose(f"Epoch 1/5\nloss: 0.3\n{OOM}\n" * 5)
    assert (found.times, found.others) == (5, ())


def test_operations_that_fail_side_by_side_are_one_failure() -> None:
    prefix = "2024-01-01 W op_kernel.cc:1 OP_REQUIRES failed at a.cc:1 : RESOURCE_EXHAUSTED: "
    other = OOM.replace("64,112,112,64", "64,56,56,128")
    assert fitroom.diagnose(f"{prefix}{OOM}\n{prefix}{other}\nResourceExhaustedError: {OOM}").others == ()


def test_a_footprint_makes_the_numbers_better() -> None:
    from fitroom.core import Footprint, Parts

    footprint = Footprint(128, Parts(weights=MIB, activations=10 * GIB), how="measured", band=0.0)
    found = fitroom.diagnose(NEW_DUMP, footprint)
    assert found.cause is Cause.BATCH_OR_ACTIVATIONS
    assert "batch 128 → at most 95 can fit" in " ".join(one.effect for one in found.advice)


def test_a_copy_names_where_it_found_no_room() -> None:
    key = f"Key: {CPU};3fbc21d7a1;{GPU};edge_7_IteratorGetNext;0:0"
    said = "SameWorkerRecvDone unable to allocate output tensor."
    text = f"ResourceExhaustedError: Graph execution error:\n\n{said} {key}\n"
    told(
        f"{text}\t [[{{{{node IteratorGetNext/_4}}}}]]",
        resource=Resource.GPU_MEMORY,
        device=GPU,
        op="IteratorGetNext/_4",
    )


@pytest.mark.parametrize(
    "text",
    [
        "ResourceExhaustedError (see above for traceback): runs/a/model.ckpt-90.data-00000-of-00001.tempstate593605",
        "Resource exhausted: D:\\runs\\model.ckpt-90.tempstate593605",
    ],
)
def test_a_file_alone_is_a_full_disk(text: str) -> None:
    told(text, resource=Resource.DISK, cause=Cause.DISK_FULL)


def test_a_tpus_memories_are_told_with_what_was_wanted() -> None:
    text = "RESOURCE_EXHAUSTED: Ran out of memory in memory\n    space vmem. Used 40.00M of 32.00M."
    told(text, resource=Resource.TPU_MEMORY, wanted_bytes=40 * MIB)
    told(
        "RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 30.5G, exceeding available bytes: 16G",
        resource=Resource.TPU_MEMORY,
    )


def test_brackets_that_markdown_escapes_are_read() -> None:
    told(r"|512|OOM when allocating tensor with shape\[512,80,64\]", tensor_shape=(512, 80, 64))


def test_an_error_without_words_is_a_suspicion() -> None:
    found = told("ResourceExhaustedError: Graph execution error", resource=Resource.GPU_MEMORY)
    assert found.confidence < 0.5


def test_where_in_the_step_it_was_is_told_by_the_operation() -> None:
    for node, phase, layer in (
        ("model/conv_3/Relu", "forward", "conv_3"),
        ("gradient_tape/model/conv_3/Conv2D/Conv2DBackpropInput", "backward", "conv_3"),
        ("adam/truediv_4", "update", None),
        ("convert_image/Cast", "", None),
        ("dense/kernel/Initializer/random_uniform", "", "dense"),
    ):
        found = fitroom.diagnose(f"RESOURCE_EXHAUSTED: {OOM}\n [[{{{{node {node}}}}}]]")
        assert (found.phase, found.layer) == (phase, layer), node


def test_a_node_on_a_line_of_its_own_is_read() -> None:
    told(f"ResourceExhaustedError: {OOM}\nNode: 'model/conv_3/Conv2D'\n", op="model/conv_3/Conv2D", layer="conv_3")
