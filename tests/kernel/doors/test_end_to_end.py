"""The programs that run on a GPU with 8 billion weights, here with a hundred thousand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]


def test_a_tiny_llama_and_a_character_model(kernels: SimpleNamespace) -> None:
    pytest.importorskip("transformers", minversion="5.0")
    import torch
    from flashcore.doors import transformers as door

    door.register()
    try:
        import end_to_end

        model = end_to_end.make_llama(end_to_end.SHAPES["tiny"], "cpu", torch.bfloat16)
        errors = end_to_end.compare_logits(model, ["sdpa", "flashcore"], 40)
        assert 0 < errors["flashcore"] <= 2 * errors["sdpa"]
        kernels.calls.clear()
        result = end_to_end.run_characters(1.0, "cpu", 40)
        assert (result["dynamic"], result["static"]) == (40, 40)
        bytes_model = end_to_end.make_llama((64, 96, 2, 4, 2, 16, 256), "cpu", torch.float32)
        assert end_to_end.generate_from_graph(bytes_model, "sdpa", 12) == end_to_end.generate(bytes_model, "sdpa", 12)
        assert result["loss"] < 5  # a random model has 5.5
        assert {"flash_attn_func", "flash_attn_with_kvcache"} <= set(kernels.calls)
    finally:
        door.unregister()
