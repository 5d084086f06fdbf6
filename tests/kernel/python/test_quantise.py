"""The kernels that round to E4M3: the fields of a launch, bad input, and the subjects of gates/fp8-quantise.toml. No GPU, no torch."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import standin_torch as torch

ROOT = Path(__file__).parents[3]
SIGNS = (1, 2, 3, 0xFFFFFFFF)
PARAMS = {"h": 4, "sq": 64, "sk": 300, "input": "normal"}


@pytest.fixture
def rounding(bindings: Any) -> ModuleType:
    module = importlib.import_module("flashcore._quantise")
    bindings.kernels.structures["flashcore_quantise"] = module.Arguments
    return module


def make(**changes: Any) -> Any:
    return torch.empty(changes.get("shape", (3, 100, 8, 128)), dtype=changes.get("dtype", torch.bfloat16))


def test_fields_of_a_launch(bindings: Any, rounding: ModuleType) -> None:
    x = make()
    values, scale = rounding.quantise(x, kv_heads=2, signs=SIGNS)
    assert (tuple(values.shape), values.dtype) == ((3, 100, 8, 128), torch.uint8)
    assert (tuple(scale.shape), scale.dtype) == ((3, 2), torch.float32)
    ((name, fields),) = bindings.kernels.calls
    assert name == "flashcore_quantise"
    assert (fields.dtype, fields.transform, list(fields.signs)) == (1, 1, list(SIGNS))
    assert [fields.batch, fields.rows, fields.heads, fields.kv_heads] == [3, 100, 8, 2]
    assert [fields.batch_stride, fields.row_stride, fields.head_stride] == [102_400, 1024, 128]
    assert (fields.x, fields.values, fields.scale) == (x.address, values.address, scale.address)


def test_scales_alone_have_no_values(bindings: Any, rounding: ModuleType) -> None:
    values, scale = rounding.quantise(make(dtype=torch.float16), only_scale=True)
    fields = bindings.kernels.calls[0][1]
    assert values is None
    assert (fields.values, fields.scale, fields.dtype, fields.transform, fields.kv_heads) == (None, scale.address, 0, 0, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": torch.float32}, "x: must be float16 or bfloat16"),
        ({"shape": (3, 100, 8, 64)}, r"x: must be float16 or bfloat16 \(batch, rows, heads, 128\)"),
        ({"shape": (100, 8, 128)}, "x: must be float16 or bfloat16"),
    ],
)
def test_bad_input_is_refused(rounding: ModuleType, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rounding.quantise(make(**changes))


def test_results_of_another_shape_are_refused(rounding: ModuleType) -> None:
    x = make()
    with pytest.raises(ValueError, match=r"scale: must be contiguous .*\(3, 8\), is"):
        rounding.quantise(x, out=(make(dtype=torch.uint8), torch.empty((3, 2), dtype=torch.float32)))
    with pytest.raises(ValueError, match="values: must be contiguous"):
        rounding.quantise(x, out=(make(), torch.empty((3, 8), dtype=torch.float32)))


def subject(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("subject", ROOT / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("file", "extra"), [("kernel/subjects/e4m3_quantised.py", {}), ("kernel/defects/e4m3_quantised.py", {"defect": "sound"})]
)
def test_subjects_launch_what_they_build(file: str, extra: dict[str, str]) -> None:
    module = subject(file)
    build = module.build(ROOT)
    symbols = {entry["symbol"] for entry in build["entries"]}
    assert all((ROOT / path).is_file() for path in (*build["binding"], *build["launchers"]))
    launched = [set(module.problem({**PARAMS, **extra, "part": part})["entries"]) for part in ("all", "quantise", "attention")]
    assert launched[0] == launched[1] | launched[2] <= symbols
    assert not launched[1] & launched[2]


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="part: must be one of all, quantise, attention, is 'none'"):
        subject("kernel/subjects/e4m3_quantised.py").problem({**PARAMS, "part": "none"})


def test_a_library_without_the_kernel_is_named(bindings: Any, monkeypatch: pytest.MonkeyPatch, rounding: ModuleType) -> None:
    monkeypatch.setattr(rounding._blocks._library, "get_library", lambda _operation: object())
    with pytest.raises(bindings.flashcore.LibraryError, match=r"flashcore_quantise: .* gates/fp8-quantise\.toml"):
        rounding.quantise(make())
