"""What can run out."""

from __future__ import annotations

from enum import Enum


class Resource(str, Enum):
    """A resource of the machine, or a limit of a file format."""

    GPU_MEMORY = "gpu_memory"
    HOST_MEMORY = "host_memory"
    TPU_MEMORY = "tpu_memory"
    DISK = "disk"
    FILE_DESCRIPTORS = "file_descriptors"
    MESSAGE_SIZE = "message_size"
    PROTO_2GB = "proto_2gb"
    NOT_EXHAUSTION = "not_exhaustion"

    @property
    def is_memory(self) -> bool:
        """Whether it is memory, which a smaller step would need less of."""
        return self in (Resource.GPU_MEMORY, Resource.HOST_MEMORY, Resource.TPU_MEMORY)
