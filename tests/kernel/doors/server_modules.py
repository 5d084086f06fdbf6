"""Stand-ins for the modules of vLLM and SGLang that the doors use: names and signatures of the versions below, without their code.

vLLM: commits 5704f34f (backends/flash_attn.py) and 0033bf03 (backends/registry.py). SGLang: 0.5.23 of PyPI.
"""

from __future__ import annotations

import enum
import sys
from types import ModuleType
from typing import Any

import pytest

THEIRS: list[str] = []
"""The calls that the server's own kernel got."""

VLLM = """
def flash_attn_varlen_func(q, out=None, **options):
    theirs.append("flash_attn_varlen_func")
    return out.fill_(7) if out is not None else q

class FlashAttentionBackend:
    @staticmethod
    def get_name(): return "FLASH_ATTN"
    @staticmethod
    def get_impl_cls(): return FlashAttentionImpl

class FlashAttentionImpl:
    def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi_slopes=None, sliding_window=None, sinks=None):
        self.scale, self.alibi_slopes, self.sinks = scale, alibi_slopes, sinks
        self.sliding_window = (-1, -1) if sliding_window is None else (sliding_window - 1, 0)

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output=None, output_scale=None, output_block_scale=None):
        n, (key_cache, value_cache) = attn_metadata.num_actual_tokens, kv_cache.unbind(0)
        flash_attn_varlen_func(
            q=query[:n], k=key_cache, v=value_cache, out=output[:n], cu_seqlens_q=attn_metadata.query_start_loc,
            max_seqlen_q=attn_metadata.max_query_len, seqused_k=attn_metadata.seq_lens, max_seqlen_k=attn_metadata.max_seq_len,
            softmax_scale=self.scale, causal=attn_metadata.causal, alibi_slopes=self.alibi_slopes,
            window_size=list(self.sliding_window), block_table=attn_metadata.block_table, softcap=0,
            scheduler_metadata=attn_metadata.query_start_loc, fa_version=3, q_descale=None, k_descale=None, v_descale=None,
            num_splits=16, s_aux=self.sinks,
        )
        return output
"""
SGLANG = """
def flash_attn_with_kvcache(q, k_cache, v_cache, out=None, **options):
    theirs.append("flash_attn_with_kvcache")
    return q * 0 + 7

def flash_attn_varlen_func(q, k, v, out=None, **options):
    theirs.append("flash_attn_varlen_func")
    return q * 0 + 7

class FlashAttentionBackend:
    def __init__(self, model_runner, skip_prefill=False, speculative_step_id=0, topk=0, speculative_num_steps=0, fa_impl_ver=3):
        self.fa_impl_ver = fa_impl_ver
        self.flash_attn_varlen_func, self.flash_attn_with_kvcache = flash_attn_varlen_func, flash_attn_with_kvcache

    def forward_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, *, sinks=None):
        if forward_batch.raw:
            return flash_attn_varlen_func(q, k, v, cu_seqlens_q=forward_batch.starts, cu_seqlens_k=forward_batch.starts,
                max_seqlen_q=5, max_seqlen_k=5, softmax_scale=0.3, causal=True, return_softmax_lse=False, out=None, ver=3)
        options = describe(layer, forward_batch) | ({} if sinks is None else {"sinks": sinks})
        def call(q):
            return flash_attn_with_kvcache(q=q, k_cache=k, v_cache=v, **options)
        return call(q) if forward_batch.nested else flash_attn_with_kvcache(q=q, k_cache=k, v_cache=v, **options)

    def forward_decode(self, q, k, v, layer, forward_batch, save_kv_cache=True, *, sinks=None):
        return flash_attn_with_kvcache(q=q, k_cache=k, v_cache=v, **describe(layer, forward_batch), scheduler_metadata=None)

def describe(layer, forward_batch):
    return dict(
        page_table=forward_batch.page_table, cache_seqlens=forward_batch.lengths, cu_seqlens_q=forward_batch.starts, max_seqlen_q=5,
        softmax_scale=0.3, causal=True, window_size=(-1, -1), softcap=layer.logit_cap, return_softmax_lse=False, num_splits=0,
        out=None, ver=3,
    )
"""


def install(patch: pytest.MonkeyPatch, name: str, source: str = "", **values: Any) -> ModuleType:
    """Put a module with this source under its name, and its packages above it."""
    parts = name.split(".")
    for i in range(1, len(parts)):
        package = ModuleType(".".join(parts[:i]))
        package.__path__ = []
        if package.__name__ not in sys.modules:
            patch.setitem(sys.modules, package.__name__, package)
    module = ModuleType(name)
    vars(module).update(theirs=THEIRS, **values)
    exec(source, vars(module))
    patch.setitem(sys.modules, name, module)
    return module


def install_vllm(patch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """Return the backend's module and the registry's."""
    THEIRS.clear()
    overrides: dict[Any, str] = {}

    class AttentionBackendEnum(enum.Enum):
        FLASH_ATTN = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
        CUSTOM = None

        def get_path(self, include_classname: bool = True) -> str:
            return overrides.get(self) or str(self.value)

        def is_overridden(self) -> bool:
            return self in overrides

        def clear_override(self) -> None:
            overrides.pop(self, None)

    def register_backend(backend: Any, class_path: str | None = None, is_mamba: bool = False) -> Any:
        overrides[backend] = str(class_path)
        return lambda x: x

    registry = install(
        patch, "vllm.v1.attention.backends.registry", AttentionBackendEnum=AttentionBackendEnum, register_backend=register_backend
    )
    return install(patch, "vllm.v1.attention.backends.flash_attn", VLLM), registry


def install_sglang(patch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType, ModuleType]:
    """Return the modules of the backend, the registry and the choices."""
    THEIRS.clear()
    backends: dict[str, Any] = {}
    names = ["fa3", "triton"]
    registry = install(
        patch, "sglang.srt.layers.attention.attention_registry", ATTENTION_BACKENDS=backends,
        register_attention_backend=lambda name: lambda function: backends.setdefault(name, function),
    )  # fmt: skip
    choices = install(
        patch, "sglang.srt.arg_groups.choices", ATTENTION_BACKEND_CHOICES=names, add_attention_backend_choices=names.extend
    )
    return install(patch, "sglang.srt.layers.attention.flashattention_backend", SGLANG), registry, choices
