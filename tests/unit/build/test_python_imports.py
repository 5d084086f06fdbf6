"""The files that a subject imports or names."""

from pathlib import Path

import pytest

from flashcore_ci.build.python_imports import always_imported, closure
from flashcore_ci.build.sources import Sources

FILES = {
    "subjects/softmax.py": "import torch, os\nfrom kernels import soft\nfrom mine.deep.inner import f\nCONFIG = 'tuned.json'\n",
    "kernels/__init__.py": "",
    "kernels/soft.py": "from . import helper\nfrom .sub.more import g\nimport triton.language as tl\n",
    "kernels/helper.py": "def late():\n    import lazy\n",
    "kernels/sub/more.py": "from ..other import x\n",
    "kernels/other.py": "import importlib\nimportlib.import_module('kernels.dynamic')\n",
    "kernels/dynamic.py": "NAMES = 'configs/*.json'\n",
    "kernels/configs/a.json": "{}",
    "kernels/unused.py": "",
    "src/mine/__init__.py": "",
    "src/mine/deep/__init__.py": "from .inner import f\n",
    "src/mine/deep/inner.py": "def f(): return torch.compile(f)\n",
    "lazy.py": "",
    "subjects/tuned.json": "{}",
}


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Sources(tmp_path)


def test_a_closure_has_all_that_is_imported_or_named(sources: Sources) -> None:
    found = closure(["subjects/softmax.py"], sources)
    assert set(found.files) == set(FILES) - {"kernels/unused.py"}
    assert found.modules == ("torch", "triton")
    assert found.compiles


def test_a_folder_that_a_string_names_may_be_imported_from(sources: Sources) -> None:
    (sources.root / "lib/parts").mkdir(parents=True)
    (sources.root / "lib/parts/inner.py").write_text("import outer\n")
    (sources.root / "lib/outer.py").write_text("")
    (sources.root / "one.py").write_text("import sys\nsys.path.insert(0, 'lib')\nimport parts.inner\n")
    found = closure(["one.py"], sources)
    assert (found.files, found.modules) == (("lib/outer.py", "lib/parts/inner.py", "one.py"), ())


def test_modules_that_are_not_of_the_checkout_are_named(sources: Sources) -> None:
    (sources.root / "one.py").write_text("import liger_kernel.ops.rms_norm\nfrom torch import nn\nimport flashcore_ci.model\n")
    assert closure(["one.py"], sources).modules == ("liger_kernel", "torch")


@pytest.mark.parametrize(
    "text", ["'/etc/passwd'", "'../outside.py'", "'*'", "'a\\0b'", "'x' * 3", "f'{1}.json'", "'" + "a/" * 99 + "'"]
)
def test_other_strings_name_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "outside.py").write_text("")
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout/one.py").write_text(f"NAME = {text}\n")
    assert closure(["one.py"], Sources(tmp_path / "checkout")).files == ("one.py",)


def test_a_file_that_is_no_python_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import (")
    assert closure(["one.py"], Sources(tmp_path)).files == ("one.py",)


def test_what_a_source_imports_whenever_it_runs(sources: Sources) -> None:
    assert always_imported("subjects/softmax.py", sources) == (
        "kernels/__init__.py",
        "kernels/soft.py",
        "src/mine/__init__.py",
        "src/mine/deep/__init__.py",
        "src/mine/deep/inner.py",
    )
    assert always_imported("kernels/soft.py", sources) == ("kernels/__init__.py", "kernels/helper.py", "kernels/sub/more.py")


@pytest.mark.parametrize(
    "text",
    [
        "def late():\n    import lazy\n",
        "if False:\n    import lazy\n",
        "try:\n    import lazy\nexcept ImportError:\n    pass\n",
        "class A:\n    import lazy\n",
        "NAME = 'lazy'\n",
        "import torch, os\n",
        "import lazy\n)",
    ],
)
def test_what_it_may_import_is_not_among_them(sources: Sources, text: str) -> None:
    (sources.root / "perhaps.py").write_text(text)
    assert always_imported("perhaps.py", sources) == ()
