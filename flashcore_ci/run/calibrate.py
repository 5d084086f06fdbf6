"""Record a machine's noise, and keep the recording after each process."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import clock, lock, nvml, process
from flashcore_ci.bounded import files as bounded
from flashcore_ci.collect import calibration
from flashcore_ci.collect.calibration import Ledger, Part, Targets
from flashcore_ci.collect.collect import device_of
from flashcore_ci.collect.process_runs import ProcessRun, ProcessRuns
from flashcore_ci.collect.session import Session, probe_failure
from flashcore_ci.judge.power import analyse_power
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, SuiteError, UsageError
from flashcore_ci.model.evidence import Device
from flashcore_ci.model.identity import COLLECTOR_VERSIONS, digest_of
from flashcore_ci.model.noise import Noise, RecordingSession
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.timing_protocol import PROTOCOL
from flashcore_ci.run import host, references
from flashcore_ci.run.build import build_plan
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store import codec
from flashcore_ci.store import record_files as files
from flashcore_ci.store.claim import MARKER, mark_folder
from flashcore_ci.store.files import write_atomically

LEDGER = "calibration.json"
Sessions = tuple[Session, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRun:
    """One call of ``calibrate``, of ``seconds`` (None: to the end). ``folder`` holds the unfinished recording.

    ``planted``: None where no kernels with planted slowdowns exist.
    """

    suite: Request
    planted: Request | None
    folder: Path
    out: Path | None
    seconds: float | None
    same_processes: int
    planted_processes: int

    @property
    def targets(self) -> Targets:
        """The processes of the whole recording."""
        return Targets(same=self.same_processes, planted=self.planted_processes if self.planted else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A recording's state and noise model (None without an A/A process)."""

    same: int
    planted: int
    file: Path | None
    complete: bool
    power: tuple[str, ...]


def calibrate(run: CalibrationRun, progress: Progress) -> Calibration:
    """Continue the recording. CannotCollectError if this machine cannot, UsageError when code or machine changed."""
    host.require_gpu(run.suite.gpu)
    if run.planted is not None and not (run.planted.root / run.planted.suite).is_file():
        raise SuiteError((f"{run.planted.suite}: there is no such file",), fix="give --planted FILE")
    ledger, file = _record(run, progress)
    margins = references.margins(load_suite(run.suite)) if file is not None else {}
    return Calibration(
        same=len(ledger.processes_of("same")),
        planted=len(ledger.processes_of("planted")),
        file=file,
        complete=calibration.next_part(ledger, run.targets) is None,
        power=tuple(map(str, analyse_power(files.read(Noise, file), margins))) if file is not None else (),
    )


def _record(run: CalibrationRun, progress: Progress) -> tuple[Ledger, Path | None]:
    if run.out is not None:
        _refuse_foreign(run.out)
    _refuse_foreign_folder(run.folder)
    began = clock.monotonic()
    with mark_folder(run.folder, option="--work"), host.scratch_folder() as scratch, _gpu_held(run.suite, progress):
        same = _session(run.suite, scratch / "same", progress)
        sessions = (same, _session(run.planted, scratch / "planted", progress, planted=True) if run.planted else same)
        device = _device(sessions[0])
        ledger = _resume(run.folder / LEDGER, _key(sessions, device), device)
        deadline = None if run.seconds is None else began + run.seconds
        ledger = _measure(ledger, run, sessions, deadline, progress)
        return ledger, _write_noise(ledger, sessions, run, commit=host.provenance(run.suite, scratch).commit)


def _measure(ledger: Ledger, run: CalibrationRun, sessions: Sessions, deadline: float | None, progress: Progress) -> Ledger:
    """Add processes until time is up. A stopped process leaves nothing."""
    runs = ProcessRuns(sessions[0].scratch)
    longest: dict[Part, float] = {}
    upcoming: ProcessRun | None = None
    hints: dict[str, Any] = {}
    try:
        while (part := calibration.next_part(ledger, run.targets)) is not None:
            began, number = clock.monotonic(), len(ledger.processes)
            if process.stopping() or (deadline is not None and began + longest.get(part, 0.0) > deadline):
                break
            current = upcoming or calibration.process_run(part, ledger, number, same=sessions[0], planted=sessions[1])
            after = calibration.following_part(ledger, part, run.targets)
            upcoming = after and calibration.process_run(after, ledger, number + 1, same=sessions[0], planted=sessions[1])
            runs.start(current)
            if upcoming is not None:
                runs.start(upcoming)
            total = run.targets.same + run.targets.planted + bool(run.targets.planted)
            progress(f"{part}: process {number + 1} of {total}")
            results = runs.finish(current, hints)
            if process.stopping():
                break
            for name, result in results.items():
                if result.missing is not None:
                    progress(f"{name}: not measured: {result.missing.code}: {result.missing.message}")
            for file in {result.result_file for result in results.values()}:
                with contextlib.suppress(OSError):  # absent or no plain file: its workloads have no outcome either
                    kept = bounded.read(file, limit=bounded.MAX_RECORD, follow=False)
                    write_atomically(run.folder / f"process-{number:03d}.json", kept)
            ledger = ledger.with_process(part, results)
            write_atomically(run.folder / LEDGER, codec.encode(ledger))
            longest[part] = max(longest.get(part, 0.0), clock.monotonic() - began)
    finally:
        runs.close()
    return ledger


def _write_noise(ledger: Ledger, sessions: Sessions, run: CalibrationRun, *, commit: str) -> Path | None:
    if not ledger.processes_of("same"):
        return None
    noise = calibration.noise(ledger, same=sessions[0], planted=sessions[1], commit=commit)
    path = run.out or run.suite.suite.parent / references.NOISE / f"{re.sub(r'[^a-z0-9]+', '-', noise.device.lower())}.json"
    _refuse_foreign(path)
    if run.out is None and path.exists() and files.read(Noise, path).clock_policy != noise.clock_policy:
        raise UsageError(f"{path} is for another clock policy", fix="give --out another file")
    write_atomically(path, codec.encode(noise))
    return path


def _refuse_foreign(path: Path) -> None:
    try:
        if path.exists():
            files.read(Noise, path)
    except (EvidenceError, OSError):
        raise UsageError(f"{path} exists and is not a noise model", fix="give --out another file") from None


def _refuse_foreign_folder(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in (LEDGER, MARKER)):
        raise UsageError(f"{folder} holds other files than a recording", fix="give --work a new or empty folder")


def _session(request: Request, scratch: Path, progress: Progress, *, planted: bool = False) -> Session:
    scratch.mkdir()
    plan = make_plan(load_suite(request), request, progress)
    without = [w.id for w in plan.workloads if type(dict(w.params).get(calibration.EXTRA)) is not int] if planted else []
    if without:
        lines = tuple(f"{plan.suite_file}: workload {name}: the parameter {calibration.EXTRA} is missing" for name in without)
        raise SuiteError(lines, fix=f"give it {calibration.EXTRA} = UNITS, the planted work that its subject adds")
    builds = build_plan(plan, request, progress)
    for build in builds:
        if build.error is not None:
            fix = f"flashcore-ci build --suite {request.suite}"
            raise CannotCollectError(f"{build.subject} does not compile: {build.error.message}", fix=fix)
    return host.session(request, progress, scratch, plan=plan, builds=builds)


@contextlib.contextmanager
def _gpu_held(request: Request, progress: Progress) -> Iterator[None]:
    uuid = nvml.read(request.gpu).uuid
    file = lock.path(request.settings.lock_dir, uuid)
    with lock.hold(file, timeout=request.lock_timeout, waiting=progress), nvml.locked_clocks(uuid, request.lock_clocks):
        yield


def _device(session: Session) -> Device:
    """Describe the GPU. CannotCollectError when unhealthy or busy."""
    probed = session.probe()
    problem = probe_failure(probed) or session.check_exclusive()
    if problem is not None:
        raise CannotCollectError(f"{problem.code}: {problem.message}", fix="flashcore-ci doctor")
    return device_of(nvml.read(session.uuid), probed.environment)


def _key(sessions: Sessions, device: Device) -> str:
    """Digest what must not change between calls."""
    timing = Kind.TIMING
    identities = [session.observation(timing, name).identity for session in sessions for name in session.workloads(timing)]
    fields = [(name, getattr(identity, name)) for identity in identities for name in identity.__slots__]
    return digest_of(fields, device.name, device.driver, sessions[0].clock_policy, COLLECTOR_VERSIONS[timing], PROTOCOL)


def _read_ledger(file: Path) -> bytes:
    try:
        return bounded.read(file, limit=bounded.MAX_RECORD)
    except OSError as error:
        raise EvidenceError(f"cannot read {file}: {error.strerror}", fix="give --work a new or empty folder") from None


def _resume(file: Path, key: str, device: Device) -> Ledger:
    sitting = RecordingSession(collected_at=clock.now(), device=device, processes=0)
    if not file.exists():
        return Ledger(key=key, sittings=(sitting,))
    ledger = codec.decode(Ledger, _read_ledger(file), where=str(file))
    if ledger.key != key:
        fix = "give --work a new or empty folder"
        raise UsageError(f"{file} is a recording of other code, or of another kind of GPU", fix=fix)
    return replace(ledger, sittings=(*ledger.sittings, sitting))
