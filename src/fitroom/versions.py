"""What is installed, and which versions are known not to go together.

Read from the names of the installed packages' metadata folders: a hundred times quicker than importing them, and
TensorFlow is never loaded.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# What decides how a training uses memory, or whether fitroom can work at all.
PACKAGES = (
    "tensorflow", "tensorflow-cpu", "tf-nightly", "keras", "tf-keras", "numpy", "ml-dtypes", "protobuf", "h5py",
    "tensorboard", "nvidia-cudnn-cu12", "nvidia-cuda-runtime-cu12", "nvidia-ml-py", "psutil", "rich", "ray", "pyarrow",
)  # fmt: skip
_TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tf-nightly")


class Installed(NamedTuple):
    """One installed package."""

    name: str
    version: str
    metadata: Path


def installed(paths: list[str] | None = None) -> dict[str, Installed]:
    """The installed packages by normalised name; the first on the path wins, as for an import."""
    found: dict[str, Installed] = {}
    for path in sys.path if paths is None else paths:
        try:
            entries = os.listdir(path or ".")  # noqa: PTH208 (names only, and quick)
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(".dist-info"):
                name, _, version = entry.removesuffix(".dist-info").partition("-")
                key = re.sub(r"[-_.]+", "-", name).lower()
                found.setdefault(key, Installed(key, version, Path(path) / entry / "METADATA"))
    return found


def tensorflow(packages: Mapping[str, Installed]) -> Installed | None:
    """The TensorFlow that is installed, under whichever of its names."""
    return next((packages[name] for name in _TENSORFLOWS if name in packages), None)


def number(version: str) -> tuple[int, ...]:
    """The numeric part of a version, for comparing."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def advisories(packages: Mapping[str, Installed], environment: Mapping[str, str]) -> list[str]:
    """What is known to go wrong with these versions and settings, each with what to do."""
    tf, keras = tensorflow(packages), packages.get("keras")
    backend = environment.get("KERAS_BACKEND", "tensorflow")
    notes = []
    if tf is None:
        notes.append("TensorFlow is not installed: estimate, run and demo need it. Try: pip install 'fitroom[tf]'")
    if "tensorflow" in packages and "tensorflow-cpu" in packages:
        notes.append(
            "tensorflow and tensorflow-cpu are both installed and overwrite each other's files. "
            "Try: pip uninstall tensorflow tensorflow-cpu, then install one"
        )
    if tf is not None and number(tf.version) < (2, 18):
        notes.append(f"TensorFlow {tf.version} is older than 2.18, fitroom's first. Try: pip install -U tensorflow")
    if keras is not None and number(keras.version) < (3,):
        notes.append(f"Keras {keras.version} is Keras 2; fitroom works with Keras 3. Try: pip install -U keras")
    elif keras is not None and tf is not None and number(tf.version) < (2, 16):
        notes.append(f"Keras {keras.version} does not work with TensorFlow {tf.version}: it needs 2.16 or newer")
    if environment.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        notes.append("TF_USE_LEGACY_KERAS makes tf.keras Keras 2; such models train as without fitroom. Try: unset it")
    if backend != "tensorflow":
        notes.append(f"KERAS_BACKEND={backend}: fitroom guards the TensorFlow backend; others train as without it")
    if tf is not None and number(tf.version) >= (2, 21) and "tensorboard" not in packages:
        notes.append("TensorFlow 2.21 no longer brings tensorboard: tf.summary fails without it. "
                     "Try: pip install tensorboard")  # fmt: skip
    for package in (tf, keras):
        if package is not None:
            notes += _conflicts(package, packages)
    return notes


_REQUIREMENT = re.compile(r"Requires-Dist: ([\w.-]+)\s*\(?([^;()]*)\)?\s*(?:;(.*))?")
_BOUND = re.compile(r"(>=|<=|==|!=|~=|<|>)\s*([\w.]+)")


def _conflicts(package: Installed, packages: Mapping[str, Installed]) -> list[str]:
    """Requirements that `package` states for itself and that what is installed does not meet."""
    try:
        lines = package.metadata.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    notes = []
    for match in filter(None, map(_REQUIREMENT.match, lines)):
        other = packages.get(re.sub(r"[-_.]+", "-", match[1]).lower())
        if other is None or match[3]:  # conditional requirements are pip's business
            continue
        bounds = _BOUND.findall(match[2])
        if not all(_meets(other.version, sign, bound) for sign, bound in bounds):
            notes.append(
                f"{package.name} {package.version} asks for {match[1]}{match[2].strip()}, and {other.version} is "
                f"installed. Try: pip install '{match[1]}{match[2].strip()}'"
            )
    return notes


def _meets(version: str, sign: str, bound: str) -> bool:
    have, want = number(version), number(bound)
    width = max(len(have), len(want))
    have, want = have + (0,) * (width - len(have)), want + (0,) * (width - len(want))
    if sign == "~=":
        return have >= want and have[: len(number(bound)) - 1] == want[: len(number(bound)) - 1]
    return {
        ">=": have >= want, "<=": have <= want, "==": have == want, "!=": have != want,
        "<": have < want, ">": have > want,
    }[sign]  # fmt: skip
