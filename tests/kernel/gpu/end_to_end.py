"""LLaMA-shaped models and a small character model, with SDPA and with FlashCore.

``python end_to_end.py llama 8b sdpa flashcore`` and ``python end_to_end.py characters 90``, with ``kernel`` on the path. The result is JSON.
``fa3`` is FlashAttention-3 behind the same door, in a process of its own.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from flashcore.doors import choice
from flashcore.doors import transformers as door

ROOT = Path(__file__).parents[3]
SHAPES = {  # hidden, intermediate, layers, heads, key heads, head dimension, vocabulary
    "tiny": (64, 96, 2, 4, 2, 16, 61),
    "1b": (2048, 8192, 16, 32, 8, 64, 128256),
    "8b": (4096, 14336, 32, 32, 8, 128, 128256),
}
FEWEST_STEPS = 40
ATTENTION = ("flash", "fmha", "attention", "sdpa", "cudnn")


def make_llama(shape: tuple[int, ...], device: str, dtype: torch.dtype, longest: int = 16384) -> Any:
    """Make a model with random weights."""
    hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary = shape
    config = transformers.LlamaConfig(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=head_dim, vocab_size=vocabulary, max_position_embeddings=longest,
        pad_token_id=0, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def compare_logits(model: Any, names: list[str], rows: int = 512) -> dict[str, float]:
    """Return the largest distance of the logits to those of float32, in units of its largest logit."""
    ids = torch.randint(2, model.config.vocab_size, (2, rows), device=model.device)
    padded = torch.ones_like(ids)
    padded[0, : rows // 3] = 0
    results = {}
    with torch.no_grad():
        for name in names:
            model.set_attn_implementation(name)
            results[name] = [
                model(ids, attention_mask=mask, use_cache=False).logits.float() for mask in (torch.ones_like(ids), padded)
            ]
        dtype = model.dtype
        model.float().set_attn_implementation("sdpa")
        exact = [model(ids, attention_mask=mask, use_cache=False).logits for mask in (torch.ones_like(ids), padded)]
        model.to(dtype)
    valid = (torch.ones_like(padded).bool(), padded.bool())
    return {
        name: max(((a - b)[rows] / b.abs().max()).abs().max().item() for a, b, rows in zip(logits, exact, valid, strict=True))
        for name, logits in results.items()
    }


def time_calls(call: Callable[[], Any], count: int) -> float:
    """Return the median seconds of a call on the GPU."""
    times = []
    for _ in range(count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return statistics.median(times)


def profile(call: Callable[[], Any]) -> dict[str, float]:
    """Return the GPU's time in each kernel of a call, in seconds."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as measured:
        call()
        torch.cuda.synchronize()
    return {event.key: event.self_device_time_total / 1e6 for event in measured.key_averages() if event.self_device_time_total}


def describe(call: Callable[[], Any], tokens: int, count: int) -> dict[str, Any]:
    seconds, kernels = time_calls(call, count), profile(call)
    attention = {name: spent for name, spent in kernels.items() if any(word in name.lower() for word in ATTENTION)}
    share = sum(attention.values()) / sum(kernels.values())
    return {"tokens per second": round(tokens / seconds), "attention's share": round(share, 3), "kernels": sorted(attention)}


def measure_speed(model: Any, name: str, prompt: int = 8192, batch: int = 64, context: int = 8192) -> dict[str, Any]:
    """Time a prompt, and a step of decode from a CUDA graph over a static cache."""
    torch.cuda.empty_cache()
    model.set_attn_implementation(name)
    ids = torch.randint(2, model.config.vocab_size, (1, prompt), device=model.device)
    with torch.no_grad():

        def prefill() -> None:
            model(ids, use_cache=False, logits_to_keep=1)

        prefill()
        result = {"prefill": describe(prefill, prompt, 3)}
        cache = transformers.StaticCache(config=model.config, max_cache_len=context)
        token = ids[:, :1].expand(batch, 1).contiguous()
        model(token, past_key_values=cache, use_cache=True)
        for layer in cache.layers:
            layer.cumulative_length.fill_(context - 100)
        graph = capture(lambda: model(token, past_key_values=cache, use_cache=True).logits)
        result["decode"] = describe(graph.replay, batch, 15)
    return result


def capture(step: Callable[[], Any]) -> Any:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def read_text(size: int = 200_000) -> torch.Tensor:
    """Return bytes of this repository's pages."""
    text = b"".join(path.read_bytes() for path in sorted((ROOT / "docs").glob("*.md")))
    return torch.tensor(list(text[:size]))


def train_characters(
    seconds: float, device: str, dtype: torch.dtype, shape: tuple[int, ...], name: str = "flashcore", size: int = 200_000
) -> tuple[Any, float]:
    """Train a model of bytes with this attention. Return it and the last loss."""
    model = make_llama(shape, device, dtype, 1024).train()
    model.set_attn_implementation(name)
    text, rows = read_text(size).to(device), 256 if device == "cuda" else 64
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    deadline, loss, steps = time.monotonic() + seconds, torch.zeros(()), 0
    while time.monotonic() < deadline or steps < FEWEST_STEPS:
        steps += 1
        begin = torch.randint(0, len(text) - rows, (64 if device == "cuda" else 8, 1), device=device)
        ids = text[begin + torch.arange(rows, device=device)]
        loss = model(ids, labels=ids, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), loss.item()


def generate(model: Any, name: str, tokens: int, **options: Any) -> list[int]:
    model.set_attn_implementation(name)
    prompt = read_text(100)[None].to(model.device)
    made: torch.Tensor = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, do_sample=False, **options
    )
    return made[0, 100:].tolist()


def generate_from_graph(model: Any, name: str, tokens: int) -> list[int]:
    """Generate the same over a static cache. A step is a replay of a CUDA graph: eager steps of SDPA took 24 s."""
    model.set_attn_implementation(name)
    prompt = read_text(100)[None].to(model.device)
    cache = transformers.StaticCache(config=model.config, max_cache_len=prompt.shape[1] + tokens)
    token, made = prompt[:, :1].clone(), []

    def step() -> None:
        token.copy_(model(token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1))

    with torch.no_grad():
        step()  # allocates the cache
        replay = capture(step).replay if prompt.is_cuda else step
        cache.reset()
        token.copy_(model(prompt, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1))
        for _ in range(tokens):
            made.append(token.clone())
            replay()
    return torch.cat(made, 1)[0].tolist()


def run_characters(seconds: float, device: str = "cuda", tokens: int = 500) -> dict[str, Any]:
    """Train, and count the first greedy tokens that equal SDPA's."""
    shape = (384, 1024, 6, 6, 6, 64, 256) if device == "cuda" else (64, 96, 2, 4, 2, 16, 256)
    model, loss = train_characters(seconds, device, torch.bfloat16 if device == "cuda" else torch.float32, shape)
    if device == "cuda":
        model.half()
    expected = generate_from_graph(model, "sdpa", tokens)
    result: dict[str, Any] = {"loss": round(loss, 4), "text": bytes(expected[:200]).decode(errors="replace")}
    for cache, function in (("static", generate_from_graph), ("dynamic", generate)):
        made = function(model, "flashcore", tokens)
        result[cache] = next((i for i, pair in enumerate(zip(made, expected, strict=True)) if pair[0] != pair[1]), tokens)
    return result


def find_fa3(name: str) -> Callable[..., Any]:
    """Return FlashAttention-3's function, which has fewer arguments."""
    function = getattr(importlib.import_module("flash_attn_interface"), name)
    return lambda *arguments, **options: function(
        *arguments, **{key: value for key, value in options.items() if value is not None}
    )


def run_llama(shape: str, names: list[str]) -> dict[str, Any]:
    """Compare the logits, then time each kind of attention."""
    if names == ["fa3"]:
        choice.find_hopper = find_fa3
    model = make_llama(SHAPES[shape], "cuda", torch.bfloat16)
    kinds = ["flashcore" if name == "fa3" else name for name in names]
    result: dict[str, Any] = {"logits": compare_logits(model, kinds)} if len(names) > 1 else {}
    for name, kind in zip(names, kinds, strict=True):
        result[name] = measure_speed(model, kind)
    return result


if __name__ == "__main__":
    door.register()
    what, *rest = sys.argv[1:]
    found = run_characters(float(rest[0])) if what == "characters" else run_llama(rest[0], rest[1:])
    sys.stdout.write(json.dumps({" ".join(sys.argv[1:]): found}, indent=1) + "\n")
