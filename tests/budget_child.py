"""Evaluates and predicts in a process of its own, on the pocket device: budget_child.py MODEL RESULT.npz [PLAN]."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import keras
import numpy as np

import fitroom
from fitroom.devices import pocket
from fitroom.training.guarding import events
from tests.eval_cases import BIG, MODELS, made


def main(name: str, path: str, plan: str | None = None) -> None:
    model = fitroom.guard(made(name), plan=plan)
    _, x, y = MODELS[name]
    evaluated = model.evaluate(x, y, batch_size=BIG, verbose=0)
    predicted = model.predict(x, batch_size=BIG, verbose=0)
    ooms = sum(event.kind == "oom" for event in events(model))
    leaves = keras.tree.flatten([evaluated, predicted])
    np.savez(path, *leaves, ooms=ooms, peak=pocket.use().peak)


if __name__ == "__main__":
    main(*sys.argv[1:])
