"""The small process that runs, watches and restarts the training process. It never loads TensorFlow.

script ─ Child ─► how it ended ─ deaths ─► memory, or the script's own business
                                             └─ less ─► Settings of the next attempt
"""
