"""bias_gelu: inputs, outputs and reference, which the gate trusts. Written by `flashcore-ci init` from bias_gelu.cu::bias_gelu.

A tool counted FLOP and bytes. Review CASES, then set ESTIMATED to False. Until then no blocking gate rests on them.
"""

from __future__ import annotations

import json
import pathlib

ESTIMATED = True
CASES = {'{"bias_0": 4096, "x_0": 4096, "x_1": 4096}': {'axes': {'x_0': 4096, 'x_1': 4096, 'bias_0': 4096},
                                                'flops': 33554432.0,
                                                'bytes': 134234112.0,
                                                'outputs': {'out0': [[4096, 4096], 'float32']}}}
DEVICE = "cuda"
_kept: dict = {}
ENTRIES = ['bias_gelu']


def build(root):
    """Name what is compiled, and the files that evidence is bound to."""
    return {'library': 'libbias_gelu.so',
 'launchers': ['gates/bias_gelu/launch.cu'],
 'includes': ['.'],
 'binding': ['reference.py'],
 'entries': [{'symbol': 'bias_gelu', 'source': 'bias_gelu.cu', 'max_registers': 255, 'dynamic_shared_bytes': 0}]}


def problem(params):
    """State the work of one workload."""
    case = _case(params)
    shapes = [f"{name} {dtype}{shape}" for name, (shape, dtype) in case["outputs"].items()]
    work = {"flops": case["flops"], "bytes": case["bytes"], "entries": ENTRIES}
    return {**work, "estimated": ESTIMATED, "output_shapes": shapes}


def outputs(inputs):
    """Allocate the outputs."""
    import torch

    shapes = CASES[inputs["case"]]["outputs"]
    if not shapes:
        return {name: torch.empty_like(value) for name, value in reference(inputs).items()}
    return {name: torch.empty(shape, dtype=getattr(torch, dtype), device=DEVICE) for name, (shape, dtype) in shapes.items()}


def forget():
    """Forget what was made on another device."""
    _kept.clear()


def _case(params):
    key = json.dumps(dict(params), sort_keys=True)
    if key not in CASES:
        raise ValueError(f"no case has these parameters: add one to CASES, with its FLOP, bytes and outputs. They are {key}")
    return CASES[key]


def _seed(seed):
    import random
    import sys

    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % (1 << 32))


def _named(result, names=()):
    if isinstance(result, dict):
        return dict(result)
    values = result if isinstance(result, list | tuple) else [result]
    return {names[i] if names else f"out{i}": value for i, value in enumerate(values) if value is not None}


INPUTS = ('x', 'bias')
OUTPUTS = ()


def inputs(params, seed):
    """Draw the inputs of one workload."""
    import torch

    _seed(seed)
    case = _case(params)
    axes = case["axes"]
    drawn = {name: params[name] for name in ()}
    drawn['x'] = _draw('x', [axes['x_0'], axes['x_1']], 'float32')
    drawn['bias'] = _draw('bias', [axes['bias_0']], 'float32')
    return {"case": json.dumps(dict(params), sort_keys=True), **{name: drawn[name] for name in INPUTS}}


def _draw(name, shape, dtype):
    """Draw one tensor: weights by the size of a row, and what must be positive above zero."""
    import torch

    kind = getattr(torch, dtype)
    if kind is torch.bool:
        return torch.randint(0, 2, shape, device=DEVICE).bool()
    if not kind.is_floating_point:
        return torch.randint(*((-128, 128) if dtype == "int8" else (-1024, 1024)), shape, device=DEVICE, dtype=kind)
    drawn = torch.randn(shape, device=DEVICE, dtype=torch.float64 if dtype == "float64" else torch.float32)
    if len(shape) > 1 and name.rstrip("0123456789s").endswith(("weight", "_proj")):
        drawn = drawn / shape[-1] ** 0.5
    if name.split("_")[-1] in ("var", "variance", "std", "rstd"):
        drawn = drawn.abs() + 0.1
    return (drawn.clamp(-2, 2) if dtype.startswith("float8") else drawn).to(kind)


def reference(inputs):
    """Compute the same with the reference."""
    import torch

    with torch.no_grad():
        return _named(_code()['bias_gelu'](*[inputs[name] for name in INPUTS]), OUTPUTS)


def _import(root, name):
    """Import a file of the checkout, in its package if it has one."""
    import importlib.util
    import sys

    file, parts = root / name, [(root / name).stem]
    folder = file.parent
    while (folder / "__init__.py").exists() and folder != root:
        parts.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    if len(parts) > 1:
        return vars(importlib.import_module(".".join(parts)))
    spec = importlib.util.spec_from_file_location(parts[0], file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return vars(module)


FILES = {'reference.py': '6017ac5e12ba6c391cbb394298374847a1074d85a3e0b1f68fdfc9a88b825dc0'}
ROOT = pathlib.Path(__file__).resolve().parents[2]


def _refuse_changed(root):
    """Refuse other files than those that evidence is of: no other digest covers them."""
    import hashlib

    for name, digest in FILES.items():
        found = hashlib.sha256((root / name).read_bytes()).hexdigest()
        if found != digest:
            raise ValueError(f"{name} changed: review it, and put its SHA-256 into FILES: {found}")


def _code():
    """Import the reference's file, and the one that draws inputs, once."""
    if "code" not in _kept:
        _kept["code"] = {}
        for name in ('reference.py',):
            _kept["code"] = {**_import(ROOT, name), **_kept["code"]}
    return _kept["code"]


def load(library):
    """Use this library."""
    import ctypes

    _kept["launch"] = ctypes.CDLL(str(library)).gate_launch


def run(inputs, outputs):
    """Launch once on the current stream. REVIEW the numbers: a tool matched them by name."""
    import ctypes

    import torch

    elements = next(iter(outputs.values())).numel()
    first = next(value for value in inputs.values() if isinstance(value, torch.Tensor))  # noqa: F841 - its sizes may be arguments
    status = _kept["launch"](
        ctypes.c_void_p(inputs['x'].data_ptr()),
        ctypes.c_void_p(inputs['bias'].data_ptr()),
        ctypes.c_void_p(outputs['out0'].data_ptr()),
        ctypes.c_int(first.shape[-1]),
        ctypes.c_int(elements),
        ctypes.c_longlong(elements),
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
    )
    if status:
        raise RuntimeError(f"the launch failed with CUDA error {status}")
