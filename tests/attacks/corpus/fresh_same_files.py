"""Code that differs and counts as equal: comments of a candidate that reads itself, and folders behind a link."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import lock, worktree
from flashcore_ci.bounded import files
from flashcore_ci.build import sources
from flashcore_ci.build.subjects import source_digest
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import Trust
from flashcore_ci.store import claim

READERS = (
    "fast = 'fast' in open(__file__).read()",
    "import pathlib\nfast = 'fast' in pathlib.Path(__file__).read_text()",
    "import os\nfast = os.path.getsize(__file__) > 100",
    "import sys\nfast = 'fast' in open(sys.modules[__name__].__file__).read()",
    "import io\nfast = b'fast' in io.FileIO(globals()['__fi' + 'le__']).readall()",
    "import os\nfast = b'fast' in os.read(os.open(__spec__.origin, 0), 999)",
    "import mmap, os\nfast = mmap.mmap(os.open(__file__, 0), 0, prot=1).find(b'fast') > 0",
    "import glob\nfast = any('fast' in open(f).read() for f in glob.glob('/srv/*.py'))",
)


def candidate(reader: str, comment: str, *, changed: int = 0) -> Attack:
    """Change a comment of a candidate that reads its files."""

    def attempt(folder: Path) -> bool:
        described = Description(
            subject="s", file="definition.py", build=None, problems=(), trust=Trust.NONE, candidate=("kernel.py", "helper.py")
        )
        digests = []
        for text in ("", comment):
            (folder / "definition.py").write_text("def inputs(): ...\n")
            for number, name in enumerate(described.candidate):
                (folder / name).write_text(f"{reader}\n{text if number == changed else ''}")
            digests.append(source_digest(described, sources.Sources(folder)))
        return digests[0] == digests[1]

    return Attack(name=f"candidate: {reader[:60]!r}, {comment[:20]!r} in file {changed}", attempt=attempt)


def link(name: str, make: Callable[[Path, Path], object]) -> Attack:
    """Put a link next to the commit's files. True if the checkout still counts as clean."""

    def attempt(folder: Path) -> bool:
        (folder / "elsewhere").mkdir()
        (folder / "elsewhere/__init__.py").write_text("raise SystemExit\n")
        top = folder / "top"
        (top / "kernel").mkdir(parents=True)
        make(top, folder / "elsewhere")
        return not list(worktree.find_changes(top, {}, (top / "runs/latest",)))

    return Attack(name=f"link: {name}", attempt=attempt)


def second_name(name: str, text: str, act: Callable[[Path], object]) -> Attack:
    """Let a lock be a second name of somebody's file that holds a number."""

    def attempt(folder: Path) -> bool:
        (folder / "theirs").write_text(text)
        (folder / "run").mkdir()
        os.link(folder / "theirs", folder / "run" / claim.MARKER)
        with contextlib.suppress(FlashcoreError):
            act(folder / "run")
        return (folder / "theirs").read_text() != text

    return Attack(name=f"second name: {name}", attempt=attempt)


def _mark(folder: Path) -> None:
    with claim.mark_folder(folder):
        pass


def _hold(folder: Path) -> None:
    with lock.hold(folder / claim.MARKER, timeout=0, waiting=lambda _: None):
        pass


def member(numbers: random.Random) -> Attack:
    word = "".join(numbers.choices("abcdefgh", k=6))
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: candidate(numbers.choice(READERS), f"# {word}", changed=numbers.randrange(2)),
        lambda: candidate(numbers.choice(READERS), "\n" * numbers.randrange(1, 9), changed=numbers.randrange(2)),
        lambda: link(word, lambda top, elsewhere: (top / word).symlink_to(elsewhere)),
        lambda: second_name(word, f"{numbers.randrange(10**9)}", numbers.choice([_mark, _hold])),
    )
    return numbers.choice(makers)()


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digest texts without comments, ask links for their suffix, and take any number for a lock."""
    real = sources.Sources.python_digest
    monkeypatch.setattr(sources.Sources, "python_digest", lambda self, paths, others=(), **_: real(self, paths, others))
    monkeypatch.setattr(worktree, "_is_environment", lambda *_: True)
    monkeypatch.setattr(files.os, "fstat", _Single(os.fstat))


class _Single:
    """Say that each file has one name."""

    def __init__(self, real: Callable[[int], os.stat_result]) -> None:
        self.real = real

    def __call__(self, descriptor: int) -> object:
        status = self.real(descriptor)
        return os.stat_result((*status[:3], 1, *status[4:]))


ATTACKS = (
    *(candidate(reader, "# fast\n") for reader in READERS),
    candidate(READERS[0], "# fast\n", changed=1),
    candidate(READERS[2], "\n" * 200),
    candidate(READERS[1], "    # fast, and indented\n"),
    link("a package", lambda top, elsewhere: (top / "numpy").symlink_to(elsewhere)),
    link("a hidden folder", lambda top, elsewhere: (top / ".hidden").symlink_to(elsewhere)),
    link("a relative link", lambda top, _: (top / "torch").symlink_to("../elsewhere")),
    link(
        "a link to a link",
        lambda top, elsewhere: ((elsewhere.parent / "l").symlink_to(elsewhere), (top / "a").symlink_to("../l")),
    ),
    second_name("the number of a process", "4711\n", _mark),
    second_name("a version", "3\n", _mark),
    second_name("a year, as a lock of a GPU", "2026\n", _hold),
    second_name("a counter, as a lock of a GPU", "17", _hold),
)
CLASS = AttackClass(name="files that look the same", attacks=ATTACKS, member=member, mutant=mutant)
