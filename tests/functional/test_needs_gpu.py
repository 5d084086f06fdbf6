"""Does a change need the GPU job? Decided on a machine without one, from files of git and the base's signed evidence."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from evidence_factories import good_observation, make_evidence, make_provenance
from replayed import ROOT, environ
from repository import READINGS, SUITE, Repository

from flashcore_ci import __version__
from flashcore_ci.adapters import clock
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import statement as statements
from flashcore_ci.store.run import pack, prepare_run, write_run

ADDRESS = "https://github.com/flashcore/flashcore-ci/actions/runs/41"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with documentation, whose commit was measured."""
    found = Repository(tmp_path_factory.mktemp("needs-gpu") / "repository", {**environ(), "PYTHONPATH": str(ROOT)})
    for name in ("docs/page.md", "README.md", "kernel/README.md"):
        (found.folder / name).parent.mkdir(exist_ok=True)
        (found.folder / name).write_text("# text\n")
    found.commit("documentation")
    return found


@pytest.fixture(scope="module")
def measured(repository: Repository) -> Path:
    """The packed evidence of the first commit, next to its statement."""
    file = repository.packed(repository.folder.with_name("base.tar.xz"))
    state(file)
    return file


def state(file: Path) -> None:
    file.with_suffix(".json").write_bytes(statements.expected(file, invocation=ADDRESS))


@pytest.fixture(autouse=True)
def back(repository: Repository, measured: Path) -> None:
    repository.git("checkout", "--quiet", "-B", "change", "main")


def decided(repository: Repository, evidence: Path) -> tuple[int, dict[str, object]]:
    done = repository.tool("needs-gpu", evidence, "--base", "main", "--statement", evidence.with_suffix(".json"), "--json")
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_the_evidence_keeps_its_own_reports(repository: Repository, measured: Path, tmp_path: Path) -> None:
    (tmp_path / "report.json").touch()
    done = repository.tool("needs-gpu", tmp_path, "--base", "main", "--statement", measured, "--out", tmp_path)
    assert (done.returncode, "is what this command reads" in done.stderr) == (2, True), done.stderr
    assert (tmp_path / "report.json").exists()


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_documentation_needs_no_gpu_and_no_compiler(
    repository: Repository, measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.folder / "docs/page.md").write_text("# other text\n")
    (repository.folder / "docs/new").mkdir()
    (repository.folder / "docs/new/page.md").write_text("# new\n")
    repository.commit("docs: more")
    empty = {**repository.environment, "FLASHCORE_CI_HOME": str(measured.parent / "empty")}
    monkeypatch.setattr(repository, "environment", empty)
    before = children_seconds()
    status, said = decided(repository, measured)
    assert (status, said["needed"], said["code"]) == (0, False, "same-code"), said
    assert children_seconds() - before < 10
    assert not any((measured.parent / "empty" / name).exists() for name in ("toolchains", "cache"))
    for word in (ADDRESS, repository.git("rev-parse", "main")[:12], "NVIDIA H200"):
        assert word in str(said["reason"])
    report = json.loads((repository.folder / "runs/needs-gpu/report.json").read_text())
    assert (report["outcome"], report["judged_commit"]) == ("PASS", repository.git("rev-parse", "HEAD"))
    assert {verdict["origin"]["kind"] for verdict in report["verdicts"] if verdict["gate"] == "max-diff"} == {"recorded"}
    assert "needs-gpu" in (repository.folder / "runs/needs-gpu/junit.xml").read_text()


def test_a_chain_of_skips_names_the_original_measurement(repository: Repository, measured: Path) -> None:
    """`main` moves on twice without a GPU. The evidence stays that of the measured commit."""
    first = repository.git("rev-parse", "main")
    for number in range(2):
        (repository.folder / "README.md").write_text(f"# {number}\n")
        repository.commit("docs: more")
    repository.git("branch", "--force", "skipped", "HEAD")
    (repository.folder / "README.md").write_text("# last\n")
    repository.commit("docs: last")
    statement = measured.with_suffix(".json")
    done = repository.tool("needs-gpu", measured, "--base", "skipped", "--statement", statement, "--json")
    assert done.returncode == 0, done.stdout
    assert first[:12] in json.loads(done.stdout)["reason"]


def test_changed_comments_need_no_gpu(repository: Repository, measured: Path) -> None:
    path = repository.folder / "kernel/twice.cu"
    path.write_text(f"{path.read_text()}\n// a comment\n")
    repository.commit("kernel: comment")
    before = children_seconds()
    status, said = decided(repository, measured)
    assert (status, said["needed"]) == (0, False), said
    assert children_seconds() - before < 60


def test_a_comment_that_moves_code_is_built_and_needs_no_gpu_if_code_is_the_same(repository: Repository, measured: Path) -> None:
    for file in ("kernel/twice.cu", "kernel/twice.h"):
        path = repository.folder / file
        path.write_text(f"// a comment\n{path.read_text()}")
    repository.commit("kernel: comments")
    status, said = decided(repository, measured)
    assert (status, said["needed"], said["code"]) == (0, False, "same-code"), said


@pytest.mark.parametrize(
    ("file", "header", "old", "new"),
    [
        ("kernel/twice.cu", "<cassert>", "y[i] =", "assert(n > 0);\n    y[i] ="),
        ("kernel/twice.cu", "<cuda/std/version>", "2.0f *", "(_CCCL_BUILTIN_LINE() == 7 ? 2.0f : 3.0f) *"),
        (
            "kernel/launch.cu",
            "<cuda/std/version>",
            "n, cudaStream_t stream) {",
            "n, cudaStream_t stream) {\n  n -= _CCCL_BUILTIN_LINE() != 5;",
        ),
    ],
    ids=["assert", "kernel", "launcher"],
)
def test_a_comment_that_moves_code_which_sees_its_line_needs_a_gpu(
    tmp_path: Path, file: str, header: str, old: str, new: str
) -> None:
    """A kernel that multiplies by 2 in line 7 and by 3 in line 8 was green by the evidence of line 7."""
    repository = Repository(tmp_path / "repository", {**environ(), "PYTHONPATH": str(ROOT)})
    repository.edit(file, '#include "twice.h"\n', f'#include "twice.h"\n#include {header}\n')
    repository.edit(file, old, new)
    repository.commit("kernel: see the line")
    evidence = repository.packed(tmp_path / "base.tar.xz")
    state(evidence)
    repository.git("checkout", "--quiet", "-b", "change")
    path = repository.folder / file
    path.write_text(f"// c\n{path.read_text()}")
    repository.commit("kernel: comment")
    status, said = decided(repository, evidence)
    assert (status, said["needed"], said["code"]) == (11, True, "code-changed"), said


def test_a_line_comment_that_goes_on_in_the_next_line_hides_no_code_that_moves(tmp_path: Path) -> None:
    """After ``// c`` and a backslash, what looks like the begin of a comment is one's end."""
    repository = Repository(tmp_path / "repository", {**environ(), "PYTHONPATH": str(ROOT)})
    before = "// c \\\n/*\n#define FACTOR (_CCCL_BUILTIN_LINE() == 5 ? 2.0f : 3.0f)\n"
    moved = {"base": f"{before}\nstatic __device__ float factor() {{ return FACTOR; }}\n\n// */\n"}
    moved["head"] = f"{before}\n\nstatic __device__ float factor() {{ return FACTOR; }}\n// */\n"
    repository.edit(
        "kernel/twice.cu", '#include "twice.h"\n', '#include <cuda/std/version>\n#include "twice.h"\n#include "factor.h"\n'
    )
    repository.edit("kernel/twice.cu", "2.0f *", "factor() *")
    (repository.folder / "kernel/factor.h").write_text(moved["base"])
    repository.commit("kernel: see the line")
    evidence = repository.packed(tmp_path / "base.tar.xz")
    state(evidence)
    repository.git("checkout", "--quiet", "-b", "change")
    (repository.folder / "kernel/factor.h").write_text(moved["head"])
    repository.commit("kernel: blank")
    status, said = decided(repository, evidence)
    assert (status, said["needed"], said["code"]) == (11, True, "code-changed"), said


def test_code_that_compiles_to_the_same_needs_no_gpu_and_other_code_does(repository: Repository, measured: Path) -> None:
    source = repository.folder / "kernel/twice.cu"
    text = source.read_text()
    source.write_text(text.replace("2.0f *", "(1.0f + 1.0f) *", 1) if "2.0f *" in text else text.replace("{", "{ ;", 1))
    repository.commit("kernel: the same in other words")
    status, said = decided(repository, measured)
    assert (status, said["needed"]) == (0, False), said
    source.write_text(text.replace("2.0f", "3.0f"))
    repository.commit("kernel: another factor")
    status, said = decided(repository, measured)
    assert (status, said["needed"], said["code"], said["only"]) == (11, True, "code-changed", []), said


def test_evidence_that_is_too_old_or_of_another_statement_does_not_count(
    repository: Repository, measured: Path, tmp_path: Path
) -> None:
    old = repository.packed(tmp_path / "old.tar.xz", collected_at="2020-01-01T00:00:00Z")
    state(old)
    assert decided(repository, old)[1]["code"] == "base-unmeasured"
    old.with_suffix(".json").write_bytes(measured.with_suffix(".json").read_bytes())
    status, said = decided(repository, old)
    assert (status, said["code"]) == (11, "base-unmeasured")
    assert decided(repository, tmp_path / "absent.tar.xz")[0] != 0


def test_a_failed_job_is_never_green(repository: Repository, measured: Path) -> None:
    arguments = ("needs-gpu", measured, "--base", "main", "--statement", measured.with_suffix(".json"), "--demand", "ci decide")
    results = {"ci": {"result": "success"}, "decide": {"result": "success"}, "gpu": {"result": "skipped"}}
    assert repository.tool(*arguments, "--needs", json.dumps(results)).returncode == 0
    for name, result in (("gpu", "failure"), ("ci", "skipped"), ("decide", "failure")):
        broken = json.dumps({**results, name: {"result": result}})
        assert repository.tool(*arguments, "--needs", broken).returncode == 11, (name, result)


def two_subjects(folder: Path) -> Repository:
    """A repository with a second subject, which has sources of its own."""
    found = Repository(folder, {**environ(), "PYTHONPATH": str(ROOT)})
    for file, copy in (("twice.cu", "other.cu"), ("launch.cu", "other_launch.cu"), ("twice.h", "other.h")):
        (found.folder / "kernel" / copy).write_text((found.folder / "kernel" / file).read_text().replace("twice", "other"))
    subject = (found.folder / "subject.py").read_text().replace("twice", "other").replace("launch.cu", "other_launch.cu")
    (found.folder / "other.py").write_text(subject)
    workload = '[[workload]]\nid = "twice-n{n}"\nsubject = "twice"\ncollect = ["correctness"]\nparams = { n = 4096 }\n'
    subject = '[[subject]]\nname = "other"\nfile = "other.py"\n\n'
    found.edit(SUITE, workload, subject + workload + "\n" + workload.replace("twice", "other"))
    found.commit("two subjects")
    return found


def pack_run(repository: Repository, file: Path, *names: str) -> Path:
    """Pack made-up measurements of these workloads, as a GPU job would."""
    plan, builds = repository.built()
    readings = tuple((name, Measured(value=0.0, unit=unit)) for name, unit in READINGS)
    by_name = {build.subject: build for build in builds}
    observations = tuple(
        good_observation(plan, by_name[name.partition("-")[0]], Kind.CORRECTNESS, name, readings=readings) for name in names
    )
    here = {"commit": repository.git("rev-parse", "HEAD"), "version": __version__, "collected_at": clock.now()}
    run = file.with_suffix(".run")
    prepare_run(run, plan)
    write_run(run, plan, make_evidence(provenance=make_provenance(**here), builds=builds, observations=observations))
    pack(run, file)
    state(file)
    return file


def test_a_gpu_job_measures_what_changed_and_the_base_answers_for_the_rest(tmp_path: Path) -> None:
    repository = two_subjects(tmp_path / "two")
    base = pack_run(repository, tmp_path / "base.tar.xz", "twice-n4096", "other-n4096")
    repository.git("checkout", "--quiet", "-b", "change")
    repository.edit("kernel/twice.cu", "2.0f *", "3.0f *")
    repository.commit("kernel: another factor")
    status, said = decided(repository, base)
    assert (status, said["code"], said["only"]) == (11, "code-changed", ["twice-n4096"]), said
    part = pack_run(repository, tmp_path / "part.tar.xz", "twice-n4096")
    alone = repository.tool("require", part, "--base", "main")
    assert (alone.returncode, "no-evidence" in alone.stdout) == (11, True), alone.stdout
    rest = ("--base-evidence", base, "--base-statement", base.with_suffix(".json"))
    joined = repository.tool("require", part, "--base", "main", *rest)
    assert joined.returncode == 0, joined.stdout + joined.stderr
    report = json.loads((repository.folder / "runs/required/report.json").read_text())
    found = {v["target"]: v["origin"] for v in report["verdicts"] if v["gate"] == "max-diff"}
    assert found["twice-n4096"]["kind"] == "live"
    assert (found["other-n4096"]["kind"], ADDRESS in found["other-n4096"]["detail"]) == ("recorded", True)
    repository.edit("gates/hopper.toml", "value = 1e-6", "value = 1e-5")
    repository.commit("gates: ask less")
    other = pack_run(repository, tmp_path / "other.tar.xz", "twice-n4096")
    refused = repository.tool("require", other, "--base", "main", *rest)
    assert (refused.returncode, "may be a suite" in refused.stderr) == (11, True), refused.stderr
