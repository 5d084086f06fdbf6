"""The Triton kernel: its values by Triton's interpreter, and its machine code for GPUs that are not here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [
    pytest.mark.nightly,  # torch and Triton are 400 MB
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Triton's interpreter needs NumPy before 2.4
]

SHARED_MEMORY = {80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
"""Kilobytes that a block may use."""


@pytest.fixture
def fallback(kernels: SimpleNamespace) -> Any:
    pytest.importorskip("triton")
    from flashcore.doors import fallback

    return SimpleNamespace(call=fallback.call, reference=kernels.reference, module=fallback)


def draw(*shapes: tuple[int, ...]) -> list[Any]:
    import torch

    torch.manual_seed(0)
    return [torch.randn(shape).to(torch.float16) for shape in shapes]


def check(fallback: Any, name: str, *arguments: Any, lse: str = "return_lse", **options: Any) -> None:
    import torch

    actual, logs = fallback.call(name, arguments, {**options, lse: True})
    clones = [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]
    expected, expected_logs = getattr(fallback.reference, name)(*clones, **{**options, lse: True})
    torch.testing.assert_close(actual.float(), expected.float(), rtol=2e-2, atol=2e-3)
    torch.testing.assert_close(logs, expected_logs, rtol=1e-3, atol=1e-3)


OPTIONS = [
    {}, {"causal": True}, {"window": (5, 3)}, {"window": (0, -1)}, {"window": (70, 0), "causal": True}, {"softcap": 2.0, "causal": True},
    {"scale": -0.3}, {"window": (-1, 2), "scale": 0.5},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("rows", "keys", "d"), [(130, 150, 64), (7, 40, 24), (40, 7, 16)], ids=str)
def test_dense(fallback: Any, options: Any, rows: int, keys: int, d: int) -> None:
    check(fallback, "attention", *draw((2, rows, 4, d), (2, keys, 2, d), (2, keys, 2, d)), **options)


def test_sinks_join_once_and_rows_without_keys_have_only_them(fallback: Any) -> None:
    import torch

    sinks = torch.tensor([-torch.inf, 80.0, 0.5, -3.0])
    check(fallback, "attention", *draw((2, 40, 4, 16), (2, 7, 2, 16), (2, 7, 2, 16)), causal=True, sinks=sinks)


def test_strides_of_a_models_layout(fallback: Any) -> None:
    q, k, v = (t.transpose(1, 2) for t in draw((2, 4, 33, 64), (2, 2, 50, 64), (2, 2, 50, 64)))
    check(fallback, "attention", q, k, v, causal=True)


@pytest.mark.parametrize("options", OPTIONS[:5], ids=str)
def test_packed_sequences(fallback: Any, options: Any) -> None:
    import torch

    starts_q, starts_k = (torch.tensor(s, dtype=torch.int32) for s in ([0, 5, 5, 60], [0, 70, 73, 100]))
    check(fallback, "attention_varlen", *draw((60, 4, 64), (100, 2, 64), (100, 2, 64)), starts_q, starts_k, **options)


@pytest.mark.parametrize("page", [1, 16, 48])
def test_pages_of_a_cache(fallback: Any, page: int) -> None:
    import torch

    pools = draw((12 if page > 1 else 200, page, 2, 64), (12 if page > 1 else 200, page, 2, 64))
    table = torch.randperm(len(pools[0]))[: 2 * (len(pools[0]) // 2)].view(2, -1).to(torch.int32)
    lengths = torch.tensor([30, 70], dtype=torch.int32)
    q = draw((2, 3, 4, 64))[0]
    check(
        fallback,
        "flash_attn_with_kvcache",
        q,
        *pools,
        cache_seqlens=lengths,
        page_table=table,
        causal=True,
        lse="return_softmax_lse",
    )


def test_lengths_of_a_cache(fallback: Any) -> None:
    import torch

    tensors = draw((2, 3, 4, 64), (2, 90, 2, 64), (2, 90, 2, 64))
    tensors[1][:, 70:] = torch.nan
    tensors[2][:, 70:] = torch.nan
    lengths = torch.tensor([70, 0], dtype=torch.int32)
    check(fallback, "flash_attn_with_kvcache", *tensors, cache_seqlens=lengths, causal=True, lse="return_softmax_lse")


def test_what_it_does_not_serve_is_left_to_others(fallback: Any) -> None:
    from flashcore.doors.choice import RefusalError

    q, k, v = draw((2, 8, 4, 16), (2, 8, 2, 16), (2, 8, 2, 16))
    wide = draw((1, 4, 1, 264), (1, 4, 1, 264), (1, 4, 1, 264))
    for tensors, options, reason in (
        ((q.float(), k.float(), v.float()), {}, "must be float16, bfloat16 or E4M3, are torch.float32"),
        ((q, k, v), {"loaded_tiles": q}, "^loaded_tiles: "),
        ((q.clone().requires_grad_(), k, v), {}, "computes no gradient"),
        (tuple(wide), {}, "d up to 256"),
    ):
        with pytest.raises(RefusalError, match=reason):
            fallback.call("attention", tensors, options)


def test_it_serves_what_the_hopper_kernels_refuse(
    fallback: Any, kernels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    q, k, v = draw((2, 8, 4, 16), (2, 8, 2, 16), (2, 8, 2, 16))
    monkeypatch.setattr(kernels.choice, "_call_triton", fallback.call)
    kernels.refused["flash_attn_func"] = "q: is refused by the stand-in"
    from flashcore.doors import functions

    expected = kernels.reference.flash_attn_func(q, k, v, causal=True)
    torch.testing.assert_close(functions.flash_attn_func(q, k, v, causal=True), expected, rtol=2e-2, atol=2e-3)
    monkeypatch.setenv("FLASHCORE_STRICT", "1")
    with pytest.raises(kernels.choice.RefusalError, match="q: is refused by the stand-in"):
        functions.flash_attn_func(q, k, v, causal=True)
    monkeypatch.delenv("FLASHCORE_STRICT")
    with pytest.raises(kernels.choice.RefusalError, match=r"by the stand-in\. The Triton kernel refused: qv: "):
        functions.flash_attn_func(q, k, v, qv=q)


COMPILE = """
import sys
sys.path.insert(0, {kernel!r})
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from flashcore.doors import triton_kernel, triton_launch

names = triton_kernel.flashcore_triton_forward.arg_names
upper = [name for name in names if name.isupper() and name not in "QKV"]
floats, integers = ("scale", "softcap"), ("table", "padding")
types = {{"Lse": "*fp32", "Sinks": "*fp32", "Factors": "*fp32", "Out": "*bf16"}}
for d, causal, paged, e4m3 in ((64, 1, 0, 0), (128, 1, 0, 0), (128, 0, 1, 0), (256, 1, 0, 0), (64, 1, 1, 1)):
    tile = triton_launch.choose_shape(divmod({arch}, 10), d, 1024)
    constants = dict.fromkeys(upper, False) | {{"RIGHT": causal, "PAGE": 16 * paged, "M": tile.rows, "N": tile.keys, "D": d, "WIDTH": d}}
    constants |= dict.fromkeys(("LEFT", "CHUNK", "PADDED", "SCALED"), e4m3)  # E4M3 comes with all else that is new
    pointers = types | dict.fromkeys("QKV", "*u8" if e4m3 else "*bf16")
    signature = {{
        name: "constexpr" if name in upper else pointers.get(name) or ("fp32" if name in floats else "*i32"
        if name.startswith(("starts", "used")) or name in integers else "i32")
        for name in names
    }}
    source = ASTSource(triton_kernel.flashcore_triton_forward, signature, constants, {{(i,): [["tt.divisibility", 16]] for i, name in enumerate(names)
        if name in pointers or name.endswith(("_row", "_head", "_batch"))}})
    built = compile(source, target=GPUTarget("cuda", {arch}, 32), options={{"num_warps": tile.warps, "num_stages": tile.stages}})
    print(d, causal, paged, e4m3, built.metadata.shared, len(built.asm["cubin"]), flush=True)
"""


@pytest.mark.parametrize("arch", SHARED_MEMORY)
def test_it_compiles_without_a_gpu(arch: int, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    code = COMPILE.format(kernel=str(Path(__file__).parents[3] / "kernel"), arch=arch)
    file = tmp_path / "build.py"  # Triton reads a kernel's source from its file
    file.write_text(code)
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | {
        "TRITON_CACHE_DIR": str(tmp_path)
    }
    printed = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=environment, check=False)
    lines = printed.stdout.split("\n")[:-1]
    assert len(lines) == 5, printed.stderr[-2000:]
    for line in lines:
        shared, size = map(int, line.split()[-2:])
        assert shared <= SHARED_MEMORY[arch] * 1024, line
        assert size > 1000
