"""A base (or head) that imports another copy of the repository: both sides would run the same code."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.worker import foreign_files
from flashcore_ci.worker.job import Job

Prepare = Callable[[Path, Path], Path]
"""Make an installation for the repository and the base's checkout. Return the file that is imported."""


def attack(name: str, prepare: Prepare) -> Attack:
    """Import a file while the base is measured."""

    def attempt(folder: Path) -> bool:
        repository, base = folder / "repository", folder / "base"
        for checkout in (repository, base):
            (checkout / "src").mkdir(parents=True)
            (checkout / "pyproject.toml").write_text('[project]\nname = "my-kernels"\n')
        path, modules = list(sys.path), dict(sys.modules)
        try:
            module = ModuleType("the_copy")
            module.__file__ = str(prepare(repository, base))
            sys.modules["the_copy"] = module
            foreign_files._installed.cache_clear()
            job = Job(
                kind="timing", nonce="n", digest="d", root=base, folder=folder / "scratch/000-timing", subjects=(), workloads=(),
                options={}, repository=repository,
            )  # fmt: skip
            return foreign_files.find(job) == ""
        finally:
            sys.path[:] = path
            sys.modules.pop("the_copy", None)
            sys.modules.update(modules)

    return Attack(name=name, attempt=attempt)


def install(folder: Path, origin: Path, *, editable: bool, name: str = "my-kernels") -> Path:
    """Write what pip writes about a package, and its one module."""
    library = folder / "lib/site-packages"
    record = library / f"{name.replace('-', '_')}-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (record / "RECORD").write_text("my_kernels.py,,\n")
    details = {"url": origin.as_uri(), "dir_info": {"editable": True} if editable else {}}
    (record / "direct_url.json").write_text(json.dumps(details))
    (library / "my_kernels.py").write_text("")
    sys.path.append(str(library))
    return library / "my_kernels.py"


def in_place(repository: Path, _: Path) -> Path:
    return repository / "src/my_kernels.py"


def copied(repository: Path, _: Path) -> Path:
    return install(repository.parent, repository, editable=False)


def copied_part(repository: Path, _: Path) -> Path:
    return install(repository.parent, repository / "src", editable=False, name="other-name")


def of_another_clone(repository: Path, _: Path) -> Path:
    clone = repository.parent / "clone"
    install(repository.parent, clone, editable=True)
    return clone / "src/my_kernels.py"


def from_an_index(repository: Path, _: Path) -> Path:
    file = install(repository.parent, repository, editable=False)
    next(file.parent.glob("*.dist-info/direct_url.json")).unlink()
    return file


def compiled(repository: Path, _: Path) -> Path:
    return repository / "src/my_kernels/_C.cpython-311-x86_64-linux-gnu.so"


def member(rng: random.Random) -> Attack:
    name = f"module_{rng.randrange(10**6)}"
    return attack(f"head's {name}", lambda repository, _: repository / name / f"{rng.choice(('a', 'b'))}.py")


def mutant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(foreign_files, "find", lambda _: "")


CLASS = AttackClass(
    name="another copy of the repository",
    attacks=(
        attack("head's folder, on sys.path", in_place),
        attack("a copy of head that pip installed", copied),
        attack("a copy of a part of head under another name", copied_part),
        attack("a clone that is installed in place", of_another_clone),
        attack("a release of this repository from an index", from_an_index),
        attack("an extension that was compiled in head's folder", compiled),
    ),
    member=member,
    mutant=mutant,
)
