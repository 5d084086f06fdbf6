"""Attention in E4M3 with a scale for each block of rows, on the emulator, against float64."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path

import pytest
from emulated import Library, attend, operand, structure
from emulated_cases import rows_of
from emulator_build import build

pytestmark = pytest.mark.nightly
ROWS = {"q": 64, "k": 128, "v": 128}
LIMIT, LSE_LIMIT = 0.04, 1e-5  # relative root mean square error of the output, and of the log-sum-exp


def run(
    library: Library, head_dim: int, sq: int, sk: int, *, heads: int, causal: bool, signs: tuple[float, ...]
) -> tuple[float, float]:
    """Return the errors of the output and of the log-sum-exp, with one KV head."""
    draw = random.Random(sq + sk)
    a = structure("FlashcoreE4m3Arguments")()
    shapes = {"q": (1, sq, heads, head_dim), "k": (1, sk, 1, head_dim), "v": (1, sk, 1, head_dim)}
    tensors = {n: library.tensor(n, s, [draw.gauss(0, 1) for _ in range(math.prod(s))], "e4m3") for n, s in shapes.items()}
    scales = {}
    for name, (_, rows, count, _) in shapes.items():
        blocks = -(-rows // ROWS[name])
        numbers = [2.0 ** draw.uniform(-2, 1) * draw.choice(signs) for _ in range(count * blocks)]
        scales[name] = struct.unpack(f"<{len(numbers)}f", struct.pack(f"<{len(numbers)}f", *numbers))
        scale = library.tensor(f"{name}_scale", (1, count, blocks), numbers, "fp32")
        setattr(a, f"{name}_scale", scale.address)
        for kind, stride in zip(("batch", "head", "block"), scale.strides(), strict=True):
            setattr(a, f"{name}_scale_{kind}_stride", stride)
    out, lse = library.empty("out", shapes["q"], "bf16"), library.empty("lse", (1, heads, sq), "fp32")
    a.block_scales, a.causal, a.max_ctas, a.scale = 7, int(causal), 2, head_dim**-0.5
    a.batch, a.heads, a.kv_heads, a.sq, a.sk, a.head_dim = 1, heads, 1, sq, sk, head_dim
    a.q, a.k, a.v, a.out = (operand(x) for x in (*tensors.values(), out))
    a.lse, a.workspace_bytes = lse.address, 128 + head_dim * -(-sk // 128) * 128
    a.workspace = library.zeros("workspace", a.workspace_bytes).address
    library.call("flashcore_e4m3_forward", a)
    q, k, v, got = (rows_of(x, head_dim) for x in (*tensors.values(), out))
    sums = lse.values()
    keys = [[x * scales["k"][i // ROWS["k"]] for x in k(i)] for i in range(sk)]
    values = [[x * scales["v"][i // ROWS["v"]] for x in v(i)] for i in range(sk)]
    wrong = size = off = 0.0
    for row, head in ((row, head) for row in sorted({0, 9, 63, sq // 2, sq - 1} & set(range(sq))) for head in range(heads)):
        seen = min(sk, max(0, row + sk - sq + 1)) if causal else sk
        factor = scales["q"][head * -(-sq // ROWS["q"]) + row // ROWS["q"]]
        expected, total = attend([x * factor for x in q(row * heads + head)], keys[:seen], values[:seen], a.scale)
        wrong += sum((x - y) ** 2 for x, y in zip(got(row * heads + head), expected, strict=True))
        size += sum(y * y for y in expected)
        off = max(off, 0.0 if sums[head * sq + row] == total else abs(sums[head * sq + row] - total))
    library.free()
    return math.sqrt(wrong / size), off


@pytest.fixture(scope="module", params=[64, 128, 256])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Library]:
    names = [f"flashcore_e4m3_block_d{request.param}_{mask}" for mask in ("full", "causal")]
    folder: Path = tmp_path_factory.mktemp("emulated")
    return request.param, Library(build(folder / "blocks.so", [*names, "flashcore_e4m3_transpose_values"], ["e4m3"]))


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize(
    ("sq", "sk", "causal", "signs"), [(70, 300, False, (1.0,)), (130, 257, True, (1.0,)), (65, 129, False, (1.0, -1.0, 0.0))]
)
def test_scales_of_blocks(
    made: tuple[int, Library], sq: int, sk: int, signs: tuple[float, ...], *, causal: bool, late: bool
) -> None:  # fmt: skip
    head_dim, library = made
    library.configure(seed=sq, late=late)
    error, lse_error = run(library, head_dim, sq, sk, heads=2, causal=causal, signs=signs)
    assert error <= LIMIT
    assert lse_error <= LSE_LIMIT
