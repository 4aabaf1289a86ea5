"""Why something ran out."""

from __future__ import annotations

from enum import Enum


class Cause(str, Enum):
    """Why it ran out."""

    BATCH_OR_ACTIVATIONS = "batch_or_activations"
    WEIGHTS_OR_OPTIMIZER_TOO_BIG = "weights_or_optimizer_too_big"
    SINGLE_GIANT_TENSOR = "single_giant_tensor"
    FRAGMENTATION = "fragmentation"
    OTHER_PROCESS = "other_process"
    LEAK_OVER_ITERATIONS = "leak_over_iterations"
    RETRACING = "retracing"
    HOST_DATASET = "host_dataset"
    PROTO_EMBEDDED_DATA = "proto_embedded_data"
    GPU_PREALLOCATION_OR_GROWTH = "gpu_preallocation_or_growth"
    DISK_FULL = "disk_full"
    FD_LIMIT = "fd_limit"
    MESSAGE_LIMIT = "message_limit"
    INFERENCE_TOO_LARGE = "inference_too_large"
    UNEVEN_DEVICES = "uneven_devices"
    WHOLE_BATCH_PER_REPLICA = "whole_batch_per_replica"
    OUTSIDE_STRATEGY_SCOPE = "outside_strategy_scope"
    XLA_OVER_REPLICAS = "xla_over_replicas"
    RETAINED_TENSORS = "retained_tensors"
    GROWING_HISTORY = "growing_history"
    MODELS_IN_LOOP = "models_in_loop"
    XLA_PROGRAMS_IN_LOOP = "xla_programs_in_loop"
    DATASET_IN_LOOP = "dataset_in_loop"
    PREDICT_IN_LOOP = "predict_in_loop"
    REFERENCE_CYCLES = "reference_cycles"
    MALLOC_RETENTION = "malloc_retention"
    SECOND_STEP = "second_step"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """The cause in words, on one line."""
        return _WORDS[self]


_WORDS = {
    Cause.BATCH_OR_ACTIVATIONS: "The batch, or what its samples turn into, is too large",
    Cause.WEIGHTS_OR_OPTIMIZER_TOO_BIG: "The weights, their gradients or the optimizer's slots are too large",
    Cause.SINGLE_GIANT_TENSOR: "One tensor takes all of the memory",
    Cause.FRAGMENTATION: "Enough is free, but not in one piece",
    Cause.OTHER_PROCESS: "Another process holds the card's memory",
    Cause.LEAK_OVER_ITERATIONS: "Each round keeps some memory, until it is full",
    Cause.RETRACING: "A function is traced anew for every call",
    Cause.HOST_DATASET: "The data are held in the host's memory, and do not fit",
    Cause.PROTO_EMBEDDED_DATA: "Data or weights are embedded in a graph, which holds at most 2 GB",
    Cause.GPU_PREALLOCATION_OR_GROWTH: "Preallocation, growth, or a limit that the program sets",
    Cause.DISK_FULL: "The disk is full",
    Cause.FD_LIMIT: "Too many open files",
    Cause.MESSAGE_LIMIT: "A message is larger than its channel allows",
    Cause.INFERENCE_TOO_LARGE: "Too many samples at once in prediction or evaluation",
    Cause.UNEVEN_DEVICES: "One device is full, while others are nearly empty",
    Cause.WHOLE_BATCH_PER_REPLICA: "Each replica gets the whole batch instead of its share",
    Cause.OUTSIDE_STRATEGY_SCOPE: "The model, the optimizer or a metric was made outside the strategy's scope",
    Cause.XLA_OVER_REPLICAS: "XLA compiles for one device, and the training runs on several",
    Cause.RETAINED_TENSORS: "Tensors are kept from step to step",
    Cause.GROWING_HISTORY: "Results are kept from step to step",
    Cause.MODELS_IN_LOOP: "Models are made in a loop, and leave memory behind",
    Cause.XLA_PROGRAMS_IN_LOOP: "XLA compiles a new program again and again, and keeps each",
    Cause.DATASET_IN_LOOP: "Datasets are made in a loop, and leave memory behind",
    Cause.PREDICT_IN_LOOP: "predict or its relatives are called in a loop, and leave memory behind",
    Cause.REFERENCE_CYCLES: "Objects that refer to each other wait for Python's collector",
    Cause.MALLOC_RETENTION: "C's allocator keeps memory that was freed",
    Cause.SECOND_STEP: "The first step fits, and what it leaves behind makes the second one too large",
    Cause.UNKNOWN: "The words do not tell why",
}
