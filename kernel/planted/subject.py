"""Subject: the kernels with extra work in them, for ``flashcore-ci calibrate``: how small a slow-down does this machine show?

Parameters of a workload: ``kernel`` (attention, stream), ``extra`` (work besides; 0 is the kernel as it ships), and those of
that kernel's own subject, which does all the rest.
"""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib
import sys
import tomllib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

FOLDER = "kernel/planted"
SUBJECTS = pathlib.Path(__file__).resolve().parents[1] / "subjects"
ENTRIES = {
    "flashcore_planted_attention_d64": ("attention", "d64", "attention_d64.cu"),
    "flashcore_planted_attention_d128": ("attention", "d128", "attention_d128.cu"),
    "flashcore_planted_stream": ("stream", "vector", "stream.cu"),
}

_library: ctypes.CDLL | None = None


def build(root: pathlib.Path) -> dict[str, Any]:
    """Like the builds of both kernels, with their budgets."""
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))
    subjects = [f"kernel/subjects/{name}.py" for name in ("attention", "stream")]
    return {
        "library": "libflashcore_planted.so",
        "launchers": ["kernel/src/attention.cu", "kernel/src/stream.cu", "kernel/src/abi.cu", f"{FOLDER}/extra.cu"],
        "includes": [f"{FOLDER}/include", "kernel/include", "kernel/instantiations", FOLDER],
        "binding": sorted({*subjects, *table["attention"]["binding"], *table["stream"]["binding"]}),
        "entries": [
            {
                "symbol": symbol,
                "source": f"{FOLDER}/{source}",
                **{key: table[kernel]["tiles"][tile][key] for key in ("max_registers", "dynamic_shared_bytes")},
            }
            for symbol, (kernel, tile, source) in ENTRIES.items()
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """That of the kernel itself: the extra work is nobody's need."""
    subject, own = _subject(params)
    entry = "flashcore_planted_stream" if params["kernel"] == "stream" else f"flashcore_planted_attention_d{own['d']}"
    return {**subject.problem(own), "entries": [entry]}


def load(library: pathlib.Path) -> None:
    """Both kernels from this library."""
    global _library  # noqa: PLW0603 - a subject is a module; its library is its state
    for name in ("attention", "stream"):
        _module(name).load(library)
    _library = ctypes.CDLL(str(library))
    _library.flashcore_planted_extra.argtypes = [ctypes.c_int]
    _library.flashcore_planted_extra.restype = None


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Those of the kernel itself, and what it is asked to do besides."""
    subject, own = _subject(params)
    return {**subject.inputs(own, seed), "kernel": params["kernel"], "extra": int(params["extra"])}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the kernel itself."""
    outputs: dict[str, Any] = _module(inputs["kernel"]).outputs(inputs)
    return outputs


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """One launch on the current stream."""
    assert _library is not None
    _library.flashcore_planted_extra(inputs["extra"])
    _module(inputs["kernel"]).run(inputs, outputs)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """That of the kernel itself."""
    reference: dict[str, Any] = _module(inputs["kernel"]).reference(inputs)
    return reference


def _subject(params: Mapping[str, Any]) -> tuple[ModuleType, dict[str, Any]]:
    """The subject of the kernel itself, and the parameters that it knows."""
    if params["kernel"] not in ("attention", "stream"):
        raise ValueError(f"kernel: must be attention or stream, is {params['kernel']!r}")
    if not isinstance(params["extra"], int) or params["extra"] < 0:
        raise ValueError("extra: must be a whole number, zero or more")
    own = {name: value for name, value in params.items() if name not in ("kernel", "extra")}
    return _module(params["kernel"]), own


def _module(name: str) -> ModuleType:
    known = sys.modules.get(f"flashcore_planted_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"flashcore_planted_{name}", SUBJECTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
