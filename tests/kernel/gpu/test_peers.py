"""The comparison with peers on a GPU: every installed peer gets samples with plausible clocks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

TOOLS = Path(__file__).parents[3] / "tools/bench"
MEGAHERTZ = (200, 2500)


def test_one_small_row_is_measured(tmp_path: Path, flashcore: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    import peers
    from flashcore import _library
    from peerbench import samples

    library = _library.get_library("attention")._name
    out = tmp_path / "samples.json.xz"
    row = ["--row", "1,2,300,64,causal,bf16"]
    assert peers.main(["measure", "--library", library, *row, "--settle", "0.05", "--seconds", "0.05", "--out", str(out)]) == 0
    (measured,) = samples.decode(out.read_bytes()).rows
    assert {"flashcore", "fa2", "cudnn"} <= set(measured.series)
    assert ("fa3" in measured.missing) == (importlib.util.find_spec("flash_attn_interface") is None)
    for series in measured.series.values():
        assert len(series.ms) >= 8
        assert all(MEGAHERTZ[0] < mhz < MEGAHERTZ[1] for mhz in series.mhz)
