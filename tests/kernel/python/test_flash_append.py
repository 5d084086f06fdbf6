"""Appends that decode does not serve: the new rows are written first, and the prefill sees the new lengths."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import standin_torch as torch

LENGTHS, STARTS, INDEX = (torch.empty(n, dtype=torch.int32) for n in (3, 4, 3))
TABLE = torch.empty(3, 5, dtype=torch.int32)
AFTER = torch.empty(3, dtype=torch.int32)
NEW = {"k": torch.empty(3, 20, 2, 64), "v": torch.empty(3, 20, 2, 64)}
PACKED = {"k": torch.empty(30, 2, 64), "v": torch.empty(30, 2, 64), "cu_seqlens_k_new": STARTS}


@pytest.fixture
def appended(bindings: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Collect the appends, whose new lengths are AFTER."""
    calls: list[tuple[Any, ...]] = []
    assert bindings.flashcore.flash_attn_with_kvcache  # imports the module
    monkeypatch.setattr(sys.modules["flashcore._cache"], "append", lambda *arguments: calls.append(arguments) or AFTER)
    return calls


def call(bindings: Any, queries: int = 20, pages: int = 3, size: int = 100, **changes: Any) -> Any:
    q, cache = torch.empty(3, queries, 4, 64), torch.empty(pages, size, 2, 64)
    arguments = {"q": q, "k_cache": cache, "v_cache": cache, "cache_seqlens": LENGTHS, **changes}
    return bindings.flashcore.flash_attn_with_kvcache(**arguments)


@pytest.mark.parametrize(
    ("changes", "table", "starts"),
    [
        (NEW, None, None),
        ({**NEW, "page_table": TABLE, "pages": 20, "size": 48}, TABLE, None),
        ({**PACKED, "q": torch.empty(50, 4, 64), "cu_seqlens_q": STARTS}, None, STARTS),
        ({**NEW, "cache_seqlens": 7, "page_table": TABLE, "pages": 20, "size": 48}, TABLE, None),
    ],
)
def test_new_rows_are_written_before_the_prefill(
    bindings: Any, appended: list[tuple[Any, ...]], changes: dict[str, Any], table: Any, starts: Any
) -> None:
    call(bindings, **changes)
    ((_, new, lengths, used_table, used_starts),) = appended
    assert new == (changes["k"], changes["v"])
    assert (used_table, used_starts) == (table, starts)
    assert lengths is LENGTHS or lengths.value == 7
    assert bindings.kernels.calls[-1][1].seqused_k == AFTER.address


def test_an_index_into_the_batch_is_a_table_of_whole_sequences(bindings: Any, appended: list[tuple[Any, ...]]) -> None:
    call(bindings, pages=9, cache_batch_idx=INDEX)
    name, structure = bindings.kernels.calls[-1]
    assert (name, structure.page_size, structure.pages, structure.table_width) == ("flashcore_attention_varlen", 100, 9, 1)
    assert structure.page_table == INDEX.address
    call(bindings, queries=1, pages=9, size=64, cache_batch_idx=INDEX, k=torch.empty(3, 1, 2, 64), v=torch.empty(3, 1, 2, 64))
    name, structure = bindings.kernels.calls[-1]
    assert (name, structure.page_size, structure.new_keys, appended) == ("flashcore_decode", 64, 1, [])


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (r"^cache_batch_idx: must be a tensor of one dimension, is 7", {"cache_batch_idx": 7, "page_table": TABLE}),
        (r"^rotary_sin: is missing. Pass both", {**NEW, "rotary_cos": TABLE}),
        (r"^rotary_cos: needs new keys", {"rotary_cos": TABLE, "rotary_sin": TABLE}),
        (r"^rotary_sin: must be \(positions, half of at most 64 columns\)", {**NEW, "rotary_cos": TABLE, "rotary_sin": INDEX}),
        (r"^cu_seqlens_k_new: must be None without new keys", {"cu_seqlens_k_new": STARTS}),
        (r"^cache_seqlens: must have shape \(3,\), has \(4,\)", {**NEW, "cache_seqlens": STARTS}),
        (r"^k_cache: must be torch.float16 of shape", {**NEW, "k_cache": torch.empty(3, 100, 2, 128), "page_table": TABLE}),
        (r"^v: is missing. Pass both", {"k": NEW["k"], "page_table": TABLE, "size": 48}),
    ],
)
def test_wrong_arguments_write_nothing(
    bindings: Any, appended: list[tuple[Any, ...]], message: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=message):
        call(bindings, **changes)
    assert (appended, bindings.kernels.calls) == ([], [])


def test_bytes_are_not_rotated(bindings: Any, appended: list[tuple[Any, ...]]) -> None:
    new = torch.empty(3, 3, 2, 64, dtype=torch.uint8)
    with pytest.raises(NotImplementedError, match=r"^k: FlashCore rotates no bytes, which have no sign\. Pass a view"):
        call(bindings, k=new, v=new, rotary_cos=TABLE, rotary_sin=TABLE)
    assert (appended, bindings.kernels.calls) == ([], [])
