"""PyTorch's stable headers in ``kernel/third_party``: their bytes are pinned, and their licence is there."""

from __future__ import annotations

import hashlib
import importlib.util
import tomllib
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[3] / "kernel"
FOLDER = KERNEL / "third_party/torch"
INCLUDE = FOLDER / "include"
VERSION = "2.13.0"
FILES = 22
DIGEST = "12bbb50e927bee14e4460c4fea202f1989c4be3af77f5f514828cd4cc463ef36"


def digest(folder: Path) -> str:
    """Hash the names and bytes of all files."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        total.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode() + data)
    return total.hexdigest()


def test_the_vendored_files_are_the_pinned_ones() -> None:
    assert sum(path.is_file() for path in FOLDER.rglob("*")) == FILES
    assert f'"{VERSION}"' in (INCLUDE / "torch/headeronly/version.h").read_text(encoding="utf-8")
    assert digest(FOLDER) == DIGEST, f"{FOLDER} changed. Compare it with PyTorch {VERSION}, then change DIGEST"


def test_a_changed_byte_and_a_new_file_change_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_bytes(b"int a;")
    digests = {digest(tmp_path)}
    (tmp_path / "a.h").write_bytes(b"int b;")
    digests.add(digest(tmp_path))
    (tmp_path / "b.h").write_bytes(b"")
    digests.add(digest(tmp_path))
    assert len(digests) == 3


def test_the_licence_is_there_and_in_the_wheel() -> None:
    text = (FOLDER / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("From PyTorch:\n")
    assert "Redistributions of source code must retain the above copyright" in text
    table = tomllib.loads((KERNEL / "pyproject.toml").read_text(encoding="utf-8"))
    included = table["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["third_party/torch/LICENSE"] == "flashcore/licenses/LICENSE-pytorch"


@pytest.mark.nightly  # torch is 200 MB
def test_the_headers_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason=f"install torch=={VERSION}+cpu")
    if torch.__version__.partition("+")[0] != VERSION:
        pytest.skip(f"the headers are of PyTorch {VERSION}, installed is {torch.__version__}")
    spec = importlib.util.find_spec("torch")
    assert spec
    assert spec.origin
    for path in sorted(INCLUDE.rglob("*.h")):
        original = Path(spec.origin).parent / "include" / path.relative_to(INCLUDE)
        assert path.read_bytes() == original.read_bytes(), path
