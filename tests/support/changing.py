"""Commits as git lists them, and every kind of change that must start the GPU job."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from factories import make_plan

from flashcore_ci.adapters.worktree import LINK, SUBMODULE, Entry
from flashcore_ci.build.sources import Sources
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.run import changed_files
from flashcore_ci.run.changed_files import Change, Covered, Places

Tree = dict[str, Entry]
Edit = Callable[[Tree], object]
PLACES = Places(suites="gates")

COVERED = Covered(
    native=frozenset({"kernel/src/a.cu", "kernel/include/a.h", "kernel/include/table.md"}),
    bindings=frozenset({"kernel/flashcore/binding.py"}),
    questions=frozenset({"kernel/subjects/a.py"}),
    exact=frozenset({"kernel/subjects/jit.py"}),
)
FILES = (
    *sorted(COVERED.files()),
    *("README.md", "docs/page.md", "docs/plot.png", "kernel/README.md", "kernel/flashcore/other.py", "LICENSE"),
    *("flashcore_ci/worker/timing.py", "flashcore_ci/README.md", "flashcore_ci/collect/timing.py", "flashcore_ci/judge/judge.py"),
    *("gates/hopper.toml", "gates/waivers.toml", "gates/noise/h200.json", "gates/baselines/h200.json", "gates/README.md"),
    *("gates/evidence/h200.tar.xz", "gates/acceptances/a.toml", "gates/selftest.toml", "pyproject.toml", "uv.lock"),
    *("requirements.txt", ".github/locks/measure.lock", ".github/workflows/trusted.yml", ".github/actions/run.py", "setup.cfg"),
    *(".gitattributes", ".gitignore", "Makefile", "tests/conftest.py", "kernel/table.json", "examples/a.toml", ".ci/run"),
)


def entry(text: str, mode: str = "100644") -> Entry:
    """The entry of a file with this text."""
    return Entry(mode=mode, digest=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), size=len(text))


def tree() -> Tree:
    """The measured commit."""
    return {name: entry(name) for name in FILES}


def edited(name: str) -> Edit:
    """Write other bytes to a file, perhaps a new one."""
    return lambda files: files.update({name: entry("other")})


def removed(name: str) -> Edit:
    """Remove a file."""
    return lambda files: files.pop(name)


def moved(name: str, new: str) -> Edit:
    """Rename a file."""
    return lambda files: files.update({new: files.pop(name)})


def as_mode(name: str, mode: str) -> Edit:
    """Give a file another mode, or a new name a file of this mode."""
    return lambda files: files.update({name: Entry(mode=mode, digest=files.get(name, entry("x")).digest, size=1)})


def found(edit: Edit, places: Places = PLACES) -> list[Change]:
    """List what the edit of the measured commit could change."""
    after = tree()
    edit(after)
    return list(changed_files.changes(tree(), after, COVERED, places))


STARTS_GPU: dict[str, tuple[Edit, str]] = {
    "the worker": (edited("flashcore_ci/worker/timing.py"), "tool-changed"),
    "a collector": (edited("flashcore_ci/collect/timing.py"), "tool-changed"),
    "the judge": (edited("flashcore_ci/judge/judge.py"), "tool-changed"),
    "a new module of the tool": (edited("flashcore_ci/new.py"), "tool-changed"),
    "documentation inside the tool": (edited("flashcore_ci/README.md"), "tool-changed"),
    "a module of the tool is gone": (removed("flashcore_ci/judge/judge.py"), "tool-changed"),
    "the workflow": (edited(".github/workflows/trusted.yml"), "tool-changed"),
    "a new workflow": (edited(".github/workflows/new.yml"), "tool-changed"),
    "an action": (edited(".github/actions/run.py"), "tool-changed"),
    "documentation among the workflows": (edited(".github/README.md"), "tool-changed"),
    "the local run": (edited(".ci/run"), "tool-changed"),
    "a suite: limits, driver range, devices, age": (edited("gates/hopper.toml"), "suite-changed"),
    "a new suite": (edited("gates/new.toml"), "suite-changed"),
    "a waiver": (edited("gates/waivers.toml"), "suite-changed"),
    "the noise file": (edited("gates/noise/h200.json"), "suite-changed"),
    "a new noise file": (edited("gates/noise/new.json"), "suite-changed"),
    "a baseline": (edited("gates/baselines/h200.json"), "suite-changed"),
    "a baseline is gone": (removed("gates/baselines/h200.json"), "suite-changed"),
    "recorded evidence": (edited("gates/evidence/h200.tar.xz"), "suite-changed"),
    "recorded evidence is gone": (removed("gates/evidence/h200.tar.xz"), "suite-changed"),
    "an acceptance": (edited("gates/acceptances/b.toml"), "suite-changed"),
    "the self-test": (edited("gates/selftest.toml"), "suite-changed"),
    "documentation next to the suite": (edited("gates/README.md"), "suite-changed"),
    "pyproject.toml": (edited("pyproject.toml"), "project-changed"),
    "a lock file": (edited("uv.lock"), "project-changed"),
    "a new lock file": (edited("poetry.lock"), "project-changed"),
    "the lock file of the jobs": (edited(".github/locks/measure.lock"), "tool-changed"),
    "requirements": (edited("requirements.txt"), "project-changed"),
    "settings of setup": (edited("setup.cfg"), "project-changed"),
    "a kernel": (edited("kernel/src/a.cu"), "code-changed"),
    "a header": (edited("kernel/include/a.h"), "code-changed"),
    "a binding": (edited("kernel/flashcore/binding.py"), "code-changed"),
    "a subject": (edited("kernel/subjects/a.py"), "subject-rewritten"),
    "a subject that is compiled when it runs": (edited("kernel/subjects/jit.py"), "subject-rewritten"),
    "a kernel is gone": (removed("kernel/src/a.cu"), "unknown-change"),
    "a kernel has another name": (moved("kernel/src/a.cu", "kernel/src/b.cu"), "unknown-change"),
    "a subject became documentation": (moved("kernel/subjects/a.py", "docs/a.md"), "unknown-change"),
    "a new header that is found first": (edited("kernel/src/a.h"), "unknown-change"),
    "a new module that shadows an import": (edited("kernel/torch.py"), "unknown-change"),
    "a new package that shadows an import": (edited("kernel/numpy/__init__.py"), "unknown-change"),
    "a new folder that could be imported": (edited("kernel/torch/README.md"), "unknown-change"),
    "a module under no digest": (edited("kernel/flashcore/other.py"), "unknown-change"),
    "conftest.py": (edited("tests/conftest.py"), "unknown-change"),
    "sitecustomize.py": (edited("sitecustomize.py"), "unknown-change"),
    "a path file": (edited("kernel/a.pth"), "unknown-change"),
    "bytecode": (edited("kernel/flashcore/binding.pyc"), "unknown-change"),
    "a shared library": (edited("kernel/libcuda.so"), "unknown-change"),
    "data of a kernel": (edited("kernel/table.json"), "unknown-change"),
    "the Makefile": (edited("Makefile"), "unknown-change"),
    "attributes and filters": (edited(".gitattributes"), "unknown-change"),
    "attributes in a folder": (edited("docs/.gitattributes"), "unknown-change"),
    "ignored files": (edited(".gitignore"), "unknown-change"),
    "submodules are declared": (edited(".gitmodules"), "unknown-change"),
    "a submodule": (as_mode("kernel/cutlass", SUBMODULE), "unknown-change"),
    "documentation became a submodule": (as_mode("docs/page.md", SUBMODULE), "unknown-change"),
    "documentation became a link": (as_mode("docs/page.md", LINK), "unknown-change"),
    "a new link that looks like documentation": (as_mode("docs/b.md", LINK), "unknown-change"),
    "a kernel became a link": (as_mode("kernel/src/a.cu", LINK), "unknown-change"),
    "a kernel may be executed": (as_mode("kernel/src/a.cu", "100755"), "unknown-change"),
    "documentation may be executed": (as_mode("docs/page.md", "100755"), "unknown-change"),
    "a name that differs in case": (edited("README.MD"), "unknown-change"),
    "documentation whose folder differs in case": (edited("Docs/page.md"), "unknown-change"),
    "a name that some file systems fold": (edited("docs/\u212aelvin.md"), "unknown-change"),
    "a name with a line end": (edited("docs/a\n.md"), "unknown-change"),
    "a header called documentation": (edited("docs/a.h.md/../a.h"), "unknown-change"),
    "documentation with the name of a header": (edited("docs/Table.md"), "unknown-change"),
    "documentation that some file systems take for another": (edited("docs/Page.md"), "unknown-change"),
    "hidden documentation": (edited("docs/.a/b.md"), "unknown-change"),
    "a file without a suffix": (edited("LICENSE"), "unknown-change"),
    "a second suffix": (edited("docs/page.md.py"), "unknown-change"),
    "an example": (edited("examples/a.toml"), "unknown-change"),
}
"""Each is one kind of change, with the reason's code."""

HARMLESS: dict[str, Edit] = {
    "nothing": lambda _: None,
    "documentation": edited("docs/page.md"),
    "a new page in a new folder": edited("docs/new/page.md"),
    "a page is gone": removed("docs/page.md"),
    "a page has another name": moved("docs/page.md", "docs/text.md"),
    "a picture": edited("docs/plot.png"),
    "documentation next to kernels": edited("kernel/README.md"),
    "the README": edited("README.md"),
}

PLAN: Plan = make_plan()


def code_change(
    root: Path, before: dict[str, str], after: dict[str, str], plan: Plan, builds: tuple[BuildEvidence, ...]
) -> Change | None:
    """Compare covered files of two checkouts with these contents."""
    sides = []
    for name, files in (("before", before), ("after", after)):
        for path, text in files.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text)
        sides.append(Sources(root / name))
    covered = changed_files.covered_by(plan, builds, sides[0])
    trees = ({path: entry(text) for path, text in files.items()} for files in (before, after))
    changes = list(changed_files.changes(*trees, covered, PLACES))
    refused = [change for change in changes if change.code is not Code.CODE_CHANGED]
    return refused[0] if refused else changed_files.code_change([change.path for change in changes], plan, *sides)
