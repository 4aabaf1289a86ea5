"""Which cause is found, by what, and what is advised: a short log for each, in the runtimes' words."""

# ruff: noqa: E501  (the lines of logs are long)

from __future__ import annotations

import pytest

import fitroom
from fitroom.core import Cause, Diagnosis, Resource
from fitroom.diagnosers import PAGES

ON_GPU = "on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
ON_CPU = "on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"


def oom(shape: str, where: str = ON_GPU, dtype: str = "float", more: str = "") -> str:
    return f"ResourceExhaustedError: OOM when allocating tensor with shape[{shape}] and type {dtype} {where} {more}"


def dump(limit: int, in_use: int, *chunks: tuple[int, int], free: int = 0, pool: int = 0, largest: int = 0) -> str:
    lines = [f"I bfc_allocator.cc:1] Free  at 7ff0 of size {free} next 1"] if free else []
    lines += [f"I bfc_allocator.cc:1] {count} Chunks of size {size} totalling x" for count, size in chunks]
    lines += ["I bfc_allocator.cc:1] Sum Total of in-use chunks: 1.0GiB"]
    lines += [f"I bfc_allocator.cc:1] total_region_allocated_bytes_: {pool} memory_limit_: {limit} "] if pool else []
    lines += ["I bfc_allocator.cc:1] Stats:", f"Limit:  {limit}", f"InUse:  {in_use}", "NumAllocs:  6000"]
    return "\n".join([*lines, f"MaxAllocSize:  {largest}" if largest else "", ""])


G = 2**30
LOGS: list[tuple[str, str]] = [
    ("batch_or_activations", oom("64,112,112,64")),
    ("batch_or_activations", oom("128,512,1024", more="[[{{node gradient_tape/model/dense/MatMul}}]]")),
    ("batch_or_activations", "Out of memory while trying to allocate 21474836999 bytes.\n\t [[{{node cluster_1/xla_run}}]]"),
    ("batch_or_activations", oom("4194304,90", more="[Op:ConcatV2]")),
    ("weights_or_optimizer_too_big", oom("200704,4096", more="\n [[node training/Adam/Variable_4/Assign (defined at x)]]")),
    ("weights_or_optimizer_too_big", oom("2,512")),
    ("weights_or_optimizer_too_big", dump(8 * G, 8 * G - 5, largest=G // 8) + oom("3,3,512,512")),
    ("weights_or_optimizer_too_big", oom("1,64,16,57", more="\n [[Node: conv1_2/Conv2D = Conv2D[T=DT_FLOAT](a, b)]]")),
    ("weights_or_optimizer_too_big", oom("3,3,512,512", more="[[node block/conv/kernel/Initializer/random_uniform]]")),
    ("single_giant_tensor", oom("398107,40,40", ON_CPU, "double")),
    ("single_giant_tensor", oom("20000,20000")),
    ("single_giant_tensor", oom("22436962,512", ON_CPU, more="[[node gradient_tape/m/dense/MatMul/MatMul]]")),
    ("single_giant_tensor", dump(40 * G, 39 * G, (2, 12 * G), (4, G // 2)) + oom("32,256,62,62")),
    ("single_giant_tensor", oom("1,96,270,480,64")),
    ("single_giant_tensor", "RESOURCE_EXHAUSTED: Out of memory while trying to\n allocate 19.59GiB. [executable_name='jit_concatenate']"),
    ("single_giant_tensor", "MemoryError: Unable to allocate 9.90 GiB for an array with shape (36446, 36446) and data type float64"),
    ("fragmentation", dump(8 * G, 5 * G, free=G // 2, pool=8 * G) + oom("64,128,128,256")),
    ("fragmentation", "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 10.00 GiB total capacity; 5.00 GiB already "
     "allocated; 0.5 GiB free; 9.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try"),
    ("other_process", "Total memory: 7.91GiB\nFree memory: 148.69MiB\n" + oom("64,112,112,64")),
    ("other_process", dump(400 * 2**20, 380 * 2**20) + oom("64,112,112,64")),
    ("other_process", "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 300 MB memory: -> device: 0\n"
     + oom("64,112,112,64")),
    ("other_process", "failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY; total memory reported: 8499691520"),
    ("other_process", "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 24.00 GiB of which 1.00 "
     "MiB is free. Process 77 has 20.00 GiB memory in use. Including non-PyTorch memory, this process has 3.2 GiB memory "
     "in use."),
    ("gpu_preallocation_or_growth", "E cuda_dnn.cc:1] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR"),
    ("gpu_preallocation_or_growth", "CUBLAS_STATUS_ALLOC_FAILED"),
    ("gpu_preallocation_or_growth", "INTERNAL: Failed to allocate 2359296 bytes for new constant"),
    ("gpu_preallocation_or_growth", "tf.config.LogicalDeviceConfiguration(memory_limit=64)\n" + oom("64,10")),
    ("gpu_preallocation_or_growth", "failed to allocate 2.2KiB (2304 bytes) from device: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out"),
    ("leak_over_iterations", "\n".join(f"Epoch {n}/50\n9/9 - 1s - loss: 0.1" for n in range(1, 8)) + "\n" + oom("32,128")),
    ("leak_over_iterations", "Trial 1\nTrial 2\nTrial 3\n" + oom("32,128,128")),
    ("leak_over_iterations", dump(G // 2, G // 2 - 9, largest=400_000) + "\nEpoch 3/9\n" + oom("32,30,30,1")),
    ("retracing", "WARNING:tensorflow:5 out of the last 5 calls to <function f> triggered tf.function retracing.\n" * 9
     + "Out of memory: Killed process 3 (python)"),
    ("host_dataset", "MemoryError: Unable to allocate 9.1 GiB for an array with shape (50000, 224, 224, 3) and data type "
     "float64"),
    ("host_dataset", oom("688,813,3", ON_CPU, more="[[{{node convert_image/Cast}}]]")),
    ("host_dataset", "Your session crashed after using all available RAM."),
    ("proto_embedded_data", "ValueError: Cannot create a tensor proto whose content is larger than 2GB."),
    ("disk_full", "ResourceExhaustedError: /tmp/cache_0.data; No space left on device\nHint: If you want to see a list of "
     "allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions"),
    ("fd_limit", "OSError: [Errno 24] Too many open files: 'x.png'"),
    ("message_limit", "8 RESOURCE_EXHAUSTED: Received message larger than max (10485832 vs 4194304)"),
    ("inference_too_large", '  File "a.py", line 3, in <module>\n    y = model.predict(x)\n' + oom("10000,28,28,32")),
    ("inference_too_large", "    acc = accuracy.eval(feed_dict={x: test.images})\n" + oom("10000,1,28,28")),
    # Rules that other people's logs taught.
    ("batch_or_activations", oom("1,64,64,256", more="\n [[Node: G_6/layer2/moments/Sub = Sub[T=DT_FLOAT](a, b)]]")),
    ("host_dataset", "    data = embed_to_vocab(data_, vocab)\n    data = np.zeros((len(data_), len(vocab)))\nMemoryError"),
    ("batch_or_activations", "Tried to allocate 60.00 MiB (GPU 0; 6.00 GiB total capacity; 4.10 GiB already allocated; 30.00 MiB "
     "free; 4.40 GiB reserved in total by PyTorch)"),
    ("batch_or_activations", oom("1024,98,98", ON_CPU, more="[[node decoder/block_5/attention/Softmax (defined at x)]]")),
    ("batch_or_activations", oom("256,256,28,28", more="[[{{node gradients/mask/conv_grad/Conv2DBackpropFilter-0-TransposeNHWCToNCHW-LayoutOptimizer}}]]")),
    ("batch_or_activations", oom("4096000,128", more="[[node encoder/layer_0/attention/Softmax (defined at x)]]")),
    ("weights_or_optimizer_too_big", "OOM when allocating tensor of shape [171164,200] and type float"),
    ("weights_or_optimizer_too_big", "    sess.run(tf.global_variables_initializer())\n" + oom("25088,4096")),
    ("weights_or_optimizer_too_big", "InternalError: Dst tensor is not initialized.\n [[Node: zeros_12 = Const[dtype=DT_FLOAT, value="
     'Tensor<type: float shape: [32768,2048] values: [0 0 0]...>, _device="/job:localhost/replica:0/task:0/gpu:0"]()]]'),
    ("single_giant_tensor", "Ran out of memory in memory space hbm. Used 41.74G of 16.00G hbm.\n  Largest program allocations in "
     "hbm:\n\n  1. Size: 32.00G\n     Shape: s32[8388608,8,4]{2,1,0}"),
    ("single_giant_tensor", "MemoryError: Unable to allocate 58.0 GiB for an array with shape (176351, 176460) and data type uint16"),
    ("single_giant_tensor", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 116813856768 bytes."),
    ("single_giant_tensor", oom("160000,64,64,1", dtype="double", more="[Op:GatherV2]")),
    ("single_giant_tensor", oom("5776,500002")),
    ("other_process", "CUDA out of memory. Tried to allocate 1.60 GiB (GPU 0; 44.00 GiB total capacity; 27.90 GiB already "
     "allocated; 500.00 MiB free; 27.93 GiB reserved in total by PyTorch)"),
    ("gpu_preallocation_or_growth", "totalMemory: 4.00GiB freeMemory: 3.63GiB\nCreated TensorFlow device (/device:GPU:0 with 1638 "
     "MB memory) -> physical GPU\n" + oom("40,64,256,256")),
    ("gpu_preallocation_or_growth", "GPU_MEMORY_FRACTION = 0.05\n" + oom("1,64,288,800")),
    ("leak_over_iterations", "OOM when allocating tensor with shape\n [[Node: sub_2518 = Sub[T=DT_FLOAT](sub_2518/x, v)]]"),
    ("leak_over_iterations", oom("3200,3072", more="[[node bert/dense/MatMul (defined at x)]]\n[Op:__inference_train_function_1394299]")),
    ("leak_over_iterations", "It fails on the 811th candidate solution:\n" + oom("1024,256")),
    ("leak_over_iterations", "epoch 55/150 loss: 0.1\nValueError: GraphDef cannot be larger than 2GB."),
    ("retracing", "6 out of the last 6 calls to <function f> triggered tf.function retracing.\nKilled\n"),
    ("host_dataset", oom("1,1080,1920,3", ON_CPU)),
    ("fragmentation", "RESOURCE_EXHAUSTED: Attempting to reserve 6.48G at the bottom of memory. That was not possible. There are "
     "6.78G free, 0B reserved, and 3.33G reservable."),
    ("weights_or_optimizer_too_big", "OP_REQUIRES failed at assign_op.h:117 : " + oom("32,64")),
    ("host_dataset", "OP_REQUIRES failed at iterator_ops.cc:867 : " + oom("32,64", ON_CPU)),
    ("disk_full", "Resource exhausted: /home/x/model.ckpt-6.tempstate9784191321997661396"),
    ("disk_full", "errors_impl.ResourceExhaustedError: disk quota exceeded [Op:SaveV2]"),
    ("message_limit", "RESOURCE_EXHAUSTED: gRPC message exceeds maximum size 4194304: 12345678"),
    ("proto_embedded_data", "libprotobuf ERROR: Cannot allocate buffer larger than kint32max for StringOutputStream"),
    ("inference_too_large", "Inferencing fails, even for one image\n" + oom("1,196,1809,1164")),
    ("inference_too_large", "feed_dict={self.x: self.test.input.images}\n" + oom("2394,64,128,128")),
    # What people write beside a log.
    ("other_process", "# two trainings on one card collide here:\n" + oom("8,64,20,20", dtype="float")),
    ("other_process", "close other notebooks first, or: Blas GEMM launch failed : a.shape=(40, 5), b.shape=(5, 19)"),
    ("gpu_preallocation_or_growth", "Blas GEMM launch failed : a.shape=(40, 5), b.shape=(5, 19)\nset_memory_growth(gpus[0], True)"),
    ("gpu_preallocation_or_growth", "keras takes nearly all of the GPU memory when it starts\n" + oom("300,128")),
    ("weights_or_optimizer_too_big", "the network is too large for my card: 'Dst tensor is not initialized'"),
    ("weights_or_optimizer_too_big", "    model.add(Embedding(vocab_size, 300, weights=[vectors]))\nMemoryError: \n"),
    ("single_giant_tensor", "fit copies the whole dataset to the GPU: Dst tensor is not initialized"),
    ("leak_over_iterations", "training one after the other leaks until 'Dst tensor is not initialized'"),
    ("leak_over_iterations", "\n".join(f"round {n}: memory {100 + 60 * n}.5MB" for n in range(5)) + "\n" + oom("9000000")),
    ("inference_too_large", "out = sess.run(logits, feed_dict={x: test_data, keep: 1.0})\n" + oom("26000,6,29,29")),
    ("leak_over_iterations", "states.append(state)  # accumulates in memory\nRESOURCE_EXHAUSTED: OOM when allocating tensor"),
    ("other_process", oom("3,3,16,32", more="[[node conv2d_1/kernel/Initializer/random_uniform (defined at x)]]")),
    ("retracing", "the RAM keeps on growing\n5 out of the last 5 calls to <function f> triggered tf.function retracing.\nKilled"),
    ("leak_over_iterations", "for _ in range(99999):\n    kept.append(torch.ones(9000, device='cuda'))\nCUDA out of memory. Tried to allocate "
     "2.00 MiB (GPU 0; 8.00 GiB total capacity; 6.88 GiB already allocated; 0 bytes free; 6.96 GiB reserved in total by PyTorch)"),
    ("leak_over_iterations", "tf.get_default_graph().finalize()  # ValueError: GraphDef cannot be larger than 2GB."),
    ("host_dataset", "tcmalloc: large alloc 5011936256 bytes == 0x5bb @ 0x7f\nKernelRestarter: restarting kernel (1/5), keep random ports"),
    ("weights_or_optimizer_too_big", "batch sizes of 8, 16 and 32 did not help:\n" + oom("16,1024")),
    ("weights_or_optimizer_too_big", "InternalError: Dst tensor is not initialized.\n [[Node: w/Adam/Initializer/Const = Const[_class="
     '["loc:@w"], dtype=DT_FLOAT, value=Tensor<type: float shape: [65536,1024] values: [0 0]...>, _device="/gpu:0"]()]]'),
    ("weights_or_optimizer_too_big", "Dst tensor is not initialized.\n [[Node: Variable_3/initial_value = Const[dtype=DT_FLOAT]()]]"),
    ("leak_over_iterations", "with each trial more and more RAM is used\nKilled\n"),
    ("gpu_preallocation_or_growth", "--allow-growth solves it: failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED"),
    # What shapes and the allocator's account tell.
    ("single_giant_tensor", "MemoryError: Unable to allocate 512. GiB for an array with shape (34359738368,) and data type complex128"),
    ("batch_or_activations", "OOM when allocating tensor with shape[734511,173]"),
    ("batch_or_activations", oom("8,2560", more="[[{{node functional_1/block6c_squeeze/Mean}}]]")),
    ("single_giant_tensor", oom("400,2,5000,5000")),
    ("fragmentation", dump(8 * G, 4 * G, (1, 2 * G + 2**29), largest=2 * G)),
    # Several devices; more in test_diagnose_replicas.py.
    ("uneven_devices", "Number of devices: 2\n0, 10989 MiB, 11178 MiB\n1, 12 MiB, 11178 MiB\n" + oom("64,112,112,64")),
    ("whole_batch_per_replica", "Number of devices: 4\nGLOBAL_BATCH_SIZE = 256\n" + oom("256,112,112,64")),
]  # fmt: skip
MISUSES = [
    ("outside_strategy_scope", "RuntimeError: Mixing different tf.distribute.Strategy objects: <a> is not <b>"),
    ("xla_over_replicas", "Trying to access resource dense/kernel/replica_1/160 (defined @ core.py:43) located in device "
     "/job:localhost/replica:0/task:0/device:GPU:1 from device /job:localhost/replica:0/task:0/device:GPU:0"),
]  # fmt: skip


@pytest.mark.parametrize(("cause", "log"), LOGS, ids=[f"{number} {cause}" for number, (cause, _) in enumerate(LOGS)])
def test_the_cause_is_found(cause: str, log: str) -> None:
    found = fitroom.diagnose(log)
    assert (found.cause.value, found.others) == (cause, ()), found
    assert found.why
    assert found.advice
    assert found.ran_out


@pytest.mark.parametrize(("cause", "log"), MISUSES, ids=[cause for cause, _ in MISUSES])
def test_what_is_not_memory_and_known_is_told(cause: str, log: str) -> None:
    found = fitroom.diagnose(log)
    assert (found.cause.value, found.ran_out, found.others) == (cause, False, ()), found
    assert found.why
    assert found.advice


def test_every_cause_is_tried() -> None:
    assert {cause for cause, _ in LOGS + MISUSES} | {"unknown"} == {
        page.code for page in PAGES
    }  # leaks have tests of their own


def words(found: Diagnosis) -> str:
    return " ".join(f"{one.what} {one.effect} {one.code}" for one in found.advice)


def test_a_batch_that_would_fit_is_named() -> None:
    found = fitroom.diagnose(dump(8 * G, 7 * G) + oom("64,256,256,256", more="[[node gradients/a/Relu_grad/ReluGrad]]"))
    assert "batch 64 → at most 46 can fit" in words(found)
    assert str(found.remedies[0]) == "micro_batch=2"
    assert found.remedies[0].saves_bytes == 11 * G // 2


def test_a_kernel_that_is_too_large_is_named_with_its_size() -> None:
    found = fitroom.diagnose(oom("307328,3817", ON_CPU, more="\n [[node training/Adam/zeros_10 (defined at x)]]"))
    assert "307328 × 3817 is 4.4 GiB, and 17.5 GiB with its gradient and Adam's slots" in words(found)


def test_what_cannot_be_cut_is_not_advised_to_be() -> None:
    found = fitroom.diagnose(oom("1,512,512,64") + "\nbatch_size=1")
    assert "smaller batch" not in words(found)
    assert any("batch" in one for one in found.futile) or "cannot be cut" in words(found)


def test_the_hint_about_fragmentation_is_no_evidence() -> None:
    hint = (
        "If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will"
    )
    assert fitroom.diagnose(f"{hint}\n{oom('64,112,112,64')}").cause is Cause.BATCH_OR_ACTIVATIONS


def test_an_exception_is_diagnosed_by_its_class_too() -> None:
    assert fitroom.diagnose(MemoryError()).resource is Resource.HOST_MEMORY
    assert fitroom.diagnose(OSError(28, "No space left on device")).cause is Cause.DISK_FULL
    assert not fitroom.diagnose(ValueError("it says MemoryError")).ran_out
    assert not fitroom.diagnose(KeyboardInterrupt()).ran_out


def test_neither_exception_nor_text_is_refused() -> None:
    with pytest.raises(fitroom.FitroomError, match="Received: int"):
        fitroom.diagnose(3)  # type: ignore[arg-type] # a mistake on purpose


def test_a_diagnosis_reads_well() -> None:
    text = repr(fitroom.diagnose(oom("64,112,112,64", more="[[node model/conv_3/Relu (defined at x)]]")))
    assert text.startswith("The GPU's memory ran out\nThe batch, or what its samples turn into, is too large")
    for words in ("196 MiB (64 × 112 × 112 × 64 float)", "layer conv_3", "fitroom run train.py", "What will not help"):
        assert words in text
