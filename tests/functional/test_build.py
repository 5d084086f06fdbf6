"""The real compiler on one tiny kernel: what changes digests, what is kept, what becomes evidence."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace

import pytest
from tiny_kernel import EXTRA, FILES, KERNEL, LAUNCHER, change, description, written

from flashcore_ci.adapters import git, nvcc, process
from flashcore_ci.build.subjects import load_builds
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, SuiteError
from flashcore_ci.model.subject import Description


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


def test_another_checkout_needs_no_compiler(root, build, tmp_path):
    """Line information names files of the checkout as of the working folder: a finding must not point into another one."""
    elsewhere = written(tmp_path / "elsewhere/deeper")
    first = build(root, out=root / "out")
    build.told.clear()
    assert build(elsewhere, out=elsewhere / "out") == first
    assert build.told == []
    library = (elsewhere / "out/tiny/libtiny.so").read_bytes()
    assert f"{nvcc.CHECKOUT}/kernel".encode() in library
    assert str(root).encode() not in library


def test_another_folder_and_a_fresh_cache_give_the_same_evidence(root, build, tmp_path):
    (first,) = build(root)
    (second,) = build(written(tmp_path / "elsewhere/deeper"), cache=tmp_path / "fresh")
    assert replace(second, library_digest="") == replace(first, library_digest="")


@pytest.mark.parametrize(
    ("path", "old", "new", "changed"),
    [
        ("kernel/include/tiny.cuh", "#pragma once", "// a comment\n\n#pragma once", set()),
        pytest.param("kernel/tiny.cu", "#include", "/* a comment */\n#include", set(), marks=pytest.mark.nightly),
        ("kernel/launch.cu", "#include", "// a comment\n#include", set()),
        ("kernel/tiny.py", "import", "# a comment\nimport", set()),
        ("kernel/include/tiny.cuh", "x * ", "x + ", {"code"}),
        ("kernel/include/tiny.cuh", "3.0f", "4.0f", {"code"}),
        ("kernel/include/tiny.cuh", "calls = 0", "calls = 1", {"code"}),
        pytest.param(
            *("kernel/include/tiny.cuh", "float y = x * factors[calls & 1]; return y;", "return x * factors[calls & 1];", set()),
            marks=pytest.mark.nightly,
        ),
        ("kernel/include/tiny.cuh", "return 1", "return 2", {"code", "launcher"}),
        pytest.param("kernel/tiny.cu", "threads = 128", "threads = 64", {"code", "launcher"}, marks=pytest.mark.nightly),
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
        done = process.run(("git", "-C", tmp_path, *argv), logs=tmp_path / "logs", name=argv[0], timeout=600)
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
    assert git.checkout(tmp_path, logs=tmp_path / "logs").changes == ("a differs from the commit",)
