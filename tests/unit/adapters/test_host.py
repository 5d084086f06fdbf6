from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flashcore_ci.adapters import host
from flashcore_ci.adapters.host import HostInfo


def look(root: Path, **environ: str) -> HostInfo:
    return host.inspect(environ, root=root, temporary=root / "tmp", scratch=root / "tmp/flashcore-ci-own")


def write(root: Path, name: str, text: str = "") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_machine_that_shows_nothing(tmp_path: Path) -> None:
    found = look(tmp_path)
    assert (found.gpus, found.capabilities, found.profiling_is_restricted, found.ephemeral) == (0, None, None, None)
    assert found.in_container  # nothing says that it is the whole machine
    assert (found.secrets, found.credentials, found.sockets, found.leftovers) == ((), (), (), ())


def test_a_machine_with_a_gpu(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        write(tmp_path, f"dev/{name}")
    write(tmp_path, "proc/1/comm", "systemd\n")
    write(tmp_path, "proc/77/comm", "nv-hostengine\n")
    write(tmp_path, "proc/self/status", "Name:\tx\nCapEff:\t0000000000200000\n")
    write(tmp_path, "proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n")
    found = look(tmp_path)
    assert (found.gpus, found.in_container, found.processes) == (2, False, ("nv-hostengine", "systemd"))
    assert (found.is_admin, found.profiling_is_restricted) == (True, True)


@pytest.mark.parametrize("name", ["GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "MY_PAT", "npm_config_api_key"])
def test_variables_that_look_like_secrets_are_named_and_not_shown(tmp_path: Path, name: str) -> None:
    found = look(tmp_path, **{name: "hunter2", "PATH": "/bin", "EMPTY_TOKEN": ""})
    assert found.secrets == (name,)
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize("name", ["PATH", "GITHUB_WORKSPACE", "KEYBOARD", "PATTERN"])
def test_variables_that_do_not(tmp_path: Path, name: str) -> None:
    assert look(tmp_path, **{name: "x"}).secrets == ()


def test_credential_files_in_the_home_folder(tmp_path: Path) -> None:
    write(tmp_path, "home/.ssh/id_ed25519", "key")
    write(tmp_path, "home/.ssh/known_hosts", "no key")
    assert look(tmp_path, HOME=str(tmp_path / "home")).credentials == ("~/.ssh/id_ed25519",)


def test_a_socket_that_may_be_written(tmp_path: Path) -> None:
    write(tmp_path, "var/run/docker.sock")
    assert look(tmp_path).sockets == ("/var/run/docker.sock",)


@pytest.mark.parametrize(
    ("settings", "ephemeral"), [({"ephemeral": True}, True), ({"agentId": 7}, False), ([], None), ("", None)]
)
def test_the_settings_of_the_runner(tmp_path: Path, settings: object, ephemeral: bool | None) -> None:
    write(tmp_path, "runner/.runner", "\ufeff" + json.dumps(settings) if settings != "" else "")
    assert look(tmp_path, RUNNER_TEMP=str(tmp_path / "runner/_work/_temp")).ephemeral is ephemeral


def test_what_an_earlier_run_left(tmp_path: Path) -> None:
    for name in ("flashcore-ci-own", "flashcore-ci-old", "other"):
        (tmp_path / "tmp" / name).mkdir(parents=True)
    assert look(tmp_path).leftovers == (str(tmp_path / "tmp/flashcore-ci-old"),)


def test_root_is_who_we_are(tmp_path: Path) -> None:
    assert look(tmp_path).root == (os.geteuid() == 0)
