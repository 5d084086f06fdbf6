"""Needles in a long cache: one key per query has a weight of 0.3 to 0.9, and its value is a codeword.

The codeword nearest to a query's output decodes it. Values are 1 plus or minus 0.1, because one level of accumulation loses part of the 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

D, DEPTHS, WORDS = 128, 16, 1024
LEAST, MOST, MARGIN = 0.3, 0.9, 0.02
OFFSET, SIZE = 1.0, 0.1
MUST_LOSE = 0.05  # of the needles, by one level of accumulation. Otherwise the instrument is blind


def draw(p: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """Draw q, k and v (1, s, h, d), the ``book`` (words, d), the ``word`` of each needle (sq, h), and the count that bf16 finds.

    ValueError unless each needle has its weight and float64 finds it.
    """
    import torch

    (heads, rows, keys), device = (p[name] for name in ("h", "sq", "sk")), generator.device
    sort = {"generator": generator, "device": device}
    q, k = (torch.randn((1, n, heads, D), **sort) for n in (rows, keys))
    book = OFFSET + SIZE * torch.randn((WORDS, D), **sort).sign()
    word = torch.randint(WORDS, (rows, heads), **sort)
    v = OFFSET + SIZE * torch.randn((1, keys, heads, D), **sort).sign()
    weight = LEAST + MARGIN + (MOST - LEAST - 2 * MARGIN) * torch.rand((rows, heads), **sort, dtype=torch.float64)
    depth = torch.arange(rows, device=device) % DEPTHS * (keys // DEPTHS)
    out = torch.empty((1, rows, heads, D), dtype=torch.float64, device=device)
    for head in range(heads):
        place = depth + torch.randperm(keys // DEPTHS, **sort)[:rows]
        query, odds = q[0, :, head].double(), weight[:, head] / (1.0 - weight[:, head])
        score = torch.logsumexp(_multiply(query, k[0, :, head]), dim=-1) + odds.log()
        k[0, place, head] = (query * (score * math.sqrt(D) / query.square().sum(dim=-1))[:, None]).float()
        v[0, place, head] = book[word[:, head]]
        p_exact = torch.softmax(_multiply(query, k[0, :, head]), dim=-1)
        found = p_exact.gather(1, place[:, None])
        if not bool(((found >= LEAST) & (found <= MOST)).all()):
            raise ValueError(f"needles: their weights are {found.min():.3f} to {found.max():.3f}, must be {LEAST} to {MOST}")
        out[0, :, head] = p_exact @ v[0, :, head].double()
    if (count := int(count_found(out, book, word))) != word.numel():
        raise ValueError(f"needles: float64 finds {count} of {word.numel()}, must find all")
    low = torch.nn.functional.scaled_dot_product_attention(*(x.bfloat16().transpose(1, 2) for x in (q, k, v))).transpose(1, 2)
    return {"q": q, "k": k, "v": v, "book": book, "word": word, "bf16": count_found(low, book, word)}


def _multiply(query: Any, keys: Any) -> Any:
    return query @ keys.double().T / math.sqrt(D)


def count_found(out: Any, book: Any, word: Any) -> Any:
    """Count the needles whose codeword is the nearest one to ``out`` (1, sq, h, d). NaN finds nothing."""
    rows, codes = out[0].double(), book.double()
    nearest = (codes.square().sum(dim=-1) - 2.0 * (rows @ codes.T)).argmin(dim=-1)
    return ((nearest == word) & rows.isfinite().all(dim=-1)).sum()


def count_missing(out: Any, inputs: Mapping[str, Any]) -> Any:
    """Count the needles that only bf16 finds, or those that a ``planted`` kernel must lose in addition. Zero is right."""
    found, total = count_found(out, inputs["book"], inputs["word"]), inputs["word"].numel()
    wanted = math.ceil(MUST_LOSE * total) - (total - found) if inputs["planted"] else inputs["bf16"] - found
    return wanted.clamp(min=0).float().view(1)
