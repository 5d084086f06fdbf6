"""Record a machine's noise, and keep the recording after each process."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import clock, lock, nvml, process
from flashcore_ci.collect import calibration
from flashcore_ci.collect.calibration import Ledger, Part, Wanted
from flashcore_ci.collect.collect import device_of
from flashcore_ci.collect.isolation import Outcome
from flashcore_ci.collect.machine import Machine, illness
from flashcore_ci.collect.process_runs import Trial, Trials
from flashcore_ci.collect.session import Session
from flashcore_ci.judge.power import sights
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, SuiteError, UsageError
from flashcore_ci.model.evidence import Device
from flashcore_ci.model.identity import COLLECTOR_VERSIONS, digest_of
from flashcore_ci.model.noise import Noise, Sitting
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import host, references
from flashcore_ci.run.build import build_plan
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.store import codec
from flashcore_ci.store import record_files as files
from flashcore_ci.store.claim import MARKER, marked
from flashcore_ci.store.files import write_atomically

LEDGER = "calibration.json"
NOISE = Path("gates/noise")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRun:
    """One call of ``calibrate``: its two suites, its files, and the processes of the whole recording.

    ``folder`` holds the unfinished recording. ``out`` is the noise model (None: named after the GPU). The call ends after
    ``seconds`` (None: when the recording is complete).
    """

    suite: Request
    planted: Request
    folder: Path
    out: Path | None
    seconds: float | None
    same_processes: int
    planted_processes: int

    @property
    def wanted(self) -> Wanted:
        """The processes of the whole recording."""
        return Wanted(same=self.same_processes, planted=self.planted_processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The state of a recording. ``file`` is its noise model (None without an A/A process)."""

    same: int
    planted: int
    file: Path | None
    complete: bool
    power: tuple[str, ...]


def calibrate(run: CalibrationRun, progress: Progress) -> Calibration:
    """Continue the recording, and write the noise model.

    CannotCollectError when this machine cannot measure, UsageError when code or machine changed.
    """
    if not (run.planted.root / run.planted.suite).is_file():
        raise SuiteError((f"{run.planted.suite}: there is no such file",), fix="give --planted FILE")
    ledger, file = _record(run, progress)
    margins = references.margins(load_suite(run.suite)) if file is not None else {}
    return Calibration(
        same=len(ledger.of("same")),
        planted=len(ledger.of("planted")),
        file=file,
        complete=calibration.next_part(ledger, run.wanted) is None,
        power=tuple(map(str, sights(files.read(Noise, file), margins))) if file is not None else (),
    )


def _record(run: CalibrationRun, progress: Progress) -> tuple[Ledger, Path | None]:
    if run.out is not None:
        _refuse_foreign(run.out)
    _refuse_foreign_folder(run.folder)
    host.require_gpu(run.suite.gpu)
    began = clock.monotonic()
    with marked(run.folder, option="--work"), scratch_folder() as scratch, _gpu_held(run.suite, progress):
        machines = (
            _machine(run.suite, scratch / "same", progress),
            _machine(run.planted, scratch / "planted", progress),
        )
        device = _device(machines[0])
        ledger = _resume(run.folder / LEDGER, _key(machines, device), device)
        deadline = None if run.seconds is None else began + run.seconds
        ledger = _measure(ledger, run, machines, deadline, progress)
        return ledger, _write_noise(ledger, machines, run, commit=host.provenance(run.suite, scratch).commit)


def _measure(
    ledger: Ledger, run: CalibrationRun, machines: tuple[Machine, ...], deadline: float | None, progress: Progress
) -> Ledger:
    """Add processes until time is up. A stopped process leaves nothing."""
    trials = Trials(machines[0].session.context.scratch)
    longest: dict[Part, float] = {}
    upcoming: Trial | None = None
    try:
        while (part := calibration.next_part(ledger, run.wanted)) is not None:
            began, number = clock.monotonic(), len(ledger.processes)
            if process.stopping() or (deadline is not None and began + longest.get(part, 0.0) > deadline):
                break
            trial = upcoming or calibration.trial(part, ledger, number, same=machines[0], planted=machines[1])
            after = calibration.foreseen(ledger, part, run.wanted)
            upcoming = after and calibration.trial(after, ledger, number + 1, same=machines[0], planted=machines[1])
            trials.start(trial)
            if upcoming is not None:
                trials.start(upcoming)
            progress(f"{part}: process {number + 1} of {_total(run.wanted)}")
            outcomes = trials.finish(trial)
            if process.stopping():
                break
            for name, outcome in outcomes.items():
                if outcome.missing is not None:
                    progress(f"{name}: not measured: {outcome.missing.code}: {outcome.missing.message}")
            _keep_results(outcomes, run.folder / f"process-{number:03d}.json")
            ledger = ledger.with_process(part, outcomes)
            write_atomically(run.folder / LEDGER, codec.encode(ledger))
            longest[part] = max(longest.get(part, 0.0), clock.monotonic() - began)
    finally:
        trials.close()
    return ledger


def _keep_results(outcomes: dict[str, Outcome], file: Path) -> None:
    for result in {outcome.result for outcome in outcomes.values() if outcome.result.exists()}:
        write_atomically(file, result.read_bytes())


def _total(wanted: Wanted) -> int:
    return wanted.same + wanted.planted + (1 if wanted.planted else 0)


def _write_noise(ledger: Ledger, machines: tuple[Machine, ...], run: CalibrationRun, *, commit: str) -> Path | None:
    if not ledger.of("same"):
        return None
    noise = calibration.noise(ledger, same=machines[0], planted=machines[1], commit=commit)
    path = run.out or NOISE / f"{re.sub(r'[^a-z0-9]+', '-', noise.device.lower())}.json"
    _refuse_foreign(path)
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


def _machine(request: Request, scratch: Path, progress: Progress) -> Machine:
    scratch.mkdir()
    plan = make_plan(load_suite(request), request, progress)
    builds = build_plan(plan, request, progress)
    for build in builds:
        if build.error is not None:
            raise CannotCollectError(
                f"{build.subject} does not compile: {build.error.message}", fix=f"flashcore-ci build --suite {request.suite}"
            )
    context = host.context(request, progress, scratch)
    return Machine(session=Session(context=context, plan=plan, builds=builds, uuid=nvml.read(request.gpu).uuid))


@contextlib.contextmanager
def _gpu_held(request: Request, progress: Progress) -> Iterator[None]:
    uuid = nvml.read(request.gpu).uuid
    file = lock.path(request.settings.lock_dir, uuid)
    with lock.hold(file, timeout=request.lock_timeout, waiting=progress), nvml.locked_clocks(uuid, request.lock_clocks):
        yield


def _device(machine: Machine) -> Device:
    """Describe the GPU. CannotCollectError when it is unhealthy or busy."""
    probed = machine.probe()
    ill = illness(probed) or machine.session.busy()
    if ill is not None:
        raise CannotCollectError(f"{ill.code}: {ill.message}", fix="flashcore-ci doctor")
    return device_of(nvml.read(machine.session.uuid), probed.environment)


def _key(machines: tuple[Machine, ...], device: Device) -> str:
    """Digest what must not change between calls."""
    identities = [
        machine.session.observation(Kind.TIMING, workload).identity
        for machine in machines
        for workload in machine.session.workloads(Kind.TIMING)
    ]
    fields = [(name, getattr(identity, name)) for identity in identities for name in identity.__slots__]
    policy = machines[0].session.context.clock_policy
    return digest_of(fields, device.name, device.driver, policy, COLLECTOR_VERSIONS[Kind.TIMING])


def _resume(file: Path, key: str, device: Device) -> Ledger:
    sitting = Sitting(collected_at=clock.now(), device=device, processes=0)
    if not file.exists():
        return Ledger(key=key, sittings=(sitting,))
    ledger = codec.decode(Ledger, file.read_bytes(), where=str(file))
    if ledger.key != key:
        raise UsageError(
            f"{file} is a recording of other code, or of another kind of GPU", fix="give --work a new or empty folder"
        )
    return replace(ledger, sittings=(*ledger.sittings, sitting))
