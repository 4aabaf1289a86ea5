"""Imported before a seed script: writes down what the script does not tell, and changes nothing.

`SEED_FACTS` names the file: the updates that optimizers made, the out-of-memory errors that were made (most scripts
catch theirs), and those that reached the script's own lines. With `SEED_STOP_AT_FIRST_ERROR` the process ends at the
first: what the script does next can cost minutes.
"""

import atexit
import importlib.util
import json
import os
import sys
from pathlib import Path

ERRORS = []  # as they were made
REACHED = []  # those that the script saw
OPTIMIZERS = []


def describe(error):
    from fitroom import oom

    found = oom.from_exception(error)
    return {
        "type": type(error).__name__,
        "text": str(error)[:500],
        "resource": found.resource.value if found else None,
        "certain": found.certain if found else None,
    }


def write():
    if not sys.argv[0].endswith(os.environ["SEED_SCRIPT"]):  # the supervisor, or a process that the script started
        return
    facts = {"updates": sum(map(count_updates, OPTIMIZERS)), "errors": ERRORS, "reached": REACHED}
    Path(os.environ["SEED_FACTS"]).write_text(json.dumps(facts))


def count_updates(optimizer):
    import tensorflow as tf

    return int(tf.convert_to_tensor(optimizer.iterations.value))  # also under a distribution strategy


def watch_keras():
    import keras
    import tensorflow as tf

    make_error = tf.errors.ResourceExhaustedError.__init__
    make_optimizer = keras.optimizers.Optimizer.__init__

    def noted_error(self, *args, **kwargs):
        make_error(self, *args, **kwargs)
        ERRORS.append(describe(self))
        if os.environ.get("SEED_STOP_AT_FIRST_ERROR"):
            write()
            os._exit(0)

    def noted_optimizer(self, *args, **kwargs):
        make_optimizer(self, *args, **kwargs)
        OPTIMIZERS.append(self)

    tf.errors.ResourceExhaustedError.__init__ = noted_error
    keras.optimizers.Optimizer.__init__ = noted_optimizer


class AfterKeras:
    """Has `watch_keras` called once Keras has been imported."""

    asked = False

    def find_spec(self, name, path=None, target=None):
        if name != "keras" or self.asked:
            return None
        self.asked = True
        spec = importlib.util.find_spec(name)
        self.asked = False
        load = spec.loader.exec_module

        def exec_module(module):
            sys.meta_path.remove(self)
            load(module)
            watch_keras()

        spec.loader.exec_module = exec_module
        return spec


def trace_script(frame, event, argument):
    """See the exceptions that reach the script's own lines."""
    if not frame.f_code.co_filename.endswith(os.environ["SEED_SCRIPT"]):
        return None

    def local(frame, event, argument):
        if event == "exception" and argument[0].__name__.endswith(("ResourceExhaustedError", "MemoryError", "NotFit")):
            REACHED.append(describe(argument[1]))
        return local

    return local


if os.environ.get("SEED_FACTS"):
    sys.meta_path.insert(0, AfterKeras())
    sys.settrace(trace_script)
    atexit.register(write)
