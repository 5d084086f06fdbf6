"""Inputs that are made to hang, to fill the memory or to crash: one line, an exit code that is no bug, few seconds, little memory."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import lzma
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replayed import environ

from flashcore_ci.store import bundle

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "gates/evidence/nvidia-h200-hopper.tar.xz"
SMOKE = (ROOT / "gates/smoke.toml").read_text(encoding="utf-8")
MAX_SECONDS, MAX_KIB, STOP_SECONDS = 10.0, 500_000, 2.5
ALLOWED = {2, 3, 4, 10, 11}

Make = Callable[[Path], Any]


def special(kind: str) -> Make:
    """Put what is no plain file where a file is expected."""

    def make(path: Path) -> None:
        match kind:
            case "fifo":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "loop":
                path.symlink_to(path)
            case "socket":
                with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(path.parent):
                    server.bind(path.name)
            case "sparse":
                with path.open("wb") as file:
                    file.truncate(50 << 30)
            case device:
                path.symlink_to(device)

    return make


def text(content: str | bytes) -> Make:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


KINDS = ("fifo", "/dev/zero", "loop", "sparse")  # the corpus of attacks has the others
SPECIAL = {kind: special(kind) for kind in KINDS}
JSONS: dict[str, Make] = {
    "deep lists": text("[" * 1_000_000),
    "many lists": text("[" + "[]," * 3_000_000 + "[]]"),
    "many tables": text("[" + "{}," * 3_000_000 + "{}]"),
    "many numbers": text("[" + "1," * 8_000_000 + "1]"),
    "a huge integer": text('{"schema": ' + "9" * 4000 + "}"),
    "a long text": text(json.dumps({"schema": "x" * 10_000_000})),
    "one key many times": text("{" + '"a":1,' * 900_000 + '"a":1}'),
}
TOMLS: dict[str, Make] = {
    "dotted keys": text("a" + ".a" * 200_000 + " = 1"),
    "dotted tables": text("\n".join("[" + ".".join("abcdefgh"[i % 8] * (i % 50 + 1) for _ in range(150)) + "]" for i in range(300))),
    "a huge integer": text(SMOKE.replace("[protocol]", "[protocol]\nextra = " + "9" * 4000)),
    "a longer integer": text(SMOKE.replace("[protocol]", "[protocol]\nextra = " + "9" * 100_000)),
    "a seed of 4,000 digits": text(SMOKE.replace("[[workload]]\n", "[[workload]]\nseed = " + "9" * 4000 + "\n", 1)),
    "many axes": text(SMOKE + '\n[[workload]]\nid="w-{a}"\nsubject="x"\ncollect=["timing"]\n[workload.each]\n'
                      + "\n".join(f"p{i} = {list(range(100))}" for i in range(20))),
    "long texts that multiply": text(SMOKE + '\n[[workload]]\nid="' + "{a}" * 99 + '"\nsubject="x"\ncollect=["timing"]\n[workload.each]\na='
                                     + json.dumps(["x" * 119 + str(i) for i in range(1000)])),
    "many gates": text(SMOKE + "\n[[gate]]\nid='x'\n" * 20_000),
    "many mistakes": text(SMOKE + "\n" + "\n".join(f"key{i} = 1" for i in range(20_000))),
    "not text": text(b"\xff\xfe" * 1000),
}  # fmt: skip


def run(argv: list[str], folder: Path, *, stop_after: float | None = None) -> tuple[int, str, float, int]:
    """Run the tool. Return its exit code, its standard error, its seconds on a core and its KiB."""
    errors = folder / "errors"
    with errors.open("wb") as stderr:
        began = time.monotonic()
        environment = {**environ(), "PYTHONPATH": str(ROOT), "FLASHCORE_CI_HOME": str(folder / "home"), "TMPDIR": str(folder)}
        tool = subprocess.Popen(
            [sys.executable, "-m", "flashcore_ci.cli.main", *argv],
            cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=stderr, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        kib = 0
        deadline = began + (stop_after if stop_after is not None else 600.0)
        while True:
            kib = max(kib, peak(tool.pid))
            pid, status, usage = os.wait4(tool.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                tool.send_signal(signal.SIGTERM if stop_after is not None else signal.SIGKILL)
                deadline = time.monotonic() + 100.0
                stop_after = None
            time.sleep(0.01)
        tool.returncode = os.waitstatus_to_exitcode(status)
    return tool.returncode, errors.read_text(errors="replace"), usage.ru_utime + usage.ru_stime, kib


def peak(pid: int) -> int:
    """The largest resident size so far. That of ``wait4`` also counts this process, before the tool was loaded."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) if lines else 0


def refused(argv: list[str], folder: Path, *, codes: set[int] = ALLOWED) -> None:
    code, errors, seconds, kib = run(argv, folder)
    assert code in codes, (code, errors[-500:])
    assert "Traceback" not in errors
    assert max(map(len, errors.splitlines()), default=0) < 6000
    assert len(errors) < 500_000
    assert seconds < MAX_SECONDS
    assert kib < MAX_KIB


@pytest.mark.parametrize("make", [*SPECIAL.values(), *TOMLS.values()], ids=[*SPECIAL, *TOMLS])
def test_a_suite(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "suite.toml")
    refused(["plan", "--suite", str(tmp_path / "suite.toml")], tmp_path)


@pytest.mark.parametrize("make", [*SPECIAL.values(), *JSONS.values()], ids=[*SPECIAL, *JSONS])
def test_a_report(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "report.json")
    refused(["report", str(tmp_path / "report.json")], tmp_path, codes={2, 4})


@pytest.mark.parametrize("make", SPECIAL.values(), ids=SPECIAL)
def test_a_bundle(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "run.tar.xz")
    refused(
        ["judge", str(tmp_path / "run.tar.xz"), "--suite", "gates/smoke.toml", "--out", str(tmp_path / "out")],
        tmp_path,
        codes={2, 4},
    )


def sealed(files: dict[str, bytes]) -> bytes:
    members = [
        {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in sorted(files.items())
    ]
    manifest = (json.dumps({"files": members, "schema": "run-v1"}, indent=1) + "\n").encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "PRESET", 0)  # which one is read alike, and 9 takes five seconds
        return bundle.pack_files({"manifest.json": manifest, **dict(sorted(files.items()))})


@functools.cache
def recorded() -> dict[str, bytes]:
    return bundle.unpack(RECORDED)


def evidence(alter: Callable[[dict[str, Any]], object]) -> Make:
    """Alter the recorded evidence, and seal it again."""

    def make(path: Path) -> None:
        files = dict(recorded())
        files.pop("manifest.json")
        content = json.loads(files["evidence.json"])
        content["schema"] = "evidence-v2"
        for observation in content["observations"]:
            observation.update(attempt=1, isolation=None, jit=[])
        content.update(attempts=[], shard=None)
        content["provenance"].setdefault("machine_class", "")
        alter(content)
        files["evidence.json"] = json.dumps(content).encode()
        path.write_bytes(sealed(files))

    return make


def some(count: int, key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    """Alter so many observations, and stay below the size at which a bundle is refused unread: "a bomb" is above it."""
    return lambda content: [observation.update({key: value}) for observation in content["observations"][:count]]


FINDING = {"tool": "memcheck", "message": "m" * 4000, "kernel": "", "file": "", "line": 0, "thread": "", "block": "", "count": 1}
BUNDLES: dict[str, Make] = {
    "a bomb": lambda path: path.write_bytes(lzma.compress(bytes(150 << 20), preset=0)),
    "a bomb of tar headers": lambda path: path.write_bytes(lzma.compress((b"a" * 100 + bytes(412)) * 100_000, preset=0)),
    "a device of 8 million characters": evidence(lambda content: content["provenance"]["device"].update(name="x" * 8_000_000)),
    "a device of 4,000 characters": evidence(lambda content: content["provenance"]["device"].update(name="\x1b" * 4000)),
    "notes without end": evidence(some(20, "notes", ["n" * 4000] * 500)),
    "findings without end": evidence(some(30, "findings", [FINDING] * 300)),
    "artifacts listed many times": evidence(some(20, "artifacts", ["artifacts/timing/process-0.json"] * 50_000)),
    "a message of 10 million characters": evidence(some(4, "missing", {"code": "crash", "message": "m" * 10_000_000, "kind": "missing"})),
    "many observations": evidence(lambda content: content.update(observations=content["observations"] * 16)),
}  # fmt: skip


@pytest.mark.parametrize("make", BUNDLES.values(), ids=BUNDLES)
def test_a_packed_run(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "run.tar.xz")
    out = tmp_path / "out"
    code, errors, seconds, kib = run(
        ["judge", str(tmp_path / "run.tar.xz"), "--suite", "gates/smoke.toml", "--out", str(out)], tmp_path
    )
    assert code in ALLOWED | {0}, errors[-500:]  # what is within the bounds is judged
    assert "Traceback" not in errors
    assert seconds < MAX_SECONDS
    assert kib < MAX_KIB
    assert sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) < 200 << 20 if out.exists() else True


@pytest.mark.parametrize(
    ("name", "kind"), list(zip(("manifest.json", "evidence.json", "plan.json", "artifacts"), KINDS, strict=True))
)
def test_a_run_folder(tmp_path: Path, name: str, kind: str) -> None:
    run_folder = tmp_path / "run"
    for member, data in recorded().items():
        (run_folder / member).parent.mkdir(parents=True, exist_ok=True)
        (run_folder / member).write_bytes(data)
    if (run_folder / name).is_dir():
        shutil.rmtree(run_folder / name)
    else:
        (run_folder / name).unlink()
    SPECIAL[kind](run_folder / name)
    refused(["judge", str(run_folder), "--suite", "gates/smoke.toml", "--out", str(tmp_path / "out")], tmp_path, codes={2, 4})


@pytest.mark.parametrize(
    "needs", ["[" * 100_000, '{"a":' * 20_000, '{"a": {"result": ' + "9" * 5000 + "}}", "\ud800", "{}" * 10], ids=str
)
def test_needs(tmp_path: Path, needs: str) -> None:
    argv = ["require", str(RECORDED), "--demand", "gpu", "--needs", needs.encode("utf-8", "surrogatepass").decode("latin-1")]
    refused(argv, tmp_path, codes={2, 11})


LONG = "a" * 5000
NAMES: dict[str, list[str]] = {
    "suite": ["plan", "--suite", LONG],
    "out": ["judge", str(RECORDED), "--suite", "gates/smoke.toml", "--out", f"/tmp/{LONG}"],
    "report": ["report", LONG],
    "build": ["gate", "--recorded", "--build", LONG, "--suite", "gates/smoke.toml"],
    "only": ["plan", "--suite", "gates/smoke.toml", "--only", "*a" * 2000 + "b"],
    "base": ["compare", LONG],
    "as of": ["judge", str(RECORDED), "--as-of", "9" * 5000],
}


@pytest.mark.parametrize("argv", NAMES.values(), ids=NAMES)
def test_a_long_name(tmp_path: Path, argv: list[str]) -> None:
    out = [] if argv[0] != "gate" else ["--out", str(tmp_path / "out")]
    refused([*argv, *out], tmp_path, codes={2, 3, 4, 11})


@pytest.mark.parametrize("make", [TOMLS["many axes"], TOMLS["many gates"], TOMLS["dotted tables"]])
def test_sigterm_is_obeyed(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "suite.toml")
    argv = ["gate", "--recorded", "--suite", str(tmp_path / "suite.toml"), "--out", str(tmp_path / "out")]
    code, errors, seconds, _ = run(argv, tmp_path, stop_after=0.3)
    assert code not in {1, -signal.SIGKILL}, errors
    assert seconds < 0.3 + STOP_SECONDS
