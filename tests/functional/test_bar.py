"""The bar comes from the base: what a pull request lowers is listed first, and blocks without a reviewed file."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from replayed import ROOT, environ
from repository import SUITE, Repository

from flashcore_ci.model.codes import NEXT_STEP, Code

GREEN = json.dumps({"gpu": {"result": "success"}})
TOKEN = "ghs_secret"
OUT = Path("runs/required")


@pytest.fixture
def repository(workshop: Path) -> Repository:
    """A topic that left ``main``, at one place: what was compiled there counts again."""
    shutil.rmtree(workshop / "bar", ignore_errors=True)
    repository = Repository(workshop / "bar", {**environ(), "PYTHONPATH": str(ROOT), "GITHUB_TOKEN": TOKEN})
    repository.git("switch", "--quiet", "--create", "topic")
    return repository


def required(repository: Repository, tmp_path: Path) -> tuple[int, dict[str, Any], str]:
    """Measure this commit, and require it with the base ``main``."""
    run = repository.measured(tmp_path / "run")
    done = repository.tool("require", run, "--needs", GREEN, "--demand", "gpu", "--base", "main")
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads((repository.folder / OUT / "report.json").read_text()), done.stdout + done.stderr


def bar_codes(report: dict[str, Any]) -> list[str]:
    return [v["reason"]["code"] for v in report["verdicts"] if v["gate"] == "bar" and v["outcome"] != "PASS"]


def test_a_suite_that_asks_as_much_passes_with_a_testcase(repository: Repository, tmp_path: Path) -> None:
    repository.edit(SUITE, "close to PyTorch", "near PyTorch")
    repository.edit(SUITE, "so that nobody merges", "because nobody merges")
    repository.commit("other words")
    status, report, said = required(repository, tmp_path)
    assert (status, bar_codes(report)) == (0, []), said
    junit = ET.parse(repository.folder / OUT / "junit.xml")
    assert [case.get("name") for case in junit.iter("testcase") if case.get("classname") == "twice.bar"] == ["suite"]


def test_a_lower_bar_comes_first_everywhere_and_blocks(repository: Repository, tmp_path: Path) -> None:
    repository.edit(SUITE, "value = 1e-6", "value = 1e9")
    repository.commit("a limit that nothing exceeds")
    status, report, said = required(repository, tmp_path)
    assert (status, set(bar_codes(report))) == (10, {"check-loosened"}), said
    assert report["verdicts"][0]["gate"] == "bar"
    assert report["headline"].startswith("FAIL: the bar is not the base's (2 check-loosened). ")
    comment, summary = ((repository.folder / OUT / name).read_text() for name in ("comment.md", "summary.md"))
    assert "2 check-loosened" in comment.splitlines()[1]
    assert [line.split()[1] for line in comment.splitlines() if line.startswith("| ")][2] == "bar"
    assert (
        next(line for line in summary.splitlines() if line.startswith("## ")) == "## The bar, compared with the base's (2 checks)"
    )
    names = [case.get("name") for case in ET.parse(repository.folder / OUT / "junit.xml").iter("testcase")]
    assert names[:2] == ["check max-diff on twice-n4096", "gate max-diff"]


def test_a_deleted_gate_and_a_waiver_are_named(repository: Repository, tmp_path: Path) -> None:
    suite = repository.folder / SUITE
    suite.write_text(
        suite.read_text().split('[[gate]]\nid = "spills"')[0] + "[[gate]]\n" + suite.read_text().split("[[gate]]")[-1]
    )
    waiver = '[[waiver]]\ngate = "max-diff"\ntarget = "twice-n4096"\nreason = "x"\nowner = "x"\nexpires = 2027-01-31\n'
    (repository.folder / "gates/waivers.toml").write_text(waiver)
    repository.commit("fewer questions")
    status, report, _ = required(repository, tmp_path)
    assert (status, set(bar_codes(report))) == (10, {"check-removed", "newly-waived"})


def test_an_acceptance_is_for_this_difference_and_once(repository: Repository, tmp_path: Path) -> None:
    repository.edit(SUITE, "value = 1e-6", "value = 1e-3")
    assert repository.tool("bar", "main").returncode == 10
    made = repository.tool("bar", "main", "--accept", "fp16 needs it", "--owner", "kernels")
    assert made.returncode == 0, made.stderr
    assert repository.tool("bar", "main", "--accept", "again").returncode == 2
    repository.commit("a limit, accepted")
    status, report, said = required(repository, tmp_path)
    assert status == 0, said
    assert {v["outcome"] for v in report["verdicts"] if v["gate"] == "bar"} == {"WAIVED"}
    assert "accepted by a reviewed file" in report["headline"]
    repository.git("branch", "--force", "main")
    repository.edit(SUITE, "value = 1e-3", "value = 1e-6")
    repository.commit("main takes it back")
    repository.git("branch", "--force", "main")
    repository.edit(SUITE, "value = 1e-6", "value = 1e-3")
    repository.commit("the same difference again, with the same file")
    assert repository.tool("bar", "main").returncode == 10


def test_a_suite_that_the_bases_tool_cannot_read_is_inconclusive(repository: Repository) -> None:
    """The base brings a tool that does not know the key ``finding`` of a waiver."""
    (repository.folder / ".gitignore").write_text("/runs/\n/build/\n__pycache__/\n")
    shutil.copytree(ROOT / "flashcore_ci", repository.folder / "flashcore_ci", ignore=shutil.ignore_patterns("__pycache__"))
    tables = repository.folder / "flashcore_ci/suite/tables.py"
    tables.write_text("".join(line for line in tables.read_text().splitlines(True) if "finding:" not in line))
    check = repository.folder / "flashcore_ci/suite/check.py"
    check.write_text(check.read_text().replace("table.finding", '""'))
    repository.commit("an older tool")
    repository.git("branch", "--force", "main")
    waiver = '[[waiver]]\ngate = "spills"\ntarget = "twice"\nreason = "x"\nowner = "x"\nexpires = 2027-01-31\nfinding = "k k.cu:7 Invalid read*"\n'
    (repository.folder / "gates/waivers.toml").write_text(waiver)
    done = repository.tool("bar", "main")
    first, fix = done.stdout.splitlines()
    assert (done.returncode, fix) == (11, f"fix: {NEXT_STEP[Code.NEWER_SUITE]}"), done.stdout + done.stderr
    assert first.startswith("newer-suite  suite: the base's tool cannot read gates/hopper.toml: gates/waivers.toml:7: ")
    assert 'unknown key "finding"' in first
    assert json.loads(repository.tool("bar", "main", "--json").stdout)["fix"] == NEXT_STEP[Code.NEWER_SUITE]
    assert f"fix: {NEXT_STEP[Code.NEWER_SUITE]}" in repository.tool("bar", "main", "--accept", "x").stderr
    (repository.folder / "gates/waivers.toml").unlink()
    assert repository.tool("bar", "main").returncode == 0


def test_a_mistake_in_the_suite_is_not_a_newer_suite(repository: Repository) -> None:
    repository.edit(SUITE, "title =", "titel =")
    done = repository.tool("bar", "main")
    assert (done.returncode, done.stdout) == (3, "")
    assert 'flashcore-ci: gates/hopper.toml:33: gate[0] (build).titel: unknown key "titel" (did you mean "title"?)' in done.stderr


def test_a_base_whose_tool_has_no_command_is_named_in_the_headline(repository: Repository, tmp_path: Path) -> None:
    (repository.folder / "flashcore_ci/cli").mkdir(parents=True)
    (repository.folder / "flashcore_ci/cli/main.py").write_text("raise SystemExit(0)\n")
    repository.commit("an old tool")
    repository.git("branch", "--force", "main")
    _, report, _ = required(repository, tmp_path)
    assert "head's own tool compared the suites, because the base's has no command `bar`" in report["headline"]


def test_heads_subject_sees_no_token(repository: Repository, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    spy = f"def build(root):\n    import os\n    open({str(seen)!r}, 'a').write(str(dict(os.environ)))\n"
    repository.edit("subject.py", "def build(root):\n", spy)
    assert repository.tool("bar", "main").returncode in {10, 11}
    assert repository.tool("plan").returncode == 0
    assert "PATH" in seen.read_text()
    assert TOKEN not in seen.read_text()


def test_a_changed_subject_is_judged_with_the_bases_file_too(repository: Repository, tmp_path: Path) -> None:
    repository.edit("subject.py", "8.0 *", "8.000 *")
    repository.commit("the same in other words")
    status, report, _ = required(repository, tmp_path)
    again = {v["gate"]: v["reason"]["code"] for v in report["verdicts"] if "base's subject" in v["gate"]}
    assert (status, again) == (11, {"max-diff (base's subject)": "stale-evidence"})


def test_a_base_subject_that_cannot_describe_head_is_inconclusive(repository: Repository, tmp_path: Path) -> None:
    repository.git("mv", "kernel/launch.cu", "kernel/launcher.cu")
    repository.edit("subject.py", "kernel/launch.cu", "kernel/launcher.cu")
    repository.commit("another interface")
    status, report, _ = required(repository, tmp_path)
    again = {v["gate"]: v["reason"]["code"] for v in report["verdicts"] if "base's subject" in v["gate"]}
    assert (status, again) == (11, {"max-diff (base's subject)": "not-built"})
