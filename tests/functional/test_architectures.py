"""Kernels compile for every architecture with both pinned toolchains. No GPU is needed, and nothing is run.

The cache is the user's own, so only the first run of a checkout compiles.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.subjects import build_subjects
from flashcore_ci.model.devices import ARCHITECTURES
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.options import CompileOptions
from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec
from flashcore_ci.suite.settings import Settings

ROOT = Path(__file__).parents[2]
STREAM = tomllib.loads((ROOT / "kernel/variants.toml").read_text(encoding="utf-8"))["stream"]
OWN = "tests/functional/architectures"
KERNELS: dict[str, dict[str, Any]] = {
    "softmax_f32": {"source": f"{OWN}/softmax.cu"},
    "matmul_f16": {"source": f"{OWN}/matmul.cu", "defines": ("TILE_K=16",)},
    "flashcore_stream_axpy_f32": {
        "source": "kernel/instantiations/flashcore_stream_axpy_f32.cu",
        "launchers": tuple(STREAM["launchers"]),
        "includes": tuple(STREAM["includes"]),
    },
}


def compiled(symbol: str, version: str, out: Path, standard: str = "c++17") -> tuple[BuildEvidence, ...]:
    """Compile one kernel for every architecture with one toolchain."""
    settings, kernel = Settings.from_environment(os.environ), KERNELS[symbol]
    entry = EntrySpec(symbol=symbol, source=kernel["source"], max_registers=255, dynamic_shared_bytes=0)
    lists = {key: kernel.get(key, ()) for key in ("launchers", "includes")}
    descriptions = tuple(
        Description(
            subject=name,
            file="kernel/subjects/stream.py",
            build=BuildSpec(
                library="libkernel.so",
                binding=(),
                entries=(entry,),
                compile=CompileOptions(architectures=(name,), defines=kernel.get("defines", ()), standard=standard),
                **lists,
            ),
            problems=(),
        )
        for name in ARCHITECTURES
    )
    chosen = tools.install(settings.home, sys.executable, print, version)
    cache = settings.home / "cache"
    return build_subjects(
        descriptions, root=ROOT, toolchain=chosen, out=out, cache=cache, jobs=2, progress=lambda done, of, what: None
    )


def check(builds: tuple[BuildEvidence, ...], symbol: str, version: str) -> None:
    assert [build.subject for build in builds] == list(ARCHITECTURES)
    for build in builds:
        assert build.error is None, (build.subject, build.error)
        assert build.compiler.startswith(f"nvcc {version}.")
        assert f"code={build.subject}" in next(option for option in build.options if option.startswith("-gencode"))
        assert "--use_fast_math" not in build.options
        (entry,) = build.entries
        assert entry.symbol == symbol
        assert 0 < entry.highest_register <= 255
        assert entry.opcodes
    assert len({build.entries[0].digest for build in builds}) == len(builds)


def test_one_kernel_for_every_architecture(tmp_path: Path) -> None:
    """As C++14, whose headers are shorter. At night all are compiled as C++17."""
    check(compiled("softmax_f32", tools.DEFAULT, tmp_path / "out", "c++14"), "softmax_f32", tools.DEFAULT)


@pytest.mark.nightly
@pytest.mark.parametrize("version", tools.VERSIONS)
@pytest.mark.parametrize("symbol", KERNELS)
def test_every_kernel_for_every_architecture_with_both_toolchains(symbol: str, version: str, tmp_path: Path) -> None:
    check(compiled(symbol, version, tmp_path / "out"), symbol, version)
