"""Recorded evidence on a machine without a GPU: bound to what would run now, judged the same everywhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from evidence_factories import good_observation, make_evidence, make_provenance

from flashcore_ci.build.records import read_builds
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind
from flashcore_ci.store.codec import decode
from flashcore_ci.store.run import REPORTS, prepare_run, write_run

TARGET = ("max-diff", "twice-n4096")


@pytest.fixture
def recorded(cli, checkout: Path, workshop: Path) -> Path:
    """A run folder with made-up good evidence for exactly the code in the checkout, packed into gates/evidence too.

    It is made once and then copied.
    """
    kept = workshop / "recorded"
    if not kept.exists():
        record(cli, checkout)
        shutil.copytree(checkout, kept)
    shutil.copytree(kept, checkout, dirs_exist_ok=True)
    return checkout / "runs/recorded"


def record(cli, checkout: Path) -> None:
    assert cli("build", "--suite", "suite.toml", "--out", "build").returncode == 0
    plan = decode(Plan, cli("plan", "--suite", "suite.toml", "--json").stdout.encode(), where="plan")
    builds = read_builds(checkout / "build").builds
    run = checkout / "runs/recorded"
    prepare_run(run, plan)
    write_run(run, plan, evidence(plan, builds))
    (checkout / "gates/evidence").mkdir(parents=True)
    assert cli("pack", run, "gates/evidence/h200.tar.xz").returncode == 0


def evidence(plan: Plan, builds: tuple) -> Evidence:
    observation = good_observation(plan, builds[0], Kind.CORRECTNESS, TARGET[1])
    readings = tuple((name, Measured(value=0.0, unit=reading.unit)) for name, reading in observation.readings)
    observation = replace(observation, readings=readings)
    return make_evidence(provenance=make_provenance(), builds=builds, observations=(observation,))


def gate(cli, checkout: Path, *arguments: str) -> tuple[int, tuple[str, str, str]]:
    """Exit code, and outcome, code and kind of origin of the check on the workload."""
    done = cli("gate", "--suite", "suite.toml", "--recorded", *arguments)
    report = json.loads((checkout / "runs/latest/report.json").read_text(encoding="utf-8"))
    (found,) = [v for v in report["verdicts"] if (v["gate"], v["target"]) == TARGET]
    return done.returncode, (found["outcome"], found["reason"]["code"], found["origin"]["kind"])


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


GREEN = (0, ("PASS", "within-limit", "recorded"))


def test_evidence_of_this_very_code_counts_and_says_where_it_is_from(cli, checkout: Path, recorded: Path) -> None:
    assert gate(cli, checkout) == GREEN
    device = make_provenance().device
    shown = cli("report").stdout
    assert f"recorded on {device.name}, driver {device.driver}, {make_provenance().collected_at[:10]}" in shown


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("kernel/twice.cu", "  if (i < n)", "  // a comment\n\n  if (i < n)"),
        ("kernel/launch.cu", "void *arguments", "/* a comment */ void *arguments"),
        ("subject.py", "def problem", "# a comment\ndef problem"),
    ],
)
def test_a_comment_keeps_it(cli, checkout: Path, recorded: Path, file: str, old: str, new: str) -> None:
    edit(checkout / file, old, new)
    assert gate(cli, checkout) == GREEN


CHANGES: dict[str, tuple[str, str, str]] = {
    "an instruction": ("kernel/twice.cu", "2.0f * x[i]", "2.0f * x[i] + 1.0f"),
    "a grid size": ("kernel/launch.cu", "(n + 255) / 256", "(n + 255) / 256 + 1"),
    "the subject": ("subject.py", 'float(params["n"])', 'float(params["n"]) + 1.0'),
    "a seed": ("suite.toml", 'collect = ["correctness"]', 'collect = ["correctness"]\nseed = 7'),
    "how it is collected": ("suite.toml", "repeats = 3", "repeats = 4"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_what_would_run_makes_it_stale(cli, checkout: Path, recorded: Path, what: str) -> None:
    file, old, new = CHANGES[what]
    edit(checkout / file, old, new)
    assert gate(cli, checkout) == (11, ("INCONCLUSIVE", "stale-evidence", "none"))
    assert gate(cli, checkout, "--stale", "defer")[0] == 0


def flipped(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize("damage", [flipped, lambda data: data[:-10], lambda data: b""], ids=["flipped", "cut", "empty"])
def test_damaged_evidence_is_an_error(cli, checkout: Path, recorded: Path, damage: Callable[[bytes], bytes]) -> None:
    bundle = checkout / "gates/evidence/h200.tar.xz"
    bundle.write_bytes(damage(bundle.read_bytes()))
    done = cli("gate", "--suite", "suite.toml", "--recorded")
    assert done.returncode == 4
    assert "h200.tar.xz" in done.stderr


def test_judging_gives_the_same_bytes_from_folder_and_bundle(cli, checkout: Path, recorded: Path) -> None:
    outs = []
    for source, out in ((recorded, "a"), (recorded, "b"), ("gates/evidence/h200.tar.xz", "c")):
        done = cli("judge", source, "--suite", "suite.toml", "--out", out)
        assert done.returncode == 0, done.stderr
        outs.append([(checkout / out / name).read_bytes() for name in REPORTS])
    assert outs[0] == outs[1] == outs[2]
    assert json.loads(outs[0][0])["as_of"] == make_provenance().collected_at


def test_judging_writes_beside_the_run_and_the_run_stays_whole(cli, checkout: Path, recorded: Path) -> None:
    assert cli("judge", recorded, "--suite", "suite.toml").returncode == 0
    assert (recorded / "junit.xml").is_file()
    assert cli("judge", recorded, "--suite", "suite.toml").returncode == 0


def test_judging_uses_the_suite_in_the_checkout(cli, checkout: Path, recorded: Path) -> None:
    edit(checkout / "suite.toml", 'value = 0, unit = "byte"', 'value = 1, unit = "byte"')
    done = cli("judge", recorded, "--suite", "suite.toml", "--only", "spills")
    assert done.returncode == 10
    edit(checkout / "suite.toml", "params = { n = 4096 }", "params = { n = 8192 }")
    assert cli("judge", recorded, "--suite", "suite.toml", "--only", "max-diff").returncode == 11


def test_judging_something_else_is_an_error(cli, checkout: Path) -> None:
    (checkout / "elsewhere").mkdir()
    assert cli("judge", "elsewhere", "--suite", "suite.toml").returncode == 4
    assert cli("judge", "nowhere.tar.xz", "--suite", "suite.toml").returncode == 4


def test_packing_is_deterministic(cli, checkout: Path, recorded: Path) -> None:
    assert cli("pack", recorded, "again.tar.xz").returncode == 0
    assert (checkout / "again.tar.xz").read_bytes() == (checkout / "gates/evidence/h200.tar.xz").read_bytes()


def test_a_run_of_another_suite_is_named(cli, checkout: Path, recorded: Path) -> None:
    asked = ("judge", recorded, "--suite", "suite.toml", "--out", "judged")
    assert "the run is of suite" not in cli(*asked).stderr
    own = decode(Plan, (recorded / "plan.json").read_bytes(), where="plan").suite
    edit(checkout / "suite.toml", f'name = "{own}"\n\n[ridge]', 'name = "another"\n\n[ridge]')
    assert f"the run is of suite '{own}' and is judged by 'another'. --suite chooses" in " ".join(cli(*asked).stderr.split())


def test_a_folder_without_measurements_says_what_it_holds_and_keeps_its_reports(cli, checkout: Path, recorded: Path) -> None:
    gate(cli, checkout)
    folder = checkout / "runs/latest"
    before = {name: (folder / name).read_bytes() for name in REPORTS}
    done = cli("judge", "runs/latest", "--suite", "suite.toml")
    assert done.returncode == 4
    assert "runs/latest holds no measurements (manifest.json). It holds: artifacts, build, comment.md, " in done.stderr
    assert done.stderr.endswith("fix: flashcore-ci report runs/latest\n")
    assert {name: (folder / name).read_bytes() for name in REPORTS} == before


def test_only_judge_uses_the_day_of_collection_and_names_it(cli, checkout: Path, recorded: Path) -> None:
    edit(checkout / "suite.toml", 'value = 0, unit = "byte"', 'value = 1, unit = "byte"')  # exactly one spilled byte: red
    day = make_provenance().collected_at[:10]
    waiver = f'[[waiver]]\ngate = "spills"\ntarget = "twice_f32"\nreason = "known"\nowner = "tests"\nexpires = {day}\n'
    target = next(v["target"] for v in _verdicts(cli, checkout, recorded, "0") if v["gate"] == "spills")
    (checkout / "waivers.toml").write_text(waiver.replace("twice_f32", target))
    outs = []
    for out in ("a", "b"):
        done = cli("judge", recorded, "--suite", "suite.toml", "--out", out)
        assert done.returncode == 0, done.stderr
        assert f"1 waived (waivers as of {day}, the day of collection)" in done.stdout
        outs.append([(checkout / out / name).read_bytes() for name in REPORTS])
    assert outs[0] == outs[1]
    assert gate(cli, checkout)[0] == 10
    assert cli("gate", "--suite", "suite.toml", "--recorded", "--as-of", day).returncode == 2


def _verdicts(cli, checkout: Path, run: Path, out: str) -> list[dict]:
    cli("judge", run, "--suite", "suite.toml", "--out", out)
    return json.loads((checkout / out / "report.json").read_text(encoding="utf-8"))["verdicts"]
