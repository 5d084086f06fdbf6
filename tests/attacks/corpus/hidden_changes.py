"""A checkout that differs from its commit and looks clean."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import git, worktree

FILES = {
    "kernel/a.cu": "__global__ void a() {}\n",
    "kernel/include/a.h": "#pragma once\n",
    "kernel/subjects/a.py": "A = 1\n",
    "gates/hopper.toml": 'name = "hopper"\n',
    "gates/noise/h200.json": "{}\n",
    "README.md": "# a\n",
}
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
Change = Callable[[Path], object]


def _write(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _tree(folder: Path) -> dict[str, worktree.Entry]:
    def entry(name: str) -> worktree.Entry:
        data = (folder / name).read_bytes()
        digest = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        return worktree.Entry(mode="100644", digest=digest, size=len(data))

    return {name: entry(name) for name in FILES}


def _content(name: str, change: Change) -> Attack:
    """Change the files only. No git is needed to see it."""

    def attempt(folder: Path) -> bool:
        _write(folder)
        tree = _tree(folder)
        change(folder)
        return not list(worktree.find_changes(folder, tree, (folder / "runs/latest",)))

    return Attack(name=name, attempt=attempt)


def _run(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        ["git", *AUTHOR, *arguments], cwd=folder, env=env, check=True, text=True, stdout=subprocess.PIPE
    ).stdout.strip()


def _git(name: str, change: Change) -> Attack:
    """Change files and what git knows of them."""

    def attempt(folder: Path) -> bool:
        top = folder / "repository"
        _write(top)
        _run(top, "init", "--quiet")
        _run(top, "add", "--all")
        _run(top, "commit", "--quiet", "--message=a")
        change(top)
        found = git.checkout(top, logs=folder / "logs")
        return bool(found.commit) and not found.dirty

    return Attack(name=name, attempt=attempt)


def _edit(folder: Path) -> None:
    (folder / "kernel/a.cu").write_text("__global__ void b() {}\n")


def _put(path: str, text: str = "x") -> Change:
    def put(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)

    return put


def _flag(option: str) -> Change:
    def change(folder: Path) -> None:
        _run(folder, "update-index", option, "kernel/a.cu")
        _edit(folder)

    return change


def _excluded(folder: Path) -> None:
    (folder / ".git/info/exclude").write_text("kernel/include/b.h\n")
    _put("kernel/include/b.h")(folder)


def _filter(folder: Path) -> None:
    (folder / ".git/info/attributes").write_text("*.cu filter=lie\n")
    _run(folder, "config", "filter.lie.clean", "printf '__global__ void a() {}\\n'")
    _edit(folder)


def _replaced(folder: Path) -> None:
    first = _run(folder, "rev-parse", "HEAD")
    _edit(folder)
    _run(folder, "commit", "--quiet", "--all", "--message=b")
    second = _run(folder, "rev-parse", "HEAD")
    _run(folder, "reset", "--quiet", "--soft", first)
    _run(folder, "replace", first, second)


def _replaced_tree(folder: Path) -> None:
    old = _run(folder, "rev-parse", "HEAD^{tree}")
    _edit(folder)
    _run(folder, "add", "--all")
    _run(folder, "replace", old, _run(folder, "write-tree"))


def _other_worktree(folder: Path) -> None:
    (folder.parent / "clean").mkdir()
    for name, text in FILES.items():
        _put(name, text)(folder.parent / "clean")
    _run(folder, "config", "core.worktree", str(folder.parent / "clean"))
    _edit(folder)


def _submodule(folder: Path) -> None:
    inner = folder / "kernel/inner"
    inner.mkdir()
    _run(inner, "init", "--quiet")
    _put("b.h")(inner)
    _run(inner, "add", "--all")
    _run(inner, "commit", "--quiet", "--message=b")
    _run(folder, "add", "kernel/inner")
    _run(folder, "commit", "--quiet", "--message=b")
    _run(folder, "config", "diff.ignoreSubmodules", "all")
    _put("b.h", "y")(inner)


def _link_to_file(folder: Path) -> None:
    (folder / "kernel/a.cu").rename(folder.parent / "a.cu")
    (folder / "kernel/a.cu").symlink_to(folder.parent / "a.cu")


def _link_to_folder(folder: Path) -> None:
    away = folder.with_name(f"{folder.name}-include")
    (folder / "kernel/include").rename(away)
    (folder / "kernel/include").symlink_to(away)


def _fifo(folder: Path) -> None:
    (folder / "kernel/a.cu").unlink()
    os.mkfifo(folder / "kernel/a.cu")


NAMES = ("flashcore.py", "b.h", "b.cuh", "b.def", "waivers.toml", "zz.json", "b.json.xz", "b.so", "sitecustomize.py", "b.pyc")
FOLDERS = ("kernel", "kernel/include", "kernel/new", "gates", "gates/noise", "gates/baselines", "kernel/__pycache__x")


def member(numbers: random.Random) -> Attack:
    """Add a file that could be read, or change one in any byte."""
    if numbers.random() < 0.5:
        path = f"{numbers.choice(FOLDERS)}/{numbers.randrange(99)}{numbers.choice(NAMES)}"
        return _content(f"an untracked {path}", _put(path))
    name = numbers.choice(tuple(FILES))
    data = bytearray(FILES[name].encode())
    data[numbers.randrange(len(data))] ^= 1 << numbers.randrange(7)
    return _content(f"{name} is {bytes(data)!r}", lambda folder: (folder / name).write_bytes(bytes(data)))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe git's status of tracked files, as before."""

    def checkout(root: Path, *, logs: Path) -> git.Checkout:
        logs.mkdir(exist_ok=True)
        return git.Checkout(
            commit=_run(root, "rev-parse", "HEAD"), dirty=bool(_run(root, "status", "--porcelain", "--untracked-files=no"))
        )

    monkeypatch.setattr(worktree, "find_changes", lambda *_: iter(()))
    monkeypatch.setattr(git, "checkout", checkout)


CLASS = AttackClass(
    name="a change that git does not show",
    attacks=(
        _git("assume-unchanged", _flag("--assume-unchanged")),
        _git("skip-worktree", _flag("--skip-worktree")),
        _git("a header in info/exclude", _excluded),
        _git("a clean filter that prints the committed text", _filter),
        _git("a replaced commit", _replaced),
        _git("a replaced tree", _replaced_tree),
        _git("a work tree elsewhere", _other_worktree),
        _git("a submodule with changes", _submodule),
        _content("the same size and time", _put("kernel/a.cu", FILES["kernel/a.cu"].replace("a()", "b()"))),
        _content("an untracked header", _put("kernel/include/b.h")),
        _content("other line ends", lambda folder: (folder / "kernel/a.cu").write_bytes(b"__global__ void a() {}\r\n")),
        _content("a file is gone", lambda folder: (folder / "kernel/a.cu").unlink()),
        _content("a file became a link to its content", _link_to_file),
        _content("a folder became a link to its content", _link_to_folder),
        _content("a file became a FIFO", _fifo),
        _content("a file may be executed", lambda folder: (folder / "kernel/a.cu").chmod(0o755)),
        _content("an untracked module at the top", _put("flashcore.py")),
        _content("bytecode without a source", _put("kernel/flashcore.pyc")),
        _content("a path file", _put("runs/other/a.pth")),
        _content("waivers that are not committed", _put("gates/waivers.toml")),
        _content("noise that is not committed", _put("gates/noise/a.json")),
        _content("a new folder of baselines", _put("gates/baselines/h200.json")),
        _content("evidence that is not committed", _put("gates/evidence/h200.tar.xz")),
        _content("a header in the folder of builds", _put("build/include/b.h")),
        _content("a suite at the top", _put("other.toml")),
        _content("an included table of any suffix", _put("kernel/include/table.txt")),
        _content("code in a folder that looks like an environment", lambda folder: (_put("kernel/.venv/pyvenv.cfg")(folder), _put("kernel/.venv/b.h")(folder))),
        _content("code in a cache", _put("kernel/.pytest_cache/b.py")),
        _content("code called bytecode", _put("kernel/__pycache__/b.py")),
        _content("a linked folder of headers", lambda folder: (folder / "kernel/extra").symlink_to("/usr/include")),
    ),
    member=member,
    mutant=mutant,
)  # fmt: skip
