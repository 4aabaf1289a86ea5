from __future__ import annotations

from tests.conftest import ROOT, Run

NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "fitroom")
shell.run_cell('''
from tests.guard_cases import LABELS, MODELS, make
from fitroom.training import keras_seams
model = make("lstm", "adam")
model.fit(MODELS["lstm"][1], LABELS, batch_size=16, verbose=0)
other = make("lstm", "adam")
other.train_on_batch(MODELS["lstm"][1][:4], LABELS[:4])
print("guarded", keras_seams.hooked(model) is not None, keras_seams.hooked(other) is not None)
print("updates", int(model.optimizer.iterations), int(other.optimizer.iterations))
''')
shell.run_line_magic("unload_ext", "fitroom")
shell.run_cell('''
plain = make("lstm", "adam")
plain.fit(MODELS["lstm"][1], LABELS, batch_size=16, verbose=0)
print("left alone", keras_seams.hooked(plain) is None)
''')
"""


def test_models_trained_in_a_notebook_are_guarded(python: Run) -> None:
    done = python("-c", NOTEBOOK, cwd=ROOT)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("guarded", "updates", "left"))]
    assert lines == ["guarded True True", "updates 3 1", "left alone True"], done.stdout + done.stderr
