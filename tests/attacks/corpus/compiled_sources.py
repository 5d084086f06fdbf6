"""A kernel that is compiled when it runs, whose recording still counts after a change of what it is made from."""

from __future__ import annotations

import random
from pathlib import Path

import factories
import pytest
from attacking import Attack, AttackClass

from flashcore_ci.build import interpreted
from flashcore_ci.build.python_imports import Closure

DESCRIPTION = factories.make_description(build=None, file="gates/subject.py")


def attack(name: str, subject: str, file: str, *, text: str = "", more: str = "# changed\n", torch: str = "") -> Attack:
    """Change ``file``, which the subject imports or names. ``torch`` is its version afterwards."""

    def attempt(folder: Path) -> bool:
        for path, content in {
            "gates/subject.py": subject,
            file: text,
            "kernels/__init__.py": "",
            "kernels/middle.py": MIDDLE,
        }.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if content or not (folder / path).exists():
                (folder / path).write_text(content)
        before = bound(folder, "2.11.0")
        (folder / file).write_text((folder / file).read_text() + more)
        return bound(folder, torch or "2.11.0") == before

    return Attack(name=name, attempt=attempt)


MIDDLE = "from .last import late\n\ndef name():\n    return 'tables/*.json'\n"


def bound(folder: Path, torch: str) -> tuple[str, str]:
    build = factories.make_build(entries=(), binding="")
    (found,) = interpreted.bind((DESCRIPTION,), (build,), root=folder, versions=lambda _: {"torch": torch})
    return found.binding, found.source


def member(rng: random.Random) -> Attack:
    """Import or name a file somewhere in the checkout."""
    folder, name = rng.choice(("", "src/", "gates/", "lib/")), f"part_{rng.randrange(10**6)}"
    path = "import sys\nsys.path.insert(0, 'lib')\n" if folder == "lib/" else ""
    return attack(f"{folder}{name} is imported", f"{path}import {name}\n", f"{folder}{name}.py")


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Bind the subject's name alone."""
    patch.setattr(interpreted, "closure", lambda *_: Closure(files=(), modules=(), compiles=False))
    patch.setattr(interpreted, "LOCKS", ())


CLASS = AttackClass(
    name="sources of a kernel that is compiled when it runs",
    attacks=(
        attack("a comment in the subject", "import torch\n", "gates/subject.py"),
        attack("a helper in another module", "import helper\n", "helper.py"),
        attack("an import inside a function", "def load(library):\n    import helper\n", "gates/helper.py"),
        attack("a helper in a package", "from kernels import helper\n", "kernels/helper.py"),
        attack("a package's own code", "from kernels import helper\n", "kernels/__init__.py", text="X = 1\n"),
        attack("the import of an import", "import kernels.middle\n", "kernels/last.py"),
        attack("a table that an import names", "import kernels.middle\n", "kernels/tables/a.json", text="{}"),
        attack("a module by its name in a string", "import importlib\nimportlib.import_module('helper')\n", "helper.py"),
        attack("a file by its path in a string", "CONFIG = 'tuned.json'\n", "gates/tuned.json", text="{}"),
        attack("a file of a parent folder", "CONFIG = '../csrc/kernel.cuh'\n", "csrc/kernel.cuh", text="//"),
        attack("a folder on sys.path", "import sys\nsys.path.append('lib')\nimport helper\n", "lib/helper.py"),
        attack("a package in src", "import mine.helper\n", "src/mine/helper.py"),
        attack("a lock file", "import torch\n", "uv.lock", text="[[package]]\n"),
        attack("a requirements file", "import torch\n", "requirements/gpu.txt", text="torch\n"),
        attack("another version of torch", "import torch\n", "notes.txt", torch="2.12.0", text="x"),
    ),
    member=member,
    mutant=mutant,
)
