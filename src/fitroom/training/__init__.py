"""Plan → a fit that survives, in this process.

batch = next(data)                       # outside the compiled function, so that it cannot be lost
loop:
    before = small state (statistics, seeds, metrics)
    try:   gradients of the batch, whole or slice by slice
           apply once, all or nothing
    except out of memory: failed = True  # recover after the block, not in it
    if not failed: break
    restore `before`, clear the accumulators, take the next rung (smaller slices), record it
"""
