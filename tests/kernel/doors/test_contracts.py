"""What servers and libraries call, as ``contracts.json`` recorded it: the names of arguments, without their code."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB

HERE = Path(__file__).parent
CONTRACTS = json.loads((HERE / "contracts.json").read_text())
CALLS = [(project, call) for project, contract in CONTRACTS.items() for call in contract["calls"]]
PRINT = """
import inspect, json, importlib.util, flashcore.fa3
assert importlib.util.find_spec("flash_attn_3") and importlib.util.find_spec("flash_attn_interface")
import flash_attn_3.flash_attn_interface as inner, flash_attn_interface as module
assert all(vars(inner)[name] is value for name, value in vars(module).items() if "flash_attn" in name and name != "flash_attn_3_gpu")
assert inspect.isfunction(module._flash_attn_forward)
functions = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "_flash_attn_forward", "_flash_attn_backward")
print(json.dumps({name: [[p.name, p.kind] for p in inspect.signature(getattr(module, name)).parameters.values()] for name in functions}))
"""


@pytest.fixture(scope="module")
def published() -> dict[str, inspect.Signature]:
    """Return the signatures of the modules that ``flashcore.fa3`` publishes, which a process keeps."""
    pytest.importorskip("torch", minversion="2.11")
    kernel = str(HERE.parents[2] / "kernel")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {kernel!r})\n{PRINT}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return {
        name: inspect.Signature([inspect.Parameter(key, inspect._ParameterKind(kind), default=None) for key, kind in parameters])
        for name, parameters in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize(("project", "call"), CALLS, ids=lambda value: value if isinstance(value, str) else value["function"])
def test_a_recorded_call_fits(kernels: SimpleNamespace, published: Any, project: str, call: dict[str, Any]) -> None:
    assert CONTRACTS[project]["version"]
    assert CONTRACTS[project]["source"].startswith("https://") or " of PyPI: " in CONTRACTS[project]["source"]
    signature = published[call["function"]]
    if call["from"] == "functions":
        from flashcore.doors import functions

        signature = inspect.signature(getattr(functions, call["function"]))
    signature.bind(*[None] * call.get("positional", 0), **dict.fromkeys(call["names"]))
    with pytest.raises(TypeError):
        signature.bind(*[None] * call.get("positional", 0), **dict.fromkeys(call["names"]), unknown=None)


def test_a_servers_mixed_batch_over_pages(kernels: SimpleNamespace) -> None:
    """vLLM's only call, and the same through SGLang's two functions."""
    import torch
    from flashcore.doors import functions

    pool = torch.randn(2, 12, 4, 2, 16)
    q, out, table = torch.randn(6, 4, 16), torch.empty(6, 4, 16), torch.randperm(12)[:6].view(2, 3).int()
    starts, lengths = torch.tensor([0, 5, 6], dtype=torch.int32), torch.tensor([7, 11], dtype=torch.int32)
    result = functions.flash_attn_varlen_func(
        q=q, k=pool[0], v=pool[1], out=out, cu_seqlens_q=starts, max_seqlen_q=5, seqused_k=lengths, max_seqlen_k=11, softmax_scale=0.3,
        causal=True, alibi_slopes=None, window_size=[-1, -1], block_table=table, softcap=0.0, fa_version=3, num_splits=0, s_aux=None,
        scheduler_metadata=starts, q_descale=torch.ones(2, 2), k_descale=torch.ones(2, 2), v_descale=torch.ones(2, 2),
    )  # fmt: skip
    assert result is out
    shared = {"cu_seqlens_q": starts, "max_seqlen_q": 5, "softmax_scale": 0.3, "causal": True, "page_table": table, "ver": 3}
    again = functions.flash_attn_with_kvcache(
        q=q, k_cache=pool[0], v_cache=pool[1], cache_seqlens=lengths, cu_seqlens_k_new=starts, **shared
    )
    torch.testing.assert_close(again, out)
    rows = torch.arange(12)
    for b, keys in enumerate(lengths.tolist()):
        own = [t[table[b].long()].flatten(0, 1)[:keys] for t in pool]
        mine = slice(int(starts[b]), int(starts[b + 1]))
        seen = rows[:keys] <= torch.arange(mine.stop - mine.start)[:, None] + keys - (mine.stop - mine.start)
        expected = torch.nn.functional.scaled_dot_product_attention(
            *(t.transpose(0, 1)[None] for t in (q[mine], *own)), attn_mask=seen, scale=0.3, enable_gqa=True
        )
        torch.testing.assert_close(out[mine].transpose(0, 1)[None], expected)
    with pytest.raises(NotImplementedError, match="alibi_slopes: "):
        functions.flash_attn_varlen_func(
            q, pool[0], pool[1], starts, None, 5, 11, seqused_k=lengths, block_table=table, alibi_slopes=torch.ones(4)
        )
