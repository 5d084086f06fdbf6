"""Subject: the bits of a prompt in FlashCore's prefill kernels, with any other sequences, cuts and launches.

Parameters: ``dtype``, ``h``, ``hkv``, ``sq``, ``d`` and ``input`` of attention.py, and ``way``

- ``batch``: other sequences before and after, equal lengths, fewer blocks
- ``pages``: keys and values in pages of several sizes, in random order
- ``pieces``: queries in pieces that are cut at multiples of 128, over the keys until there
- ``graph``: a replay of a CUDA graph
- ``margin``: some multiprocessors left free (``sm_margin``)

Each launch takes the next variant of the way, and every other one the plain call. So the gate of repeated launches compares their bits.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
FILES = ("kernel/subjects/attention.py",)
OTHERS = 700  # rows of the other sequences
PAGES, PIECES = (1, 16, 48, 64, 256), (128, 384, 512, 1024)
NEIGHBOURS = ((333, 70), (1, OTHERS), (0, 64))
MAX_CTAS = 72
MARGINS = (1, 20, 100)
Attended = tuple[Any, Any]


def _load_neighbour(name: str) -> ModuleType:
    module = ModuleType(f"flashcore_subjects_{name}")
    module.__file__ = str(KERNEL / f"subjects/{name}.py")
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    return module


attention = _load_neighbour("attention")
load = attention.load
outputs = attention.outputs
_turns: dict[str, Iterator[int]] = {}


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the attention kernels."""
    whole = attention.build(root)
    return {**whole, "binding": [*whole["binding"], *FILES]}


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of the plain call, which every launch begins with."""
    found: dict[str, Any] = attention.problem(_of_attention(params))
    return {**found, "entries": [attention.varlen.ENTRY, *found["entries"]]}


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw the prompt, and as ``other_q``, ``other_k`` and ``other_v`` rows for other sequences."""
    drawn = attention.inputs(_of_attention(params), seed)
    others = attention.inputs({**_of_attention(params), "sq": OTHERS}, seed + 1)
    return {**drawn, **{f"other_{name}": others[name] for name in "qkv"}, "way": params["way"]}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch the next variant on the current stream."""
    variants, turn = WAYS[inputs["way"]](), next(_turns.setdefault(inputs["way"], itertools.count()))
    rows = tuple(inputs[name][0] for name in "qkv")
    out, lse = attend(*rows)
    if turn % 2:
        out, lse = variants[turn // 2 % len(variants)](inputs, *rows)
    outputs["out"].copy_(out[None])
    outputs["lse"].copy_(lse[None])


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the prompt alone by PyTorch."""
    found: dict[str, Any] = attention.reference(inputs)
    return found


def attend(q: Any, k: Any, v: Any) -> Attended:
    """Attend to rows that are next to each other, in one sequence."""
    return attend_varlen(q, (k, v), (0, len(q)), (0, len(k)))


def attend_varlen(q: Any, caches: tuple[Any, Any], edges_q: tuple[int, ...], edges_k: tuple[int, ...]) -> Attended:
    """Attend in sequences with these first rows."""
    import flashcore
    import torch

    starts = (torch.tensor(edges, dtype=torch.int32, device=q.device) for edges in (edges_q, edges_k))
    out, lse = flashcore.attention_varlen(q, *caches, *starts, causal=True, return_lse=True)
    return out, lse


def attend_to_pages(q: Any, k: Any, v: Any, page: int) -> Attended:
    """Attend to the same keys in pages. What no key uses is NaN."""
    import flashcore
    import torch

    count, device = -(-len(k) // page), q.device
    order = torch.randperm(count, generator=torch.Generator().manual_seed(page)).to(device)
    places = order.repeat_interleave(page)[: len(k)] * page + torch.arange(len(k), device=device) % page
    pools = [torch.full((count * page, *rows.shape[1:]), torch.nan, dtype=rows.dtype, device=device) for rows in (k, v)]
    for pool, rows in zip(pools, (k, v), strict=True):
        pool[places] = rows
    starts, used = (torch.tensor(values, dtype=torch.int32, device=device) for values in ((0, len(q)), (len(k),)))
    out, lse = flashcore.attention_varlen(
        q, *(pool.unflatten(0, (count, page)) for pool in pools), starts, seqused_k=used, page_table=order.int()[None],
        causal=True, return_lse=True,
    )  # fmt: skip
    return out, lse


def attend_next_to(inputs: Mapping[str, Any], q: Any, k: Any, v: Any, sizes: tuple[int, int]) -> Attended:
    """Attend in a batch, between two other sequences."""
    import torch

    before, after = sizes
    rows = [
        torch.cat((inputs[f"other_{n}"][0, :before], t, inputs[f"other_{n}"][0, :after]))
        for n, t in zip("qkv", (q, k, v), strict=True)
    ]
    edges = (0, before, before + len(q), before + len(q) + after)
    out, lse = attend_varlen(rows[0], (rows[1], rows[2]), edges, edges)
    part = slice(before, before + len(q))
    return out[part], lse[:, part]


def attend_equally(q: Any, k: Any, v: Any, batch: int, max_ctas: int) -> Attended:
    """Attend in sequences of equal length, of which the last one counts."""
    import flashcore

    tensors = (rows.expand(batch, *rows.shape).contiguous() for rows in (q, k, v))
    out, lse = flashcore.attention(*tensors, causal=True, return_lse=True, max_ctas=max_ctas)
    return out[-1], lse[-1]


def attend_in_pieces(q: Any, k: Any, v: Any, cut: int, page: int = 0) -> Attended:
    """Attend piece by piece, as a server that fills its cache in chunks."""
    import torch

    pieces = []
    for first in range(0, len(q), cut):
        piece, keys = q[first : first + cut], [rows[: first + cut] for rows in (k, v)]
        pieces.append(attend_to_pages(piece, *keys, page) if page else attend(piece, *keys))
    out, lse = zip(*pieces, strict=True)
    return torch.cat(out), torch.cat(lse, 1)


def attend_in_a_graph(q: Any, k: Any, v: Any) -> Attended:
    """Attend by a replay."""
    import flashcore
    import torch

    starts = torch.tensor((0, len(q)), dtype=torch.int32, device=q.device)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = flashcore.attention_varlen(q, k, v, starts, starts, causal=True, return_lse=True)
    graph.replay()
    torch.cuda.synchronize()
    return out, lse


def attend_with_margin(q: Any, k: Any, v: Any, margin: int) -> Attended:
    """Attend on fewer multiprocessors, by FlashAttention-3's function."""
    import flashcore
    import torch

    starts = torch.tensor((0, len(q)), dtype=torch.int32, device=q.device)
    out, lse = flashcore.flash_attn_varlen_func(
        q, k, v, starts, starts, len(q), len(q), causal=True, sm_margin=margin, return_attn_probs=True
    )
    return out, lse


Variant = Callable[..., Attended]


def _batch() -> list[Variant]:
    next_to = [lambda i, *t, sizes=sizes: attend_next_to(i, *t, sizes) for sizes in NEIGHBOURS]
    return [*next_to, *(lambda _, *t, n=n, most=most: attend_equally(*t, n, most) for n, most in ((1, 0), (5, 0), (2, MAX_CTAS)))]


def _pages() -> list[Variant]:
    return [lambda _, *t, page=page: attend_to_pages(*t, page) for page in PAGES]


def _pieces() -> list[Variant]:
    return [*(lambda _, *t, cut=cut: attend_in_pieces(*t, cut) for cut in PIECES), lambda _, *t: attend_in_pieces(*t, 512, 16)]


def _graph() -> list[Variant]:
    return [lambda _, *t: attend_in_a_graph(*t)]


def _margin() -> list[Variant]:
    return [lambda _, *t, margin=margin: attend_with_margin(*t, margin) for margin in MARGINS]


WAYS: dict[str, Callable[[], list[Variant]]] = {
    "batch": _batch, "pages": _pages, "pieces": _pieces, "graph": _graph, "margin": _margin,
}  # fmt: skip


def _of_attention(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of attention.py."""
    if params.get("way") not in WAYS:
        raise ValueError(f"way: must be one of {', '.join(WAYS)}, is {params.get('way')!r}")
    given = {name: value for name, value in params.items() if name != "way"}
    known = {"dtype", "h", "hkv", "sq", "d", "input"}
    if unknown := sorted(set(given) - known):
        raise ValueError(f"{unknown[0]}: unknown parameter. Choose from {', '.join(sorted(known))}, way")
    return {**given, "b": 1, "causal": True}
