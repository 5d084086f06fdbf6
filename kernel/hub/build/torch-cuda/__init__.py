"""FlashCore as a kernel of the hub: FlashAttention's functions, from the installed package ``flashcore``."""

from flashcore.doors.functions import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

__all__ = ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"]
