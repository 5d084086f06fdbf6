"""What stands for machine code that is made at run time."""

from pathlib import Path

import pytest
from factories import make_build, make_description

from flashcore_ci.build import interpreted
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.identity import is_bound

JIT = make_description(build=None, file="subject.py")
BUILD = make_build(entries=(), binding="", library="")
INSTALLED = {"torch": "2.11.0+cu130", "triton": "3.6.0"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "subject.py").write_text("import torch, triton\nimport helper\n")
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "uv.lock").write_text('name = "torch"\nversion = "2.11.0"\n')
    (tmp_path / "requirements.txt").write_text("Triton==3.6.0 --hash=sha256:0\n")
    return tmp_path


def bound(root: Path, installed: dict[str, str] = INSTALLED) -> BuildEvidence:
    (build,) = interpreted.bind((JIT,), (BUILD,), root=root, versions=lambda modules: installed)
    return build


def test_a_build_names_sources_locks_and_versions(root: Path) -> None:
    build = bound(root)
    names = [name for name, _ in build.dependencies]
    assert names == ["file:helper.py", "file:subject.py", "file:uv.lock", "file:requirements.txt", "torch", "triton"]
    assert dict(build.dependencies)["torch"] == "2.11.0"
    assert is_bound(build)


def test_a_machine_without_the_packages_reads_the_lock_files(root: Path) -> None:
    assert bound(root, {}) == bound(root)


@pytest.mark.parametrize("name", ["subject.py", "helper.py", "uv.lock"])
def test_each_byte_counts(root: Path, name: str) -> None:
    before = bound(root)
    with (root / name).open("a") as file:
        file.write("# a comment\n")
    assert bound(root).binding != before.binding


def test_another_version_counts(root: Path) -> None:
    assert bound(root, INSTALLED | {"triton": "3.7.0"}).binding != bound(root).binding


def test_an_unknown_version_binds_nothing(root: Path) -> None:
    (root / "requirements.txt").unlink()
    assert not is_bound(bound(root, {}))
    assert not is_bound(BUILD)


def test_two_locked_versions_are_unknown(root: Path) -> None:
    (root / "constraints.txt").write_text("triton==3.5.0\n")
    assert not is_bound(bound(root, {}))


def test_a_lock_file_next_to_the_subject_counts_like_one_in_the_root(root: Path) -> None:
    folder = root / "kernels"
    folder.mkdir()
    for name in ("subject.py", "helper.py", "uv.lock", "requirements.txt"):
        (root / name).rename(folder / name)
    inside = make_description(build=None, file="kernels/subject.py")
    both = [interpreted.bind((inside,), (BUILD,), root=root, versions=lambda _, i=i: i)[0] for i in (INSTALLED, {})]
    assert is_bound(both[1])
    assert both[0] == both[1]
    (folder / "constraints.txt").write_text("numpy==2.4.0\n")
    (another,) = interpreted.bind((inside,), (BUILD,), root=root, versions=lambda _: INSTALLED)
    assert another.binding != both[0].binding
    (folder / "uv.lock").write_text("")
    assert not is_bound(interpreted.bind((inside,), (BUILD,), root=root, versions=lambda _: {})[0])


def test_machine_code_from_the_build_stays_as_it_is(root: Path) -> None:
    build = make_build()
    assert interpreted.bind((make_description(),), (build,), root=root, versions=lambda _: INSTALLED) == (build,)
