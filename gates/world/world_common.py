"""Run the kernels of a module: each is a class with `takes`, `gives`, `run` and `reference`.

A tensor is written as `f16 4096x1024`. `i64<100 8` are numbers below 100. `flops` counts the work of one call.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

TYPES = {
    "f16": ("float16", 2),
    "bf16": ("bfloat16", 2),
    "f32": ("float32", 4),
    "f8": ("float8_e4m3fn", 1),
    "i8": ("int8", 1),
    "i32": ("int32", 4),
    "i64": ("int64", 8),
}
DEVICE = "cuda"


def subject(module: dict[str, Any]) -> tuple[Callable[..., Any], ...]:
    """Return the seven functions of a subject, whose workloads name a class of the module."""

    def chosen(params: Mapping[str, Any]) -> Any:
        return module[str(params["kernel"]).replace("-", "_")]

    def problem(params: Mapping[str, Any]) -> dict[str, Any]:
        kernel = chosen(params)
        specs = [_parse(spec) for spec in (*kernel.takes.values(), *_gives(kernel).values())]
        moved = sum(math.prod(shape) * TYPES[kind][1] for kind, _, shape in specs)
        return {"flops": float(kernel.flops), "bytes": float(moved), "entries": []}

    def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
        kernel, generator = chosen(params), pytorch().Generator(DEVICE).manual_seed(seed)
        drawn = {name: _draw(spec, generator) for name, spec in kernel.takes.items()}
        drawn |= kernel.prepare(**drawn) if hasattr(kernel, "prepare") else {}
        return {"kernel": params["kernel"], **drawn}

    def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
        specs = {name: _parse(spec) for name, spec in _gives(chosen(inputs)).items()}
        return {
            n: pytorch().empty(shape, dtype=getattr(pytorch(), TYPES[k][0]), device=DEVICE) for n, (k, _, shape) in specs.items()
        }

    def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        kernel, given = chosen(inputs), dict(inputs)
        del given["kernel"]
        with pytorch().no_grad():
            if "out" in kernel.run.__code__.co_varnames[: kernel.run.__code__.co_argcount]:
                kernel.run(**given, out=outputs["out"])
                return
            made = kernel.run(**given)
            for output, value in zip(outputs.values(), made if isinstance(made, tuple) else (made,), strict=True):
                if output.shape != value.shape or output.dtype != value.dtype:
                    raise ValueError(f"gave {value.dtype} {tuple(value.shape)}, not {output.dtype} {tuple(output.shape)}")
                output.copy_(value)

    def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
        kernel, given = chosen(inputs), dict(inputs)
        del given["kernel"]
        with pytorch().no_grad():
            made = kernel.reference(**given)
        return dict(zip(_gives(kernel), made if isinstance(made, tuple) else (made,), strict=True))

    return lambda root: None, problem, _load, inputs, outputs, run, reference


def use(module: str) -> Any:
    """Import a module of a project when its kernel runs. `plan` does without."""
    return importlib.import_module(module)


def pytorch() -> Any:
    """Return PyTorch."""
    return use("torch")


def F() -> Any:
    """Return PyTorch's functions."""
    return use("torch.nn.functional")


def attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Return PyTorch's attention of tensors (batch, length, heads, width)."""
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    return F().scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **options).transpose(1, 2)


def attention_by(backend: str, *heads: Any) -> Any:
    """Return the same by one of PyTorch's backends."""
    module = use("torch.nn.attention")
    with module.sdpa_kernel(getattr(module.SDPBackend, backend)):
        return attention(*heads)


def widen(tensor: Any, kind: str) -> Any:
    """Convert to a type that PyTorch computes with. The float64 reference stays as it is."""
    return tensor if tensor.dtype == pytorch().float64 else tensor.to(getattr(pytorch(), kind))


def recur(q: Any, k: Any, v: Any, decay: Any, beta: Any = None) -> Any:
    """Return gated linear attention step by step. With ``beta``, the delta rule. Tensors are (batch, length, heads, width)."""
    state, rows, scale = q.new_zeros(*q.shape[:1], *q.shape[2:], v.shape[-1]), [], q.shape[-1] ** -0.5
    for step in range(q.shape[1]):
        state = decay[:, step].exp()[..., None] * state
        value = v[:, step]
        if beta is not None:
            value = (value - (k[:, step, :, None] @ state)[..., 0, :]) * beta[:, step, :, None]
        state = state + k[:, step, ..., None] * value[..., None, :]
        rows.append((scale * q[:, step, :, None] @ state)[..., 0, :])
    return pytorch().stack(rows, 1)


def _load(library: object) -> None:
    """Let each autotuner of Triton take its middle configuration: tuning under a sanitizer would take minutes."""
    pytorch().backends.cudnn.allow_tf32 = False
    try:
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        return
    run = Autotuner.run

    def run_untuned(self: Any, *arguments: Any, **named: Any) -> Any:
        self.configs = [self.configs[len(self.configs) // 2]]
        return run(self, *arguments, **named)

    Autotuner.run = run_untuned


def _gives(kernel: Any) -> dict[str, str]:
    return kernel.gives if isinstance(kernel.gives, dict) else {"out": kernel.gives}


def _parse(spec: str) -> tuple[str, int, tuple[int, ...]]:
    kind, shape = spec.split()
    kind, _, below = kind.partition("<")
    return kind, int(below or 0), tuple(int(size) for size in shape.split("x"))


def _draw(spec: str, generator: Any) -> Any:
    kind, below, shape = _parse(spec)
    dtype = getattr(pytorch(), TYPES[kind][0])
    if not kind.startswith("i"):
        return pytorch().randn(shape, device=DEVICE, generator=generator).to(dtype)
    low, high = (0, below) if below else (-128, 128)
    return pytorch().randint(low, high, shape, device=DEVICE, generator=generator, dtype=dtype)
