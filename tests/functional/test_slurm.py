"""A real slurmctld and two slurmds: an array of shards, a job that is cancelled, and one that is preempted."""

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
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
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
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=n1,n2 MaxTime=INFINITE State=UP PriorityTier=2
"""
NODES = ("n1", "n2")
DAEMONS = (("slurmctld",), *(("slurmd", "-N", node) for node in NODES))


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _states(environment: dict[str, str]) -> set[str]:
    argv = ["sinfo", "-h", "-o", "%T"]
    return set(subprocess.run(argv, env=environment, capture_output=True, text=True, check=False).stdout.split())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a cluster of two nodes."""
    missing = [
        name for name in ("slurmctld", "slurmd", "sbatch") if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None
    ]
    if missing and not os.environ.get("CI"):
        pytest.skip(f"{missing[0]} is not installed: apt-get install slurmctld slurmd slurm-client")
    assert not missing
    folder = tmp_path / "slurm"
    for name in ("state", *(f"spool/{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().split(".")[0]
    text = CONFIG.format(host=host, ports=free_ports(3), user=getpass.getuser(), folder=folder)
    (folder / "slurm.conf").write_text(text, encoding="ascii")
    environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    everything = {**os.environ, **environment}
    daemons = [
        subprocess.Popen([*argv, "-D"], env=everything, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for argv in DAEMONS
    ]
    try:
        deadline = time.monotonic() + 60
        while _states(everything) != {"idle"}:
            logs = "".join(file.read_text() for file in folder.glob("*.log"))
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
    options = ("--engine", "slurm", "--gpus", "2", "--slurm", "--licenses=gpu:1 --ntasks=8")
    argv = [*COMMAND, "fleet", "run", *fixed, *options, "--build", "build"]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=machine.checkout, env=machine.environment, stdout=pipe, stderr=pipe, text=True)


STAND_IN = """#!/bin/sh
case "$(basename "$0")" in
sbatch)
  for script; do :; done
  echo "$script" > {folder}/script
  echo PENDING | tee {folder}/state-0 > {folder}/state-1
  echo 7 ;;
squeue)
  script=$(cat {folder}/script)
  export SLURM_ARRAY_JOB_ID=7 SLURM_JOB_GPUS=6 CUDA_VISIBLE_DEVICES=1
  export SLURM_ARRAY_TASK_ID=$(test "$(cat {folder}/state-0)" = PENDING; echo $?)
  bash "$script" > "$(dirname "$script")/7_$SLURM_ARRAY_TASK_ID.out" 2>&1 && state=COMPLETED || state=FAILED
  echo $state > {folder}/state-$SLURM_ARRAY_TASK_ID
  for index in 0 1; do echo "$index $(cat {folder}/state-$index) 0 node1"; done ;;
esac
"""
"""Each question of ``squeue`` runs one task to its end, because the tool ends what a command leaves behind.

The job has GPU 6 of the node. The driver shows two GPUs and numbers them from 0, as in a control group.
"""


def test_the_engine_with_a_stand_in_of_slurm(machine: Machine) -> None:
    for name in ("sbatch", "squeue"):
        file = machine.tools / name
        file.write_text(STAND_IN.format(folder=machine.folder), encoding="ascii")
        file.chmod(0o755)
    machine.environment["FAKE_GPUS"] = "2"
    (machine.recording / "recording.json").write_text(json.dumps(machine.content), encoding="utf-8")
    output, errors = fleet(machine).communicate(timeout=180)
    assert machine.verdicts() == of(machine.recorded, "stability"), (output, errors)
    evidence = read_run(machine.folder / "run").evidence
    assert {attempt.gpu for attempt in evidence.attempts} == {"node1"}
    assert evidence.provenance.device.uuid == f"{machine.content['device']['uuid']}-1"
    assert evidence.shard.index == 0


def until(tool: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert tool.poll() is None, tool.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def slurm(machine: Machine, *argv: str) -> list[str]:
    """Run a command of Slurm, and return the lines that it prints."""
    environment = {**os.environ, **machine.environment}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def running(machine: Machine) -> list[str]:
    return slurm(machine, "squeue", "-h", "-t", "running", "-o", "%i %N")


@pytest.mark.nightly
def test_a_cancelled_job_is_not_measured_again(node: Machine) -> None:
    tool = fleet(node)
    until(tool, lambda: len(running(node)) == len(NODES) and (node.recording / "waiting").exists())
    victim = running(node)[0].split()[0]
    slurm(node, "scancel", victim)
    until(tool, lambda: all(victim not in line for line in running(node)))
    (node.folder / "go").touch()
    output, errors = tool.communicate(timeout=180)
    evidence = read_run(node.folder / "run").evidence
    assert any("the job was cancelled" in note for note in evidence.notes), (output, errors)
    assert {attempt.number for attempt in evidence.attempts} == {1}
    assert ("INCONCLUSIVE", "no-evidence") in node.verdicts().values()


@pytest.mark.nightly
def test_a_preempted_job_is_measured_again_on_another_node(node: Machine) -> None:
    tool = fleet(node)
    until(tool, lambda: len(running(node)) == len(NODES) and (node.recording / "waiting").exists())
    victim, place = running(node)[0].split()
    slurm(node, "sbatch", "--partition=urgent", f"--nodelist={place}", "--ntasks=8", "--output=/dev/null", "--wrap=true")
    until(tool, lambda: all(victim not in line for line in running(node)))
    (node.folder / "go").touch()
    output, errors = tool.communicate(timeout=180)
    assert "Slurm ended the job: PREEMPTED" in errors, (output, errors)
    assert node.verdicts() == of(node.recorded, "stability")
    attempts = read_run(node.folder / "run").evidence.attempts
    (other,) = {*NODES} - {place}
    assert {(attempt.number, attempt.gpu) for attempt in attempts} == {(1, "n1"), (1, "n2"), (2, other)}
