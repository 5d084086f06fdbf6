"""The door to SGLang: ``--attention-backend flashcore``. The entry point ``sglang.srt.plugins`` calls ``register()``.

Tested over stand-ins with SGLang's signatures. It has not run in SGLang.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from flashcore.doors.servers import prefer, replace_calls

NAME, CACHE, PACKED = "flashcore", "flash_attn_with_kvcache", "flash_attn_varlen_func"


def register() -> None:
    """Open the door, in each process of SGLang. A second call changes nothing."""
    registry, choices = _get_modules()
    if NAME not in registry.ATTENTION_BACKENDS:
        registry.register_attention_backend(NAME)(create)
    if NAME not in choices.ATTENTION_BACKEND_CHOICES:
        choices.add_attention_backend_choices([NAME])


def unregister() -> None:
    """Close the door."""
    registry, choices = _get_modules()
    registry.ATTENTION_BACKENDS.pop(NAME, None)
    if NAME in choices.ATTENTION_BACKEND_CHOICES:
        choices.ATTENTION_BACKEND_CHOICES.remove(NAME)


def create(runner: Any) -> Any:
    """Make the backend of a model. ValueError for MLA, which FlashCore has no kernel for."""
    if runner.use_mla_backend:
        raise ValueError("flashcore: has no kernel for MLA. Choose another --attention-backend")
    return _make_class()(runner)


@functools.cache
def _make_class() -> Any:
    base: Any = importlib.import_module("sglang.srt.layers.attention.flashattention_backend").FlashAttentionBackend

    class FlashcoreBackend(base):
        """SGLang's FlashAttention backend with FlashCore's kernels."""

        forward_extend = replace_calls("SGLang", base.forward_extend, CACHE, PACKED)
        forward_decode = replace_calls("SGLang", base.forward_decode, CACHE)

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            for name in (CACHE, PACKED):
                setattr(self, name, prefer("SGLang", name, getattr(self, name)))

    return FlashcoreBackend


def _get_modules() -> tuple[Any, Any]:
    return tuple(
        importlib.import_module(f"sglang.srt.{name}") for name in ("layers.attention.attention_registry", "arg_groups.choices")
    )
