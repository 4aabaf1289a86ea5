"""Where a training is in its data: what comes in which order, and how to get back to a place in it."""
