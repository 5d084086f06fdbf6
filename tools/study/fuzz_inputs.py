"""Damaged input, for the fuzzer."""

from __future__ import annotations

import random

MOST_BYTES = 6000
LARGEST = 1 << 20
LARGE_SHARE = 0.02
"""The part of the inputs that grows, up to ``LARGEST`` bytes."""
WORDS = [b"0", b"-1", b"1e999", b"NaN", b"null", b"[]", b"{}", b'"', b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"9" * 40]
GROWING = [b"[", b'{"a":', b"[[a]]\n", b"a.", b'"\\u0000",', b"0,", b"(", b"/*", b"\\\n", b"#include <a>\n", b"========= \n"]
WORDS += [b"SUMMARY", b"========= ERROR SUMMARY: 0 errors\n", b"(0 errors, 0 warnings)", b"Launch #1", b"[[gate]]\n", b"\\u0000"]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return ``data`` with one to four mutations."""
    most = max(4 * MOST_BYTES, len(data))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((1, 2, 8, 64, 512)))
        match rng.randrange(7):
            case 0 if data:
                at = rng.randrange(len(data))
                data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[to:]
            case 2:
                data = data[:to] + data[at:]
            case 3:
                data = data[:at] + rng.choice(WORDS) + data[at:]
            case 4:
                data = data[:at] + rng.choice(WORDS) + data[to:]
            case 5:
                data = data[:at]
            case _:
                other = rng.randrange(len(data) + 1)
                data = data[:at] + data[other : other + 64] + data[at:]
    return grown(data, rng) if rng.random() < LARGE_SHARE else data[:most]


def grown(data: bytes, rng: random.Random) -> bytes:
    """Repeat a part of ``data``, or a word, until it is large."""
    at = rng.randrange(len(data) + 1)
    part = rng.choice((data[at : at + rng.choice((1, 2, 8, 64, 512, 4096))], rng.choice(WORDS), rng.choice(GROWING))) or b"["
    size = rng.choice((LARGEST // 64, LARGEST // 8, LARGEST)) - len(data)
    return (data[:at] + part * max(1, size // len(part)) + data[at:])[:LARGEST]
