"""What FlashCore's libraries export, and that two of them in one process do not share a variable."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

HOST = Path(__file__).parent
KERNEL = HOST.parents[2] / "kernel"
SHARED = {
    "constexpr const AttentionVariant* kVariants": "inline constexpr const AttentionVariant* kVariants",
    "namespace {  // each": "// each",
}
"""Changes to attention/launcher.h that give the process one table."""


@pytest.fixture(scope="module")
def wheel_hook() -> ModuleType:
    sys.path.insert(0, str(KERNEL))
    try:
        import wheel_hook
    finally:
        sys.path.remove(str(KERNEL))
    return wheel_hook


def compile_twice(folder: Path, *options: str) -> list[Path]:
    libraries = [folder / "first.so", folder / "second.so"]
    sources = [HOST / "two_libraries.cpp", *(KERNEL / f"src/{name}.cu" for name in ("attention", "varlen", "abi"))]
    argv = [
        "g++",
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        *options,
        f"-I{HOST / 'runtime'}",
        f"-I{KERNEL / 'include'}",
        "-x",
        "c++",
    ]
    subprocess.run([*argv, *map(str, sources), "-o", str(libraries[0])], check=True)
    libraries[1].write_bytes(libraries[0].read_bytes())
    return libraries


def attend(libraries: list[Path]) -> list[int]:
    """Return how often each library launched by itself, after one call of each."""
    code = "import ctypes, sys\nfor name in sys.argv[1:]: print(ctypes.CDLL(name).flashcore_test_attend())"
    done = subprocess.run([sys.executable, "-c", code, *map(str, libraries)], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def test_the_suites_of_flashcore_hide_symbols() -> None:
    for file in sorted((KERNEL.parent / "gates").glob("*.toml")):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        assert table.get("build", {}).get("hidden_symbols", True), file


def test_two_libraries_of_a_process_keep_their_variants(wheel_hook: ModuleType, tmp_path: Path) -> None:
    hidden, visible, shared = (tmp_path / name for name in ("hidden", "visible", "shared"))
    for folder in (hidden, visible, shared):
        folder.mkdir()
    libraries = compile_twice(hidden, "-fvisibility=hidden")
    assert attend(libraries) == [1, 1]
    wheel_hook.check_exports(libraries[0])
    libraries = compile_twice(visible)  # as another build system would
    assert attend(libraries) == [1, 1]
    with pytest.raises(ValueError, match=r"^first.so: exports \w+, .* Build it with -fvisibility=hidden"):
        wheel_hook.check_exports(libraries[0])
    text = (KERNEL / "include/flashcore/attention/launcher.h").read_text(encoding="utf-8")
    text = text.replace(text[text.index("}\n\n}  // namespace\n") :][:20], "}\n\n", 1)
    for old, new in {**SHARED, "\nStatus find_variant": "\ninline Status find_variant"}.items():
        assert old in text
        text = text.replace(old, new, 1)
    header = shared / "flashcore/attention/launcher.h"
    header.parent.mkdir(parents=True)
    header.write_text(text, encoding="utf-8")
    assert attend(compile_twice(shared, f"-I{shared}")) == [1, 0]  # the defect, which this test sees


def test_a_wheel_refuses_a_library_with_variables(wheel_hook: ModuleType, tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    source = 'inline int table[2] = {1, 2}; extern "C" int flashcore_look(int i) { return table[i]; }'
    for options, refused in ((["-fvisibility-inlines-hidden"], "table"), ([], "table"), (["-fvisibility=hidden"], "no function")):
        argv = ["g++", "-std=c++17", "-shared", "-fPIC", *options, "-x", "c++", "-", "-o", str(library)]
        subprocess.run(argv, input=source, text=True, check=True)
        with pytest.raises(ValueError, match=rf"library.so: exports .*{refused}"):
            wheel_hook.check_exports(library)
    assert ctypes.CDLL(str(library))
