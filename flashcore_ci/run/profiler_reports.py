"""Read a run's profiler reports again, in the background and in processes of their own."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import flashcore_ci
from flashcore_ci.adapters import ncu, ncu_page, process
from flashcore_ci.adapters.ncu import Action
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.reading import Missing
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.store.manifest import ARTIFACTS

FOLDER = "profile"
SUFFIX = ".ncu-rep"
PAGE = ".csv"
SECONDS = 60.0
AT_ONCE = 2

Files = Mapping[str, bytes]
Actions = tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """A report, the ``file`` that was read for it (itself or ncu's page of it), and what it holds."""

    name: str
    file: str
    actions: Actions | Missing


class ProfilerReports:
    """The profiler's reports of one run, by the folder of the session that made them."""

    def __init__(self, files: Files, pool: ThreadPoolExecutor) -> None:
        self._pending: dict[str, list[Future[ReadReport]]] = {}
        for name in sorted((name for name in files if _is_report(name)), key=lambda name: (len(name), name)):
            root = name.rpartition(f"/{FOLDER}/")[0]
            self._pending.setdefault(root, []).append(pool.submit(_read, files, name))

    def last_with(self, workload: str, root: str = ARTIFACTS) -> ReadReport:
        """Return the last report in ``root`` that holds this workload, else why there is none. EvidenceError if a page lies."""
        read = [pending.result() for pending in self._pending.get(root, ())]
        if not read:
            absent = Missing(code=Code.NO_TOOL_FILE, message="the run does not hold the profiler's report")
            return ReadReport(name="", file=f"{root}/{FOLDER}/*{SUFFIX}", actions=absent)
        holding = [report for report in read if any(action.workload == workload for action in _actions(report))]
        return (holding or read)[-1]


@contextlib.contextmanager
def reading(files: Files) -> Iterator[ProfilerReports]:
    """Read all reports in the background."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield ProfilerReports(files, pool)


def _is_report(name: str) -> bool:
    return f"/{FOLDER}/" in name and name.endswith(SUFFIX)


def _actions(report: ReadReport) -> Actions:
    return () if isinstance(report.actions, Missing) else report.actions


def _read(files: Files, name: str) -> ReadReport:
    """Read one report with ncu's own library, else its page."""
    page = f"{name.removesuffix(SUFFIX)}{PAGE}"
    listed = ncu_page.parse(files[page].decode("utf-8", errors="replace")) if page in files else None
    if ncu.has_reader():
        actions = _read_report(files[name])
        if listed is not None and not isinstance(actions, Missing) and not ncu_page.shows(listed, actions):
            raise EvidenceError(f"{page} does not show what {name} holds", fix="collect again: one of them was altered")
        return ReadReport(name=name, file=name, actions=actions)
    if listed is None:
        message = f"the run does not hold {page}, and ncu-report is not installed"
        return ReadReport(name=name, file=name, actions=Missing(code=Code.NO_TOOL_FILE, message=message))
    invalid = Missing(code=Code.INVALID_REPORT, message="ncu's page holds no launch: it is empty, cut or altered")
    return ReadReport(name=name, file=page, actions=listed or invalid)


@lru_cache(maxsize=8)
def _read_report(data: bytes) -> Actions | Missing:
    """Read it in a process that finds our package, and nothing of the current folder."""
    with scratch_folder() as scratch:
        file = scratch / f"report{SUFFIX}"
        file.write_bytes(data)
        argv, variables = ncu.reading_argv(ncu.find(), file), {"PYTHONPATH": os.pathsep.join(_import_paths())}
        done = process.run(argv, logs=scratch, name="read", timeout=SECONDS, cwd=scratch, variables=variables)
        if done.returncode == 0 and not done.timed_out:
            return ncu.parse_actions(done.text())
        return Missing(code=Code.INVALID_REPORT, message=f"ncu's reader ended with exit status {done.returncode}")


def _import_paths() -> Iterator[str]:
    """Yield where this process finds modules, without the current folder: it may be a stranger's checkout."""
    yield str(Path(flashcore_ci.__file__).parents[1])
    yield from (path for path in sys.path if path and Path(path).absolute() != Path.cwd())
