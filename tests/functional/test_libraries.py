"""A subject that uses libraries: found in a folder or in packages, known by their bytes, linked by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tiny_kernel

from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.options import CompileOptions

LAUNCHER = """#include <cublas_v2.h>
#include <cute/tensor.hpp>
extern "C" int tiny_version() { return stand_in_version() + CUTE_STAND_IN; }
"""


def library(top: Path, *, version: int = 13) -> Path:
    """Write a stand-in of cuBLAS: headers, and two shared objects. Next to them is a header of another CUDA."""
    (top / "include").mkdir(parents=True)
    (top / "lib").mkdir()
    (top / "include/cublas_v2.h").write_text('#pragma once\n#include "cublas_api.h"\n')
    (top / "include/cublas_api.h").write_text('#pragma once\nextern "C" int stand_in_version();\n')
    (top / "include/cuda_runtime.h").write_text("#error this is the header of another CUDA\n")
    for name, text in (("cublas", f'extern "C" int stand_in_version() {{ return {version}; }}'), ("cublasLt", "")):
        object_file = top / f"lib/lib{name}.so.13"
        argv = ["g++", "-shared", "-fPIC", "-x", "c++", "-", f"-Wl,-soname,{object_file.name}", "-o", object_file]
        subprocess.run(argv, input=text, text=True, check=True)
    return top


def cutlass(packages: Path) -> None:
    for name, text in (("cutlass/cutlass.h", ""), ("cute/tensor.hpp", "#define CUTE_STAND_IN 29\n")):
        file = packages / "cutlass_library/source/include" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """An interpreter's packages: the interpreter is this one, with another path."""
    folder = tmp_path / "site-packages"
    library(folder / "nvidia/cu13")
    cutlass(folder)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def described(*names: str):
    options = CompileOptions(architectures=("sm_90a",), libraries=names)
    return (tiny_kernel.description(compile=options),)


def test_packages_are_found_and_a_changed_byte_changes_the_digest(packages: Path, root: Path, tmp_path: Path, build) -> None:
    (root / "kernel/launch.cu").write_text(LAUNCHER)
    (made,) = build(root, described("cublas", "cutlass"), python=packages)
    assert made.error is None
    built = root.parent / "out" / made.library
    asked = subprocess.run(["ldd", built], capture_output=True, text=True, check=True).stdout
    assert "libcublas.so.13" in asked
    prefix = library(tmp_path / "prefix", version=14)
    (other,) = build(root, described("cublas", "cutlass"), python=packages, prefix=prefix)
    assert (other.error, other.launcher != made.launcher) == (None, True)
    assert other.entries[0].digest == made.entries[0].digest
    (again,) = build(root, described("cublas", "cutlass"), python=packages)
    assert again.launcher == made.launcher


def test_a_library_that_is_not_asked_for_is_not_found(packages: Path, root: Path, build) -> None:
    (root / "kernel/launch.cu").write_text(LAUNCHER)
    (made,) = build(root, described("cutlass"), python=packages)
    assert made.error is not None
    assert "cublas_v2.h" in made.error.message


@pytest.mark.parametrize("name", ["cublas", "cudnn", "cutlass"])
def test_an_absent_library_is_named_with_its_package(root: Path, tmp_path: Path, build, name: str) -> None:
    with pytest.raises(CannotCollectError, match=f"the library {name} is not on this machine") as caught:
        build(root, described(name), python=Path(sys.executable), prefix=tmp_path)
    assert "nvidia-" in caught.value.fix
    assert "FLASHCORE_CI_LIBRARIES" in caught.value.fix
