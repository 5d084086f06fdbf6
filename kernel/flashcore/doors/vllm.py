"""The door to vLLM: ``vllm serve MODEL --attention-backend CUSTOM``. The entry point ``vllm.general_plugins`` calls ``register()``.

Tested over stand-ins with vLLM's signatures. It has not run in vLLM.
"""

from __future__ import annotations

import importlib
from typing import Any

from flashcore.doors.choice import LOG

BACKEND = "flashcore.doors.vllm_backend.FlashcoreBackend"


def register() -> None:
    """Open the door, in each process of vLLM. The name CUSTOM stays with another package that has it."""
    registry = _get_registry()
    custom = registry.AttentionBackendEnum.CUSTOM
    if custom.is_overridden() and custom.get_path() != BACKEND:
        LOG.warning("vLLM: the backend CUSTOM stays %s. Uninstall that package to use FlashCore", custom.get_path())
        return
    registry.register_backend(custom, BACKEND)


def unregister() -> None:
    """Close the door."""
    custom = _get_registry().AttentionBackendEnum.CUSTOM
    if custom.is_overridden() and custom.get_path() == BACKEND:
        custom.clear_override()


def _get_registry() -> Any:
    return importlib.import_module("vllm.v1.attention.backends.registry")
