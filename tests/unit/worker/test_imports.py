"""Imports inside of functions are checked where the worker runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashcore_ci.worker import imports


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("import torhc", ["subject.py:2: there is no module torhc (did you mean torch?)"]),
        ("import trtion.language as tl", ["subject.py:2: there is no module trtion (did you mean triton?)"]),
        ("import triton", []),
        ("import json, os.path", []),
        ("from near import x", []),
        ("from . import x", []),
        ("try:\n        import torhc\n    except ImportError:\n        pass", []),
    ],
)
def test_what_is_misspelt_is_named(tmp_path: Path, body: str, expected: list[str]) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/near.py").touch()
    (tmp_path / "subject.py").write_text(f"def run(inputs, outputs):\n    {body}\n")
    assert imports.missing_imports(tmp_path / "subject.py", tmp_path) == expected


def test_other_packages_are_known_only_where_pytorch_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "subject.py").write_text("def run(inputs, outputs):\n    import qqqq_kernels\n")
    for has_torch in (False, True):
        monkeypatch.setattr(imports, "_exists", lambda name, has_torch=has_torch: name == "torch" and has_torch)
        assert bool(imports.missing_imports(tmp_path / "subject.py", tmp_path)) == has_torch
