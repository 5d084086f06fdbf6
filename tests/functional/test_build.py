"""The real compiler on one tiny kernel: what changes digests, what is kept, what becomes evidence."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.adapters import git, process
from flashcore_ci.build import compiler, system_files
from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.subjects import build_subjects, load_builds
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, SuiteError
from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.identity import is_same_host_code
from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec
from flashcore_ci.suite.settings import Settings

HEADER = """#pragma once
namespace { __device__ int calls = 0; }
__constant__ float factors[2] = {2.0f, 3.0f};
inline int blocks() { return 1; }
inline __device__ float scaled(float x) { float y = x * factors[calls & 1]; return y; }
"""
KERNEL = """#include "tiny.cuh"
extern "C" __global__ void __launch_bounds__(128) tiny(float* p) { p[threadIdx.x] = scaled(p[threadIdx.x]); }
namespace { struct Tuning { static constexpr int threads = 128; }; }
extern "C" const int tiny_threads = Tuning::threads * blocks();
"""
LAUNCHER = """#include <cuda_runtime.h>
extern "C" __global__ void tiny(float* p);
extern "C" int tiny_version() { return 7; }
extern "C" int tiny_launch(float* p) { tiny<<<1, 128>>>(p); return static_cast<int>(cudaGetLastError()); }
"""
EXTRA = 'extern "C" __global__ void extra(float* p) { p[threadIdx.x] = 0.0f; }\n'
FILES = {
    "kernel/include/tiny.cuh": HEADER,
    "kernel/tiny.cu": KERNEL,
    "kernel/launch.cu": LAUNCHER,
    "kernel/tiny.py": "import ctypes\n",
    "kernel/subject.py": "SUBJECT = 1\n",
}


def description(**changes):
    entry = EntrySpec(symbol="tiny", source="kernel/tiny.cu", max_registers=32, dynamic_shared_bytes=0)
    spec = {
        "library": "libtiny.so",
        "launchers": ("kernel/launch.cu",),
        "includes": ("kernel/include",),
        "binding": ("kernel/tiny.py",),
        "entries": (entry,),
        **changes,
    }
    return Description(subject="tiny", file="kernel/subject.py", build=BuildSpec(**spec), problems=())


@pytest.fixture(scope="session")
def toolchain():
    return tools.install(Settings.from_environment(os.environ).home, sys.executable, print)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """One for the whole file: each of these builds differs from the others in what it should."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def root(workshop):
    """At one path for all: what one test compiled of the files as they are below, the next need not."""
    shutil.rmtree(workshop / "tiny", ignore_errors=True)
    return written(workshop / "tiny/root")


def written(root: Path) -> Path:
    for path, text in FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def change(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new, 1))


@pytest.fixture
def build(toolchain, cache):
    def run(root, descriptions=None, *, out=None, cache=cache):
        return build_subjects(
            descriptions or (description(),),
            root=root,
            toolchain=toolchain,
            out=out or root.parent / "out",
            cache=cache,
            jobs=2,
            progress=lambda done, total, what: told.append((done, total, what)),
        )

    told = run.told = []
    return run


def test_a_library_that_loads_and_the_evidence_of_its_machine_code(root, build):
    (made,) = build(root)
    (entry,) = made.entries
    assert made.error is None
    assert made.compiler == "nvcc 13.0.88"
    assert entry.count("FMUL") == 1
    assert entry.count("STG") == 1
    assert entry.count("LDL") == 0
    assert 0 < entry.highest_register <= entry.registers <= 32
    assert (entry.spill_store_bytes, entry.stack_bytes, entry.static_shared_bytes, entry.warnings) == (0, 0, 0, ())
    assert ctypes.CDLL(str(root.parent / "out" / made.library)).tiny_version() == 7
    assert load_builds(root.parent / "out", (description(),), root=root) == (made,)


def test_a_second_build_starts_no_compiler_and_no_linker(root, build, monkeypatch):
    first = build(root)
    library = (root.parent / "out" / first[0].library).read_bytes()

    real = process.run

    def refuse(argv, **options):
        assert options["name"] == "gcc", f"{argv[0]} was started"
        return real(argv, **options)

    monkeypatch.setattr(process, "run", refuse)
    shutil.rmtree(root.parent / "out")
    assert build(root) == first
    assert (root.parent / "out" / first[0].library).read_bytes() == library


def test_another_checkout_gets_objects_of_its_own(root, build, tmp_path):
    """Line information names files by absolute paths: a finding must not point into the checkout that compiled first."""
    elsewhere = written(tmp_path / "elsewhere")
    for checkout in (root, elsewhere):
        build(checkout, out=checkout / "out")
    library = (elsewhere / "out/tiny/libtiny.so").read_bytes()
    assert str(elsewhere).encode() in library
    assert str(root).encode() + b"/" not in library


def test_another_folder_and_a_fresh_cache_give_the_same_evidence(root, build, tmp_path):
    (first,) = build(root)
    (second,) = build(written(tmp_path / "elsewhere/deeper"), cache=tmp_path / "fresh")
    assert second.entries == first.entries
    assert (second.launcher, second.binding, second.source) == (first.launcher, first.binding, first.source)


@pytest.mark.parametrize(
    ("path", "old", "new", "changed"),
    [
        ("kernel/include/tiny.cuh", "#pragma once", "// a comment\n\n#pragma once", set()),
        ("kernel/tiny.cu", "#include", "/* a comment */\n#include", set()),
        ("kernel/launch.cu", "#include", "// a comment\n#include", set()),
        ("kernel/tiny.py", "import", "# a comment\nimport", set()),
        ("kernel/include/tiny.cuh", "x * ", "x + ", {"code"}),
        ("kernel/include/tiny.cuh", "3.0f", "4.0f", {"code"}),
        ("kernel/include/tiny.cuh", "calls = 0", "calls = 1", {"code"}),
        ("kernel/include/tiny.cuh", "float y = x * factors[calls & 1]; return y;", "return x * factors[calls & 1];", set()),
        ("kernel/include/tiny.cuh", "return 1", "return 2", {"code", "launcher"}),
        ("kernel/tiny.cu", "threads = 128", "threads = 64", {"code", "launcher"}),
        ("kernel/tiny.cu", "__launch_bounds__(128)", "__launch_bounds__(256)", {"code"}),
        ("kernel/launch.cu", "<<<1, ", "<<<2, ", {"launcher"}),
        ("kernel/tiny.py", "ctypes", "math", {"binding"}),
        ("kernel/subject.py", "1", "2", {"subject"}),
    ],
)
def test_what_changes_which_digest(root, build, path, old, new, changed):
    (before,) = build(root)
    change(root, path, old, new)
    (after,) = build(root)
    differs = {
        "code": before.entries[0].digest != after.entries[0].digest,
        "launcher": before.launcher != after.launcher,
        "binding": before.binding != after.binding,
        "subject": before.source != after.source,
    }
    assert {name for name, different in differs.items() if different} == changed


@pytest.mark.parametrize(
    ("path", "old", "new", "file", "line", "message"),
    [
        ("kernel/include/tiny.cuh", "= x * ", "= z * ", "kernel/include/tiny.cuh", 5, 'identifier "z" is undefined'),
        ("kernel/tiny.cu", "tiny.cuh", "gone.cuh", "kernel/tiny.cu", 1, "gone.cuh: No such file or directory"),
        ("kernel/tiny.cu", "128) tiny", "128) tinier", "kernel/tiny.cu", 0, "no entry function named tiny (it defines tinier)"),
        ("kernel/launch.cu", "return 7", "return seven()", "kernel/launch.cu", 3, 'identifier "seven" is undefined'),
        ("kernel/tiny.cu", KERNEL, KERNEL + EXTRA, "kernel/tiny.cu", 0, "defines the entry function extra, which build()"),
        ("kernel/launch.cu", LAUNCHER, LAUNCHER + EXTRA, "kernel/launch.cu", 0, "defines the entry function extra, which"),
        (
            "kernel/launch.cu",
            "{ return 7",
            "{ int seven(); return seven()",
            "tiny/libtiny.so",
            0,
            "undefined reference to `seven'",
        ),
    ],
)
def test_what_does_not_compile_is_evidence(root, build, path, old, new, file, line, message):
    change(root, path, old, new)
    (made,) = build(root)
    assert (made.error.file, made.error.line) == (file, line)
    assert message in made.error.message
    assert made.library == ""
    assert load_builds(root.parent / "out", (description(),), root=root) == (made,)


@pytest.mark.parametrize("path", ["kernel/include/tiny.cuh", "kernel/launch.cu", "kernel/tiny.py", "kernel/subject.py"])
def test_binaries_of_other_sources_are_refused_and_a_comment_is_no_other_source(root, build, path):
    (made,) = build(root)
    comment = "# a comment" if path.endswith(".py") else "// a comment"
    (root / path).write_text(f"{comment}\n{FILES[path]}")
    assert load_builds(root.parent / "out", (description(),), root=root) == (made,)
    (root / path).write_text(FILES[path] + ("TWO = 2\n" if path.endswith(".py") else "static int two = 2;\n"))
    with pytest.raises(EvidenceError, match="tiny was built from other sources"):
        load_builds(root.parent / "out", (description(),), root=root)


def test_entries_that_did_compile_are_kept_beside_an_error(root, build):
    change(root, "kernel/launch.cu", "return 7", "return seven()")
    (made,) = build(root)
    assert [entry.symbol for entry in made.entries] == ["tiny"]


def test_a_file_that_no_plain_include_names_is_refused(root, build):
    change(root, "kernel/tiny.cu", '#include "tiny.cuh"', '#define HEADER "tiny.cuh"\n#include HEADER')
    (made,) = build(root)
    assert "so no digest covers it" in made.error.message


def test_a_file_that_is_only_asked_for_counts_once_it_is_there(root, build):
    change(root, "kernel/tiny.cu", "#include", '#if __has_include("tuning.h")\n#define FAST\n#endif\n#include')
    change(root, "kernel/tiny.cu", "scaled(p[threadIdx.x]);", "scaled(p[threadIdx.x])\n#ifdef FAST\n + 1.0f\n#endif\n;")
    (slow,) = build(root)
    (root / "kernel/include/tuning.h").write_text("")
    (fast,) = build(root)
    assert slow.error is fast.error is None
    assert slow.entries[0].digest != fast.entries[0].digest


def test_options_in_the_environment_change_nothing(root, build, monkeypatch, tmp_path):
    (plain,) = build(root)
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DNDEBUG -O0 --maxrregcount=16")
    (with_options,) = build(root, cache=tmp_path / "fresh")
    assert with_options.entries == plain.entries


def test_an_altered_object_in_the_cache_is_compiled_again(root, build, tmp_path):
    (first,) = build(root, cache=tmp_path / "own")
    for product in (tmp_path / "own").rglob("product"):
        product.write_bytes(b"altered")
    assert build(root, cache=tmp_path / "own") == (first,)
    ctypes.CDLL(str(root.parent / "out" / first.library))


def test_progress_counts_compilations(root, build, tmp_path):
    build(root, cache=tmp_path / "own")
    assert [(done, total) for done, total, _ in build.told] == [(1, 2), (2, 2)]
    assert {what for *_, what in build.told} == {"kernel/tiny.cu", "kernel/launch.cu"}


def test_paths_that_leave_the_checkout_are_refused_all_at_once(root, build):
    wrong = description(launchers=("../a.cu",), includes=("/usr/include",), library="../lib.so")
    with pytest.raises(SuiteError) as caught:
        build(root, (wrong,))
    assert len(caught.value.problems) == 3


def test_without_a_host_compiler_the_machine_is_at_fault(root, build, monkeypatch):
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises(CannotCollectError, match="nvcc needs g\\+\\+"):
        build(root)


def test_a_subject_without_machine_code(root, build):
    plain = Description(subject="plain", file="kernel/subject.py", build=None, problems=())
    (made,) = build(root, (plain,))
    assert (made.library, made.entries, made.error) == ("", (), None)
    assert made.source


def test_git_knows_the_commit_and_whether_files_differ(tmp_path):
    def run(*argv):
        done = process.run(("git", "-C", tmp_path, *argv), logs=tmp_path / "logs", name=argv[0], timeout=30)
        assert done.returncode == 0, done.error_text()

    assert git.checkout(tmp_path, logs=tmp_path / "logs") == git.Checkout(commit="", dirty=False)
    run("init", "-q")
    (tmp_path / "a").write_text("1")
    run("add", "a")
    run("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "a")
    clean = git.checkout(tmp_path, logs=tmp_path / "logs")
    assert len(clean.commit) == 40
    assert not clean.dirty
    (tmp_path / "a").write_text("2")
    assert git.checkout(tmp_path, logs=tmp_path / "logs") == git.Checkout(commit=clean.commit, dirty=True)


def test_a_comment_keeps_the_host_code_and_the_library_apart_from_line_numbers(root, build):
    (before,) = build(root)
    change(root, "kernel/launch.cu", "#include", "// a comment\n\n\n#include")
    change(root, "kernel/include/tiny.cuh", "#pragma once", "/* a\n comment */\n#pragma once")
    (after,) = build(root)
    assert after.library_digest != before.library_digest
    assert (after.preprocessed, after.host_objects, after.launcher) == (before.preprocessed, before.host_objects, before.launcher)
    assert is_same_host_code(before, after)


@pytest.mark.parametrize(
    ("path", "old", "new", "changed"),
    [
        ("kernel/launch.cu", "return 7", "return 8", {"preprocessed", "host_objects"}),
        ("kernel/launch.cu", "return 7", "return 7 + 0", {"preprocessed"}),
        ("kernel/include/tiny.cuh", "return 1", "return 2", {"host_objects"}),
        ("kernel/include/tiny.cuh", "x * ", "x + ", set()),  # device code
    ],
)
def test_what_this_machine_compiled_counts(root, build, path, old, new, changed):
    (before,) = build(root)
    change(root, path, old, new)
    (after,) = build(root)
    assert {name for name in ("preprocessed", "host_objects") if getattr(before, name) != getattr(after, name)} == changed


SYSTEM_LINE = '#include <cassert>\n#undef NDEBUG\nextern "C" void tiny_check(int n) { assert(n); }\n'


def test_a_line_number_in_a_macro_of_the_system_is_seen_on_one_machine(root, build):
    change(root, "kernel/launch.cu", LAUNCHER, LAUNCHER + SYSTEM_LINE)
    (before,) = build(root)
    change(root, "kernel/launch.cu", "#include", "// a comment\n#include")
    (after,) = build(root)
    assert (after.binding, after.source) == (before.binding, before.source)
    assert not is_same_host_code(before, after)


@pytest.mark.parametrize(
    "code",
    [
        'asm(".incbin \\"kernel/table.bin\\"");\n',
        'asm(".inc" "bin \\"kernel/table.bin\\"");\n',
        'asm(".include \\"kernel/table.bin\\"");\n',
        'int table __attribute__((section("data\\n.incbin \\"kernel/table.bin\\"\\n#"))) = 1;\n',
        'extern "C" int other() asm("other\\n.incbin \\"kernel/table.bin\\"\\n#"); extern "C" int tiny_call() { return other(); }\n',
    ],
)
def test_a_file_that_only_the_assembler_reads_is_refused(root, build, code):
    (root / "kernel/table.bin").write_text("nop\n")
    change(root, "kernel/launch.cu", LAUNCHER, LAUNCHER + code)
    (made,) = build(root)
    assert made.error == CompileError(
        file="kernel/launch.cu", line=0, message="makes the assembler read kernel/table.bin, so no digest covers it"
    )


def test_a_header_of_another_folder_of_this_machine_is_refused(root, build, tmp_path):
    (tmp_path / "outside.h").write_text("int outside;\n")
    (root / "kernel/include/linked.h").symlink_to(tmp_path / "outside.h")
    change(root, "kernel/launch.cu", "#include", '#include "linked.h"\n#include')
    (made,) = build(root, (description(launchers=("kernel/launch.cu",)),))
    assert "so no digest covers it" in made.error.message


def test_a_header_that_takes_the_place_of_a_system_header_ends_the_cached_object(root, build):
    (before,) = build(root)
    (root / "kernel/include/sys").mkdir()
    (root / "kernel/include/sys/cdefs.h").write_text("#include_next <sys/cdefs.h>\n")
    (made,) = build(root)
    assert before.error is None
    assert "sys/cdefs.h, which no plain #include" in made.error.message


@pytest.mark.parametrize("what", ["header", "compiler"])
def test_an_object_is_compiled_again_if_a_header_or_the_compiler_changed(root, build, monkeypatch, what):
    (first,) = build(root)
    real = compiler.sha256 if what == "compiler" else system_files.sha256
    monkeypatch.setattr(
        compiler if what == "compiler" else system_files,
        "sha256",
        lambda path: "changed" if path.name in ("cc1plus", "cuda_runtime.h") else real(path),
    )
    build.told.clear()
    (second,) = build(root)
    assert replace(second, library_digest="") == replace(first, library_digest="")
    assert [done for done, *_ in build.told] == [1, 2]
    build.told.clear()
    build(root)
    assert build.told == []


def test_what_could_lie_is_refused_with_its_line(root, build):
    change(root, "kernel/include/tiny.cuh", "return 1", "return __LINE__")
    (made,) = build(root)
    assert (made.error.file, made.error.line) == ("kernel/include/tiny.cuh", 4)
    assert "__LINE__" in made.error.message
