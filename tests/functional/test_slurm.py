"""A real slurmctld and slurmd with two slots: an array of shards, and a job that somebody kills."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from replayed import COMMAND, SUITE, Machine, of, only

from flashcore_ci.store.run import read_run

CONFIG = """
ClusterName=test
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=2
SchedulerParameters=sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
Licenses=gpu:2
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""
DAEMONS = ("slurmctld", "slurmd")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a cluster of one node with two slots."""
    missing = [name for name in (*DAEMONS, "sbatch") if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if missing and not os.environ.get("CI"):
        pytest.skip(f"{missing[0]} is not installed: apt-get install slurmctld slurmd slurm-client")
    assert not missing
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().split(".")[0]
    text = CONFIG.format(host=host, ports=free_ports(2), user=getpass.getuser(), folder=folder)
    (folder / "slurm.conf").write_text(text, encoding="ascii")
    environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    everything = {**os.environ, **environment}
    daemons = [
        subprocess.Popen([name, "-D"], env=everything, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for name in DAEMONS
    ]
    try:
        deadline = time.monotonic() + 60
        while (
            "idle"
            not in subprocess.run(["sinfo", "-h", "-o", "%T"], env=everything, capture_output=True, text=True, check=False).stdout
        ):
            logs = "".join((folder / f"{name}.log").read_text() for name in DAEMONS if (folder / f"{name}.log").exists())
            assert time.monotonic() < deadline, logs
            time.sleep(0.2)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)


@pytest.fixture
def node(machine: Machine, cluster: dict[str, str]) -> Machine:
    """The recorded machine, as the node of the cluster."""
    slurm = cluster["PATH"].removeprefix(os.environ["PATH"])
    machine.environment |= {"SLURM_CONF": cluster["SLURM_CONF"], "FAKE_GPUS": "2"}
    machine.environment["PATH"] += slurm
    for process in machine.content["processes"]:
        process["waits_for"] = str(machine.folder / "go")
    (machine.recording / "recording.json").write_text(json.dumps(machine.content), encoding="utf-8")
    return machine


def fleet(machine: Machine) -> subprocess.Popen[str]:
    fixed = ("--suite", SUITE, "--toolchain", "system", "--out", str(machine.folder / "run"), *only("stability"))
    options = ("--engine", "slurm", "--gpus", "2", "--slurm", "--licenses=gpu:1 --ntasks=1")
    argv = [*COMMAND, "fleet", "run", *fixed, *options, "--build", "build"]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=machine.checkout, env=machine.environment, stdout=pipe, stderr=pipe, text=True)


def squeue(machine: Machine) -> list[str]:
    argv = ["squeue", "-h", "-t", "running", "-o", "%i"]
    return subprocess.run(
        argv, env={**os.environ, **machine.environment}, capture_output=True, text=True, check=True
    ).stdout.splitlines()


STAND_IN = """#!/bin/sh
case "$(basename "$0")" in
squeue) exit 0 ;;
scontrol) echo "JobId=7 JobState=$(cat {folder}/state-$5) NodeList=node1 " ;;
sbatch)
  for index in 0 1; do
    export SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$index
    for script; do :; done
    bash "$script" > "$(dirname "$script")/7_$index.out" 2>&1 && echo COMPLETED > {folder}/state-7_$index || echo FAILED > {folder}/state-7_$index
  done
  echo 7 ;;
esac
"""


def test_the_engine_with_a_stand_in_of_slurm(machine: Machine) -> None:
    for name in ("sbatch", "squeue", "scontrol"):
        file = machine.tools / name
        file.write_text(STAND_IN.format(folder=machine.folder), encoding="ascii")
        file.chmod(0o755)
    machine.environment["FAKE_GPUS"] = "2"
    (machine.recording / "recording.json").write_text(json.dumps(machine.content), encoding="utf-8")
    output, errors = fleet(machine).communicate(timeout=180)
    assert machine.verdicts() == of(machine.recorded, "stability"), (output, errors)
    evidence = read_run(machine.folder / "run").evidence
    assert {attempt.gpu for attempt in evidence.attempts} == {"node1"}
    assert evidence.shard.index == 0


def until(tool: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert tool.poll() is None, tool.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.nightly
def test_an_array_job_measures_every_shard_and_a_killed_one_again(node: Machine) -> None:
    tool = fleet(node)
    until(tool, (node.recording / "waiting").exists)
    victim = squeue(node)[0]
    subprocess.run(["scancel", victim], env={**os.environ, **node.environment}, check=True)
    until(tool, lambda: victim not in squeue(node))
    (node.folder / "go").touch()
    output, errors = tool.communicate(timeout=180)
    assert "Slurm ended the job: CANCELLED" in errors, (output, errors)
    assert node.verdicts() == of(node.recorded, "stability")
    evidence = read_run(node.folder / "run").evidence
    assert {attempt.number for attempt in evidence.attempts} == {1, 2}
    assert evidence.shard.index == 0
