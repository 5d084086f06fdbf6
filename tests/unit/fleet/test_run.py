"""Which GPUs of a machine measure together, and how a scheduler is added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flashcore_ci.cli import fleet
from flashcore_ci.fleet import local, measure, run
from flashcore_ci.fleet.engine import EngineOptions
from flashcore_ci.run.request import Request


@pytest.mark.parametrize(
    ("models", "together"),
    [
        (("NVIDIA H200", "NVIDIA H200"), ["0", "1"]),
        (("NVIDIA H200", "NVIDIA T400", "NVIDIA H200"), ["0", "2"]),
        (("NVIDIA H200", "NVIDIA T400"), ["0"]),
    ],
)
def test_gpus_of_another_model_stay_out(models: tuple[str, ...], together: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.nvml, "models", lambda: dict(zip("012", models, strict=False)))
    assert local.of_one_model() == together
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={}, live=True)
    assert run.has_several_gpus(request) == (len(together) > 1)


@pytest.mark.parametrize(
    "options",
    [
        {"anchor": True},
        {"anchor_python": Path("python3")},
        {"base_python": Path("python3")},
        {"base_toolchain": "13.5"},
        {"base_build": Path("build")},
        {"lock_clocks": 1500},
    ],
)
def test_what_a_shard_would_ignore_uses_one_gpu(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard had no anchor, and timed the base with the tools of head."""
    monkeypatch.setattr(local.nvml, "models", lambda: dict.fromkeys("01", "NVIDIA H200"))
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={}, live=True)
    assert run.has_several_gpus(request)
    assert not run.has_several_gpus(replace(request, **options))


class Ray:
    """A scheduler that this project does not have."""

    verified, left_out = False, {}

    def __init__(self, request: Request, logs: Path, options: EngineOptions) -> None:
        self.made, self.closed = (request.suite, logs.name, options), False

    def slots(self) -> int:
        return self.made[2].count

    def measure(self, tasks: Any) -> Any: ...

    def put_aside(self, gpu: str) -> None: ...

    def close(self) -> None:
        self.closed = True


def test_another_scheduler_is_one_line_in_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []
    monkeypatch.setitem(run.ENGINES, "ray", Ray)
    monkeypatch.setattr(run.shards, "recorded_durations", lambda _: {})
    monkeypatch.setattr(run.measure, "measure", lambda engine, *_, **__: used.append((engine, engine.closed)))

    def gate(request: Request, progress: Any, *, measure: Callable[..., Any]) -> Any:
        return measure((), (), request, progress, None)

    monkeypatch.setattr(run.gate, "gate", gate)
    request = Request(suite=Path("suite.toml"), out=tmp_path / "out", environ={})
    run.run(request, print, engine="ray", options=EngineOptions(count=5, options=("--address=auto",)))
    ((engine, was_closed),) = used
    assert engine.made == (Path("suite.toml"), "logs", EngineOptions(count=5, options=("--address=auto",)))
    assert (was_closed, engine.closed) == (False, True)


def test_the_command_offers_every_engine() -> None:
    (option,) = (one for one in fleet.run.params if one.name == "engine")
    assert list(option.type.choices) == [*run.ENGINES, "ci"]


def test_what_shards_wrote_is_removed_and_their_logs_stay(tmp_path: Path) -> None:
    for name in ("run-1/logs", "run-2-again-1", "logs"):
        (tmp_path / name).mkdir(parents=True)
    measure.remove_runs(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == ["logs"]


@pytest.mark.parametrize(
    ("gpus", "is_one", "options", "started"),
    [
        (2, False, {}, 2),
        (4, False, {}, 4),
        (1, False, {}, 0),
        (0, False, {}, 0),
        (2, True, {}, 0),
        (2, False, {"live": False}, 0),
        (2, False, {"anchor": True}, 0),
    ],
)
def test_a_process_for_each_gpu_starts_before_the_driver_has_named_them(
    gpus: int, is_one: bool, options: dict[str, Any], started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They started after NVML, and torch was imported 1.1 s later than on one GPU."""
    events: list[Any] = []
    monkeypatch.setattr(run.Ahead, "start", lambda _, count: events.append(count))
    monkeypatch.setattr(run.Ahead, "close", lambda _: events.append("closed"))
    monkeypatch.setattr(run.host, "gpus_to_start", lambda: gpus)
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={}, **{"live": True, **options})
    with run.starting_early(request, is_one=is_one) as ahead:
        assert (ahead is not None) == bool(started)
        assert events == ([started] if started else [])
    assert events == ([started, "closed"] if started else [])


def test_this_machines_engine_uses_the_processes_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.nvml, "models", lambda: dict.fromkeys("01", "NVIDIA H200"))
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={"FLASHCORE_CI_HOME": str(tmp_path)}, live=True)
    ahead = run.Ahead(logs=tmp_path / "logs", root=tmp_path)
    engine = local.make(request, tmp_path, EngineOptions(ahead=ahead))
    assert engine.ahead is ahead
    assert not (tmp_path / "ahead").exists()
