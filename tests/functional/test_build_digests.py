"""What the real compiler read and made on this machine counts, also where no source shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tiny_kernel import LAUNCHER, change, description

from flashcore_ci.build import compiler, system_files
from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.identity import is_same_host_code


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


@pytest.mark.nightly
def test_a_header_behind_a_link_is_covered_and_its_neighbours_are_those_of_the_link(root, build):
    (root / "kernel/include/deep").mkdir()
    (root / "kernel/include/deep/real.h").write_text('#include "near.h"\n')
    (root / "kernel/include/deep/near.h").write_text("int near_the_file;\n")
    (root / "kernel/include/link.h").symlink_to("deep/real.h")
    change(root, "kernel/launch.cu", "#include", '#include "link.h"\n#include')
    (made,) = build(root)
    assert "near.h" in made.error.message
    (root / "kernel/include/near.h").write_text("int near_the_link;\n")
    (made,) = build(root)
    assert made.error is None
