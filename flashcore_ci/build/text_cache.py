"""Remember what was read from texts, within a bound of memory."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

MAX_BYTES = 24 << 20
"""Of the texts and results of one function. Many subjects read the same headers, and strangers write large ones."""
T = TypeVar("T")


def cached(read: Callable[[str], T]) -> Callable[[str], T]:
    """Keep the results of the texts that were read last."""
    kept: dict[str, tuple[T, int]] = {}  # the oldest first
    held = 0
    lock = threading.Lock()

    @functools.wraps(read)
    def lookup(text: str) -> T:
        nonlocal held
        with lock:
            known = kept.get(text)
        result = known[0] if known else read(text)
        with lock:
            held -= kept.pop(text, (None, 0))[1]
            size = sys.getsizeof(text) + sum(map(sys.getsizeof, result if isinstance(result, tuple) else (result,)))
            kept[text] = result, size
            held += size
            while held > MAX_BYTES:
                held -= kept.pop(next(iter(kept)))[1]
        return result

    return lookup
