"""A whole file at once, then in chunks: NumPy only. Usage: python 004_2_numpy_chunks.py [ROWS]"""

import sys
import tempfile
from pathlib import Path

import numpy as np

data_size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
path = str(Path(tempfile.mkdtemp()) / "large_dataset.npy")
with Path(path).open("wb") as file:  # written in pieces: the file is larger than memory should have to hold
    np.lib.format.write_array_header_2_0(file, {"descr": "<f4", "fortran_order": False, "shape": (data_size, 256)})
    for _ in range(data_size // 1000):
        file.write(bytes(1000 * 256 * 4))

# Inefficient: Loads entire dataset into memory
data = np.load(path)  # Likely to fail for massive datasets

# Efficient: Processes data in chunks
chunk_size = 1024
for i in range(0, data_size, chunk_size):
    chunk = np.load(path, mmap_mode="r")[i:i + chunk_size]
    # Process chunk
    del chunk  # explicitly clear memory.
