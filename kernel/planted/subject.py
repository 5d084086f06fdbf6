"""Subject: the kernels with extra work, which ``flashcore-ci calibrate`` measures.

Parameters: ``kernel`` (attention, stream), ``extra`` (0: the kernel as it ships), and those of that kernel's subject.
"""

from __future__ import annotations

import ctypes
import functools
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
    "flashcore_attention_fwd_d64_fp16_full": ("attention", "d64", "attention_d64.cu"),
    "flashcore_attention_fwd_d128_fp16_full": ("attention", "d128", "attention_d128.cu"),
    "flashcore_planted_attention_d64": ("attention", "d64", "attention_d64.cu"),
    "flashcore_planted_attention_d128": ("attention", "d128", "attention_d128.cu"),
    "flashcore_planted_stream": ("stream", "vector", "stream.cu"),
}

_library: ctypes.CDLL | None = None


def build(root: pathlib.Path) -> dict[str, Any]:
    """Combine the builds of both kernels, with their limits."""
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
    """Count the kernel's work without the extra."""
    subject, subject_params = _split_params(params)
    suffix = "stream" if params["kernel"] == "stream" else f"attention_d{subject_params['d']}"
    return {**subject.problem(subject_params), "entries": [f"flashcore_planted_{suffix}"]}


def load(library: pathlib.Path) -> None:
    """Load both kernels from this library."""
    global _library  # noqa: PLW0603 - the library is the state of this module
    for name in ("attention", "stream"):
        _load_subject(name).load(library)
    _library = ctypes.CDLL(str(library))
    _library.flashcore_planted_extra.argtypes = [ctypes.c_int]
    _library.flashcore_planted_extra.restype = None


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw the kernel's inputs, and add the extra work."""
    subject, subject_params = _split_params(params)
    return {**subject.inputs(subject_params, seed), "kernel": params["kernel"], "extra": int(params["extra"])}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate the kernel's outputs."""
    outputs: dict[str, Any] = _load_subject(inputs["kernel"]).outputs(inputs)
    return outputs


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
    assert _library is not None
    _library.flashcore_planted_extra(inputs["extra"])
    _load_subject(inputs["kernel"]).run(inputs, outputs)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the kernel's reference."""
    reference: dict[str, Any] = _load_subject(inputs["kernel"]).reference(inputs)
    return reference


def _split_params(params: Mapping[str, Any]) -> tuple[ModuleType, dict[str, Any]]:
    """Return the kernel's subject and its parameters."""
    if params["kernel"] not in ("attention", "stream"):
        raise ValueError(f"kernel: must be attention or stream, is {params['kernel']!r}")
    if not isinstance(params["extra"], int) or params["extra"] < 0:
        raise ValueError(f"extra: must be a whole number, zero or more, is {params['extra']!r}")
    subject_params = {name: value for name, value in params.items() if name not in ("kernel", "extra")}
    return _load_subject(params["kernel"]), subject_params


@functools.cache
def _load_subject(name: str) -> ModuleType:
    """Load a kernel's subject once."""
    spec = importlib.util.spec_from_file_location(f"flashcore_planted_{name}", SUBJECTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
