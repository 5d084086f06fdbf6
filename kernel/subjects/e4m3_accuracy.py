"""Subject: how accurate attention in E4M3 is, d = 128, where its usual inputs hide an error.

Parameters: ``b``, ``h``, ``hkv``, ``sq``, ``sk``, ``input`` (hostile.py, or ``needles``), ``size`` of what is hard, ``max_ctas`` and

``against``
    ``rounded``: float64 of the E4M3 inputs. ``original``: of the inputs before. The reference is then FlashAttention-3's scheme: one
    scale per tensor, and exact sums.
``transform``
    A Hadamard transform of queries and keys with random signs comes first.
``planted``
    The kernel must lose needles.
``only_lse``
    The log-sum-exp is the only output.
``flush``
    Keys that the tensor cores add up before fp32 does. The report shows it. It must be that of the kernel.
``lengths``
    Then all parameters are those of e4m3.py.
"""

from __future__ import annotations

import itertools
import math
import pathlib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]


def _load_neighbour(name: str) -> ModuleType:
    """Load a file of this folder, which ``build`` lists in ``binding``."""
    module, file = ModuleType(f"flashcore_subjects_{name}"), str(KERNEL / f"subjects/{name}.py")
    vars(module)["__file__"] = file
    SourceFileLoader(module.__name__, file).exec_module(module)
    return module


e4m3, hostile, needles = (_load_neighbour(name) for name in ("e4m3", "hostile", "needles"))
FILES = [f"kernel/subjects/{name}.py" for name in ("e4m3", "hostile", "needles")]
FP8_MAX, SMALLEST = 448.0, 1e-30
HEAD_DIM = 128
DEVICE = "cuda"
PACKED = "lengths"
SCALES = ("q_scale", "k_scale", "v_scale")
CHOICES = {"against": ("rounded", "original"), "input": (*hostile.INPUTS, "needles")}
NUMBERS = ("b", "h", "hkv", "sq", "sk")
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("h", "sq", "sk", "input")),
    "b": 1,
    "hkv": None,
    "max_ctas": 0,
    "size": 1.0,
    "against": "rounded",
    "transform": False,
    "planted": False,
    "flush": 128,
    "only_lse": False,
}

_library: pathlib.Path | None = None


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the subject e4m3."""
    spec: dict[str, Any] = e4m3.build(root)
    return {**spec, "binding": [*spec["binding"], *FILES]}


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of one launch."""
    p = params if PACKED in params else {name: complete(params)[name] for name in NUMBERS}
    work: dict[str, Any] = e4m3.problem(p)
    return work


def load(library: pathlib.Path) -> None:
    """Keep the library's path. A planted kernel shares the process, so ``run`` loads it."""
    global _library  # noqa: PLW0603 - the library is the state of this module
    _library = library


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw tensors on the current CUDA device, and round them."""
    import torch

    if PACKED in params:
        packed: dict[str, Any] = e4m3.inputs(params, seed)
        return packed
    p = complete(params)
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    extra: dict[str, Any] = {key: p[key] for key in ("max_ctas", "planted", "only_lse")}
    if p["input"] == "needles":
        drawn = needles.draw(p, generator)
        originals = [drawn.pop(name) for name in "qkv"]
        extra |= drawn
    else:
        originals = list(hostile.INPUTS[p["input"]](p, generator))
    if p["against"] == "original":
        extra |= {f"original_{name}": tensor for name, tensor in zip("qkv", originals, strict=True)}
    if p["transform"]:
        matrix = make_transform(generator)
        originals[:2] = (tensor @ matrix for tensor in originals[:2])
    return {**quantise(*originals), **extra}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``missing``, a number of needles, or ``out`` and, of rounded inputs, ``lse``."""
    import torch

    if "book" in inputs:
        return {"missing": torch.empty(1, dtype=torch.float32, device=DEVICE)}
    tensors: dict[str, Any] = e4m3.outputs(inputs)
    return {name: tensors[name] for name in _name_outputs(inputs)}


def _name_outputs(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    return ("out",) if "original_q" in inputs else ("lse",) if inputs.get("only_lse") else ("out", "lse")


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once, and decode needles."""
    assert _library is not None
    e4m3.load(_library)
    if "cu_seqlens_q" in inputs:
        e4m3.run(inputs, outputs)
        return
    import flashcore

    out = flashcore.attention_e4m3(
        *(inputs[name] for name in "qkv"), max_ctas=inputs["max_ctas"], out=outputs.get("out"), lse=outputs.get("lse"),
        **{name: inputs[name] for name in SCALES},
    )  # fmt: skip
    if "book" in inputs:
        outputs["missing"].copy_(needles.count_missing(out, inputs))


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute float64 inputs with the formula, else round as the kernel with exact sums. No needle may be missing."""
    import torch

    if "book" in inputs:
        return {"missing": torch.zeros(1, device=inputs["book"].device)}
    if "original_q" not in inputs:
        results: dict[str, Any] = e4m3.reference({"causal": False, **inputs})
        return {name: results[name] for name in _name_outputs(inputs)}
    q, k, v = (inputs[f"original_{name}"] for name in "qkv")
    if q.dtype == torch.float64:
        return {"out": attend(q, k, v)}
    return {"out": e4m3.reference({**quantise(q, k, v, whole=True), "causal": False})["out"]}


def scale_of(largest: Any) -> Any:
    """Return ``largest`` / 448, correctly rounded. PyTorch multiplies by a reciprocal where a GPU's tensor is divided by a number."""
    import torch

    return (largest / torch.full_like(largest, FP8_MAX)).clamp(min=SMALLEST).contiguous()


def quantise(q: Any, k: Any, v: Any, *, whole: bool = False) -> dict[str, Any]:
    """Round to E4M3 bytes with scales (batch, kv heads). ``whole``: one scale for each tensor."""
    batch, _, heads, _ = k.shape
    rounded: dict[str, Any] = {}
    for name, tensor in zip("qkv", (q, k, v), strict=True):
        grouped = tensor.abs().unflatten(2, (heads, -1))
        largest = grouped.amax().expand(batch, heads) if whole else grouped.amax(dim=(1, 3, 4))
        scale = scale_of(largest.float())
        per_head = scale.repeat_interleave(tensor.shape[2] // heads, dim=1)[:, None]
        rounded |= {name: e4m3.fp8.quantise(tensor, per_head), f"{name}_scale": scale}
    return rounded


def make_transform(generator: Any) -> Any:
    """Make an orthogonal matrix (128, 128) of equal magnitudes with random signs."""
    import torch

    matrix = torch.ones((1, 1), device=generator.device)
    while len(matrix) < HEAD_DIM:
        matrix = torch.cat([torch.cat([matrix, matrix], dim=1), torch.cat([matrix, -matrix], dim=1)])
    return torch.randn(HEAD_DIM, device=generator.device, generator=generator).sign()[:, None] * matrix / math.sqrt(HEAD_DIM)


def attend(q: Any, k: Any, v: Any) -> Any:
    """Compute attention with the formula, in the type of the inputs."""
    import torch

    out, group = torch.empty_like(q), q.shape[2] // k.shape[2]
    rows = max(1, e4m3.CHUNK // k.shape[1])
    for batch, head, start in itertools.product(range(q.shape[0]), range(q.shape[2]), range(0, q.shape[1], rows)):
        part, kv_head = slice(start, start + rows), head // group
        scores = q[batch, part, head] @ k[batch, :, kv_head].T / math.sqrt(q.shape[-1])
        out[batch, part, head] = torch.softmax(scores, dim=-1) @ v[batch, :, kv_head]
    return out


def complete(params: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults."""
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown parameter. Choose from {', '.join(DEFAULTS)}")
    p = {**DEFAULTS, **params}
    p["hkv"] = p["h"] if p["hkv"] is None else p["hkv"]
    for key in NUMBERS:
        if not isinstance(p[key], int) or p[key] < 1:
            raise ValueError(f"{key}: must be a whole number above zero, is {p[key]!r}")
    for key, choices in CHOICES.items():
        if p[key] not in choices:
            raise ValueError(f"{key}: must be one of {', '.join(choices)}, is {p[key]!r}")
    if p["flush"] != DEFAULTS["flush"]:
        raise ValueError(f"flush: this kernel adds up {DEFAULTS['flush']} keys in the tensor cores, not {p['flush']!r}")
    if p["h"] % p["hkv"]:
        raise ValueError(f"hkv: must divide h = {p['h']}, is {p['hkv']}")
    if p["input"] == "needles" and (p["b"], p["hkv"]) != (1, p["h"]):
        raise ValueError("needles: need b = 1 and as many KV heads as heads")
    return p
