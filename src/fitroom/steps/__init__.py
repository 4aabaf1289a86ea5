"""One training step that can be sliced, rolled back and applied once.

data ─► Gradients (whole, or slice by slice into accumulators) ─► Update (transactional) ─► logs
        state.py remembers what a failed attempt touched       losses.py weighs the slices
"""
