"""The faces of exhaustion: the words by which it is known, and what they mean.

Data for `fitroom.oom`, which is the only one to read it. Ordered by how telling they are: what is not memory comes
first, because a full disk or too large a message can come with TensorFlow's out-of-memory hint attached.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitroom.core import Page, Resource
from fitroom.patterns import Pattern

_GPU, _HOST, _TPU = Resource.GPU_MEMORY, Resource.HOST_MEMORY, Resource.TPU_MEMORY
_DISK, _FILES, _MESSAGE, _PROTO = (
    Resource.DISK,
    Resource.FILE_DESCRIPTORS,
    Resource.MESSAGE_SIZE,
    Resource.PROTO_2GB,
)


@dataclass(frozen=True)
class Face:
    """One way in which exhaustion shows itself.

    Attributes:
        code: its name for ``fitroom explain``.
        resource: what ran out; None where the device named beside it tells.
        pattern: the words.
        what: what they mean.
        certain: False where the same words can have another reason.
    """

    code: str
    resource: Resource | None
    pattern: Pattern
    what: str
    certain: bool = True


def _face(code: str, resource: Resource | None, words: str, what: str, *, certain: bool = True) -> Face:
    return Face(code, resource, Pattern(words), what, certain)


FACES = (
    _face(
        "disk-full",
        _DISK,
        r"(?i:No\s+space\s+left\s+on\s+device|Disk\s+quota\s+exceeded|not\s+enough\s+space\s+on\s+the\s+disk)"
        r"|\[Errno (?:28|122)\]"
        # Before 1.0 TensorFlow named the file alone.
        r"|(?:ResourceExhaustedError|RESOURCE_EXHAUSTED|Resource exhausted)(?: \(see above for traceback\))?:\s*"
        r"(?:[A-Za-z]:\\)?[^\s;:]{0,400}(?:\.tempstate\d+|\.data-\d{5}-of-\d{5})(?![^\n]{0,40}Too many open)",
        "A file could not be written: the disk or its quota is full. TensorFlow reports it as ResourceExhaustedError, "
        "with the out-of-memory hint attached; memory is not the matter.",
    ),
    _face(
        "too-many-open-files",
        _FILES,
        r"Too\s+many\s+open\s+files",
        "The process holds as many open files as it may (ulimit -n). Memory is not the matter.",
    ),
    _face(
        "message-too-large",
        _MESSAGE,
        r"(?i:(?:received|sent|send)\s+message\s+larger\s+than\s+max)|message length too large"
        r"|Attempted to send .{0,40} larger than max"
        r"|(?i:message exceeds (?:the )?maximum (?:configured message )?size)",
        "A gRPC message is larger than its limit. It is called RESOURCE_EXHAUSTED, and memory is not the matter.",
    ),
    _face(
        "proto-2gb",
        _PROTO,
        r"tensor\s+proto\s+whose\s+content\s+is\s+larger\s+than\s+2GB|GraphDef\s+cannot\s+be\s+larger\s+than\s+2GB"
        r"|exceed\w*\s+(?:the\s+)?maximum\s+protobuf\s+size|protocol message was rejected because it was too big"
        r"|Cannot allocate buffer larger than kint32max",
        "Data or weights were embedded in a graph as a constant, and a protocol buffer holds at most 2 GB. "
        "Feed the data instead of capturing it.",
    ),
    _face(
        "windows-commit-limit",
        _HOST,
        r"[Ee]rror\s+code:?\s+1455|paging\s+file\s+is\s+too\s+small|(?:WinError|os error) 1455",
        "Windows ran out of commit memory: RAM plus the paging file. The GPU is the victim, not the cause.",
    ),
    _face(
        "oom-when-allocating",
        None,
        r"(?<![A-Za-z])O?OM\s+(?:occurs\s+|occurred\s+|error\s+)?when\s+allocating\s+(?:for\s+)?(?:an?\s+|the\s+)?(?:tensor|TensorList)",
        "TensorFlow's allocator had no room for a tensor. The tensor named is the one that came last: "
        "often the victim, not the culprit.",
    ),
    _face(
        "does-not-fit",
        None,
        r"(?<![A-Za-z])DoesNotFit: (?:A batch of \d+ |A single sample |The batch |The optimizer's update )",
        "Fitroom's guard gave a step up: it does not fit with all that was allowed. The model is as it was before it.",
    ),
    _face(
        "failed-to-allocate-memory",
        None,
        r"failed\s+to\s+allocate\s+memory\s*\[Op:|(?m:\bfailed to allocate memory$)"
        r"|RESOURCE_EXHAUSTED:\s+failed\s+to\s+allocate\s+memory",
        "TensorFlow's allocator had no room for an operation's result.",
    ),
    _face(
        "hbm-exceeded",
        _TPU,
        r"Ran\s+out\s+of\s+memory\s+in\s+memory\s+space\s+[hvs]mem\b|Ran\s+out\s+of\s+memory\s+in\s+memory\s+space\s+hbm"
        r"|would\s+exceed\s+memory\s+\(size=\d+\)|Exceeded\s+hbm\s+capacity"
        r"|[Hh]bm usage:?\s+[\d.]+[KMGT][^\n]{0,80}exceed"
        r"|Attempting to (?:allocate|reserve) [\d.]+\w*[^\n]{0,40}\. That was not possible",
        "The program that XLA compiled needs more than the TPU's high-bandwidth memory.",
    ),
    _face(
        "xla-out-of-memory",
        None,
        r"\b[Oo]ut\s+of\s+memory\s+(?:while\s+trying\s+to\s+allocate|allocating)\s+[\d.]+"
        r"|Out\s+of\s+memory\s+trying\s+to\s+allocate\s+[\d.]+"
        r"|Failed\s+to\s+allocate\s+request\s+for\s+[\d.]+",
        "A program that XLA compiled asked for its block of temporaries, and there was no room for it.",
    ),
    _face(
        "xla-new-constant",
        _GPU,
        r"Failed\s+to\s+allocate\s+\d+\s+bytes\s+for\s+new\s+constant",
        "XLA had no room for a constant of the program. Another process, or this one's own preallocation, "
        "may hold the memory.",
    ),
    _face(
        "copy-without-room",
        None,
        r"(?:SameWorkerRecvDone|RecvTensor|Send/Recv)[^\n]{0,40}unable\s+to\s+allocate\s+output\s+tensor",
        "What one device sends found no room on the other: data that go to the card, most often a batch.",
    ),
    _face(
        "dst-tensor-not-initialized",
        None,
        r"Dst\s+tensor\s+is\s+not\s+initialized|Failed\s+copying\s+input\s+tensor\s+from\s+\S+\s+to\s+\S+\s+in\s+order",
        "A copy to the device found no room there. TensorFlow raises it as InternalError.",
    ),
    _face(
        "constant-not-parsed",
        None,
        r"Cannot\s+parse\s+tensor\s+from\s+(?:tensor_)?proto",
        "A constant of the graph could not be allocated. TensorFlow raises it as InvalidArgumentError; seen on one "
        "replica of several. A damaged graph says the same.",
        certain=False,
    ),
    _face(
        "torch-cuda",
        _GPU,
        r"(?:CUDA|HIP|XPU)\s+out\s+of\s+memory|(?:CUDA|HIP)\s+error:\s+out\s+of\s+memory|MPS\s+backend\s+out\s+of\s+memory"
        r"|cuda runtime error \(2\)|(?:cuda|hip)ErrorMemoryAllocation|hipErrorOutOfMemory"
        r"|cudaMalloc (?:retry )?failed: out of memory|Out of memory error on GPU"
        r"|Tried to allocate [\d.]+ [KMGT]iB \(GPU \d+;",
        "PyTorch's allocator, or another library's on CUDA, had no room on the GPU.",
    ),
    _face(
        "allocator-ran-out",
        None,
        # "The caller indicates that this is not a failure": an optional scratch space was not had. Benign.
        r"(?:Allocator\s+(?:\([^)\n]+\)\s+)?r|\bR)an\s+out\s+of\s+memory\s+trying\s+to\s+allocate"
        r"(?![\s\S]{0,160}?not\s+a\s+failure)|EigenAllocator for GPU ran out of memory",
        "The BFC allocator gave up on a request after waiting for memory to come free.",
    ),
    _face(
        "cuda-malloc-async",
        _GPU,
        r"cuMemAllocAsync failed to allocate",
        "CUDA's own pool allocator had no room on the GPU.",
    ),
    _face(
        "cuda-context",
        _GPU,
        r"(?:cuDevicePrimaryCtxRetain|failed to create context|cuCtxCreate|cuInit)[^\n]{0,60}OUT_OF_MEMORY",
        "CUDA could not even start on the card: other processes hold nearly all of it.",
    ),
    _face(
        "gpu-library-alloc-failed",
        _GPU,
        r"CU(?:BLAS|DNN|SOLVER|FFT|SPARSE)_(?:STATUS_)?ALLOC_FAILED",
        "A CUDA library had no room for its own workspace: TensorFlow holds nearly all of the card.",
    ),
    _face(
        "numpy-array",
        _HOST,
        r"Unable\s+to\s+allocate\s+(?:[\d.]+\s?\w+\s+for\s+an\s+)?array\b",
        "NumPy asked the host for an array that does not fit its memory.",
    ),
    _face(
        "bad-alloc",
        _HOST,
        r"std::bad_alloc|LLVM ERROR: out of memory|\b(?:m|re|c)alloc of size \d+ failed|java\.lang\.OutOfMemoryError"
        r"|Insufficient memory \(Failed to allocate",
        "C++ code got no memory from the host and aborted the process.",
    ),
    _face(
        "allocator-check",
        None,
        r"allocator\w*\.(?:cc|h):\d+\]\s+Check failed",
        "TensorFlow's allocator found itself in a state that cannot be, and aborted the process. Seen after an "
        "out-of-memory error in a program that XLA compiled.",
    ),
    _face(
        "torch-cpu",
        _HOST,
        r"DefaultCPUAllocator:\s+(?:not\s+enough\s+memory|can't\s+allocate\s+memory)"
        r"|posix_memalign\([^\n]{0,60}12 vs 0",
        "PyTorch's CPU allocator got no memory from the host.",
    ),
    _face(
        "kernel-oom-kill",
        _HOST,
        r"Out of memory: Kill(?:ed)? process|Memory cgroup out of memory|oom-kill:|OOMKilled|oom_reaper: reaped"
        r"|invoked oom-killer|\boom[-_]kill event|cgroup out-of-memory handler|killed by (?:the )?OOM\b"
        r"|TERM_MEMLIMIT|[Ee]xceeded (?:\w+ )?memory limit|for exceeding memory limits|node running low on memory"
        r"|node was low on resource:? \W?memory|[Pp]od was evicted[^\n]{0,80}memory"
        r"|Memory limit of [\d.]+ ?\w+ exceeded|exceeded \d+% memory budget\. Restarting",
        "The kernel, or the container's or cluster's manager, killed a process because no memory was left to it.",
    ),
    _face(
        "notebook-host",
        _HOST,
        r"tried\s+to\s+allocate\s+more\s+memory\s+than\s+is\s+available"
        r"|crashed\s+after\s+using\s+(?:up\s+)?all\s+(?:the\s+)?available\s+RAM"
        r"|[Kk]ernel (?:appears to have )?died[^\n]{0,80}memory",
        "The notebook's host restarted the session because its RAM was used up.",
    ),
    _face(
        "python-memory-error",
        _HOST,
        r"(?<![A-Za-z])MemoryError\b|Cannot allocate memory|\bENOMEM\b|Not enough memory resources are available"
        r"|insufficient shared memory \(shm\)|\bout of shared memory\b",
        "Python, or a system call, got no memory from the host.",
    ),
    _face(
        "sigkill",
        _HOST,
        r"(?i:terminated by signal SIGKILL|exit(?:ed)?(?: with)?(?: code| status)?[ :=(]+137\b|signal 9 \(SIGKILL\))"
        r"|<Signals\.SIGKILL|(?i:exit\s?code\s*:?|exit status) -9\b|killed by signal: Killed"
        r"|(?m:^[ \t]*Killed[ \t]*$)|line \d+: +\d+ Killed\b|(?m:^(?:zsh: |\[\d+\] +(?:[+-] +)?\d+ +)killed\b)"
        r"|KernelRestarter: restarting kernel|[\"'`]Killed[\"'`]"
        r"|\b(?:RAM|memory)\b[^\n]{0,80}\b(?:gets?|got|was|is|being) killed\b",
        "The process was killed from outside. Most often the kernel did it for memory; anyone may.",
        certain=False,
    ),
    _face(
        "gpu-library-handle",
        _GPU,
        # The same status with "driver version" beside it speaks of the driver.
        r"(?:(?i:could not create cudnn handle|failed to create cublas handle):?\s+\w+_STATUS_\w+"
        r"|CUBLAS_STATUS_NOT_INITIALIZED|This is probably because cuDNN failed to initialize)"
        r"(?![\s\S]{0,120}(?:driver version|[Ll]oaded runtime CuDNN)|[\s\S]{0,700}insufficient driver version)",
        "A CUDA library could not start. Nearly always the card is full: another process, a session that was not "
        "closed, or TensorFlow's own preallocation. A broken installation says the same.",
        certain=False,
    ),
    _face(
        "card-refused-little",
        _GPU,
        r"failed to allocate (?:(?:\d|[12]\d)(?:\.\d+)?Mi?B?|[\d.]+(?:Ki?B?|B)) \(\d+ bytes\) from device: "
        r"[^\n]{0,30}CUDA_ERROR_OUT_OF_MEMORY"
        r"(?![\s\S]{0,4000}(?:Epoch|\d+/\d+ \[|loss:))",
        "The card refused even some few MiB: it is full, of this process or of others.",
        certain=False,
    ),
    _face(
        "gpu-start-failed",
        _GPU,
        r"Blas \w+ launch failed|failed initializing StreamExecutor for CUDA device",
        "A CUDA call failed at its start, as happens when other processes hold the card's memory.",
        certain=False,
    ),
    _face(
        "resource-exhausted",
        None,
        # A piece of the card that was refused, and a smaller one tried, is called so, too.
        r"(?:ResourceExhaustedError|RESOURCE_EXHAUSTED|Resource exhausted)\b(?!(?:\s*:)+\s*CUDA_ERROR)"
        r"[^\n]{0,200}(?:allocat|memory|OOM)"
        r"|ResourceExhaustedError:\s+Graph\s+execution\s+error"
        r"|CUDA_ERROR_OUT_OF_MEMORY(?=\W[^\n]{0,200}\n\s*(?:Traceback|Aborted|Segmentation|\Z))"
        # The allocator's statistics are written when it gives up.
        r"|\bLimit:\s+\d{6,15}\s*\n[^\n]{0,120}(?<![A-Za-z])InUse:\s+\d",
        "The runtime says that a resource ran out, in words that this release does not know.",
        certain=False,
    ),
)

_ADVICE = {
    _GPU: "Smaller slices of the batch need less: fitroom carries them out without changing the result.",
    _HOST: "Keep less of the data in host memory: stream it in batches, and check what else runs on the machine.",
    _TPU: "Smaller slices of the batch need less.",
    _DISK: "Free room on the disk, or write caches and checkpoints elsewhere.",
    _FILES: "Close files, or raise the limit: ulimit -n 4096.",
    _MESSAGE: "Send less at a time, or raise the channel's max_receive_message_length.",
    _PROTO: "Pass the data as an argument or read it from a file, so that it is not embedded in the graph.",
    None: "Smaller slices of the batch need less: fitroom carries them out without changing the result.",
}


def _page(face: Face) -> Page:
    runs_out = face.resource.value if face.resource else "memory of the device that is named beside it"
    sure = "" if face.certain else "\n\nHow sure: the same words can have another reason."
    text = f"{face.what}\n\nWhat runs out: {runs_out}.\n\nWhat to do: {_ADVICE[face.resource]}{sure}"
    return Page(face.code, "face of exhaustion", face.what.split(". ")[0].split(": ")[0], text)


PAGES = tuple(_page(face) for face in FACES)
