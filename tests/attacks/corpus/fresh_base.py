"""A base that is not the commit that everyone means, or whose files are not the commit's."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import git, git_export, process
from flashcore_ci.model.errors import FlashcoreError

FILES = {
    "gates/hopper.toml": 'name = "hopper"\n',
    "gates/acceptances/spent.toml": 'why = "known"\n',
    "gates/noise/h200.json": "{}\n",
    "gates/selftest.toml": "defect = []\n",
    "kernel/a.cu": "// $Id$ $Format:%H$\n__global__ void a() {}\n",
    "kernel/subjects/a.py": "A = 1\n",
}
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", "-c", "core.safecrlf=false")
LINE_ENDS = ("text eol=crlf", "eol=crlf", "working-tree-encoding=UTF-16LE-BOM text")


def run(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    argv = ["git", *AUTHOR, *arguments]
    done = subprocess.run(argv, cwd=folder, env=env, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.strip()


@cache
def template() -> Path:
    """Make a repository that attacks copy."""
    top = Path(tempfile.mkdtemp(prefix="attacked-"))
    atexit.register(shutil.rmtree, top)
    for name, text in FILES.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    run(top, "init", "--quiet", "--initial-branch=main")
    run(top, "add", "--all")
    run(top, "commit", "--quiet", "--message=a")
    return top


def repository(top: Path, attributes: str = "") -> str:
    shutil.copytree(template(), top, dirs_exist_ok=True)
    if attributes:  # blobs as they were written: only later readers see the attributes
        (top / ".gitattributes").write_text(attributes)
        run(top, "add", ".gitattributes")
        run(top, "commit", "--quiet", "--message=attributes")
    return run(top, "rev-parse", "HEAD")


def attributes(line: str, *, place: str = ".gitattributes", settings: Sequence[str] = ()) -> Attack:
    """Leave out or change a file of the base by an attribute."""

    def attempt(folder: Path) -> bool:
        top = folder / "repository"
        top.mkdir()
        commit = repository(top, f"{line}\n" if place == ".gitattributes" else "")
        if place != ".gitattributes":
            (top / place).parent.mkdir(parents=True, exist_ok=True)
            (top / place).write_text(f"{line}\n")
        for setting in settings:
            run(top, "config", *setting.split("=", 1))
        (folder / "logs").mkdir()
        try:
            git_export.export(top, commit, into=folder / "base", logs=folder / "logs")
        except FlashcoreError:
            return False
        found = {name: (folder / "base" / name) for name in FILES}
        return any(not path.is_file() or path.read_bytes() != FILES[name].encode() for name, path in found.items())

    return Attack(name=f"{place}: {line}", attempt=attempt)


def ref(name: str, revision: str = "origin/main") -> Attack:
    """Push a ref whose name git takes for the base."""

    def attempt(folder: Path) -> bool:
        top = folder / "repository"
        top.mkdir()
        base = repository(top)
        run(top, "update-ref", "refs/remotes/origin/main", base)
        run(top, "branch", "release", base)
        run(top, "commit", "--quiet", "--allow-empty", "--message=lower the bar")
        run(top, "update-ref", name.replace("BASE", base[:9]), "HEAD")
        try:
            found = git.fork_point(top, revision.replace("BASE", base[:9]), logs=folder / "logs")
        except FlashcoreError:
            return False
        return found != base

    return Attack(name=f"{name} for {revision}", attempt=attempt)


def member(numbers: random.Random) -> Attack:
    if numbers.random() < 0.5:
        form = numbers.choice(["{}", "/{}", "**/{}"])
        name = numbers.choice([name for name in FILES if name != "kernel/a.cu"])
        pattern = form.format(name) if form != "**/{}" else form.format(name.rpartition("/")[2])
        return attributes(f"{pattern} {numbers.choice(['export-ignore', *LINE_ENDS])}")
    branch = "".join(numbers.choice("abcdefgh-") for _ in range(5)).strip("-") or "b"
    return named(branch, numbers.choice(["", "~0", "^0", "^{commit}"]))


def named(branch: str, suffix: str) -> Attack:
    """Push a tag with the name of a branch."""

    def attempt(folder: Path) -> bool:
        top = folder / "repository"
        top.mkdir()
        base = repository(top)
        run(top, "branch", f"x{branch}", base)
        run(top, "commit", "--quiet", "--allow-empty", "--message=lower the bar")
        run(top, "tag", f"x{branch}")
        try:
            return git.fork_point(top, f"x{branch}{suffix}", logs=folder / "logs") != base
        except FlashcoreError:
            return False

    return Attack(name=f"a tag x{branch} for x{branch}{suffix}", attempt=attempt)


def _archive(root: Path, commit: str, *, into: Path, logs: Path) -> None:
    into.mkdir(parents=True)
    file = logs / "base.tar"
    for argv in (("git", "-C", str(root), "archive", f"--output={file}", commit), ("tar", "-xf", str(file), "-C", str(into))):
        process.run(argv, logs=logs, name="archive", timeout=60)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask git for an archive, and take the first meaning of a name."""
    monkeypatch.setattr(git_export, "export", _archive)
    monkeypatch.setattr(git, "_refuse_two_meanings", lambda *_: None)


ATTACKS = (
    attributes("gates/acceptances export-ignore"),
    attributes("gates/acceptances/*.toml export-ignore"),
    attributes("gates/selftest.toml export-ignore"),
    attributes("noise export-ignore"),
    attributes("*.cu export-subst"),
    attributes("*.cu ident"),
    attributes("*.py text eol=crlf"),
    attributes("*.py working-tree-encoding=UTF-16"),
    attributes("[attr]packed export-ignore\ngates/noise/* packed"),
    attributes("*.toml export-ignore", place=".git/info/attributes"),
    attributes("*.toml filter=upper", settings=("filter.upper.smudge=tr a-z A-Z", "filter.upper.clean=cat")),
    ref("refs/tags/origin/main"),
    ref("refs/heads/origin/main"),
    ref("refs/tags/origin/main", "origin/main~0"),
    ref("refs/tags/origin/main", "origin/main^{commit}"),
    ref("refs/tags/release", "release"),
    ref("refs/tags/BASE", "BASE"),
    ref("refs/tags/v1-0-gBASE", "v1-0-gBASE"),
)
CLASS = AttackClass(
    name="another base",
    attacks=ATTACKS,
    member=member,
    mutant=mutant,
)
