"""LLaMA-shaped models and a small character model, with SDPA and with FlashCore.

``python end_to_end.py llama 8b sdpa flashcore fa3`` and ``python end_to_end.py characters 90``, with ``kernel`` on the path. Each step of the
work prints a line of JSON. ``fa3`` is FlashAttention-3 behind the same door. All kinds take turns in one process, because two processes
differed by more than two kinds do.
"""

from __future__ import annotations

import importlib
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
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
ROUNDS, TURN, MOST = 6, 0.5, 12  # the seconds of a turn, and the most calls in it
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
    """Return the mean seconds of some calls on the GPU."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1000 / count


def profile(call: Callable[[], Any]) -> dict[str, float]:
    """Return the GPU's time in each kernel of a call, in seconds."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as measured:
        call()
        torch.cuda.synchronize()
    return {event.key: event.self_device_time_total / 1e6 for event in measured.key_averages() if event.self_device_time_total}


def describe(call: Callable[[], Any]) -> dict[str, Any]:
    """Say what the GPU does in a call: milliseconds in attention and in the rest, and the kernels that take longest."""
    kernels = profile(call)
    attention = {name: spent for name, spent in kernels.items() if any(word in name.lower() for word in ATTENTION)}
    rest = {name: spent for name, spent in kernels.items() if name not in attention}
    longest = sorted(rest, key=lambda name: -rest[name])[:6]
    return {
        "attention": round(1000 * sum(attention.values()), 3),
        "rest": round(1000 * sum(rest.values()), 3),
        "kernels": sorted(name[:80] for name in attention),
        "longest": {name[:60]: round(1000 * rest[name], 3) for name in longest},
    }


def take_turns(calls: dict[str, Callable[[], Any]], tokens: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """Time all calls in each round, in an order drawn anew. A call comes right behind one of its kind, so it never waits for the host."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    counts = {name: max(2, min(MOST, int(TURN / time_calls(call, 2)))) for name, call in calls.items()}
    draw = random.Random(0)
    for _ in range(rounds):
        for name in draw.sample(list(calls), len(calls)):
            calls[name]()
            seconds[name].append(time_calls(calls[name], counts[name]))
    first = next(iter(calls))
    result: dict[str, Any] = {name: {"tokens per second": round(tokens / statistics.median(seconds[name]), 1)} for name in calls}
    for name in calls:
        ratios = [other / own for own, other in zip(seconds[first], seconds[name], strict=True)]
        result[name] |= {"median": round(statistics.median(ratios), 5), "ratios": [round(ratio, 5) for ratio in ratios]}
    return {f"{first} is so many times as fast": result}


def measure_prefill(model: Any, names: list[str], prompt: int = 8192) -> Iterator[dict[str, Any]]:
    """Time a prompt with each kind of attention. Yield the speeds, then what the GPU did."""
    ids = torch.randint(2, model.config.vocab_size, (1, prompt), device=model.device)

    def make(name: str) -> Callable[[], Any]:
        def prefill() -> None:
            use(model, name)
            model(ids, use_cache=False, logits_to_keep=1)

        return prefill

    with torch.no_grad():
        calls = {name: make(name) for name in names}
        for call in calls.values():
            call()
        yield {"prefill": take_turns(calls, prompt)}
        yield {"prefill": {name: describe(call) for name, call in calls.items()}}


def measure_decode(model: Any, names: list[str], batch: int = 64, context: int = 8192) -> Iterator[dict[str, Any]]:
    """Time a step from a CUDA graph over a static cache, which all kinds share. Yield the speeds, then what the GPU did."""
    torch.cuda.empty_cache()
    cache = transformers.StaticCache(config=model.config, max_cache_len=context)
    token = torch.full((batch, 1), 5, device=model.device)

    def step() -> Any:
        return model(token, past_key_values=cache, use_cache=True).logits

    def rewind() -> None:
        for layer in cache.layers:
            layer.cumulative_length.fill_(context - 100)

    def make(name: str) -> Callable[[], Any]:
        use(model, name)
        replay, steps = capture(step).replay, itertools.count()

        def again() -> None:
            if next(steps) % 16 == 0:  # each step is one token later
                rewind()
            replay()

        return again

    with torch.no_grad():
        step()  # allocates the cache
        rewind()
        calls = {name: make(name) for name in names}
        yield {"decode": take_turns(calls, batch)}
        yield {"decode": {name: describe(call) for name, call in calls.items()}}


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
) -> tuple[Any, float, int]:
    """Train a model of bytes with this attention. Return it, the last loss and the number of steps."""
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
    return model.eval(), loss.item(), steps


def generate(model: Any, name: str, tokens: int, **options: Any) -> list[int]:
    model.set_attn_implementation(name)
    prompt = read_text(100)[None].to(model.device)
    made: torch.Tensor = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, do_sample=False, **options
    )
    return made[0, 100:].tolist()


def generate_from_graph(model: Any, name: str, tokens: int) -> tuple[list[int], list[float]]:
    """Generate the same over a static cache. Return the tokens, and by how much each one's logit was larger than the second.

    A step is a replay of a CUDA graph: eager steps of SDPA took 24 s.
    """
    model.set_attn_implementation(name)
    prompt = read_text(100)[None].to(model.device)
    cache = transformers.StaticCache(config=model.config, max_cache_len=prompt.shape[1] + tokens)
    token, gap, made, gaps = prompt[:, :1].clone(), torch.zeros(1, device=model.device), [], []

    def step(ids: torch.Tensor = token) -> None:
        logits = model(ids, past_key_values=cache, use_cache=True).logits[:, -1].float()
        first, second = logits.topk(2).values.unbind(1)
        gap.copy_(first - second)
        token.copy_(logits.argmax(-1, keepdim=True))

    with torch.no_grad():
        step()  # allocates the cache
        replay = capture(step).replay if prompt.is_cuda else step
        cache.reset()
        step(prompt)
        for _ in range(tokens):
            made.append(token.clone())
            gaps.append(gap.clone())
            replay()
    return torch.cat(made, 1)[0].tolist(), torch.cat(gaps).tolist()


def run_characters(seconds: float, device: str = "cuda", tokens: int = 500) -> Iterator[dict[str, Any]]:
    """Train, and count the first greedy tokens that equal SDPA's."""
    shape = (384, 1024, 6, 6, 6, 64, 256) if device == "cuda" else (64, 96, 2, 4, 2, 16, 256)
    model, loss, steps = train_characters(seconds, device, torch.bfloat16 if device == "cuda" else torch.float32, shape)
    yield {"loss": round(loss, 4), "steps": steps}
    if device == "cuda":
        model.half()
    expected, gaps = generate_from_graph(model, "sdpa", tokens)
    yield {"sdpa": bytes(expected[:200]).decode(errors="replace"), "smallest gap": min(gaps)}
    for cache in ("static", "dynamic"):
        made = generate_from_graph(model, "flashcore", tokens)[0] if cache == "static" else generate(model, "flashcore", tokens)
        equal = next((i for i, pair in enumerate(zip(made, expected, strict=True)) if pair[0] != pair[1]), tokens)
        yield {cache: equal, **({"gap where it differs": gaps[equal]} if equal < tokens else {})}


def find_fa3(name: str) -> Callable[..., Any]:
    """Return FlashAttention-3's function, which has fewer arguments."""
    function = getattr(importlib.import_module("flash_attn_interface"), name)
    return lambda *arguments, **options: function(
        *arguments, **{key: value for key, value in options.items() if value is not None}
    )


def use(model: Any, name: str) -> None:
    """Let the model use this kind of attention. FlashAttention-3 is behind FlashCore's door."""
    choice.find_hopper = find_fa3 if name == "fa3" else find_flashcore
    model.set_attn_implementation("flashcore" if name == "fa3" else name)


def run_llama(shape: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """Compare the logits, then time each kind of attention next to the first."""
    model = make_llama(SHAPES[shape], "cuda", torch.bfloat16)
    yield {"logits": compare_logits(model, [name for name in names if name != "fa3"])}
    yield from measure_prefill(model, names)
    yield from measure_decode(model, names)


find_flashcore = choice.find_hopper

if __name__ == "__main__":
    door.register()
    what, *rest = sys.argv[1:]
    began = time.monotonic()
    for found in run_characters(float(rest[0])) if what == "characters" else run_llama(rest[0], rest[1:]):
        sys.stdout.write(json.dumps({"arguments": sys.argv[1:], "seconds": round(time.monotonic() - began, 1), **found}) + "\n")
        sys.stdout.flush()
