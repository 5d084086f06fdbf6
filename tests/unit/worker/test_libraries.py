"""Which libraries a subject may use while others are in the same process."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashcore_ci.worker import libraries
from flashcore_ci.worker.job import Job, Subject
from flashcore_ci.worker.libraries import ForeignLibraryError, Libraries


def make_job(folder: Path, **options: Any) -> Job:
    subjects = tuple(Subject(name=name, file=folder, library=folder / name / f"lib{name}.so") for name in ("one", "two"))
    return Job(
        kind="timing", nonce="n", digest="d", root=folder, folder=folder, subjects=subjects, workloads=(), options=options
    )  # fmt: skip


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Libraries]:
    """Watch libraries that are not loaded: they have a name, and one function."""

    def start(library: Any, name: Any, *_: Any) -> None:
        library._name, library.launch = name, lambda: f"launched {Path(name).name}"

    monkeypatch.setattr(ctypes.CDLL, "__init__", start)
    with libraries.kept_apart(make_job(tmp_path, libraries={"three": str(tmp_path / "three/libthree.so")})) as found:
        found.begin("one")
        yield found


def test_a_library_of_another_subject_is_closed_until_its_turn(opened: Libraries, tmp_path: Path) -> None:
    one = ctypes.CDLL(str(tmp_path / "one/libone.so"))
    opened.begin("two")
    two = ctypes.PyDLL(str(tmp_path / "two/libtwo.so"))
    assert two.launch() == "launched libtwo.so"
    with pytest.raises(ForeignLibraryError, match=r"uses libone.so, the library of subject one"):
        one.launch()
    assert opened.refused == "uses libone.so, the library of subject one"
    opened.begin("one")
    assert (one.launch(), opened.refused, type(one)) == ("launched libone.so", "", ctypes.CDLL)
    with pytest.raises(ForeignLibraryError):
        two.launch()
    opened.begin("two")
    assert type(two) is ctypes.PyDLL


@pytest.mark.parametrize(
    "use", [lambda library: library.launch, lambda library: library["launch"], lambda library: library._handle]
)
def test_no_use_is_allowed_and_a_caught_exception_is_remembered(opened: Libraries, tmp_path: Path, use: Any) -> None:
    library = ctypes.CDLL(str(tmp_path / "one/libone.so"))
    opened.begin("two")
    with contextlib.suppress(Exception):  # as a subject that falls back to another kernel
        use(library)
    assert opened.refused


def test_a_closed_library_can_still_be_a_key(opened: Libraries, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(tmp_path / "one/libone.so"))
    kept = {library: 1}
    opened.begin("two")
    assert (kept[library], opened.refused) == (1, "")


@pytest.mark.parametrize(
    "file", ["two/libtwo.so", "site-packages/libtwo.so", "three/libthree.so", b"two/libtwo.so", Path("two/libtwo.so")]
)
def test_the_library_of_another_subject_may_be_opened_and_not_used(opened: Libraries, tmp_path: Path, file: Any) -> None:
    path = tmp_path / file if not isinstance(file, bytes) else bytes(tmp_path) + b"/" + file
    library = ctypes.CDLL(path)
    assert (repr(library)[:1], opened.refused) == ("<", "")
    with pytest.raises(ForeignLibraryError):
        library.launch()
    assert opened.refused


def test_a_library_that_cannot_be_closed_stays_as_it_is(opened: Libraries, tmp_path: Path) -> None:
    class Other(ctypes.CDLL):
        __slots__ = ("more",)

    class Unhashable(ctypes.CDLL):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return self is other

    libraries = [kind(str(tmp_path / "one/libone.so")) for kind in (Other, Unhashable)]
    opened.begin("two")
    assert libraries[0].launch() == "launched libone.so"
    with pytest.raises(ForeignLibraryError):
        libraries[1].launch()
    opened.begin("one")
    assert [type(library) for library in libraries] == [Other, Unhashable]


@pytest.mark.parametrize("file", ["one/libone.so", "site-packages/libone.so", "libcuda.so.1", None])
def test_own_libraries_those_of_the_system_and_the_process_stay_open(opened: Libraries, tmp_path: Path, file: str | None) -> None:
    library = ctypes.CDLL(name=file and str(tmp_path / file))
    opened.begin("one")
    assert library.launch
    assert not opened.refused


def test_of_two_libraries_of_one_name_each_belongs_to_its_subject(tmp_path: Path) -> None:
    files = {"one": tmp_path / "one/lib.so", "two": tmp_path / "two/lib.so"}
    found = Libraries(files)
    found.begin("one")
    found.check(files["one"])
    with pytest.raises(ForeignLibraryError):
        found.check(files["two"])


def test_a_library_that_two_subjects_share_is_that_of_both(tmp_path: Path) -> None:
    found = Libraries(dict.fromkeys(("one", "two"), tmp_path / "lib.so"))
    for subject in ("one", "two"):
        found.begin(subject)
        found.check(tmp_path / "lib.so")
    assert not found.refused


def test_afterwards_all_are_open_and_nothing_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(library: Any, name: Any, *_: Any) -> None:
        library._name = name

    monkeypatch.setattr(ctypes.CDLL, "__init__", start)
    with libraries.kept_apart(make_job(tmp_path)) as found:
        found.begin("one")
        library = ctypes.CDLL(str(tmp_path / "one/libone.so"))
        found.begin("two")
    assert library._name
    assert ctypes.CDLL.__init__ is start
