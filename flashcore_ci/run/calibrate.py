"""The recording of a machine's noise: build, measure process by process, keep what there is after each of them."""

from __future__ import annotations

import contextlib
import re
import tempfile
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
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, UsageError
from flashcore_ci.model.evidence import Device
from flashcore_ci.model.identity import COLLECTOR_VERSIONS, digest_of
from flashcore_ci.model.noise import Noise, Sitting
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import gate, gpu, host
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.store import codec
from flashcore_ci.store import record_files as files
from flashcore_ci.store.claim import MARKER, mark_folder
from flashcore_ci.store.files import write_atomically

LEDGER = "calibration.json"
NOISE = Path("gates/noise")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one call is to do.

    ``folder`` holds the unfinished recording; the model goes to ``out`` (None: named after the GPU); the call takes
    ``seconds`` (None: until it is done); ``wanted`` is the whole recording.
    """

    folder: Path
    out: Path | None
    seconds: float | None
    wanted: Wanted


def record(same: Request, planted: Request, wish: Wish, progress: Progress) -> tuple[Ledger, Path | None]:
    """Go on with the recording; the ledger, and the noise model's file once there is an A/A process.

    CannotCollectError when this machine cannot measure, UsageError when the recording is of other code or another machine.
    """
    gpu.require_gpu(same.gpu)
    began = clock.monotonic()
    if wish.out is not None:
        _refuse_foreign(wish.out)
    if (
        wish.folder.is_dir()
        and any(wish.folder.iterdir())
        and not any((wish.folder / name).exists() for name in (LEDGER, MARKER))
    ):
        raise UsageError(f"{wish.folder} holds other things than a recording", fix="give --work a new or empty folder")
    with mark_folder(wish.folder), tempfile.TemporaryDirectory(prefix="flashcore-ci-") as scratch, _alone(same, progress):
        machines = tuple(_machine(request, Path(scratch) / name, progress) for name, request in _named(same, planted))
        device = _device(machines[0])
        ledger = _continued(wish.folder / LEDGER, _key(machines, device), device)
        deadline = None if wish.seconds is None else began + wish.seconds
        ledger = _measured(ledger, wish, machines, deadline, progress)
        return ledger, _written(ledger, machines, wish, commit=host.provenance(same, Path(scratch)).commit)


def _measured(ledger: Ledger, wish: Wish, machines: tuple[Machine, ...], deadline: float | None, progress: Progress) -> Ledger:
    """The ledger with as many processes more as there is time for. A process that was stopped leaves nothing."""
    trials = Trials(machines[0].session.context.scratch)
    longest: dict[Part, float] = {}
    ahead: Trial | None = None
    try:
        while (part := calibration.next_part(ledger, wish.wanted)) is not None:
            began, number = clock.monotonic(), len(ledger.processes)
            if process.stopping() or (deadline is not None and began + longest.get(part, 0.0) > deadline):
                break
            trial = ahead or calibration.trial(part, ledger, number, same=machines[0], planted=machines[1])
            after = calibration.foreseen(ledger, part, wish.wanted)
            ahead = after and calibration.trial(after, ledger, number + 1, same=machines[0], planted=machines[1])
            trials.start(trial)
            if ahead is not None:
                trials.start(ahead)
            progress(f"{part}: process {number + 1} of {_total(wish.wanted)}")
            outcomes = trials.finish(trial)
            if process.stopping():
                break
            for name, outcome in outcomes.items():
                if outcome.missing is not None:
                    progress(f"{name}: not measured: {outcome.missing.code}: {outcome.missing.message}")
            _keep(outcomes, wish.folder / f"process-{number:03d}.json")
            ledger = ledger.with_process(part, outcomes)
            write_atomically(wish.folder / LEDGER, codec.encode(ledger))
            longest[part] = max(longest.get(part, 0.0), clock.monotonic() - began)
    finally:
        trials.close()
    return ledger


def _keep(outcomes: dict[str, Outcome], file: Path) -> None:
    """The worker's own result, with every block of launches, for whoever digs."""
    for result in {outcome.result for outcome in outcomes.values() if outcome.result.exists()}:
        write_atomically(file, result.read_bytes())


def _total(wanted: Wanted) -> int:
    return wanted.same + wanted.planted + (1 if wanted.planted else 0)


def _written(ledger: Ledger, machines: tuple[Machine, ...], wish: Wish, *, commit: str) -> Path | None:
    if not ledger.of("same"):
        return None
    noise = calibration.noise(ledger, same=machines[0], planted=machines[1], commit=commit)
    path = wish.out or NOISE / f"{re.sub(r'[^a-z0-9]+', '-', noise.device.lower())}.json"
    _refuse_foreign(path)
    write_atomically(path, codec.encode(noise))
    return path


def _refuse_foreign(path: Path) -> None:
    """UsageError when ``path`` holds anything but a noise model."""
    try:
        if path.exists():
            files.read(Noise, path)
    except (EvidenceError, OSError):
        raise UsageError(f"{path} exists and is not a noise model", fix="give --out another file") from None


def _named(same: Request, planted: Request) -> tuple[tuple[str, Request], ...]:
    return (("same", same), ("planted", planted))


def _machine(request: Request, scratch: Path, progress: Progress) -> Machine:
    """The suite's kernels, built, on this GPU."""
    scratch.mkdir()
    plan = gate.planned(gate.suite_of(request), request, progress)
    builds = gate.built(plan, request, progress)
    for build in builds:
        if build.error is not None:
            raise CannotCollectError(f"{build.subject} does not compile: {build.error.message}", fix="flashcore-ci build")
    context = host.context(request, progress, scratch)
    return Machine(session=Session(context=context, plan=plan, builds=builds, uuid=nvml.read(request.gpu).uuid))


@contextlib.contextmanager
def _alone(request: Request, progress: Progress) -> Iterator[None]:
    """Nobody else's gate runs on this GPU meanwhile."""
    uuid = nvml.read(request.gpu).uuid
    file = lock.path(request.settings.lock_dir, uuid)
    with lock.hold(file, timeout=request.lock_timeout, waiting=progress), nvml.locked_clocks(uuid, request.lock_clocks):
        yield


def _device(of: Machine) -> Device:
    """The GPU, after it has shown that it is well. CannotCollectError when it is not, or not ours alone."""
    probed = of.probe()
    ill = illness(probed) or of.session.busy()
    if ill is not None:
        raise CannotCollectError(f"{ill.code}: {ill.message}", fix="flashcore-ci doctor")
    return device_of(nvml.read(of.session.uuid), probed.environment)


def _key(machines: tuple[Machine, ...], device: Device) -> str:
    """What may not change from sitting to sitting: code, workloads, collector, kind of GPU, driver, clock policy."""
    identities = [
        of.session.observation(Kind.TIMING, workload).identity
        for of in machines
        for workload in of.session.workloads(Kind.TIMING)
    ]
    told = [(name, getattr(identity, name)) for identity in identities for name in identity.__slots__]
    policy = machines[0].session.context.clock_policy
    return digest_of(told, device.name, device.driver, policy, COLLECTOR_VERSIONS[Kind.TIMING])


def _continued(file: Path, key: str, device: Device) -> Ledger:
    """The recording so far, with a new sitting."""
    sitting = Sitting(collected_at=clock.now(), device=device, processes=0)
    if not file.exists():
        return Ledger(key=key, sittings=(sitting,))
    ledger = codec.decode(Ledger, file.read_bytes(), where=str(file))
    if ledger.key != key:
        raise UsageError(
            f"{file} was recorded of other code, or on another kind of GPU", fix="finish it there, or give --work another folder"
        )
    return replace(ledger, sittings=(*ledger.sittings, sitting))
