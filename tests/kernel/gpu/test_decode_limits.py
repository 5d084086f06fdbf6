"""FlashCore's decode on a Hopper GPU: lengths and pages outside the cache, full caches, and threads on one stream."""

from __future__ import annotations

import functools
import itertools
import math
import threading
from typing import Any

import gpu_subjects
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

subject = gpu_subjects.load("decode")
D = (64, 128, 256)


def make_inputs(seed: int = 7, **params: Any) -> dict[str, Any]:
    return dict(subject.inputs({"b": 6, "h": 8, "hkv": 2, "sk": 700, "d": 128, "lengths": "edges", **params}, seed))


decode = functools.partial(gpu_subjects.decode, subject)


def same(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: {"page_table": i["page_table"].fill_(len(i["k"]))}, r"^page_table: "),
        (lambda i: {"page_table": i["page_table"].fill_(-1)}, r"^page_table: "),
        (lambda i: {"lengths": i["lengths"].fill_(i["page_table"].shape[1] * 16 + 1)}, r"^lengths: "),
        (lambda i: {"lengths": i["lengths"].fill_(-1)}, r"^lengths: "),
    ],
)
def test_the_check_refuses_entries_outside_the_cache(change: Any, message: str) -> None:
    inputs = make_inputs(b=3, page=16)
    assert same(decode(inputs), decode(inputs, check=True))
    with pytest.raises(ValueError, match=message):
        decode(inputs, **change(inputs), check=True)


@pytest.mark.parametrize("page", [0, 16, 256])
def test_unchecked_entries_become_the_nearest_inside(page: int) -> None:
    inputs = make_inputs(page=page, lengths="full")
    for cache in (inputs["k"], inputs["v"]):
        cache.nan_to_num_()  # in unused pages
    room = inputs["page_table"].shape[1] * page if page else 700
    wild = {"lengths": torch.tensor([-1, -(2**31), 2**31 - 1, room + 1, 0, 5], dtype=torch.int32, device="cuda")}
    near = {"lengths": wild["lengths"].clamp(0, room)}
    if page:
        wild["page_table"] = inputs["page_table"].clone()
        wild["page_table"][:, ::2] = torch.tensor([-1, -(2**31), 2**31 - 1, len(inputs["k"]), 10**6, 0], device="cuda")[:, None]
        near["page_table"] = wild["page_table"].clamp(0, len(inputs["k"]) - 1)
    assert same(decode(inputs, **wild), decode(inputs, **near, check=True))


@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize("new", [1, 5, 20])
def test_unchecked_an_append_drops_what_does_not_fit(page: int, new: int) -> None:
    inputs = make_inputs(page=page, new=new, lengths="full")
    room = inputs["page_table"].shape[1] * page if page else 700
    lengths = torch.tensor([room, room - 1, room - new, room - new + 1, 2**31 - 1, -3], dtype=torch.int32, device="cuda")
    kept = lengths.clamp(0, room).tolist()
    caches = {name: inputs[name].nan_to_num() for name in ("k", "v")}
    rows = torch.arange(room, device="cuda")
    expected = {name: cache.clone() for name, cache in caches.items()}
    for i, length in enumerate(kept):
        fit = min(new, room - length)
        for name, cache in expected.items():
            view = cache[i] if not page else cache.flatten(0, 1)
            where = rows if not page else inputs["page_table"][i, rows // page].long() * page + rows % page
            view[where[length : length + fit]] = inputs[f"{name}_new"][i, :fit]
    results = decode({**inputs, **caches}, lengths=lengths)
    assert all(torch.equal(caches[name], expected[name]) for name in caches)
    old = {name: value for name, value in inputs.items() if not name.endswith("_new")}
    after = (lengths.clamp(0, room) + new).clamp(max=room)
    for actual, exact in zip(results, decode({**old, **expected}, lengths=after), strict=True):
        torch.testing.assert_close(actual, exact, rtol=1e-3, atol=1e-3)


def test_threads_on_one_stream_share_a_growing_workspace(flashcore: Any) -> None:
    """Every round starts without a workspace. NaN takes freed memory at once."""
    from flashcore import _tensors

    rows = [
        make_inputs(b=b, sk=3000, lengths="ragged", d=d, splits=splits)
        for b, d, splits in itertools.product((1, 9, 40), D, (0, 40))
    ]
    expected = [decode(row) for row in rows]
    failures: list[Any] = []

    def run(start: int) -> None:
        try:
            for index in (*range(start, len(rows)), *range(start)):
                result = decode(rows[index])
                torch.full((1 << 20,), math.nan, device="cuda")
                if not same(result, expected[index]):
                    failures.append(index)
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            failures.append(error)

    for _ in range(10):
        _tensors._workspaces.clear()
        threads = [threading.Thread(target=run, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.cuda.synchronize()
    assert failures == []
