"""Which files of two commits differ, and what each could change. What is not known to be harmless starts the GPU job."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from flashcore_ci.adapters.worktree import LINK, Entry
from flashcore_ci.build import python_text, tokens
from flashcore_ci.build.interpreted import LOCKS
from flashcore_ci.build.sources import Sources
from flashcore_ci.build.subjects import all_sources, source_digest
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.identity import FILE
from flashcore_ci.model.plan import Plan

PLAIN = "100644"
DOCUMENTATION = frozenset({".md", ".rst", ".adoc", ".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp"})
DOCS = "docs"
"""The only folder that may get new folders."""
LISTS = re.compile(r"\b(?:iterdir|listdir|scandir|r?glob|f?walk|copytree|iter_modules|dircmp)\b")
"""How Python lists a folder: then a new file is an input, whatever it is."""
TOOL, WORKFLOWS = "flashcore_ci/", (".github/", ".gitlab-ci", ".buildkite/", ".ci/")
PROJECT_FILES = ("pyproject.toml", "*.lock", ".github/locks/*", "*/*.lock", *LOCKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """The files that digests cover: C++ sources and headers, bindings, subjects, and what is compiled when it runs."""

    native: frozenset[str]
    bindings: frozenset[str]
    questions: frozenset[str]
    exact: frozenset[str]

    def __contains__(self, path: str) -> bool:
        return any(path in files for files in (self.native, self.bindings, self.questions, self.exact))

    def files(self) -> frozenset[str]:
        """Return all of them."""
        return self.native | self.bindings | self.questions | self.exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file that could change a measurement, and why."""

    path: str
    code: Code
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folder of the suite, and whether documentation, and new documentation outside of ``docs``, is for people only."""

    suites: str
    documentation: bool = True
    new_documentation: bool = True


def covered_by(plan: Plan, builds: Collection[BuildEvidence], root: Sources) -> Covered:
    """List what the digests of a run cover in the checkout that it measured."""
    specs = [(one, one.build) for one in plan.descriptions if one.build is not None]
    interpreted = {one.subject for one in plan.descriptions if one.build is None}
    dependencies = {name for build in builds if build.subject in interpreted for name, _ in build.dependencies}
    return Covered(
        native=_native(plan, root),
        bindings=frozenset(path for _, spec in specs for path in spec.binding),
        questions=frozenset(one.file for one in plan.descriptions),
        exact=frozenset(
            {name.removeprefix(FILE) for name in dependencies if name.startswith(FILE)}
            | {path for one in plan.descriptions for path in (*one.candidate, *([one.file] if one.build is None else []))}
        ),
    )


def may_be_documentation(path: str) -> bool:
    """Tell whether the suffix is that of documentation."""
    return PurePosixPath(path).suffix in DOCUMENTATION


def reads_documentation(covered: Covered, root: Sources) -> bool:
    """Tell whether code, and not a comment or docstring, names a suffix of documentation: then such a file may be an input.

    Docstrings and comments count where code may look at them. Python that cannot be read counts.
    """
    python = [root.text(path) for path in covered.bindings | covered.questions]
    codes = [python_text.code_of(text) for text in python]
    texts = [code for code in codes if code is not None]
    if len(texts) < len(codes):
        return True
    texts += python if any(map(python_text.sees_docstrings, texts)) else []
    texts += [str(tokens.canonical(root.text(path))) for path in covered.native]
    texts += [root.text(path) for path in covered.exact]
    return any(suffix in text for text in texts for suffix in DOCUMENTATION)


def lists_folders(covered: Covered, root: Sources) -> bool:
    """Tell whether Python that a digest covers may list a folder."""
    return any(LISTS.search(root.text(path)) for path in covered.bindings | covered.questions | covered.exact)


def changes(before: Mapping[str, Entry], after: Mapping[str, Entry], covered: Covered, places: Places) -> Iterator[Change]:
    """Yield every file that differs, except documentation."""
    folders = {str(parent) for path in before for parent in PurePosixPath(path).parents}
    twins = _twins((*before, *after))
    names = {PurePosixPath(path).name.casefold() for path in covered.files()}
    has_links = any(entry.mode == LINK and not may_be_documentation(path) for path, entry in before.items())
    for path in sorted(before.keys() | after.keys()):
        sides = (before.get(path), after.get(path))
        if sides[0] == sides[1]:
            continue
        is_plain = all(side is None or side.mode == PLAIN for side in sides)
        if not is_plain or not path.isascii() or not path.isprintable() or path in twins:
            yield Change(path=path, code=Code.UNKNOWN_CHANGE, why="is a link, a submodule, executable or oddly named")
        elif (path in covered.questions or path in covered.exact) and None not in sides:
            yield Change(path=path, code=Code.SUBJECT_REWRITTEN, why="is a subject, and every byte of it counts")
        elif path in covered and None not in sides:
            yield Change(path=path, code=Code.CODE_CHANGED, why="is under a digest")
        elif not (places.documentation and _is_documentation(path, folders, names, places.suites)):
            yield _named(path, places.suites, is_new=None in sides)
        elif has_links:
            yield Change(path=path, code=Code.UNKNOWN_CHANGE, why="may be where a link of the checkout leads")
        elif None in sides and not places.new_documentation and not path.startswith(f"{DOCS}/"):
            yield Change(path=path, code=Code.UNKNOWN_CHANGE, why="was added or removed, and a binding lists folders")


def code_change(paths: Collection[str], plan: Plan, before: Sources, after: Sources) -> Change | None:
    """Return what more than comments and blanks changed in sources and bindings, Python first, or None."""
    for one in plan.descriptions:
        files = (one.file, *one.candidate, *(one.build.binding if one.build else ()))
        if before.python_digest(files) != after.python_digest(files):
            path = min(set(files) & set(paths), default=one.file)
            return Change(path=path, code=Code.SUBJECT_REWRITTEN, why="is a binding, and more than comments changed")
    same = all(source_digest(one, before) == source_digest(one, after) for one in plan.descriptions)
    return None if same else Change(path=min(paths), code=Code.CODE_CHANGED, why="has other code")


def moved_code(paths: Collection[str], plan: Plan, before: Sources, after: Sources) -> str:
    """Return a C++ file in which code is in another line or column than before, or "". Macros of system headers can see that."""
    native = sorted(set(paths) & (_native(plan, before) | _native(plan, after)))
    return next((path for path in native if tokens.in_place(before.text(path)) != tokens.in_place(after.text(path))), "")


def _native(plan: Plan, root: Sources) -> frozenset[str]:
    """List the C++ sources and headers. A binding may be one, too."""
    specs = [one.build for one in plan.descriptions if one.build is not None]
    return frozenset(path for spec in specs for source in all_sources(spec) for path in root.closure(source, spec.includes))


def _is_documentation(path: str, folders: Collection[str], names: Collection[str], suites: str) -> bool:
    """Tell whether a file is for people. A new folder could be imported, and a name could be that of a header."""
    pure = PurePosixPath(path)
    is_place = str(pure.parent) in folders or (pure.parts[0] == DOCS and DOCS in folders)
    is_hidden = any(part.startswith(".") for part in pure.parts)
    is_ours = path.startswith((f"{suites}/", TOOL))
    return may_be_documentation(path) and is_place and not is_hidden and not is_ours and pure.name.casefold() not in names


def _named(path: str, suites: str, *, is_new: bool) -> Change:
    if path.startswith(TOOL):
        return Change(path=path, code=Code.TOOL_CHANGED, why="is part of the tool")
    if path.startswith(WORKFLOWS):
        return Change(path=path, code=Code.TOOL_CHANGED, why="is part of the workflow")
    if any(fnmatchcase(path, pattern) for pattern in PROJECT_FILES):
        return Change(path=path, code=Code.PROJECT_CHANGED, why="names dependencies or settings")
    if path.startswith(f"{suites}/"):
        why = "may be a suite, its limits, waivers, baselines, noise or evidence"
        return Change(path=path, code=Code.SUITE_CHANGED, why=why)
    how = "was added, removed or renamed" if is_new else "is under no digest"
    return Change(path=path, code=Code.UNKNOWN_CHANGE, why=f"{how}, and is not documentation")


def _twins(paths: Collection[str]) -> frozenset[str]:
    """Return paths that some file system takes for one, with their folders."""
    by_key: dict[str, set[str]] = {}
    for path in paths:
        for each in (path, *map(str, PurePosixPath(path).parents)):
            by_key.setdefault(unicodedata.normalize("NFKC", each).casefold(), set()).add(each)
    odd = {each for found in by_key.values() if len(found) > 1 for each in found}
    return frozenset(path for path in paths if {path, *map(str, PurePosixPath(path).parents)} & odd)
