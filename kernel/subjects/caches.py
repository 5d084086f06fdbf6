"""The caches of the decode subject: pages, chosen caches, padding, and appended keys that may be rotated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SPARE_PAGES, WORD_BYTES, GARBAGE = 3, 8, (-1, 2**31 - 1, 12_345_678)
ROTATIONS = ("", "pairs", "halves")
PARTS = 3  # of a sequence, of which padding takes none, one, two or all
ARGUMENTS = ("rotary_cos", "rotary_sin", "cache_batch_idx", "cache_leftpad")


def check(p: Mapping[str, Any]) -> None:
    """ValueError if the parameters do not fit together."""
    if p["rotary"] not in ROTATIONS or (p["rotary"] and (p["cache"] or not (p["flash"] and p["new"]))):
        raise ValueError(
            f"rotary: must be one of {', '.join(map(repr, ROTATIONS))}, with flash, new and no cache, is {p['rotary']!r}"
        )
    for name in ("index", "leftpad"):
        if p[name] and (p["new"] or p["cache"] or not p["flash"]):
            raise ValueError(f"{name}: needs flash, and defaults of new and cache, is {p[name]}")


def get_page(p: Mapping[str, Any]) -> int:
    """Return the keys of a page: a chosen cache is one page, and behind padding each key is one."""
    return 1 if p["leftpad"] else p["sk"] if p["index"] and not p["page"] else p["page"]


def choose(p: Mapping[str, Any]) -> list[int]:
    """Return the cache of each sequence. With ``index`` each of half the caches serves two, out of order."""
    return [(p["b"] - 1 - i) // 2 if p["index"] else i for i in range(p["b"])]


def count_padding(p: Mapping[str, Any], counts: Sequence[int]) -> list[int]:
    """Count the keys before the first that a sequence sees."""
    return [count * (i % (PARTS + 1)) // PARTS if p["leftpad"] else 0 for i, count in enumerate(counts)]


def mask_used(p: Mapping[str, Any], counts: Sequence[int], capacity: int) -> Any:
    """Return which keys of each cache some sequence sees."""
    import torch

    used = torch.zeros(p["b"], capacity, dtype=torch.bool)
    for cache, first, count in zip(choose(p), count_padding(p, counts), counts, strict=True):
        used[cache, first:count] = True
    return used


def make_table(p: Mapping[str, Any], counts: Sequence[int]) -> Any:
    """Assign pages to each cache: a fixed shuffle of the pool, and garbage after its last page."""
    import torch

    used = _mask_pages(p, counts)
    shuffle = torch.randperm(used.numel() + SPARE_PAGES, generator=torch.Generator().manual_seed(1))[: used.numel()]
    garbage = torch.tensor(GARBAGE)[torch.arange(used.numel()) % len(GARBAGE)]
    return torch.where(used, shuffle.view_as(used), garbage.view_as(used)).int()


def to_pages(cache: Any, table: Any, p: Mapping[str, Any], counts: Sequence[int], unused: float) -> Any:
    """Copy the rows into pages. Unused pages hold ``unused``."""
    pages, used = cache.unflatten(1, (-1, p["page"])), _mask_pages(p, counts).to(cache.device)
    pool = pages.new_full((used.numel() + SPARE_PAGES, *pages.shape[2:]), unused)
    to, rows = _widen(pool), _widen(pages)
    to[table[used].long()] = rows[used]
    return pool


def _widen(tensor: Any) -> Any:
    """View rows as words of eight bytes where they can be, because PyTorch copies them by the element."""
    import torch

    return tensor.view(torch.int64) if tensor.shape[-1] * tensor.element_size() % WORD_BYTES == 0 else tensor


def _mask_pages(p: Mapping[str, Any], counts: Sequence[int]) -> Any:
    import torch

    stored = torch.zeros(p["b"], dtype=torch.int64)
    stored.scatter_reduce_(0, torch.tensor(choose(p), dtype=torch.int64), torch.tensor(counts, dtype=torch.int64), "amax")
    return stored[:, None] > torch.arange(-(-p["sk"] // p["page"])) * p["page"]


def draw(p: Mapping[str, Any], counts: Sequence[int], generator: Any, dtype: Any) -> dict[str, Any]:
    """Draw cosines and sines, of all columns in pairs or of half of them in halves. Add the index and the padding."""
    import torch

    device, tensors = generator.device, {}
    if p["rotary"]:
        angles = torch.randn(p["sk"], p["d"] // (2 if p["rotary"] == "pairs" else 4), generator=generator, device=device)
        tensors |= {"rotary_cos": angles.cos().to(dtype), "rotary_sin": angles.sin().to(dtype)}
    for name, is_used, values in (
        ("cache_batch_idx", p["index"], choose(p)),
        ("cache_leftpad", p["leftpad"], count_padding(p, counts)),
    ):
        tensors |= {name: torch.tensor(values, dtype=torch.int32, device=device)} if is_used else {}
    return {**tensors, "rotary": p["rotary"]}


def get_arguments(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what FlashAttention-3's function takes."""
    given = {name: inputs[name] for name in ARGUMENTS if name in inputs}
    return given | ({"rotary_interleaved": inputs["rotary"] == "pairs"} if inputs.get("rotary") else {})


def turn(rows: Any, inputs: Mapping[str, Any], first: int, *, counts_up: bool = True) -> Any:
    """Rotate (rows, heads, d) by their positions, which count up from ``first`` or all are ``first``."""
    import torch

    if not inputs.get("rotary"):
        return rows
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    positions = first + torch.arange(len(rows), device=rows.device) * counts_up
    cos, sin = (inputs[name][positions, None].to(wide.dtype) for name in ("rotary_cos", "rotary_sin"))
    column = torch.arange(cos.shape[-1], device=rows.device)
    even, odd = (2 * column, 2 * column + 1) if inputs["rotary"] == "pairs" else (column, column + len(column))
    x, y, turned = wide[..., even], wide[..., odd], wide.clone()
    turned[..., even], turned[..., odd] = x * cos - y * sin, x * sin + y * cos
    return turned.to(rows.dtype)


def append(inputs: Mapping[str, Any], cache: Any, sequence: int, before: int, new: Any) -> Any:
    """Write the new rows of one sequence. Return all that it sees, (keys, kv heads, d)."""
    import torch

    table, chosen, padding = (inputs.get(name) for name in ("page_table", "cache_batch_idx", "cache_leftpad"))
    place = sequence if chosen is None else int(chosen[sequence])
    positions = torch.arange(before + (0 if new is None else len(new)), device=cache.device)
    if table is None:
        rows, indices = cache[place], positions
    else:
        page = cache.shape[1]
        rows, indices = cache.flatten(0, 1), table[place, positions // page].long() * page + positions % page
    if new is not None:
        rows[indices[before:]] = new
    return rows[indices[0 if padding is None else int(padding[sequence]) :]]
