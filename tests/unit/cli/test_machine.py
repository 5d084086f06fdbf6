from __future__ import annotations

from pathlib import Path

from flashcore_ci.cli.machine import has_gpu


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
