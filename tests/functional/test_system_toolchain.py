"""The machine's own CUDA 12, by a stand-in: its wheel on PyPI has no nvcc. It names its cubin by architecture, as CUDA 12 does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tiny_kernel

from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.options import CompileOptions

NVCC = """#!/bin/bash
if [ "$1" = --version ]; then
  echo "nvcc: NVIDIA (R) Cuda compiler driver"
  echo "Cuda compilation tools, release 12.8, V12.8.93"
  exit 0
fi
echo "$@" >> {log}
{nvcc} "$@" || exit
while [ $# -gt 0 ]; do [ "$1" = --keep-dir ] && keep=$2; shift; done
[ -z "$keep" ] || for file in "$keep"/*.cubin; do mv "$file" "${{file%.cubin}}.sm_80.cubin"; done
"""


@pytest.fixture
def cuda(toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like /usr/local/cuda-12.8 at the front of PATH."""
    top = tmp_path / "cuda-12.8"
    (top / "bin").mkdir(parents=True)
    (top / "bin/nvcc").write_text(NVCC.format(nvcc=toolchain.nvcc, log=tmp_path / "commands"))
    (top / "bin/nvcc").chmod(0o755)
    (top / "bin/nvdisasm").symlink_to(toolchain.nvdisasm)
    (top / "lib64").mkdir()
    for name in ("libcudart_static.a", "libcudadevrt.a"):
        (top / "lib64" / name).symlink_to(toolchain.lib / name)
    (top / "include").symlink_to(toolchain.top / "include")
    monkeypatch.setenv("PATH", f"{top / 'bin'}:{os.environ['PATH']}")
    return top


def test_a_kernel_is_built_with_the_machines_cuda_12(cuda: Path, root: Path, tmp_path: Path, build) -> None:
    found = tools.find_system()
    assert found is not None
    assert (found.version, found.compiler, found.sanitizer) == ("12.8.93", "nvcc 12.8.93", None)
    assert tools.driver_floor(found.version) == 525
    options = CompileOptions(architectures=("sm_80",), defines=("UNUSED=1",))
    (made,) = build(root, (tiny_kernel.description(launchers=(), compile=options),), with_tools=found)
    assert made.error is None
    assert (made.compiler, [entry.symbol for entry in made.entries]) == ("nvcc 12.8.93", ["tiny"])
    assert made.entries[0].highest_register > 0
    commands = (tmp_path / "commands").read_text()
    assert "-gencode=arch=compute_80,code=sm_80" in commands
    assert "--use_fast_math" not in commands
    assert "-DUNUSED=1" in commands


def test_a_cuda_without_its_parts_is_refused_with_a_fix(cuda: Path) -> None:
    (cuda / "bin/nvdisasm").unlink()
    with pytest.raises(CannotCollectError, match="has no nvdisasm") as caught:
        tools.find_system()
    assert caught.value.fix == "flashcore-ci toolchain install"
