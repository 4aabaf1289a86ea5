from __future__ import annotations

from pathlib import Path

import pytest

from fitroom import versions


def install(
    folder: Path, *packages: str, requires: dict[str, list[str]] | None = None
) -> dict[str, versions.Installed]:
    """A folder that looks as if `packages` ("name-1.2") were installed in it."""
    for package in packages:
        metadata = folder / f"{package}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        name = package.partition("-")[0]
        lines = [f"Requires-Dist: {one}" for one in (requires or {}).get(name, [])]
        metadata.write_text("\n".join(["Metadata-Version: 2.1", *lines]))
    return versions.installed([str(folder)])


def test_this_installation_is_read() -> None:
    packages = versions.installed()
    import keras
    import tensorflow

    assert packages["keras"].version == keras.__version__
    found = versions.tensorflow(packages)
    assert found is not None
    assert found.version == tensorflow.__version__


def test_a_good_installation_has_no_advisories(tmp_path: Path) -> None:
    packages = install(tmp_path, "tensorflow-2.20.0", "keras-3.10.0", "numpy-2.1.0", "tensorboard-2.20.0",
                       requires={"tensorflow": ["numpy>=1.26.0", "keras>=3.10.0", "ray>=2; extra == 'x'"]})  # fmt: skip
    assert versions.advisories(packages, {}) == []


@pytest.mark.parametrize(
    ("packages", "environment", "words"),
    [
        (["keras-3.10"], {}, "TensorFlow is not installed"),
        (["tensorflow-2.20", "tensorflow_cpu-2.20"], {}, "overwrite each other"),
        (["tensorflow-2.17.1", "keras-3.5"], {}, "older than 2.18"),
        (["tensorflow-2.18.0", "keras-2.15.0"], {}, "Keras 2"),
        (["tensorflow-2.15.0", "keras-3.0.5"], {}, "does not work with TensorFlow 2.15.0"),
        (["tensorflow-2.20", "keras-3.10"], {"TF_USE_LEGACY_KERAS": "1"}, "TF_USE_LEGACY_KERAS"),
        (["tensorflow-2.20", "keras-3.10"], {"KERAS_BACKEND": "torch"}, "KERAS_BACKEND=torch"),
        (["tensorflow-2.21.0", "keras-3.15"], {}, "tensorboard"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_known_bad_pairs_are_named(
    tmp_path: Path, packages: list[str], environment: dict[str, str], words: str
) -> None:
    notes = versions.advisories(install(tmp_path, *packages), environment)
    assert any(words in note for note in notes), notes


@pytest.mark.parametrize(
    ("requirement", "version", "conflicts"),
    [
        ("numpy<2.2.0,>=1.26.0", "2.1.3", False),
        ("numpy<2.2.0,>=1.26.0", "2.2.0", True),
        ("numpy (>=1.26,<2)", "2.0.0", True),
        ("numpy!=2.1.0", "2.1.0", True),
        ("numpy~=1.26.1", "1.26.4", False),
        ("numpy~=1.26.1", "1.27.0", True),
        ("numpy==1.26.0", "1.26", False),
        ("numpy", "3.0", False),
        ("numpy<2; python_version < '3.8'", "2.0.0", False),
    ],
)
def test_a_stated_requirement_that_is_not_met_is_named(
    tmp_path: Path, requirement: str, version: str, conflicts: bool
) -> None:
    packages = install(tmp_path, "tensorflow-2.18.0", f"numpy-{version}", requires={"tensorflow": [requirement]})
    assert any("numpy" in note for note in versions.advisories(packages, {})) == conflicts
