"""Words that look like exhaustion and are not: data for `fitroom.oom`."""

from __future__ import annotations

from fitroom.patterns import Pattern

# TensorFlow's always-printed hints: they speak of out-of-memory whatever the error is.
BENIGN = Pattern(
    r"Hint: If you want to see a list of allocated tensors[^\n]*|If\s+the\s+cause\s+is\s+memory\s+fragmentation[^\n]*"
    # cuDNN that does not start, because it or the driver is of another version: TensorFlow says so before.
    r"|(?:Loaded runtime CuDNN|insufficient driver)(?:(?!Loaded runtime CuDNN|insufficient driver)[\s\S]){0,3000}?"
    r"(?:This is probably because cuDNN failed to initialize|[Cc]ould not create cudnn handle)[^\n]*"
)

# Lines that look fatal and are not: an optional scratch space was not had; much was asked of the host, and given; the
# first, largest piece of a card was not free, and a smaller one is tried.
HARMLESS = Pattern(
    r"Allocator\s+\([^)\n]+\)\s+ran\s+out\s+of\s+memory\s+trying\s+to\s+allocate\s+([\d.]+\s?\w+)"
    r"(?:(?!\bAllocator\b)[\s\S]){0,160}?not\s+a\s+failure[^\n]*"
    r"|Allocation\s+of\s+(\d+)\s+exceeds\s+\d+%\s+of\s+(?:free\s+)?system\s+memory"
    r"|failed\s+to\s+alloc(?:ate)?\s+(?:[\d.]+\s?\w+\s+\()?(\d+)\s+bytes\)?\s+(?:from\s+device|on\s+host)[^\n]{0,40}"
    r"CUDA_ERROR_OUT_OF_MEMORY[^\n]*"
)
