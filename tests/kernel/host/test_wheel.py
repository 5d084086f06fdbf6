"""What the wheel's libraries need of glibc and libstdc++, on libraries compiled here."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

KERNEL = Path(__file__).parents[3] / "kernel"
BUILT = sorted((KERNEL.parent / "runs/latest/build").glob("*/libflashcore_*.so"))
"""What ``make gate`` left."""

OLD = """
#include <dlfcn.h>
#include <pthread.h>
static void* add(void* sum) { *(int*)sum += 5; return 0; }
int run(void) {
    pthread_t thread;
    int sum = dlsym(RTLD_DEFAULT, "abort") != 0;
    pthread_create(&thread, 0, add, &sum);
    pthread_join(thread, 0);
    return sum;
}
"""
NEW = "extern char __libc_single_threaded; int run(void) { return __libc_single_threaded; }"  # since glibc 2.32


@pytest.fixture(scope="module")
def wheel_hook() -> ModuleType:
    sys.path.insert(0, str(KERNEL))
    try:
        import wheel_hook
    finally:
        sys.path.remove(str(KERNEL))
    return wheel_hook


def compile_c(folder: Path, text: str) -> Path:
    source, library = folder / "library.c", folder / "library.so"
    source.write_text(text, encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


def test_functions_that_moved_into_glibc_bind_to_their_oldest_version(wheel_hook: ModuleType, tmp_path: Path) -> None:
    library = compile_c(tmp_path, OLD)
    wheel_hook.drop_moved_versions(library)
    wheel_hook.check_symbols(library)
    assert wheel_hook.MOVED_IN.split("_")[1] not in wheel_hook.list_needs(library)["GLIBC"]
    assert ctypes.CDLL(str(library)).run() == 6


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "__libc_single_threaded"), reason="glibc is older than 2.32")
def test_a_newer_symbol_is_refused_with_the_library(wheel_hook: ModuleType, tmp_path: Path) -> None:
    library = compile_c(tmp_path, NEW)
    wheel_hook.drop_moved_versions(library)
    with pytest.raises(ValueError, match=r"^library.so: needs GLIBC_2.32, and py3-none-manylinux_2_28_x86_64 does not have it"):
        wheel_hook.check_symbols(library)


def test_a_folder_without_libraries_is_named(wheel_hook: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^FLASHCORE_LIBRARIES: '.*' has no libflashcore_attention.so. Run flashcore-ci build"):
        wheel_hook.collect(tmp_path, tmp_path)


def test_a_library_without_symbols_has_the_size_that_strip_leaves(wheel_hook: ModuleType, tmp_path: Path) -> None:
    library, stripped = compile_c(tmp_path, OLD), tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", str(stripped), str(library)], check=True)
    assert wheel_hook.measure_stripped(library) == pytest.approx(stripped.stat().st_size, abs=1024)
    assert wheel_hook.measure_stripped(stripped) < library.stat().st_size


def test_a_library_over_its_budget_is_refused(wheel_hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = compile_c(tmp_path, "static const char data[30000] = {1}; const char* run(int i) { return data + i; }")
    wheel_hook.check_size(library)
    monkeypatch.setattr(wheel_hook, "MAX_BYTES", 30_000)
    with pytest.raises(
        ValueError, match=r"^library.so: has \d\d,\d{3} bytes without symbols, the limit is 30,000. Remove a variant"
    ):
        wheel_hook.check_size(library)


@pytest.mark.skipif(not BUILT, reason="make gate has not built the libraries")
@pytest.mark.parametrize("library", BUILT, ids=lambda path: path.name)
def test_the_built_libraries_are_within_their_budget(wheel_hook: ModuleType, library: Path) -> None:
    wheel_hook.check_size(library)


@pytest.mark.nightly  # the C++ compiler takes 5 s
def test_the_binding_of_pytorch_needs_no_newer_library(wheel_hook: ModuleType, tmp_path: Path) -> None:
    library = wheel_hook.compile_replay(tmp_path / wheel_hook.REPLAY)
    wheel_hook.drop_moved_versions(library)
    wheel_hook.check_symbols(library)
    needed = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    assert "torch" not in needed.replace(wheel_hook.REPLAY, "")
