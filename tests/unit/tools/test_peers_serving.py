"""The serving rows: what they count, and a section of the page that shows only measured numbers."""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).parents[3] / "tools/bench"


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))


def load(name: str) -> ModuleType:
    return importlib.import_module(f"peerbench.{name}")


def row(suite: str, **changes: Any) -> Any:
    return load("rows").Row(**{"suite": suite, "b": 32, "h": 32, "hkv": 8, "s": 4096, "d": 128, **changes})


def measured(what: Any, missing: dict[str, str] | None = None, **times: float) -> Any:
    samples = load("samples")
    series = {name: samples.Series(ms=(ms * 0.9, ms, ms * 1.2), mhz=(1700.0,) * 3) for name, ms in times.items()}
    return samples.Measured(row=what, series=series, missing=missing or {})


def run(*rows: Any) -> Any:
    return load("samples").Run(
        device="NVIDIA H200",
        multiprocessors=132,
        driver="580",
        date="2026-11-21",
        versions={"torch": "2.11"},
        protocol={},
        rows=rows,
    )


def text_of(serving: Any) -> str:
    return "\n".join(load("page").blocks(replace(run(), protocol={"settle_seconds": 1}), serving).values())


def test_every_row_once_and_every_suite_has_a_table() -> None:
    table = load("rows").serving()
    assert len(table) == len(set(table)) == 7 + 12 + 1 + 4 + 4
    assert {one.suite for one in table} == set(load("columns").SUITES)
    assert {one.page for one in table if one.suite == "paged"} == {16, 64, 256}


def test_bytes_and_flops_count_the_length_of_each_sequence() -> None:
    assert row("contiguous").bytes == 2**29
    ragged = row("ragged", s=32768)
    assert ragged.bytes == 2 * 2 * 8 * 128 * sum(ragged.lengths)
    assert len(set(ragged.lengths)) == 32
    assert 256 < min(ragged.lengths) < 300
    assert 30_000 < max(ragged.lengths) < 32768
    assert ragged.starts[-1] == sum(ragged.lengths)
    assert row("varlen", b=1, s=10).flops == 4.0 * 32 * 128 * row("varlen", b=1, s=10).lengths[0] ** 2
    one = row("varlen", b=1, s=10, causal=True)
    assert one.flops == 4.0 * 32 * 128 * one.lengths[0] * (one.lengths[0] + 1) / 2


def test_ragged_lengths_are_those_of_the_gate() -> None:
    spec = importlib.util.spec_from_file_location("subject_sequences", TOOLS.parents[1] / "kernel/subjects/sequences.py")
    assert spec
    assert spec.loader
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    assert row("ragged", s=32768).lengths == subject.LENGTHS["ragged"](32, 32768)


def test_each_suite_has_its_own_figures() -> None:
    text = text_of(
        run(
            measured(row("contiguous"), flashcore=0.125, cudnn=0.13, fa3=0.15, fa2=0.2),
            measured(row("paged", page=64), flashcore=0.125, contiguous=0.12, fa3=0.15),
            measured(row("ragged", s=32768), flashcore=0.2, fa3=0.22),
            measured(row("latency", b=1), flashcore=0.013, cudnn=0.0145, fa3=0.02, fa2=0.03),
            measured(row("varlen", b=1, h=16, hkv=16, dtype="fp16"), flashcore=0.01, fa3=0.009),
        )
    )
    assert "| 32·32/8·4096·128 | 0.5 | 4.29 | 3.58 | 4.13 | 2.68 | **1.040** | **1.200** |" in text
    assert "| 32·32/8·4096·128 | 64 | 4.29 | 0.960 | 3.58 | **1.200** |" in text
    assert "| 1·32/8·4096·128 | 13.0 | 20.0 | 14.5 | 30.0 | **1.115** | **1.538** |" in text
    assert "| 0.900 | 0.900 |" in text
    assert "not installed" not in text


def test_what_is_missing_has_no_number_and_no_bar() -> None:
    page, alone = load("page"), run(measured(row("contiguous"), {"fa3": "not installed"}, flashcore=0.125))
    text = text_of(alone)
    assert "| 32·32/8·4096·128 | 0.5 | 4.29 | n/a | n/a | n/a | n/a | n/a |" in text
    assert "- FlashAttention-3, on 1 of 1 rows (contiguous): not installed" in text
    texts = [element.text or "" for element in ET.fromstring(page.decode_picture(alone)).iter("{http://www.w3.org/2000/svg}text")]
    assert any("FlashCore" in text for text in texts)
    assert not any("FlashAttention" in text for text in texts)


def test_samples_come_back_as_they_were() -> None:
    samples = load("samples")
    before = run(
        measured(row("paged", page=16), {"fa3": "refused"}, flashcore=0.5, contiguous=0.4), measured(row("varlen"), flashcore=1.0)
    )
    assert samples.decode(samples.encode(before)) == before


def test_a_call_of_many_in_a_graph_is_its_share() -> None:
    series = load("samples").Series(ms=(1.6, 3.2), mhz=(1500.0, 1600.0))
    assert series.divided(16) == replace(series, ms=(0.1, 0.2))


def test_a_folder_without_libraries_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peers = importlib.import_module("peers")
    assert peers.main(["serving", "--build", str(tmp_path), "--out", "never.json.xz"]) == 2
    error = capsys.readouterr().err
    assert "libflashcore_attention.so" in error
    assert error.count("\n") == 1


def test_the_readme_has_the_range_of_each_suite_and_only_measured_numbers() -> None:
    fast, slow = (measured(row("contiguous", b=b), flashcore=0.125, cudnn=0.125 * x, fa3=0.25) for b, x in ((32, 1.5), (64, 0.5)))
    text = load("page").serving_summary(run(fast, slow, measured(row("ragged"), flashcore=1.0, fa3=1.25)))
    assert "| decode, contiguous caches | 0.50 to 1.50 | 2.00 |" in text
    assert "| decode, ragged batch | n/a | 1.25 |" in text
    assert "| decode, caches in pages | n/a | n/a |" in text
