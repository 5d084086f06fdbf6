"""The merge of partial results: the fields of a launch, the shapes of its results, bad input, and its subject. No GPU, no torch."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import standin_torch as torch

ROOT = Path(__file__).parents[3]
SPLITS, BATCH, SEQUENCE, HEADS, D = 7, 2, 5, 3, 64


@pytest.fixture
def merge(bindings: Any) -> ModuleType:
    module = importlib.import_module("flashcore._combine")
    bindings.kernels.structures["flashcore_combine"] = module.Arguments
    bindings.library._libraries["combine"] = bindings.kernels
    return module


def make_outputs(*shape: int) -> Any:
    return torch.empty(shape or (SPLITS, BATCH, HEADS, SEQUENCE, D), dtype=torch.float32).transpose(2, 3)


def make_sums() -> Any:
    return torch.empty((SPLITS, BATCH, HEADS, SEQUENCE), dtype=torch.float32).transpose(2, 3)


def test_fields_of_a_launch(bindings: Any, merge: ModuleType) -> None:
    outputs, sums = make_outputs(), make_sums()
    out, lse = bindings.flashcore.flash_attn_combine(outputs, sums, None, torch.bfloat16)
    assert (out.shape, out.dtype, out.is_contiguous()) == ((BATCH, SEQUENCE, HEADS, D), torch.bfloat16, True)
    assert (lse.shape, lse.strides, lse.dtype) == ((BATCH, SEQUENCE, HEADS), (15, 1, 5), torch.float32)
    ((name, fields),) = bindings.kernels.calls
    assert name == "flashcore_combine"
    assert [fields.splits, fields.batch, fields.sequence, fields.heads, fields.head_dim] == [SPLITS, BATCH, SEQUENCE, HEADS, D]
    operands = (fields.partial, fields.lse_partial, fields.out)
    assert [(o.data, o.batch_stride, o.sequence_stride, o.head_stride) for o in operands] == [
        (outputs.address, 960, 64, 320), (sums.address, 15, 1, 5), (out.address, 960, 192, 64),
    ]  # fmt: skip
    assert (fields.partial_split_stride, fields.lse_partial_split_stride) == (1920, 30)
    assert (fields.out_dtype, fields.device, fields.max_ctas, fields.stream, fields.lse) == (1, 0, 0, 7, lse.address)


def test_the_output_is_float32_by_default_or_of_the_given_tensor(bindings: Any, merge: ModuleType) -> None:
    assert merge.flash_attn_combine(make_outputs(), make_sums())[0].dtype == torch.float32
    given = torch.empty((BATCH, SEQUENCE, HEADS, D), dtype=torch.float16)
    assert merge.flash_attn_combine(make_outputs(), make_sums(), given)[0] is given
    assert [call[1].out_dtype for call in bindings.kernels.calls] == [2, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.empty(SPLITS, BATCH, SEQUENCE, HEADS, D), make_sums()), "out_partial: must be float32, is torch.float16"),
        ((make_outputs(SPLITS, BATCH, HEADS, D), make_sums()), "out_partial: must have 5 dimensions"),
        ((make_outputs().transpose(3, 4), make_sums()), "out_partial: the head dimension must be contiguous"),
        ((make_outputs(), make_sums().transpose(2, 3)), r"lse_partial: must have shape \(7, 2, 5, 3\)"),
        ((make_outputs(), make_sums(), None, torch.int32), "out_dtype: must be float32, float16 or bfloat16"),
        ((make_outputs(), make_sums(), torch.empty(BATCH, SEQUENCE, HEADS, D), torch.bfloat16), "out: must be torch.bfloat16"),
        ((make_outputs(), make_sums(), torch.empty(BATCH, HEADS, SEQUENCE, D)), "out: must have shape"),
        ((make_outputs(), make_sums(), torch.empty(BATCH, SEQUENCE, HEADS, D, device=torch.Device("cpu"))), "out: must be on the CUDA device of out_partial"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(merge: ModuleType, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        merge.flash_attn_combine(*arguments)


def test_a_gradient_is_refused(merge: ModuleType) -> None:
    outputs = make_outputs()
    outputs.requires_grad = True
    with pytest.raises(ValueError, match=r"^out_partial: requires a gradient"):
        merge.flash_attn_combine(outputs, make_sums())


def test_the_subject_counts_work_and_names_bad_parameters() -> None:
    spec = importlib.util.spec_from_file_location("combine_subject", ROOT / "kernel/subjects/combine.py")
    assert spec
    assert spec.loader
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    params = {"dtype": "bf16", "splits": 8, "b": 2, "sq": 5, "h": 3, "d": 128}
    count = 30 * (8 * (4 * 128 + 4) + 2 * 128 + 4)
    assert subject.problem(params) == {"flops": 30 * 2.0 * 8 * 128, "bytes": count, "entries": ["flashcore_combine_f32"]}
    assert subject.problem({**params, "b": 0})["entries"] == []
    for change in ({"splits": 0}, {"dtype": "fp8"}, {"layout": "sbhd"}, {"input": "none"}, {"keys": 1}):
        with pytest.raises(ValueError, match=rf"^{next(iter(change))}: "):
            subject.problem({**params, **change})
