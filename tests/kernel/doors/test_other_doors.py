"""xformers, and a folder of the kernels hub. Each runs in a process of its own, because both change what a process imports."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB

KERNEL = Path(__file__).parents[3] / "kernel"
XFORMERS = """
import importlib, torch
from flashcore.doors import xformers as door
if {late}:
    import xformers.ops.fmha.flash3
door.register()
door.register()
dispatch, flash3 = (importlib.import_module(f"xformers.ops.fmha.{{name}}") for name in ("dispatch", "flash3"))
from xformers.ops.fmha.common import Inputs
q = torch.randn(1, 8, 4, 64, dtype=torch.float16)
torch.version.cuda = "13.0"  # else xformers chooses among kernels for AMD
for _ in range(2):
    print(flash3.FwOp.is_available(), dispatch._dispatch_fw_priority_list(Inputs(q, q, q), False)[0] is flash3.FwOp)
    door.unregister()
"""
HUB = """
import torch, transformers
config = transformers.LlamaConfig(
    vocab_size=61, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2
)
model = transformers.LlamaForCausalLM(config).eval()
model.set_attn_implementation("flashcore/fa3")
try:
    model(input_ids=torch.ones(1, 4, dtype=int))
except NotImplementedError as error:
    print(error)
"""


def run(code: str, **environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{KERNEL}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", **environment},
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


def test_xformers_prefers_flashcore_until_the_door_is_closed() -> None:
    if importlib.util.find_spec("xformers") is None:
        pytest.skip("install xformers==0.0.35 without its dependencies")
    out, error = run(XFORMERS.format(late=False))
    assert out.split() == ["True", "True", "True", "False"], error[-2000:]
    out, error = run(XFORMERS.format(late=True))
    assert "Call register() first, in a new process" in error


def test_a_folder_of_the_kernels_hub_reaches_flashcore() -> None:
    """Without a GPU the proof is FlashCore's own refusal."""
    if importlib.util.find_spec("kernels") is None or importlib.util.find_spec("transformers") is None:
        pytest.skip("install transformers and kernels==0.16.0")
    out, error = run(HUB, LOCAL_KERNELS=f"flashcore/fa3={KERNEL / 'hub/build/torch-cuda'}")
    assert out == "q: is on cpu, not on a Hopper GPU", error[-2000:]
    out, error = run(HUB, LOCAL_KERNELS=f"flashcore/other={KERNEL}", HF_HUB_OFFLINE="1")
    assert "flashcore/fa3" in error
