"""Which changes start the GPU job: every kind that is not known to be harmless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import changing
import pytest
from factories import make_build, make_plan

from flashcore_ci.build.sources import Sources
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.run import changed_files
from flashcore_ci.run.changed_files import Covered, Places

BARE = make_plan()
assert BARE.descriptions[0].build is not None
SPEC = replace(BARE.descriptions[0].build, compile=replace(BARE.descriptions[0].build.compile, architectures=("sm_90a",)))
PLAN = replace(BARE, descriptions=(replace(BARE.descriptions[0], build=SPEC), *BARE.descriptions[1:]))


@pytest.mark.parametrize("name", changing.STARTS_GPU)
def test_this_change_starts_the_gpu_job(name: str) -> None:
    edit, code = changing.STARTS_GPU[name]
    found = changing.found(edit)
    assert [str(change.code) for change in found][:1] == [code], found
    assert NEXT_STEP[found[0].code]


@pytest.mark.parametrize("name", changing.HARMLESS)
def test_this_change_does_not(name: str) -> None:
    assert changing.found(changing.HARMLESS[name]) == []


def test_there_are_enough_kinds() -> None:
    assert len(changing.STARTS_GPU) >= 60


def test_documentation_that_code_names_is_an_input() -> None:
    (change,) = changing.found(changing.HARMLESS["documentation"], Places(suites="gates", documentation=False))
    assert change.code is Code.UNKNOWN_CHANGE


@pytest.mark.parametrize(
    ("link", "is_input"), [("kernel/include/b.h", True), ("gates/baselines/a.json", True), ("docs/b.md", False)]
)
def test_documentation_that_a_link_may_lead_to_is_an_input(link: str, is_input: bool) -> None:
    before = changing.tree() | {link: changing.entry("../docs/page.md", mode="120000")}
    after = before | {"docs/page.md": changing.entry("other")}
    found = list(changed_files.changes(before, after, changing.COVERED, changing.PLACES))
    assert [change.path for change in found] == (["docs/page.md"] if is_input else [])


@pytest.mark.parametrize(("path", "is_input"), [("kernel/flashcore/new.md", True), ("docs/new.md", False), ("README.md", False)])
def test_a_new_page_is_an_input_of_code_that_lists_folders(tmp_path: Path, path: str, is_input: bool) -> None:
    places = Places(suites="gates", new_documentation=False)
    assert bool(changing.found(changing.edited(path), places)) is is_input
    (tmp_path / "a.py").write_text("from pathlib import Path\nSPLITS = len(list(Path('.').iterdir()))\n")
    covered = Covered(native=frozenset(), bindings=frozenset({"a.py"}), questions=frozenset(), exact=frozenset())
    assert changed_files.lists_folders(covered, Sources(tmp_path))
    (tmp_path / "a.py").write_text("iterable = 1\n")
    assert not changed_files.lists_folders(covered, Sources(tmp_path))


@pytest.mark.parametrize(
    ("text", "is_input"),
    [
        ('open("docs/page.md")', True),
        ("glob('*.md')", True),
        ("x = 1  # see page.md", False),
        ("x = 1", False),
        ('"""See page.md."""\nx = 1', False),
        ('class A:\n    """See a.md."""\n    x = 1\n    "Or b.md."\n    def f(self):\n        "c.md"', False),
        ('def f(page="page.md"):\n    """Read a page."""', True),
        ('x = """page.md"""', True),
        ('"""page.md"""\nopen(__doc__)', True),
        ('"""page.md"""\nopen(vars()["__do" "c__"])', True),
        ('"""page.md"""\nopen(vars()["\\x5f_doc__"])', True),
        ('"""page.md"""\nimport inspect', True),
        ("# page.md\nimport linecache", True),
        ('open("page." "md")', True),
        ('open("page\\x2emd")', True),
        ('open(f"{page}.md")', True),
        ('open(b"page.md")', True),
        ("def broken(:", True),
        ("x = '\0'", True),
    ],
)
def test_code_that_names_documentation_is_seen(tmp_path: Path, text: str, is_input: bool) -> None:
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "a.cu").write_text("// page.md\nint a;\n")
    empty: frozenset[str] = frozenset()
    covered = Covered(native=frozenset({"a.cu"}), bindings=frozenset({"a.py"}), questions=empty, exact=empty)
    assert changed_files.reads_documentation(covered, Sources(tmp_path)) is is_input


def test_docstrings_count_in_every_file_if_one_looks_at_them(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"""page.md"""\n')
    (tmp_path / "b.py").write_text("import a\n")
    covered = Covered(native=frozenset(), bindings=frozenset({"a.py"}), questions=frozenset({"b.py"}), exact=frozenset())
    assert not changed_files.reads_documentation(covered, Sources(tmp_path))
    (tmp_path / "b.py").write_text("import a\nopen(a.__doc__)\n")
    assert changed_files.reads_documentation(covered, Sources(tmp_path))


def contents() -> dict[str, str]:
    """The covered files of the factory's plan."""
    description = PLAN.descriptions[0]
    python = dict.fromkeys((description.file, *SPEC.binding), "A = 1\n")
    sources = dict.fromkeys((*(one.source for one in SPEC.entries), *SPEC.launchers))
    return python | {path: "int a;\n" * number for number, path in enumerate(sources, start=1)}


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        ("binding", "A = 1  # why\n", None),
        ("binding", "\nA = 1\n", None),
        ("binding", "A = 2\n", Code.SUBJECT_REWRITTEN),
        ("binding", "A = 1\nimport os\n", Code.SUBJECT_REWRITTEN),
        ("subject", "A = 1  # why\n", Code.SUBJECT_REWRITTEN),
        ("subject", "\nA = 1\n", Code.SUBJECT_REWRITTEN),
        ("native", "int a; // why\n", None),
        ("native", "/* why */ int  a;\n", None),
        ("native", "int b;\n", Code.CODE_CHANGED),
        ("native", "#line 3\nint a;\n", Code.CODE_CHANGED),
    ],
)
def test_only_comments_and_blanks_are_no_code_and_each_byte_of_a_subject_counts(
    tmp_path: Path, kind: str, text: str, code: Code | None
) -> None:
    before = contents()
    file = {"subject": PLAN.descriptions[0].file, "binding": SPEC.binding[0], "native": SPEC.entries[0].source}[kind]
    change = changing.code_change(tmp_path, before, {**before, file: text}, PLAN, (make_build(),))
    assert (change.code if change else None) is code


def test_each_byte_counts_of_what_is_compiled_when_it_runs(tmp_path: Path) -> None:
    description = replace(PLAN.descriptions[0], build=None)
    plan = replace(PLAN, descriptions=(description,))
    before = {description.file: "A = 1\n"}
    change = changing.code_change(tmp_path, before, {description.file: "A = 1  # why\n"}, plan, ())
    assert change is not None
    assert change.code is Code.SUBJECT_REWRITTEN


def test_covered_files_are_those_of_the_digests(tmp_path: Path) -> None:
    for path, text in contents().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    source = tmp_path / SPEC.entries[0].source
    source.write_text('#include "near.h"\n')
    source.with_name("near.h").write_text("int b;\n")
    covered = changed_files.covered_by(PLAN, (), Sources(tmp_path))
    assert source.with_name("near.h").relative_to(tmp_path).as_posix() in covered
    assert set(contents()) <= covered.files()
