"""Decode of every head dimension on a Hopper GPU: against float64, and the bits of inputs that zeros fill up to 64, 128 or 256."""

from __future__ import annotations

import math
from typing import Any

import gpu_subjects
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

subject = gpu_subjects.load("decode")
D = (8, 40, 72, 80, 96, 120, 136, 160, 192, 248)
E4M3_D = (16, 48, 80, 96, 144, 192, 224)
GAP = 24  # columns of NaN between the heads
OUT, LSE, CACHES = 7.0, "lse", ("k", "v")
PROBLEM = {"b": 17, "h": 8, "hkv": 2, "sk": 700, "lengths": "edges"}


def get_dtype(d: int) -> str:
    return ("fp16", "bf16")[d // 8 % 2]


def make_inputs(**params: Any) -> dict[str, Any]:
    return dict(subject.inputs({**PROBLEM, "dtype": get_dtype(params["d"]), **params}, 7))


def spread(tensor: Any) -> Any:
    """Put NaN between the heads."""
    wide = torch.full((*tensor.shape[:-1], tensor.shape[-1] + GAP), math.nan, dtype=tensor.dtype, device="cuda")
    wide[..., : tensor.shape[-1]] = tensor
    return wide[..., : tensor.shape[-1]]


def fill_up(tensor: Any) -> Any:
    """Add columns of zeros up to the head dimension of a kernel."""
    d = tensor.shape[-1]
    return torch.nn.functional.pad(tensor, (0, next(size for size in (64, 128, 256) if size >= d) - d))


def run(inputs: dict[str, Any], d: int) -> Any:
    """Launch, and return what it writes. Rows that no launch writes are NaN."""
    import flashcore

    q, k, v = (inputs[name] for name in "qkv")
    limits = subject.local.options(inputs)
    shared = {"page_table": inputs["page_table"], "lengths": inputs["lengths"], "causal": inputs["causal"], "scale": d**-0.5}
    out = torch.full_like(q, OUT, dtype=torch.bfloat16 if q.dtype is torch.uint8 else q.dtype)
    lse = torch.full(subject.sequences.shape_of_lse(inputs), OUT, device="cuda")
    if "starts" in inputs:
        flashcore.decode_varlen(
            q, k, v, inputs["starts"], max_queries=inputs["max_queries"], out=out, lse=lse, **shared, **limits
        )
    else:
        scales = {f"{name}_scale": inputs.get(f"{name}_scale") for name in "qkv"}
        new = {f"{name}_new": inputs.get(f"{name}_new") for name in CACHES}
        options = {name: inputs[name] for name in ("splits", "deterministic", "max_ctas")}
        flashcore.decode(q, k, v, out=out, lse=lse, **shared, **limits, **scales, **new, **options)
    return out, lse, k, v


def check_bits(**params: Any) -> None:
    """Compare with the same inputs and columns of zeros, of which the kernel of that head dimension computes the same sums."""
    inputs, d = make_inputs(**params), params["d"]
    tensors = [name for name in ("q", *CACHES, "k_new", "v_new") if name in inputs]
    filled = {**inputs, **{name: fill_up(inputs[name]) for name in tensors}}
    actual, expected = run({**inputs, **{name: inputs[name].clone() for name in CACHES}}, d), run(filled, d)
    for name, a, b in zip(("out", LSE, *CACHES), actual, expected, strict=True):
        part = b if name == LSE else b[..., :d]
        assert torch.equal(a.nan_to_num(OUT), part.nan_to_num(OUT)), name
    assert not torch.equal(actual[0], torch.full_like(actual[0], OUT))


@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("page", [0, 16, 64])
def test_values(page: int, d: int) -> None:
    inputs = make_inputs(page=page, d=d)
    gpu_subjects.assert_correct(subject, inputs, gpu_subjects.launch(subject, inputs))


@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("page", [1, 7])
def test_values_of_small_pages(page: int, d: int) -> None:
    inputs = make_inputs(page=page, d=d, packed=3, sq=17)
    gpu_subjects.assert_correct(subject, inputs, gpu_subjects.launch(subject, inputs))


@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize(
    "params",
    [
        {"sq": 16, "h": 7, "hkv": 1},
        {"page": 16, "new": 5, "sq": 5},
        {"new": 33, "sq": 2, "h": 6},
        {"sk": 5000, "lengths": "ragged", "page": 32, "splits": 7},
        {"sk": 9000, "lengths": "ragged", "page": 16, "deterministic": True},
        {"page": 16, "packed": 3, "sq": 17},
        {"page": 64, "packed": 5, "sq": 20, "h": 16},
        {"page": 4, "packed": 5, "sq": 20, "h": 16},
        {"page": 1, "packed": 2, "sq": 17, "left": 100, "sinks": "fp32"},
        {"page": 16, "new": 9, "sq": 3, "left": 127, "sinks": "bf16", "softcap": 2.0},
        {"page": 64, "packed": 5, "sq": 20, "h": 16, "left": 50},
        {"packed": 3, "sq": 20, "chunk": 100},
    ],
)  # fmt: skip
def test_bits_of_columns_of_zeros(params: dict[str, Any], d: int) -> None:
    check_bits(**params, d=d)


@pytest.mark.parametrize("d", E4M3_D)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "e4m3"])
def test_caches_of_e4m3(dtype: str, d: int) -> None:
    check_bits(cache="e4m3", d=d, dtype=dtype, page=32)
    if dtype != "e4m3":
        check_bits(cache="e4m3", d=d, dtype=dtype, hkv=4, new=5, sq=5)


@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize(
    "params",
    [{}, {"page": 16, "deterministic": True}, {"page": 2, "packed": 4, "sq": 17}, {"page": 16, "packed": 4, "sq": 17, "h": 16}],
)
def test_memory_between_heads_is_neither_read_nor_written(params: dict[str, Any], d: int) -> None:
    inputs = make_inputs(**params, d=d)
    plain = run(inputs, d)
    apart = run({**inputs, **{name: spread(inputs[name]) for name in ("q", *CACHES)}}, d)
    assert torch.equal(plain[0], apart[0])
    assert torch.equal(plain[1], apart[1])


@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("page", [0, 16, 4])
def test_output_between_other_memory(page: int, d: int) -> None:
    import flashcore

    inputs = make_inputs(page=page, d=d, **({"packed": 3, "sq": 17} if page else {}))
    wide = torch.full((*inputs["q"].shape[:-1], 3 * d), OUT, dtype=inputs["q"].dtype, device="cuda")
    options = {"lengths": inputs["lengths"], "page_table": inputs["page_table"], "causal": True, "out": wide[..., d : 2 * d]}
    tensors = (inputs[name] for name in "qkv")
    if page:
        flashcore.decode_varlen(*tensors, inputs["starts"], max_queries=3, **options)
    else:
        flashcore.decode(*tensors, **options)
    assert (wide[..., :d] == OUT).all()
    assert (wide[..., 2 * d :] == OUT).all()
    assert torch.equal(wide[..., d : 2 * d], run(inputs, d)[0])


@pytest.mark.parametrize("d", [80, 96, 192])
@pytest.mark.parametrize("page", [4, 16])
def test_the_function_of_flash_attention(page: int, d: int) -> None:
    """With rotary embedding, new keys, chosen sequences of the table, and pages of both kinds."""
    import flashcore

    generator = torch.Generator(device="cuda").manual_seed(3)
    draw = lambda *shape: torch.randn(shape, generator=generator, device="cuda", dtype=torch.float16)  # noqa: E731
    q, new, pool = draw(3, 2, 8, d), draw(3, 2, 2, d), draw(200, page, 2, d)
    table = torch.randperm(200, device="cuda").int()[:150].view(3, 50)
    angles = draw(300, 16)
    options: dict[str, Any] = {"causal": True, "softmax_scale": d**-0.5, "page_table": table, "return_softmax_lse": True}
    options |= {"cache_seqlens": torch.tensor([0, 60, 150], dtype=torch.int32, device="cuda")}
    options |= {"rotary_cos": angles.cos(), "rotary_sin": angles.sin()}
    caches, filled = [pool.clone(), pool.flip(0)], [fill_up(pool), fill_up(pool.flip(0))]
    actual = flashcore.flash_attn_with_kvcache(q, *caches, new, new, **options)
    expected = flashcore.flash_attn_with_kvcache(fill_up(q), *filled, fill_up(new), fill_up(new), **options)
    assert torch.equal(actual[0], expected[0][..., :d])
    assert torch.equal(actual[1], expected[1])
    assert all(torch.equal(cache, wide[..., :d]) for cache, wide in zip(caches, filled, strict=True))
