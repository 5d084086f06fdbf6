"""The comparison with peers: what is kept, the ratios, and a page that never shows a number which was not measured."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import random
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def importable() -> Iterator[None]:
    sys.path.insert(0, str(ROOT / "tools/bench"))
    try:
        yield
    finally:
        sys.path.remove(str(ROOT / "tools/bench"))


def load(name: str) -> ModuleType:
    with importable():
        return importlib.import_module(name)


rows, samples, page, plot, order = (load(f"peerbench.{name}") for name in ("rows", "samples", "page", "plot", "order"))
peers = load("peers")
HEADLINE = rows.parse("16,16,2048,64,full,fp16")


def series(ms: float, mhz: float = 1700.0) -> Any:
    return samples.Series(ms=(ms * 0.9, ms, ms * 1.2), mhz=(mhz, mhz, mhz))


def measured(row: Any = HEADLINE, missing: dict[str, str] | None = None, **times: float) -> Any:
    return samples.Measured(row=row, series={name: series(ms) for name, ms in times.items()}, missing=missing or {})


def run(*measurements: Any) -> Any:
    return samples.Run(
        device="NVIDIA H200",
        multiprocessors=132,
        driver="580",
        date="2026-11-21",
        versions={"torch": "2.11"},
        protocol={"layout": "bshd", "settle_seconds": 0.7},
        rows=measurements,
    )


def text_of(prefill: Any) -> str:
    return "\n".join(page.blocks(prefill, run()).values())


def test_the_table_has_every_row_once() -> None:
    table = rows.prefill()
    assert len(table) == len(set(table)) == 3 * 14
    assert {row.b * row.s for row in table} == {32768}
    assert {(row.s, row.causal) for row in table if row.dtype == "bf16"} == {(2048, False), (2048, True)}
    assert [row.s for row in rows.long_context() if row.d == 64 and not row.causal] == [16384, 32768, 65536, 131072]


def test_flops_are_counted_for_what_a_mask_leaves() -> None:
    assert rows.parse("1,1,4,64,full,fp16").flops == 4 * 64 * 16
    assert rows.parse("1,1,4,64,causal,fp16").flops == 4 * 64 * 10
    assert HEADLINE.flops == 274877906944.0


@pytest.mark.parametrize(
    "text", ["", "1,2,3", "1,1,x,64,full,fp16", "1,1,4,64,half,fp16", "1,1,4,64,full,fp8", "0,1,4,64,full,fp16"]
)
def test_a_row_that_is_none_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=text or "a row is"):
        rows.parse(text)


def test_ratios_are_of_medians_and_above_one_where_ours_is_faster() -> None:
    one = measured(flashcore=0.5, fa3=0.6, cudnn=0.55, fa2=0.4)
    assert one.best_peer() == "cudnn"  # FA2 does not count as the best peer
    assert one.ratio("fa3") == pytest.approx(1.2)
    slower_clock = replace(one, series={**one.series, "fa3": series(0.6, mhz=1500.0)})
    assert slower_clock.ratio("fa3", cycles=True) == pytest.approx(1.2 * 1500 / 1700)
    assert one.tflops("flashcore") == pytest.approx(HEADLINE.flops / 0.5e-3 / 1e12)
    assert one.flops_per_clock("flashcore", 132) == pytest.approx(HEADLINE.flops / (0.5e-3 * 1.7e9 * 132))


def test_what_is_missing_has_no_number() -> None:
    alone = measured(missing={"fa3": "not installed", "cudnn": "refused"}, flashcore=0.5)
    assert alone.best_peer() is None
    assert [alone.ratio(peer) for peer in ("fa3", "cudnn", None)] == [None] * 3
    assert alone.tflops("fa3") is None
    text = text_of(run(alone))
    assert "FlashAttention-3, on 1 of 1 rows (D 64): not installed" in text
    line = next(line for line in text.splitlines() if line.startswith("| 16·16·2048"))
    assert line == "| 16·16·2048 | full | fp16 | 550 | n/a | n/a | n/a | n/a | n/a | n/a | 1700, n/a |"


def test_no_line_is_drawn_for_a_missing_contender() -> None:
    pictures = page.pictures(run(measured(missing={"fa3": "not installed"}, flashcore=0.5, cudnn=0.6)), run())
    drawing = pictures["docs/performance/d64.svg"]
    texts = [element.text for element in ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]
    assert "cuDNN" in texts
    assert "FlashAttention-3" not in texts


@pytest.mark.parametrize("values", [(), (0.0,), (math.nan,), (math.inf,), (-1.0,)])
def test_no_measurement_is_refused(values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="a time and a clock"):
        samples.Series(ms=values, mhz=(1700.0,) * len(values))


def test_samples_come_back_as_they_were() -> None:
    before = run(measured(missing={"fa3": "not installed"}, flashcore=0.5, cudnn=0.6))
    content = samples.encode(before)
    assert samples.decode(content) == before
    assert samples.encode(samples.decode(content)) == content


@pytest.mark.parametrize("content", [b"", b"{}", samples.lzma.compress(b"{}"), samples.lzma.compress(b'{"schema": "other-v1"}')])
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not samples"):
        samples.decode(content)


def test_the_vertical_axis_begins_at_zero_and_ends_above_the_curves() -> None:
    for most in (1.0, 7.3, 99.0, 642.0, 1000.0):
        ticks = plot.round_ticks(most)
        assert ticks[0] == 0
        assert ticks[-2] < most <= ticks[-1] + 1e-9
        assert len(ticks) <= plot.MOST_TICKS + 1


def test_the_summary_counts_rows_that_are_ahead() -> None:
    text = text_of(run(measured(flashcore=0.5, fa3=0.6), measured(flashcore=0.5, fa3=0.45)))
    assert "| 64 | 2 | 1 of 2 | 1 of 2 | 1.039 | 1.039 | 0.900 | 1.200 |" in text


def test_long_rows_are_compared_with_the_shortest() -> None:
    short, long = (rows.parse(f"1,16,{s},64,full,fp16") for s in (16384, 32768))
    text = text_of(run(measured(short, flashcore=2.0, fa3=2.2), measured(long, flashcore=8.4, fa3=8.8)))
    assert "| 95.2 % |" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--library", "/nowhere/lib.so"], "there is no such file"),
        (["--library", f"fa3={__file__}"], "would be called fa3"),
        (["--library", __file__, "--row", "16,16"], "a row is B,H,S,D,MASK,DTYPE"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.main(["measure", *arguments, "--out", "never.json.xz"]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_the_readme_names_every_row_on_which_a_peer_is_ahead() -> None:
    ahead = measured(rows.parse("64,16,512,64,full,fp16"), flashcore=0.5, fa3=0.4)
    text = page.readme(run(ahead, measured(flashcore=0.5, fa3=0.6)), run())
    assert (
        "FlashCore is at least as fast as FA3 and cuDNN on 1 of 2 prefill rows, long sequences included. "
        "A peer is ahead on D=64 64·16·512 full fp16 (0.800)." in text
    )
    assert "| 64 | 16·16·2048 | full | 550 | n/a | n/a | 1.20 |" in text
    text = page.readme(run(measured(flashcore=0.5, fa3=0.6)), run())
    assert "FlashCore is at least as fast as FA3 and cuDNN on all 1 prefill rows, long sequences included." in text


@given(count=st.integers(2, 7), seed=st.integers(0, 99))
def test_each_name_has_each_place_and_each_predecessor_equally_often(count: int, seed: int) -> None:
    names = [str(index) for index in range(count)]
    square = list(itertools.islice(order.rounds(names, random.Random(seed)), count if count % 2 == 0 else 2 * count))
    assert all(sorted(round_) == names for round_ in square)
    places = Counter((name, place) for round_ in square for place, name in enumerate(round_))
    behind = Counter(pair for round_ in square for pair in itertools.pairwise(round_))
    assert len(places) == count * count
    assert len(behind) == count * (count - 1)
    assert len(set(places.values())) == len(set(behind.values())) == 1


def test_one_alone_takes_every_turn() -> None:
    assert list(itertools.islice(order.rounds(["a"], random.Random(1)), 3)) == [["a"]] * 3


@given(
    times=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9),
    clock=st.floats(300, 2000),
    reason=st.text(),
)
def test_any_samples_come_back(times: list[float], clock: float, reason: str) -> None:
    one = samples.Measured(
        row=HEADLINE, series={"flashcore": samples.Series(ms=tuple(times), mhz=(clock,) * len(times))}, missing={"fa3": reason}
    )
    assert samples.decode(samples.encode(run(one))) == run(one)
