import sys
import tracemalloc

import pytest

from flashcore_ci.build import python_text, text_cache, tokens
from flashcore_ci.build.text_cache import MAX_BYTES, cached


def test_a_text_is_read_once_and_a_large_one_each_time():
    seen = []
    read = cached(lambda text: seen.append(text[:1]) or len(text))
    large = "b" * (MAX_BYTES + 1)
    assert [read(text) for text in ("a", "a", large, large)] == [1, 1, MAX_BYTES + 1, MAX_BYTES + 1]
    assert seen == ["a", "b", "b"]


def test_what_is_kept_has_a_bound_and_the_oldest_goes_first(monkeypatch):
    one = sys.getsizeof("x" * 1000) + sys.getsizeof("X" * 1000)
    monkeypatch.setattr(text_cache, "MAX_BYTES", 3 * one)
    seen = []
    read = cached(lambda text: (seen.append(text), text.upper())[1])
    texts = [name * 1000 for name in "abcd"]
    for text in (*texts[:3], texts[0], texts[3]):  # the first is used again, so the second is the oldest
        assert read(text) == text.upper()
    seen.clear()
    for text in (texts[0], texts[2], texts[3], texts[1]):
        read(text)
    assert seen == [texts[1]]


def test_an_error_is_not_kept():
    calls = []

    @cached
    def read(text):
        calls.append(text)
        raise ValueError(text)

    for _ in range(2):
        try:
            read("a")
        except ValueError:
            continue
    assert calls == ["a", "a"]


@pytest.mark.parametrize(
    "text", ['"' + "a" * 500_000, "'" + "a" * 500_000, "1" * 500_000, '"""' + "a" * 500_000, 'f"' + "a" * 500_000 + '"']
)
def test_a_long_literal_takes_little_memory(text):
    for read in (tokens._read, python_text.canonical, python_text.find_problem):
        tracemalloc.start()
        read.__wrapped__(text)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 << 20
