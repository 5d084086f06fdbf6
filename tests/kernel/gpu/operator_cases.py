"""Shapes and tensors of the tests of operators."""

from __future__ import annotations

import math
from typing import Any

SHAPES = [  # batch, queries, keys, heads, kv heads, head dimension, causal
    (2, 256, 256, 4, 4, 64, False),
    (2, 300, 300, 8, 2, 128, True),
    (1, 200, 333, 4, 2, 256, True),
    (2, 333, 200, 4, 4, 64, True),  # rows without keys
    (1, 257, 257, 4, 1, 96, True),
]


def draw(*shape: int, dtype: Any = None, seed: int = 0, grad: bool = False, scale: float = 1.0) -> Any:
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed + math.prod(shape))
    tensor = scale * torch.randn(shape, device="cuda", generator=generator)
    return tensor.to(dtype or torch.bfloat16).requires_grad_(grad)


def make(shape: tuple[Any, ...], dtype: Any = None, *, grad: bool = False) -> tuple[Any, Any, Any]:
    b, sq, sk, h, hkv, d, _ = shape
    return tuple(
        draw(b, rows, heads, d, dtype=dtype, seed=i, grad=grad) for i, (rows, heads) in enumerate(((sq, h), (sk, hkv), (sk, hkv)))
    )
