"""Compile kernels for the emulator, into a library with the C ABI of the real one."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from emulator_rewrite import rewrite

HERE = Path(__file__).parent
KERNEL = HERE.parents[2] / "kernel"
COMMON = ("-std=gnu++17", "-fPIC", "-fvisibility=default", "-g1", "-w", "-fno-gnu-unique")
EMULATOR = (*COMMON, "-O1", "-fno-strict-aliasing")
DEVICE = (
    *(*COMMON, "-O1", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off", "-ftrivial-auto-var-init=pattern"),
    *("-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"),
)
_LISTED = re.compile(r"^ +X\((\w+)_variant\)", re.MULTILINE)


def cache() -> Path:
    """Return the folder of compiled objects, which are found by their contents."""
    named = os.environ.get("FLASHCORE_EMULATOR_CACHE")
    folder = Path(named) if named else Path(tempfile.gettempdir()) / f"flashcore-emulator-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr[:4000]}")
    return done.stdout


def _compile(text: str, flags: Iterable[str]) -> Path:
    """Compile preprocessed text, unless its object exists."""
    key = hashlib.sha256("\0".join((text, *flags)).encode()).hexdigest()[:32]
    out = cache() / f"{key}.o"
    if not out.exists():
        source = cache() / f"{key}.{os.getpid()}.ii"
        source.write_text(text)
        _run("g++", *flags, "-x", "c++-cpp-output", "-c", source, "-o", source.with_suffix(".o"))
        source.with_suffix(".o").rename(out)
        source.unlink()
    return out


def _preprocess(source: Path, includes: Iterable[Path], defines: Iterable[str] = ()) -> str:
    return _run("g++", "-std=gnu++17", "-E", "-x", "c++", *(f"-D{d}" for d in defines), *(f"-I{i}" for i in includes), source)


def _write_lists(overlay: Path, kernel: Path, variants: Iterable[str]) -> None:
    """Leave out of the lists of entry functions those that this library does not have."""
    chosen = set(variants)
    for header in (kernel / "include").rglob("*variants.h"):
        text = header.read_text()
        body = "".join(f" \\\n    X({name}_variant)" for name in _LISTED.findall(text) if name in chosen)
        macro = re.search(r"#define (\w+)\(X\)", text)
        if macro is None:
            continue
        out = overlay / header.relative_to(kernel / "include")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(f"#pragma once\n#define {macro[1]}(X){body}\n")


def _mutate(overlay: Path, kernel: Path, mutations: Mapping[str, tuple[str, str]]) -> None:
    """Write changed copies of headers, which are found before the originals."""
    for name, (old, new) in mutations.items():
        text = (kernel / "include" / name).read_text()
        if text.count(old) != 1:
            raise ValueError(f"{name} has {text.count(old)} times {old!r}")
        out = overlay / name
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text.replace(old, new))


def build(
    out: Path,
    variants: Iterable[str],
    sources: Iterable[str],
    *,
    mutations: Mapping[str, tuple[str, str]] | None = None,
    kernel: Path = KERNEL,
) -> Path:
    """Compile entry functions and launchers (names of files in ``kernel/instantiations`` and ``kernel/src``) into ``out``.

    ``mutations`` maps a header below ``kernel/include`` to a text in it and its replacement.
    """
    variants = tuple(variants)
    with tempfile.TemporaryDirectory() as folder:
        overlay = Path(folder)
        _write_lists(overlay, kernel, variants)
        _mutate(overlay, kernel, mutations or {})
        includes = (overlay, HERE / "include", kernel / "include")
        objects = [_compile(_preprocess(kernel / "src" / f"{name}.cu", includes), EMULATOR) for name in ("abi", *sources)]
        for name in variants:
            text = rewrite(_preprocess(kernel / "instantiations" / f"{name}.cu", includes).replace(folder, "overlay"))
            objects.append(_compile(text, DEVICE))
        together = overlay / "emulator.cpp"
        together.write_text("".join(f'#include "{source}"\n' for source in sorted((HERE / "src").glob("*.cpp"))))
        text = _preprocess(together, (HERE / "include", HERE / "src")).replace(folder, "overlay")
        objects.append(_compile(text, EMULATOR))
    _run("g++", "-shared", "-o", out, *objects, "-Wl,-Bsymbolic", "-ldl")
    return out
