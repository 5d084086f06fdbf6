"""Observe what frameworks compile at run time, and which configurations autotuners choose."""

from __future__ import annotations

import importlib
import importlib.util
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashcore_ci.model.jit import CACHE_VARIABLES

ELF = b"\x7fELF"
EM_CUDA = 190
_MACHINE, _SECTIONS = struct.Struct("<H"), struct.Struct("<QIHHHHHH")
MAX_IMAGES = 2000
MAX_FILE = 256 << 20
SYSTEM = ("/usr", "/lib", "/lib64", "/opt", "/memfd:", "/dev")


LOADERS = (
    ("cuda.bindings.nvrtc", "nvrtcGetCUBIN", 1),
    ("cuda.bindings.driver", "cuModuleLoadData", 0),
    ("cuda.bindings.driver", "cuModuleLoadDataEx", 0),
    ("cuda.bindings.driver", "cuLibraryLoadData", 0),
)
"""Functions of NVIDIA's Python packages with a cubin as this argument: NVRTC and CuTe DSL use them."""


class Observer:
    """Triton's kernels by launch, loaded cubins, and all autotuners, from now on."""

    def __init__(self) -> None:
        self.loaded: list[bytes] = []
        self.kernels: dict[str, tuple[str, bytes]] = {}
        self._tuners: dict[int, Any] = {}
        self._watch("triton.compiler.compiler", "CompiledKernel", "launch_metadata", self._launched)
        self._watch("triton.runtime.autotuner", "Autotuner", "run", self._tuned)
        self._watch("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", "run", self._tuned)
        for module, function, place in LOADERS:
            self._watch_loader(module, function, place)
        if "triton" in sys.modules:  # Inductor asks for metadata only where a hook is installed
            knobs: Any = getattr(importlib.import_module("triton"), "knobs", None)
            hooks: Any = getattr(getattr(knobs, "runtime", None), "launch_enter_hook", None)
            if hasattr(hooks, "add"):
                hooks.add(lambda _: None)

    def forget(self) -> None:
        """Begin the launches that count."""
        self.kernels.clear()
        self._tuners.clear()

    def choices(self) -> dict[str, dict[str, str]]:
        """Return what each autotuner chose last, by kernel."""
        chosen = {}
        for tuner in self._tuners.values():
            launchers = getattr(tuner, "launchers", None)
            config = getattr(tuner, "best_config", None) or (launchers[0].config if launchers else None)
            if config is not None and len(getattr(tuner, "configs", None) or ()) != 1:
                name = getattr(getattr(tuner, "base_fn", None) or getattr(tuner, "fn", None), "__name__", "")
                chosen[name or type(tuner).__name__] = _settings(config)
        return chosen

    def _tuned(self, tuner: Any, *_: Any) -> None:
        self._tuners[id(tuner)] = tuner

    def _launched(self, kernel: Any, *_: Any) -> None:
        self.kernels[kernel.hash] = (kernel.metadata.name, bytes(kernel.asm.get("cubin", b"")))

    def _watch_loader(self, module: str, function: str, place: int) -> None:
        """Keep the cubin of each call."""
        try:
            watched = importlib.import_module(module)
            original = getattr(watched, function)
        except (ImportError, AttributeError, OSError, RuntimeError):
            return

        def replacement(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            image = arguments[place] if len(arguments) > place else None
            if isinstance(image, bytes | bytearray | memoryview) and len(self.loaded) < MAX_IMAGES:
                self.loaded += cut_images(bytes(image))
            return result

        setattr(watched, function, replacement)

    @staticmethod
    def _watch(module: str, owner: str, method: str, note: Any) -> None:
        """Call ``note`` before a method, if the framework is installed."""
        if importlib.util.find_spec(module.split(".", 1)[0]) is None:
            return
        try:
            watched = getattr(importlib.import_module(module), owner)
            original = getattr(watched, method)
        except (ImportError, AttributeError):
            return

        def replacement(self: Any, *arguments: Any, **named: Any) -> Any:
            note(self, *arguments)
            return original(self, *arguments, **named)

        setattr(watched, method, replacement)


def _settings(config: Any) -> dict[str, str]:
    """Return a configuration's constants and its numbers of warps, stages and the like."""
    numbers = {name: getattr(config, name, None) for name in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    constants = getattr(config, "kwargs", None) or {}
    return {name: str(value)[:80] for name, value in {**constants, **numbers}.items() if value is not None}


def images() -> Iterator[tuple[str, bytes]]:
    """Yield (framework, cubin) for what is in the caches of this process."""
    for variable, framework in CACHE_VARIABLES.items():
        folder = os.environ.get(variable)
        for path in sorted(Path(folder).rglob("*")) if folder else ():
            if path.is_file() and path.stat().st_size <= MAX_FILE:
                yield from ((framework, image) for image in cut_images(path.read_bytes()))


def cut_images(data: bytes) -> Iterator[bytes]:
    """Yield each cubin in a file: some frameworks put a digest, a header or a library around it."""
    at = data.find(ELF)
    while at >= 0:
        with_header = data[at : at + 64]
        if len(with_header) == 64 and _MACHINE.unpack_from(with_header, 18)[0] == EM_CUDA:  # noqa: PLR2004 - an ELF header
            begin, *_, size, count, _ = _SECTIONS.unpack_from(with_header, 40)
            programs_at = struct.unpack_from("<Q", with_header, 32)[0]
            programs = struct.unpack_from("<HH", with_header, 54)
            yield data[at : at + max(begin + size * count, programs_at + programs[0] * programs[1])]
        at = data.find(ELF, at + 1)


def libraries() -> list[str]:
    """Return the mapped libraries that neither the system nor the interpreter nor a framework's cache holds."""
    caches = [os.environ[name] for name, framework in CACHE_VARIABLES.items() if name in os.environ and framework != "extension"]
    known = tuple(f"{os.path.realpath(folder)}/" for folder in (*SYSTEM, sys.prefix, sys.base_prefix, *caches))
    mapped = {line.split(maxsplit=5)[5].strip() for line in _maps() if len(line.split(maxsplit=5)) > 5}  # noqa: PLR2004
    return sorted(name for name in mapped if ".so" in Path(name).name and not os.path.realpath(name).startswith(known))


def _maps() -> list[str]:
    return Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
