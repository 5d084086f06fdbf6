from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_kernel
from factories import make_plan
from sound_gpu import SOUND

from flashcore_ci.adapters import git, nvml
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.model.options import CompileOptions
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import host
from flashcore_ci.run.host import has_gpu
from flashcore_ci.run.request import Request

SHARD = ShardFile(
    suite="tiny", suite_file="gates/tiny.toml", plan="f" * 64, commit="1" * 40, index=1, count=1,
    units=(Unit(kind=Kind.TIMING, workload="big"),), parts=("f" * 64,),
    needs=Needs(gpus=1, architecture="", exclusive=True, seconds=1.0),
)  # fmt: skip


def test_no_driver_no_gpu(tmp_path: Path) -> None:
    assert not has_gpu(tmp_path)


def test_a_driver_without_gpus_is_none(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia/gpus").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    assert not has_gpu(tmp_path)


def test_the_driver_lists_it(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    assert has_gpu(tmp_path)


def test_a_container_shows_only_the_device(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia3").touch()
    assert has_gpu(tmp_path)


def silent(gpu: str) -> None:
    raise CannotCollectError(f"no answer for {gpu}")


@pytest.mark.parametrize(("shown", "said"), [(False, "no NVIDIA GPU"), (True, "no answer for 0")])
def test_without_an_answer_of_the_driver_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, shown: bool, said: str) -> None:
    monkeypatch.setattr(nvml, "read", silent)
    monkeypatch.setattr(host, "has_gpu", lambda: shown)
    with pytest.raises(CannotCollectError, match=said):
        host.require_gpu("0")


def test_a_driver_that_answers_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "read", lambda gpu: gpu)
    monkeypatch.setattr(host, "has_gpu", lambda: False)
    host.require_gpu("0")


@pytest.mark.parametrize(
    ("architecture", "capability", "runs"),
    [
        ("sm_90a", "9.0", True),
        ("sm_90a", "10.0", False),
        ("sm_80", "8.6", True),
        ("sm_86", "8.0", False),
        ("sm_80", "9.0", False),
    ],
)
def test_a_gpu_that_cannot_run_what_was_built_is_refused(architecture: str, capability: str, runs: bool) -> None:
    described = tiny_kernel.description(compile=CompileOptions(architectures=(architecture,)))
    plan, state = replace(make_plan(), descriptions=(described,)), replace(SOUND, compute_capability=capability)
    shard = replace(SHARD, needs=replace(SHARD.needs, architecture=architecture))
    if runs:
        host.require_architecture(plan, state)
        host.require_gpu_of(shard, state)
        return
    with pytest.raises(CannotCollectError, match=f"tiny is built for {architecture}, and NVIDIA H200 has compute cap") as caught:
        host.require_architecture(plan, state)
    assert "name this one in [ridge] of gates/tiny.toml" in caught.value.fix
    with pytest.raises(CannotCollectError, match=f"shard 1 of gates/tiny.toml needs {architecture}, and NVIDIA H200 has comp"):
        host.require_gpu_of(shard, state)
    host.require_gpu_of(SHARD, state)


def test_an_architecture_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="the architecture 'sm_91' is not known"):
        replace(SHARD.needs, architecture="sm_91")


@pytest.mark.parametrize(
    ("visible", "gpu", "live", "measures"),
    [
        (None, "", None, True),
        ("1", "", None, True),
        ("", "", None, False),
        ("-1", "", None, False),
        ("", "0", None, True),  # named by hand
        ("", "", True, True),  # then it says what is hidden, with exit code 4
        (None, "", False, False),
    ],
)
def test_gpus_that_are_all_hidden_are_not_measured_on(monkeypatch, visible, gpu, live, measures) -> None:
    monkeypatch.setattr(host, "has_gpu", lambda: True)
    monkeypatch.delenv(nvml.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(nvml.VISIBLE, visible)
    assert host.is_live(SimpleNamespace(gpu=gpu, live=live)) is measures


@pytest.mark.parametrize(
    ("out", "own"), [(".latest-x1/run-1", {".latest-x1", "latest"}), (".x1/run-1", {".x1"}), ("latest", {".latest-x1"})]
)
def test_a_shard_knows_what_its_gate_writes(out: str, own: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take files of the gate for changes of the checkout. A folder that is no run counts."""
    for name in (".latest-x1/shards", ".x1/shards", "latest", "kernel"):
        (tmp_path / name).mkdir(parents=True)
    for name in (".flashcore-ci", "latest/.flashcore-ci"):
        (tmp_path / name).touch()
    seen: list[Path] = []

    def checkout(_: Path, *, logs: Path, outputs: tuple[Path, ...]) -> git.Checkout:
        seen.extend(outputs)
        return git.Checkout(commit="", dirty=False)

    monkeypatch.setattr(git, "checkout", checkout)
    monkeypatch.setattr(host.clock, "now", lambda: "2026-11-22T08:00:00Z")
    host.provenance(Request(suite=Path("s"), out=tmp_path / out, environ={}), tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in seen[2:]} == own
    assert host.provenance(Request(suite=Path("s"), out=Path("/out"), environ={}), tmp_path).dirty is False


def test_a_run_names_what_differs_from_its_commit() -> None:
    files = tuple(f"build/mutants/{number}/x.cuh is not in the commit" for number in range(5))
    (note,) = host._note_changes(git.Checkout(commit="c", dirty=True, changes=files))
    assert note == f"the checkout had uncommitted changes: {'; '.join(files[:3])}, and 2 more"
    assert host._note_changes(git.Checkout(commit="c", dirty=False)) == ()
    assert len(host._note_changes(git.Checkout(commit="c", dirty=True, changes=("x" * 9000,)))[0]) < 300


@pytest.mark.parametrize(("status", "text", "commit"), [(0, "a" * 40 + "\n", "a" * 40), (0, "", ""), (1, "a" * 40, "")])
def test_the_commit_of_a_shard_is_one_question_to_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, text: str, commit: str
) -> None:
    (tmp_path / "out").write_text(text)
    answers = [SimpleNamespace(returncode=status, stdout=tmp_path / "out")]
    monkeypatch.setattr(host.process, "run", lambda argv, **_: answers.pop() if "rev-parse" in argv else None)
    request = Request(suite=Path("s"), out=tmp_path / "run", environ={})
    assert host.commit_of(request) == commit
    assert host.commit_of(replace(request, commit="given")) == "given"


@pytest.mark.parametrize(
    ("visible", "gpus", "chosen", "live", "imports", "is_one"),
    [
        ("", 1, False, None, True, True),
        ("", 2, False, None, False, False),
        ("", 2, True, None, True, True),
        ("1", 2, False, None, True, True),
        ("0,1", 2, False, None, False, False),
        ("-1", 1, False, None, False, False),
        ("", 1, False, False, False, True),
        ("", 0, False, None, False, False),
    ],
)
def test_torch_is_imported_at_once_if_it_is_plain_that_one_gpu_measures(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    visible: str,
    gpus: int,
    chosen: bool,
    live: bool | None,
    imports: bool,
    is_one: bool,
) -> None:
    imported: list[Path] = []
    monkeypatch.setenv(nvml.VISIBLE, visible) if visible else monkeypatch.delenv(nvml.VISIBLE, raising=False)
    monkeypatch.setattr(host, "_devices", lambda _: [tmp_path] * gpus)
    monkeypatch.setattr(host, "has_gpu", lambda: bool(gpus))
    monkeypatch.setattr(host, "importing", lambda python: imported.append(python) or contextlib.nullcontext())
    with host.starting_early(Request(suite=tmp_path, out=tmp_path, live=live, environ={}), is_chosen=chosen) as plain:
        assert plain is is_one
    assert bool(imported) is imports


def test_git_compares_the_checkout_meanwhile() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def compare(word: str) -> str:
        begun.set()
        assert may_end.wait(10)
        return word

    asked = host.meanwhile(compare, "clean")
    assert begun.wait(10)
    may_end.set()
    assert asked() == asked() == "clean"


@pytest.mark.parametrize("error", [InterruptedRunError("the run was stopped"), OSError(28, "No space left on device")])
def test_a_run_whose_checkout_could_not_be_compared_names_no_commit(error: Exception) -> None:
    def fail() -> Any:
        raise error

    assert host.commit_in(host.meanwhile(fail)) == ""
    assert host.commit_in(lambda: SimpleNamespace(commit="c")) == "c"  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("driver", "files", "visible", "count"), [(2, 2, None, 2), (8, 1, None, 1), (2, 2, "0,1", 0), (0, 0, None, 0)]
)
def test_a_process_starts_early_for_each_gpu_that_this_container_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: int, files: int, visible: str | None, count: int
) -> None:
    """The driver lists all eight GPUs of a machine in a container that has one."""
    monkeypatch.setattr(host, "_devices", lambda _: [tmp_path] * driver)
    monkeypatch.setattr(host.machine, "gpus", lambda: files)
    monkeypatch.delenv(nvml.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(nvml.VISIBLE, visible)
    assert host.gpus_to_start() == count


def test_a_session_is_as_old_as_its_start_and_learns_of_changes_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compared, times = threading.Event(), iter(("2026-12-01T00:00:00Z", "2026-12-01T00:03:00Z"))

    def compare(*_: Any) -> git.Checkout:
        assert compared.wait(10)
        return git.Checkout(commit="c" * 40, dirty=True, changes=("a.py differs from the commit",))

    monkeypatch.setattr(host.nvml, "read", lambda _: SimpleNamespace(uuid="GPU-1", compute_capability="9.0", name="NVIDIA H200"))
    monkeypatch.setattr(host, "_checkout", compare)
    monkeypatch.setattr(host, "_checkers", lambda *_, **__: (None, None))
    monkeypatch.setattr(host.ncu, "find", lambda: None)
    monkeypatch.setattr(host.clock, "now", lambda: next(times))
    request = Request(suite=Path("s"), out=tmp_path / "run", environ={"FLASHCORE_CI_HOME": str(tmp_path)})
    session = host.session(request, print, tmp_path, plan=make_plan(), builds=())
    compared.set()
    assert (session.origin().collected_at, session.origin().dirty) == ("2026-12-01T00:00:00Z", True)
    assert session.notes() == ("the checkout had uncommitted changes: a.py differs from the commit",)
