"""The doors to vLLM and SGLang, over stand-ins with their recorded signatures. Neither server is installed."""

from __future__ import annotations

import importlib
import logging
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB

PYPROJECT = Path(__file__).parents[3] / "kernel/pyproject.toml"
DOORS = ("servers", "vllm", "vllm_backend", "sglang")


@pytest.fixture
def servers(kernels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Both servers, with the doors loaded anew."""
    import server_modules
    import torch

    def drop() -> None:
        for name in DOORS:
            sys.modules.pop(f"flashcore.doors.{name}", None)

    drop()
    pool, starts = torch.randn(2, 12, 4, 2, 64), torch.tensor([0, 5, 6], dtype=torch.int32)
    batch = SimpleNamespace(
        q=torch.randn(6, 4, 64), pool=pool, starts=starts, lengths=torch.tensor([7, 11], dtype=torch.int32),
        page_table=torch.randperm(12)[:6].view(2, 3).int(), raw=False, nested=False,
    )  # fmt: skip
    vllm, registry = server_modules.install_vllm(monkeypatch)
    sglang, *rest = server_modules.install_sglang(monkeypatch)
    yield SimpleNamespace(
        vllm=vllm, registry=registry, sglang=sglang, backends=rest[0].ATTENTION_BACKENDS, choices=rest[1].ATTENTION_BACKEND_CHOICES,
        theirs=server_modules.THEIRS, batch=batch, kernels=kernels, torch=torch,
    )  # fmt: skip
    drop()


def load(name: str) -> ModuleType:
    return importlib.import_module(f"flashcore.doors.{name}")


def find_class(servers: SimpleNamespace) -> Any:
    module, _, name = servers.registry.AttentionBackendEnum.CUSTOM.get_path().rpartition(".")
    return getattr(importlib.import_module(module), name)


def run_vllm(servers: SimpleNamespace, impl: Any, **options: Any) -> Any:
    batch, torch = servers.batch, servers.torch
    metadata = SimpleNamespace(
        num_actual_tokens=6, query_start_loc=batch.starts, max_query_len=5, seq_lens=batch.lengths, max_seq_len=11, causal=True,
        block_table=batch.page_table,
    )  # fmt: skip
    padded = torch.cat([batch.q, torch.full((2, 4, 64), torch.nan)])  # of a CUDA graph
    layer = impl(4, 64, 0.3, 2, **options)
    return layer.forward(None, padded, None, None, batch.pool, metadata, output=torch.zeros_like(padded))


def compute(servers: SimpleNamespace, **options: Any) -> Any:
    batch = servers.batch
    return servers.kernels.reference.flash_attn_with_kvcache(
        batch.q, *batch.pool, cache_seqlens=batch.lengths, page_table=batch.page_table, cu_seqlens_q=batch.starts, max_seqlen_q=5,
        softmax_scale=0.3, causal=True, **options,
    )  # fmt: skip


def test_the_wheel_has_both_entry_points(kernels: SimpleNamespace) -> None:
    points = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert points == {
        "vllm.general_plugins": {"flashcore": "flashcore.doors.vllm:register"},
        "sglang.srt.plugins": {"flashcore": "flashcore.doors.sglang:register"},
    }
    assert callable(load("vllm").register)
    assert callable(load("sglang").register)


def test_vllms_layer_calls_flashcore_while_the_door_is_open(servers: SimpleNamespace) -> None:
    custom = servers.registry.AttentionBackendEnum.CUSTOM
    for _ in range(2):
        load("vllm").register()
    backend = find_class(servers)
    assert (backend.get_name(), issubclass(backend, servers.vllm.FlashAttentionBackend)) == ("CUSTOM", True)
    out = run_vllm(servers, backend.get_impl_cls())
    servers.torch.testing.assert_close(out[:6], compute(servers))
    assert (servers.kernels.calls, servers.theirs, out[6:].abs().sum()) == (["flash_attn_with_kvcache"], [], 0)
    assert (run_vllm(servers, servers.vllm.FlashAttentionImpl)[:6] == 7).all()  # vLLM's own class is as before
    load("vllm").unregister()
    load("vllm").unregister()
    assert not custom.is_overridden()


def test_vllm_is_told_what_the_kernels_serve(servers: SimpleNamespace) -> None:
    backend = load("vllm_backend").FlashcoreBackend
    assert [d for d in range(8, 520, 8) if backend.supports_head_size(d)] == [64, 128, 256]
    assert [backend.supports_kv_cache_dtype(name) for name in (None, "auto", "bfloat16", "fp8", "fp8_e4m3")] == [True] * 3 + [
        False
    ] * 2
    capabilities = (SimpleNamespace(major=major, minor=0) for major in (8, 9, 10))
    assert [backend.supports_compute_capability(capability) for capability in capabilities] == [False, True, False]
    assert not backend.supports_batch_invariance()


def test_what_is_refused_goes_to_vllms_kernel_and_is_logged_once(
    servers: SimpleNamespace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    impl, torch = load("vllm_backend").FlashcoreImpl, servers.torch
    for _ in range(2):
        assert (run_vllm(servers, impl, alibi_slopes=torch.ones(4))[:6] == 7).all()
    assert (servers.kernels.calls, servers.theirs) == ([], ["flash_attn_varlen_func"] * 2)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "vLLM: vLLM's kernel, because FlashCore refused: alibi_slopes: FlashCore has no kernel with it"
    ]
    servers.kernels.refused["flash_attn_with_kvcache"] = "q: the head dimension must be 64"
    assert (run_vllm(servers, impl)[:6] == 7).all()
    monkeypatch.setenv("FLASHCORE_STRICT", "1")
    with pytest.raises(NotImplementedError, match=r"^q: the head dimension must be 64 \(FLASHCORE_STRICT"):
        run_vllm(servers, impl)


def test_the_name_custom_stays_with_another_package(servers: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    custom = servers.registry.AttentionBackendEnum.CUSTOM
    servers.registry.register_backend(custom, "other.Backend")
    load("vllm").register()
    load("vllm").unregister()
    assert custom.get_path() == "other.Backend"
    assert "CUSTOM stays other.Backend" in caplog.text


@pytest.mark.parametrize(
    "change", [("flash_attn_varlen_func(\n", "self.flash_attn_varlen_func(\n"), ("def flash_attn_varlen_func", "def x")]
)
def test_a_version_that_calls_something_else_is_refused(
    servers: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]
) -> None:
    import server_modules

    assert change[0] in server_modules.VLLM
    server_modules.install(monkeypatch, servers.vllm.__name__, server_modules.VLLM.replace(*change))
    with pytest.raises(ImportError, match=r"forward: this version of vLLM does not call flash_attn_varlen_func there"):
        load("vllm_backend")


def test_sglangs_backend_calls_flashcore_while_the_door_is_open(servers: SimpleNamespace) -> None:
    door, batch, torch = load("sglang"), servers.batch, servers.torch
    for _ in range(2):
        door.register()
    assert servers.choices == ["fa3", "triton", "flashcore"]
    backend = servers.backends["flashcore"](SimpleNamespace(use_mla_backend=False))
    layer, pool = SimpleNamespace(logit_cap=0.0), batch.pool
    sinks = torch.randn(4)
    torch.testing.assert_close(backend.forward_decode(batch.q, *pool, layer, batch), compute(servers))
    for batch.nested in (False, True):
        out = backend.forward_extend(batch.q, *pool, layer, batch, sinks=sinks)
        torch.testing.assert_close(out, compute(servers, sinks=sinks))
    batch.raw = True
    backend.forward_extend(batch.q, batch.q, batch.q, layer, batch)
    backend.flash_attn_varlen_func(batch.q, batch.q, batch.q, batch.starts, batch.starts, 5, 5, causal=True)
    assert (servers.kernels.calls, servers.theirs) == (["flash_attn_with_kvcache"] * 3 + ["flash_attn_varlen_func"] * 2, [])
    servers.kernels.refused["flash_attn_varlen_func"] = "softcap: no"
    assert (backend.forward_extend(batch.q, batch.q, batch.q, layer, batch) == 7).all()
    assert servers.theirs == ["flash_attn_varlen_func"]
    with pytest.raises(ValueError, match="flashcore: has no kernel for MLA"):
        servers.backends["flashcore"](SimpleNamespace(use_mla_backend=True))
    for _ in range(2):
        door.unregister()
    assert (servers.backends, servers.choices) == ({}, ["fa3", "triton"])
    theirs = servers.sglang.FlashAttentionBackend(None)
    assert (theirs.forward_decode(batch.q, *pool, layer, batch) == 7).all()
