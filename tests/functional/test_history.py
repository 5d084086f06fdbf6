"""The command `history`, and `gate --db`, in a repository of their own."""

from __future__ import annotations

import csv
import os
import socket
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import report_factories
from evidence_factories import make_provenance
from history_factories import PLAN, compared, evidence_of, standings

from flashcore_ci.cli import main
from flashcore_ci.history import database
from flashcore_ci.model.history import Standing
from flashcore_ci.run import gate, history, statement
from flashcore_ci.store import bundle
from flashcore_ci.store.run import pack, prepare_run, write_run

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "flashcore_ci.cli.main")
RUN = "https://github.com/OWNER/flashcore-ci/actions/runs/1/attempts/1"
SECRET = "hunter2"


class Place:
    """A git repository with three commits on `main`, and a database."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        self.db = f"sqlite:///{folder}/h.db"
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commits = [self.commit(f"change {number}") for number in range(3)]

    def git(self, *arguments: str) -> str:
        argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(argv, cwd=self.folder, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()

    def commit(self, message: str) -> str:
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self.git("rev-parse", "HEAD")

    def run(self, name: str, *more, **provenance: object) -> Path:
        """A run folder, and the same as a bundle next to it."""
        folder = self.folder / name
        values = {"commit": self.commits[1], **provenance}
        prepare_run(folder, PLAN)
        evidence = evidence_of(compared(), *more)
        write_run(folder, PLAN, replace(evidence, provenance=make_provenance(**values)))
        pack(folder, folder.with_suffix(".tar.xz"))
        return folder

    def statement(self, run: Path, invocation: str = RUN) -> Path:
        file = run.with_suffix(".json")
        file.write_bytes(statement.expected(run, invocation=invocation))
        return file

    def tool(self, *arguments: str | Path, db: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command line in this process: 40 interpreters would take longer than all that they do."""
        self.monkeypatch.chdir(self.folder)
        argv = ["history", *map(str, arguments), "--db", db or self.db]
        status = main.run(argv)
        said = self.capsys.readouterr()
        return subprocess.CompletedProcess(argv, status, said.out, said.err)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path / "repository", monkeypatch, capsys)


def one_line(done: subprocess.CompletedProcess[str], code: int, words: str) -> None:
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("adding ")]
    assert words in lines[0]
    assert lines[-1].startswith("fix: ")
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr


def test_a_run_is_added_listed_shown_exported_and_removed(place: Place) -> None:
    folder = place.run("run")
    assert place.tool("add", folder, folder.with_suffix(".tar.xz")).stderr.count("already there") == 1
    line = place.tool("list").stdout
    assert len(line.splitlines()) == 1
    assert place.commits[1][:12] in line
    assert place.tool("list", "--newest", "99999999999999999999").returncode == 2
    shown = place.tool("show", line.split()[0][:6])
    assert "big" in shown.stdout
    assert "0.6514 ms" in shown.stdout
    rows = list(csv.DictReader(place.tool("export").stdout.splitlines()))
    assert {row["workload"] for row in rows} == {"big", "small"}
    assert place.tool("export", "--format", "openmetrics").stdout.endswith("# EOF\n")
    assert "would remove 0" in place.tool("retain", "--days", "36500", "--dry-run").stderr
    with sqlite3.connect(place.folder / "h.db") as plain:
        plain.execute("UPDATE runs SET collected_at = 1")
    assert "removed 1" in place.tool("retain", "--days", "300").stderr
    assert place.tool("list").stdout == ""
    assert place.tool("upgrade", "--to", "base").stderr == "from 0004 to nothing\n"


def test_a_run_is_read_judged_and_written_once_and_the_database_is_loaded_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, calls = place.run("run"), []
    for owner, name in (
        (bundle, "unpack"),
        (history, "rederived"),
        (history, "judge"),
        (database, "write"),
        (database, "_migrate"),
    ):
        whole = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, name=name, whole=whole, **k: (calls.append(name), whole(*a, **k))[1])
    place.tool("add", folder.with_suffix(".tar.xz"))
    assert calls == ["unpack", "rederived", "judge", "write", "_migrate"]
    calls.clear()
    place.tool("add", folder.with_suffix(".tar.xz"))
    assert calls == ["unpack", "rederived", "judge", "write"]
    code = "import sys, flashcore_ci.run.history; assert not {'sqlalchemy', 'alembic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_signed_run_of_the_protected_branch_feeds_detection(place: Place) -> None:
    folder = place.run("run")
    place.tool("add", folder, "--branch", "main")
    assert standings(place.db) == [Standing.OTHER]
    done = place.tool("add", folder, "--statement", place.statement(folder), "--protected", "main")
    assert done.returncode == 0, done.stderr
    assert standings(place.db) == [Standing.PROTECTED]
    assert place.tool("add", folder, "--reviewed").returncode == 0
    assert standings(place.db) == [Standing.PROTECTED]
    with sqlite3.connect(place.folder / "h.db") as plain:
        assert plain.execute(
            "SELECT branch, position, parent, subject FROM runs JOIN commits ON commit_id = commits.id"
        ).fetchall() == [("main", 2, place.commits[0], "change 1")]


def refused(place: Place, folder: Path, file: Path, words: str, *more: str) -> None:
    one_line(place.tool("add", folder, "--statement", file, "--protected", "main", *more), 11, words)
    assert not (place.folder / "h.db").exists()


def test_what_is_not_a_signed_run_of_the_protected_branch_is_refused(place: Place) -> None:
    good = place.run("good")
    place.git("switch", "--quiet", "--create", "side", place.commits[0])
    side = place.commit("beside")
    aside = place.run("aside", commit=side)
    refused(place, aside, place.statement(aside), "is not on main")
    merged = place.run("merged", commit=side)
    place.git("switch", "--quiet", "main")
    place.git("merge", "--quiet", "--no-ff", "--message=merge", "side")
    refused(place, merged, place.statement(merged), "is not on main")  # a commit of a merged branch was never main
    refused(place, good, place.statement(aside), "is not that of the evidence")
    refused(place, good, place.statement(good, ""), "names no workflow run")
    dirty = place.run("dirty", dirty=True)
    refused(place, dirty, place.statement(dirty), "uncommitted changes")
    named = place.run("named", commit="main")
    refused(place, named, place.statement(named), "is not on main")
    without = place.run("without", device=None)
    refused(place, without, place.statement(without), "names no GPU")
    shallow = place.folder.with_name("shallow")
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{place.folder}", shallow], check=True)
    place.folder = shallow
    one_line(place.tool("add", good, "--statement", place.statement(good), "--protected", "main"), 2, "shallow")


def test_wrong_use_is_one_line(place: Place) -> None:
    folder = place.run("run")
    one_line(place.tool("list"), 2, "there is no history")
    one_line(place.tool("add", folder, db=f"postgresql://me:{SECRET}@host/db"), 2, "a password")
    one_line(place.tool("add", folder, db="sqlite:////proc/none/h.db"), 4, "cannot use")
    one_line(place.tool("add", folder, "--statement", place.statement(folder), "--reviewed"), 2, "one run")
    one_line(place.tool("add", place.folder / "none"), 4, "cannot read")
    evidence = folder / "evidence.json"
    evidence.write_bytes(evidence.read_bytes().replace(b"0.5", b"0.4"))
    one_line(place.tool("add", folder), 4, "was altered")
    assert place.tool("add", folder.with_suffix(".tar.xz")).returncode == 0
    one_line(place.tool("show", "zz"), 2, "the start of its digest")
    one_line(place.tool("show", "00000000"), 2, "no run begins")


def silent_server() -> socket.socket:
    """A server that takes connections and says nothing."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    return server


@pytest.mark.parametrize("database", ["fine", "foreign", "newer", "damaged", "folder", "no right", "no server", "silent"])
def test_a_gate_keeps_its_verdict_whatever_the_database_does(
    place: Place, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place.run("run")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    report = report_factories.make_report()
    monkeypatch.setattr(gate, "gate", lambda *_: report)
    monkeypatch.setattr(history, "ANSWER_SECONDS", 2.0 if database == "silent" else 60.0)
    file, server = place.folder / "h.db", silent_server()
    db = {"no right": "sqlite:////proc/h.db", "no server": "postgresql://me@127.0.0.1:1/db"}.get(database, place.db)
    if database == "silent":
        db = f"postgresql://me@127.0.0.1:{server.getsockname()[1]}/db"
    if database in {"foreign", "newer"}:
        with sqlite3.connect(file) as plain:
            plain.execute("CREATE TABLE alembic_version (version_num TEXT)" if database == "newer" else "CREATE TABLE shop (id)")
            if database == "newer":
                plain.execute("INSERT INTO alembic_version VALUES ('9999')")
    if database == "damaged":
        file.write_bytes(b"no database at all")
    if database == "folder":
        file.mkdir()
    monkeypatch.chdir(place.folder)
    assert main.run(["gate", "--out", str(folder), "--db", db]) == report.exit_code
    last = place.capsys.readouterr().err.splitlines()[-1]
    if database == "fine":
        assert last == "history: added"
        assert standings(place.db) == [Standing.OTHER]
    else:
        assert last.startswith("not stored in the history: ")
        assert "The verdict stands. Later: flashcore-ci history add" in last
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    server.close()


def test_a_gate_refuses_a_wrong_address_before_it_measures(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "gate", lambda *_: pytest.fail("it measured"))
    assert main.run(["gate", "--db", f"postgresql://me:{SECRET}@host/db"]) == 2
    said = place.capsys.readouterr().err
    assert "holds a password" in said
    assert SECRET not in said


def test_a_gate_that_measured_nothing_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "gate", lambda *_: report_factories.make_report())
    assert main.run(["gate", "--out", str(place.folder / "none"), "--db", place.db]) == report_factories.make_report().exit_code
    assert place.capsys.readouterr().err.splitlines()[-1] == "not stored in the history: nothing was measured here"


def test_make_clean_keeps_the_default_database() -> None:
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nclean:")[2].partition("\n\n")[0]
    assert "rm -rf" in rule
    assert ".flashcore-ci" not in rule
    assert "/.flashcore-ci/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_without_the_extra_the_fix_is_named(tmp_path: Path) -> None:
    lacking = tmp_path / "lacking/sqlalchemy"
    lacking.mkdir(parents=True)
    (lacking / "__init__.py").write_text("raise ModuleNotFoundError('no', name='sqlalchemy')")
    env = {**os.environ, "PYTHONPATH": f"{lacking.parent}{os.pathsep}{ROOT}"}
    done = subprocess.run([*COMMAND, "history", "list"], cwd=tmp_path, env=env, text=True, capture_output=True, check=False)
    one_line(done, 2, "needs sqlalchemy")
