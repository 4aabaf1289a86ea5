"""Was this out of memory? The only place that decides, for an exception, an exit code or a text.

What comes out is an `Exhaustion`: of which resource, on which device, how sure, and the words it rests on; or None.
Running out of memory has many faces (`FACES`), some of them masked as other errors, and other things run out under
the same names: a disk, file descriptors, a message's size, the 2 GB limit of a protocol buffer. Those are told apart
here; benign lines that look fatal are not recognised at all.
"""

from __future__ import annotations

import errno
import re
import signal
from dataclasses import dataclass, replace
from itertools import islice

from fitroom import oom_words
from fitroom.core import Resource
from fitroom.oom_faces import FACES, PAGES, Face
from fitroom.oom_harmless import BENIGN, HARMLESS
from fitroom.patterns import Pattern

__all__ = ["FACES", "HARMLESS", "PAGES", "Exhaustion", "Sign", "from_exception", "from_exit", "from_text", "signs"]


@dataclass(frozen=True)
class Exhaustion:
    """Something ran out.

    Attributes:
        resource: what.
        face: how it showed itself: the code of one of `FACES`.
        certain: False where the same words can have another reason.
        device: where, as TensorFlow names it, if the words tell.
        wanted_bytes: what was asked for, if the words tell.
        evidence: the words.
        placed: False where the words do not tell whose memory it was.
        words: the end of an exception's message, which names the operation and the tensor.
    """

    resource: Resource
    face: str
    certain: bool = True
    device: str | None = None
    wanted_bytes: int | None = None
    evidence: str = ""
    placed: bool = True
    words: str = ""

    @property
    def is_memory(self) -> bool:
        """Whether memory ran out, so that a smaller step would help."""
        return self.resource.is_memory


@dataclass(frozen=True)
class Sign:
    """A place in a text that says that something ran out."""

    start: int
    found: Exhaustion


_WORDS = 8000  # characters
_MOST = 300  # what comes more often says nothing new


def signs(text: str) -> list[Sign]:
    """The signs of exhaustion in a text, certain or likely, in its order; of each face the first hundreds."""
    readable = BENIGN.sub(lambda hint: " " * len(hint[0]), text)  # places stay what they are
    found = [
        Sign(match.start(), _describe(face, readable, match))
        for face in FACES
        for match in islice(face.pattern.finditer(readable), _MOST)
    ]
    return sorted(found, key=lambda sign: sign.start)


def from_text(text: str) -> Exhaustion | None:
    """What ran out according to a log or a message: the first certain sign, else the most telling likely one."""
    readable = BENIGN.sub(" ", text)
    likely: Exhaustion | None = None
    certain: tuple[int, Exhaustion] | None = None
    for face in FACES:
        match = face.pattern.search(readable)
        if match is None:
            continue
        found = _describe(face, readable, match)
        if not face.certain:
            likely = likely or found
        elif certain is None or match.start() < certain[0]:
            certain = match.start(), found
    return certain[1] if certain else likely


def from_exception(error: BaseException) -> Exhaustion | None:
    """What ran out according to an exception, or to the one that it was explicitly raised from.

    TensorFlow is not imported for this: its errors are known by their names.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        found = _from_one(current)
        if found is not None:
            return replace(found, words=str(current)[-_WORDS:])
        current = current.__cause__
    return None


def from_exit(code: int, text: str = "", *, memory_kills: int = 0) -> Exhaustion | None:
    """What ran out according to a process' exit code and the text that it left behind.

    Args:
        code: as a shell (137) or `subprocess` (-9) gives it.
        text: the end of its standard error.
        memory_kills: by how much the control group's ``oom_kill`` counter rose while it ran.
    """
    if code == 0:
        return None
    said = from_text(text)
    if said is not None and said.certain:
        return said
    number = -code if code < 0 else code - 128
    if number == signal.SIGKILL:
        # Anyone may send SIGKILL: without the kernel's word it is a suspicion.
        return Exhaustion(
            Resource.HOST_MEMORY, "sigkill", certain=memory_kills > 0, evidence=f"exit code {code} (SIGKILL)"
        )
    return said


_OS_ERRORS = {
    errno.ENOSPC: Resource.DISK,
    errno.EDQUOT: Resource.DISK,
    errno.EMFILE: Resource.FILE_DESCRIPTORS,
    errno.ENFILE: Resource.FILE_DESCRIPTORS,
    errno.ENOMEM: Resource.HOST_MEMORY,
}

# Exceptions whose message is written by a runtime. In any other class, such as a user's own ValueError that quotes
# a log, the words prove nothing; the few masked ones are listed.
_RUNTIME_ERRORS = Pattern(
    r"^(ResourceExhausted|Internal|InvalidArgument|Unknown|Aborted|FailedPrecondition|Unavailable)Error$"
    r"|^(XlaRuntime|JaxRuntime)Error$|^(OutOfMemory|RpcError|_InactiveRpcError|InactiveRpcError)"
)
_MASKED = Pattern(
    r"content is larger than 2GB|GraphDef cannot be larger than 2GB|exceeded maximum protobuf size"
    r"|\bOOM when allocating|\bOut of memory while trying|CUDA out of memory|out of memory trying to allocate"
    r"|would exceed memory|RESOURCE_EXHAUSTED"
)


def _from_one(error: BaseException) -> Exhaustion | None:
    name, message = type(error).__name__, str(error)
    if isinstance(error, MemoryError):
        said = from_text(f"{name}: {message}")
        return said or Exhaustion(Resource.HOST_MEMORY, "python-memory-error", evidence=f"{name}: {message}")
    if isinstance(error, OSError) and error.errno in _OS_ERRORS:
        return Exhaustion(_OS_ERRORS[error.errno], "os-error", evidence=f"{name}: {message}")
    is_runtime = any(_RUNTIME_ERRORS.search(cls.__name__) for cls in type(error).__mro__)
    if not is_runtime and not (isinstance(error, (RuntimeError, ValueError, TypeError)) and _MASKED.search(message)):
        return None
    said = from_text(message)
    if said is None and name == "ResourceExhaustedError" and not _QUOTA.search(message):
        first = message.strip().splitlines()[0] if message.strip() else name
        resource, device = oom_words.place(message)
        resource = resource or Resource.HOST_MEMORY
        return Exhaustion(resource, "resource-exhausted", certain=False, device=device, evidence=first)
    return said


_QUOTA = Pattern(r"quota|rate limit|too many requests|requests per", re.IGNORECASE)


# --- what the words around a face tell -----------------------------------------------------------------------------

_WINDOW = 600


def _describe(face: Face, text: str, match: re.Match[str]) -> Exhaustion:
    around = text[match.start() : match.end() + _WINDOW]
    resource, device = face.resource, None
    if resource is None:
        start = max(0, match.start() - 200)
        resource, device = oom_words.place(text[start : match.end() + _WINDOW])
    placed = resource is not None
    resource = resource or Resource.GPU_MEMORY
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    line = text[start : len(text) if end < 0 else end]
    wanted = oom_words.wanted(around) if resource.is_memory else None
    return Exhaustion(resource, face.code, face.certain, device, wanted, line.strip()[:400], placed)
