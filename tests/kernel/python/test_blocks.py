"""Scales of blocks and values in columns: the fields of a launch, bad input, and the subject of gates/fp8-quantise.toml. No GPU, no torch."""

from __future__ import annotations

import importlib
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import standin_torch as torch

ROOT = Path(__file__).parents[3]
D, HEADS, KV_HEADS, QUERIES, KEYS = 128, 8, 2, 100, 300
E4M3 = torch.float8_e4m3fn
PARAMS = {"h": 4, "sq": 64, "sk": 300, "input": "normal"}


@pytest.fixture
def blocks(bindings: Any) -> ModuleType:
    module = importlib.import_module("flashcore._blocks")
    bindings.kernels.structures["flashcore_quantise_blocks"] = module.Arguments
    bindings.kernels.structures["flashcore_e4m3_permute"] = module.PermuteArguments
    return module


def load(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("subject", ROOT / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def attend(bindings: Any, **changes: Any) -> Any:
    tensors = {name: torch.empty((3, KEYS, KV_HEADS, D), dtype=E4M3) for name in ("k", "v")}
    bindings.flashcore.attention_e4m3(torch.empty((3, QUERIES, HEADS, D), dtype=E4M3), **{**tensors, **changes})
    return bindings.kernels.calls[-1][1]


@pytest.mark.parametrize(
    ("kind", "count", "values"), [("q", 2, (3, 100, 8, 128)), ("k", 1, (3, 100, 8, 128)), ("v", 1, (3, 8, 128, 128))]
)
def test_fields_of_a_launch(bindings: Any, blocks: ModuleType, kind: str, count: int, values: tuple[int, ...]) -> None:
    x = torch.empty((3, 100, 8, 128), dtype=torch.bfloat16)
    signs = None if kind == "v" else blocks.SIGNS
    rounded, scale = blocks.quantise_blocks(x, kind, signs=signs)
    assert (tuple(rounded.shape), rounded.dtype) == (values, torch.uint8)
    assert (tuple(scale.shape), scale.dtype) == ((3, 8, count), torch.float32)
    ((name, fields),) = bindings.kernels.calls
    assert name == "flashcore_quantise_blocks"
    assert (fields.kind, fields.dtype, fields.transform) == ("qkv".index(kind), 1, kind != "v")
    assert list(fields.signs) == [0] * 8 if kind == "v" else list(blocks.SIGNS)
    assert [fields.batch, fields.rows, fields.heads, fields.head_dim] == [3, 100, 8, 128]
    assert [fields.batch_stride, fields.row_stride, fields.head_stride] == [102_400, 1024, 128]
    assert (fields.x, fields.values, fields.scale) == (x.address, rounded.address, scale.address)


def test_scales_of_blocks_are_told_from_those_of_heads(bindings: Any) -> None:
    q_scale = torch.empty((3, HEADS, 2), dtype=torch.float32)
    k_scale = torch.Tensor((3, KV_HEADS, 3), (0, 0, 7), torch.float32)
    v_scale = torch.empty((3, KV_HEADS), dtype=torch.float32)
    fields = attend(bindings, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)
    assert fields.block_scales == 3
    assert [getattr(fields, f"q_scale_{kind}_stride") for kind in ("batch", "head", "block")] == [2 * HEADS, 2, 1]
    assert [getattr(fields, f"k_scale_{kind}_stride") for kind in ("batch", "head", "block")] == [0, 0, 7]
    assert attend(bindings, v_scale=torch.empty((3, KV_HEADS, 3), dtype=torch.float32)).block_scales == 4
    assert attend(bindings).block_scales == 0


@pytest.mark.parametrize(
    ("name", "shape"), [("q_scale", (3, KV_HEADS, 2)), ("q_scale", (3, HEADS, 1)), ("k_scale", (3, KV_HEADS, 2)), ("v_scale", (3, HEADS, 3))]
)  # fmt: skip
def test_a_wrong_number_of_scales_is_refused(bindings: Any, name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=f"^{name}: must be float32 of shape"):
        attend(bindings, **{name: torch.empty(shape, dtype=torch.float32)})
    assert not bindings.kernels.calls


def test_values_in_columns_are_brought_into_order_and_not_transposed(bindings: Any, blocks: ModuleType) -> None:
    assert blocks.ROWS == {"q": 64, "k": 128, "v": 128}
    columns = torch.Tensor((3, KEYS, KV_HEADS, D), (KV_HEADS * D * 304, 1, D * 304, 304), torch.uint8)
    fields = attend(bindings, v=columns)
    assert [name for name, _ in bindings.kernels.calls] == ["flashcore_e4m3_permute", "flashcore_e4m3_forward"]
    order = bindings.kernels.calls[0][1]
    assert [order.batch, order.kv_heads, order.sk, order.head_dim] == [3, KV_HEADS, KEYS, D]
    assert [order.batch_stride, order.head_stride, order.column_stride] == [KV_HEADS * D * 304, D * 304, 304]
    assert (order.v, order.values, fields.transposed, fields.workspace_bytes) == (columns.address, fields.v.data, 1, 128)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": torch.float32}, "x: must be float16 or bfloat16"),
        ({"shape": (3, 100, 8, 96)}, "x: must be float16 or bfloat16"),
        ({"kind": "w"}, "kind: must be one of q, k, v, is 'w'"),
        ({"kind": "v", "signs": (1,) * 8}, "signs: values are not transformed"),
        ({"out": (torch.empty((3, 100, 8, 128), dtype=torch.uint8), torch.empty((3, 8, 1), dtype=torch.float32))}, "scale: must be contig"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(blocks: ModuleType, changes: dict[str, Any], message: str) -> None:
    x = torch.empty(changes.get("shape", (3, 100, 8, 128)), dtype=changes.get("dtype", torch.bfloat16))
    options = {key: changes[key] for key in ("signs", "out") if key in changes}
    with pytest.raises(ValueError, match=message):
        blocks.quantise_blocks(x, changes.get("kind", "q"), **options)


def test_a_library_without_the_kernels_is_named(bindings: Any, monkeypatch: pytest.MonkeyPatch, blocks: ModuleType) -> None:
    monkeypatch.setattr(blocks._library, "get_library", lambda _operation: object())
    with pytest.raises(bindings.flashcore.LibraryError, match=r"flashcore_quantise_blocks: .* gates/fp8-quantise\.toml"):
        blocks.quantise_blocks(torch.empty((3, 100, 8, 128), dtype=torch.bfloat16), "q")


def test_the_subject_launches_what_it_builds() -> None:
    module = load("kernel/subjects/e4m3_blocks.py")
    build = module.build(ROOT)
    symbols = {entry["symbol"] for entry in build["entries"]}
    assert all((ROOT / path).is_file() for path in (*build["binding"], *build["launchers"]))
    launched = [set(module.problem({**PARAMS, "part": part})["entries"]) for part in ("all", "quantise", "attention", "columns")]
    assert launched[0] == launched[1] | launched[2]
    assert launched[0] | launched[3] <= symbols
    assert module.problem({**PARAMS, "blocks": False})["entries"] == module.quantised.problem(PARAMS)["entries"]
    with pytest.raises(ValueError, match="part: must be one of all, quantise, attention, columns, is 'none'"):
        module.problem({**PARAMS, "part": "none"})


@pytest.mark.parametrize(("file", "table", "entry"), [("e4m3_blocks", "e4m3_block", "FLUSH"), ("e4m3_accuracy", "e4m3", "")])
def test_the_reported_interval_is_that_of_the_kernel(file: str, table: str, entry: str) -> None:
    module = load(f"kernel/subjects/{file}.py")
    tile = tomllib.loads((ROOT / "kernel/variants.toml").read_text(encoding="utf-8"))[table]["tiles"]["d128"]
    flush = getattr(module, entry) if entry else module.DEFAULTS["flush"]
    assert flush == tile["tile_n"]
    with pytest.raises(ValueError, match=re.escape(f"flush: this kernel adds up {flush} keys")):
        module.problem({**PARAMS, "flush": 2 * flush})
