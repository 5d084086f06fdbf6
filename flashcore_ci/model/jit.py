"""Frameworks that compile kernels at run time: where each keeps what it made."""

from __future__ import annotations

from collections.abc import Iterable

from flashcore_ci.model.evidence import JitModule

CACHE_VARIABLES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TILELANG_CACHE_DIR": "tilelang",
    "TILELANG_TMP_DIR": "tilelang",
    "CUTE_DSL_CACHE_DIR": "cute-dsl",
    "CUTE_DSL_DUMP_DIR": "cute-dsl",
    "CUPY_CACHE_DIR": "cupy",
    "NUMBA_CACHE_DIR": "numba",
    "TORCH_EXTENSIONS_DIR": "extension",
    "CUDA_CACHE_PATH": "driver",
}
"""Each run has a folder of its own for each, so it neither uses nor reads what an earlier run left."""
KEEPING = {"CUTE_DSL_KEEP_CUBIN": "1", "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0"}
"""Frameworks keep their cubins, and launch where the worker sees it."""
LIBRARY = "library"
"""The framework of host code, and of a kernel whose machine code was not found. It has no digest then."""
MAX_LAUNCHES = 10_000
BASE = "base/"
"""Begins the names of the base's modules in a comparison."""


def is_complete(modules: Iterable[JitModule]) -> bool:
    """Tell whether each launched kernel has machine code, and no other library was loaded."""
    found = tuple(modules)
    return any(module.launches for module in found) and all(m.digest and m.framework != LIBRARY for m in found)


def choices(modules: Iterable[JitModule]) -> dict[str, str]:
    """Map each tuned kernel to the configuration that its autotuner chose."""
    return {m.name: ", ".join(f"{key}={value}" for key, value in m.configuration) for m in modules if m.configuration}


def retuned(modules: Iterable[JitModule]) -> tuple[str, ...]:
    """Describe each kernel whose autotuner chose otherwise for head than for the base."""
    found = tuple(modules)
    heads = choices(module for module in found if not module.name.startswith(BASE))
    bases = {name.removeprefix(BASE): chosen for name, chosen in choices(found).items() if name.startswith(BASE)}
    names = sorted(name for name in heads.keys() & bases.keys() if heads[name] != bases[name])
    return tuple(f"retuned: {name} runs with {heads[name]}, and the base's with {bases[name]}" for name in names)
