"""vLLM's FlashAttention backend with FlashCore's kernels. vLLM imports it by the path that ``flashcore.doors.vllm`` registers.

Cascades, encoders and context parallelism stay with vLLM's kernel. vLLM's metadata is used, and its plan of FlashAttention-3 ignored.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend, FlashAttentionImpl

from flashcore.doors.choice import HOPPER
from flashcore.doors.servers import replace_calls

HEAD_SIZES = (64, 128, 256)
"""Of the prefill over pages."""


class FlashcoreImpl(FlashAttentionImpl):
    """Attention of a layer."""

    forward = replace_calls("vLLM", FlashAttentionImpl.forward, "flash_attn_varlen_func")


class FlashcoreBackend(FlashAttentionBackend):
    """What vLLM asks before it chooses a backend. Decode of a batch gives other bits than of one sequence."""

    @staticmethod
    def get_name() -> str:
        """Return the name in vLLM's enumeration."""
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[FlashcoreImpl]:
        """Return the class of a layer."""
        return FlashcoreImpl

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        """Return whether all kernels have it."""
        return head_size in HEAD_SIZES

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype: str | None) -> bool:
        """Return whether packed queries may read such a cache: 16 bits only."""
        return kv_cache_dtype in {None, "auto", "float16", "bfloat16"}

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        """Return whether the GPU is a Hopper."""
        return (capability.major, capability.minor) == HOPPER

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        """Return False: packed decode has no such mode."""
        return False
