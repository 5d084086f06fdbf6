"""linear: the candidate, which runs in a process of its own. Written by `flashcore-ci init` from linear.py::linear."""

from __future__ import annotations

import pathlib

import torch

_kept: dict = {}


def _write(outputs, result):
    values = list(result.values()) if isinstance(result, dict) else result if isinstance(result, list | tuple) else [result]
    values = [value for value in values if value is not None]
    for output, value in zip(outputs.values(), values, strict=True):
        if output.shape != value.shape:
            raise ValueError(f"the candidate returned the shape {tuple(value.shape)}, not {tuple(output.shape)}")
        output.copy_(value)


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


def load(library):
    """Import the kernel."""
    _kept["call"] = _import(pathlib.Path(__file__).resolve().parents[2], 'linear.py')['linear']


INPUTS = ('x', 'weight', 'bias')


def run(inputs, outputs):
    """Launch once."""
    given = [inputs[name] for name in INPUTS]
    with torch.no_grad():
        _write(outputs, _kept["call"](*given))
