"""The programs that run on a GPU with 8 billion weights, here with a hundred thousand."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

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
        result: dict[str, Any] = {}
        for step in end_to_end.run_characters(1.0, "cpu", 40):
            result |= step
        assert (result["dynamic"], result["static"]) == (40, 40)
        bytes_model = end_to_end.make_llama((64, 96, 2, 4, 2, 16, 256), "cpu", torch.float32)
        tokens, gaps = end_to_end.generate_from_graph(bytes_model, "sdpa", 12)
        assert tokens == end_to_end.generate(bytes_model, "sdpa", 12)
        assert min(gaps) >= 0
        assert result["loss"] < 5  # a random model has 5.5
        assert {"flash_attn_func", "flash_attn_with_kvcache"} <= set(kernels.calls)
    finally:
        door.unregister()


def test_kinds_of_attention_take_turns(kernels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", minversion="5.0")
    import torch
    from flashcore.doors import transformers as door

    calls: list[str] = []

    def peer(*arguments: Any, **options: Any) -> Any:
        calls.append("fa3")
        return kernels.reference.flash_attn_with_kvcache(*arguments, **options)

    monkeypatch.setitem(sys.modules, "flash_attn_interface", SimpleNamespace(flash_attn_with_kvcache=peer))
    monkeypatch.setitem(sys.modules, "end_to_end", None)  # its functions keep the kernels of another test
    del sys.modules["end_to_end"]
    import end_to_end

    door.register()
    try:
        seconds = {"sdpa": 3.0, "flashcore": 1.0, "fa3": 1.5}
        kept = {"sdpa": "sdpa", end_to_end.find_fa3: "fa3", kernels.choice.find_hopper: "flashcore"}
        model = end_to_end.make_llama(end_to_end.SHAPES["tiny"], "cpu", torch.bfloat16)

        def capture(step: Any) -> Any:
            """A graph keeps the kind of attention that it was made with."""
            kind = model.config._attn_implementation
            name = kept["sdpa" if kind == "sdpa" else kernels.choice.find_hopper]
            return SimpleNamespace(replay=lambda: (end_to_end.use(model, name), step()))

        monkeypatch.setattr(end_to_end, "capture", capture)
        monkeypatch.setattr(end_to_end, "profile", lambda call: call() or {"flash_fwd": 0.25, "gemm": 0.5})

        def time_calls(call: Any, count: int) -> float:
            calls.clear()
            kernels.calls.clear()
            for _ in range(count):
                call()
            assert not (calls and kernels.calls)
            return seconds["fa3" if calls else "flashcore" if kernels.calls else "sdpa"]

        monkeypatch.setattr(end_to_end, "time_calls", time_calls)
        names = ["flashcore", "fa3", "sdpa"]
        for kind, found in (
            ("prefill", end_to_end.measure_prefill(model, names, 16)), ("decode", end_to_end.measure_decode(model, names, 2, 128))
        ):  # fmt: skip
            speeds, described = (step[kind] for step in found)
            (ratios,) = speeds.values()
            assert [ratios[name]["median"] for name in names] == [1.0, 1.5, 3.0]
            assert described["fa3"] | {"longest": {}} == {
                "attention": 250.0,
                "rest": 500.0,
                "kernels": ["flash_fwd"],
                "longest": {},
            }
    finally:
        door.unregister()
