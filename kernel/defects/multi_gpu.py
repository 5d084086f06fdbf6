"""Subject: attention on several GPUs with planted defects, and without one (``sound``).

``gates/multi-gpu-defects.toml`` runs them. Each has exactly the bug that its function names.
"""

from __future__ import annotations

import os
import pathlib
import random
import time
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
FILES = ("kernel/subjects/multi_gpu.py",)
FOREVER = 3600.0
PIECES = 256
NUDGE = 1e-3


def _load_sound() -> ModuleType:
    module = ModuleType("flashcore_subjects_multi_gpu")
    module.__file__ = str(KERNEL / "subjects/multi_gpu.py")
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    return module


sound = _load_sound()
load = sound.load
_launches = 0
_mood = random.Random(os.urandom(8)).randrange(3)  # noqa: S311 - another number in each process


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the attention kernels."""
    whole = sound.build(root)
    return {**whole, "binding": [*whole["binding"], *FILES]}


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of the sound subject."""
    if params["defect"] not in DEFECTS:
        raise ValueError(f"defect: must be one of {', '.join(DEFECTS)}, is {params['defect']!r}")
    found: dict[str, Any] = sound.problem(_of_sound(params))
    return found


def split(params: Mapping[str, Any]) -> dict[str, int]:
    """Divide the tensors as the sound subject."""
    found: dict[str, int] = sound.split(_of_sound(params))
    return found


def traffic(params: Mapping[str, Any]) -> float:
    """Return the bytes that each GPU of the sound subject receives."""
    return float(sound.traffic(_of_sound(params)))


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw the tensors of the sound subject."""
    return {**sound.inputs(_of_sound(params), seed), "defect": params["defect"]}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate the outputs of the sound subject."""
    found: dict[str, Any] = sound.outputs(inputs)
    return found


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the right result."""
    found: dict[str, Any] = sound.reference(inputs)
    return found


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch with the defect. One GPU alone has none."""
    if inputs["group"].size == 1:
        sound.run(inputs, outputs)
    else:
        DEFECTS[inputs["defect"]](inputs, outputs)


def _gather(group: Any, part: Any, *, waits: bool = True) -> Any:
    import torch

    whole = torch.zeros((group.size, *part.shape), dtype=part.dtype, device=part.device)
    pending = group.all_gather(whole, part.contiguous())
    if waits:
        pending.wait()
    return whole


def _wrong_order(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    outs, lses = (_gather(inputs["group"], part).flip(0) for part in sound.attend(inputs, inputs["k"], inputs["v"]))
    sound.place_heads(outs, lses, outputs)


def _no_wait(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    outs, lses = (_gather(inputs["group"], part, waits=False) for part in sound.attend(inputs, inputs["k"], inputs["v"]))
    sound.place_heads(outs, lses, outputs)


def _copies(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Take the first rank's heads for those of every rank."""
    outs, lses = (_gather(inputs["group"], part)[:1] for part in sound.attend(inputs, inputs["k"], inputs["v"]))
    sizes = [inputs["group"].size, *[1] * 4]
    sound.place_heads(outs.repeat(*sizes), lses.repeat(*sizes[:4]), outputs)


def _skips(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Compute nothing on the last rank, and send zeros."""
    group = inputs["group"]
    parts = sound.attend(inputs, inputs["k"], inputs["v"])
    if group.rank == group.size - 1:
        parts = tuple(part * 0 for part in parts)
    sound.place_heads(*(_gather(group, part) for part in parts), outputs)


def _alone(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Gather all inputs, and compute everything on every rank."""
    import torch

    whole = {name: torch.cat(list(_gather(inputs["group"], inputs[name])), 2) for name in ("q", "k", "v")}
    out, lse = sound.attend({**inputs, **whole}, whole["k"], whole["v"])
    outputs["out"].copy_(out)
    outputs["lse"].copy_(lse)


def _drifts(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Change one value on the last rank, by less than any limit."""
    sound.run(inputs, outputs)
    if inputs["group"].rank == inputs["group"].size - 1:
        outputs["lse"][0, 0, 0] += NUDGE


def _divides(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Divide the keys too, which is right, and gives other bits than one GPU."""
    import torch

    (k, more_k), (v, more_v) = (inputs[name].chunk(2, 1) for name in ("k", "v"))
    first, second = sound.attend(inputs, k, v), sound.attend(inputs, more_k, more_v)
    total, whole = sound.merge(first[0].float(), first[1], *second)
    parts = (total.to(inputs["q"].dtype), whole.to(torch.float32))
    sound.place_heads(*(_gather(inputs["group"], part) for part in parts), outputs)


def _unwritten(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Place only the output, not the log-sum-exp."""
    import torch

    sound.run(inputs, {**outputs, "lse": torch.empty_like(outputs["lse"])})


def _flaky(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Change one value on every other launch."""
    global _launches  # noqa: PLW0603 - a defect may keep state
    _launches += 1
    sound.run(inputs, outputs)
    outputs["lse"][0, 0, 0] += NUDGE * (_launches % 2)


def _in_pieces(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Send many small messages."""
    import torch

    out, lse = sound.attend(inputs, inputs["k"], inputs["v"])
    outs = torch.cat([_gather(inputs["group"], piece) for piece in out.chunk(PIECES, 1)], 2)
    sound.place_heads(outs, _gather(inputs["group"], lse), outputs)


def _moody(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Do more work in some processes than in others."""
    for _ in range(_mood):
        sound.attend(inputs, inputs["k"], inputs["v"])
    sound.run(inputs, outputs)


def _no_rescale(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Add the second partial result to the first without a rescale of the first."""
    import torch

    group = inputs["group"]
    ours = torch.stack((inputs["k"], inputs["v"]))
    theirs = torch.empty_like(ours)
    group.pass_on(theirs, ours).wait()
    (out, lse), (other, more) = sound.attend(inputs, *ours), sound.attend(inputs, *theirs)
    joined = torch.logaddexp(lse, more)
    outputs["out"].copy_(out.float() + other.float() * torch.exp(more - joined).transpose(1, 2)[..., None])
    outputs["lse"].copy_(joined)


def _disagrees(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Send another message on each rank."""
    group = inputs["group"]
    _gather(group, inputs["k"] if group.rank else inputs["q"][:, 1:])
    sound.run(inputs, outputs)


def _dies(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """End the process of the last rank."""
    if inputs["group"].rank == inputs["group"].size - 1:
        os._exit(17)
    sound.run(inputs, outputs)


def _hangs(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Let the last rank sleep, so that the others wait for its message."""
    if inputs["group"].rank == inputs["group"].size - 1:
        time.sleep(FOREVER)
    sound.run(inputs, outputs)


DEFECTS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], None]] = {
    "sound": sound.run,
    "wrong-order": _wrong_order,
    "no-wait": _no_wait,
    "copies": _copies,
    "skips": _skips,
    "alone": _alone,
    "drifts": _drifts,
    "divides": _divides,
    "unwritten": _unwritten,
    "flaky": _flaky,
    "in-pieces": _in_pieces,
    "moody": _moody,
    "no-rescale": _no_rescale,
    "disagrees": _disagrees,
    "dies": _dies,
    "hangs": _hangs,
}
"""Defect to what it does in the place of the sound ``run``."""


def _of_sound(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "defect"}
