"""The roofline: the place of each point, and a page and picture with only measured points."""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind, Ridge

ROOT = Path(__file__).parents[3]
H200 = Ridge(device="NVIDIA H200", flops=1000e12, bandwidth=5e12)


@pytest.fixture
def roofline(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools/docs"))
    return importlib.import_module("roofline")


def recorded(*rows: tuple[str, str, dict[str, Any], float | None]) -> Any:
    """A run with one profile for each (id, subject, parameters, milliseconds); None: the profile has no time."""
    problems = [SimpleNamespace(workload=name, flops=4e12, bytes=1e12) for name, *_ in rows]
    absent = Missing(code=Code.COUNTERS_DENIED, message="no")
    observations = [
        SimpleNamespace(
            target=name,
            kind=Kind.PROFILE,
            readings=[
                ("time/gpu/profiled", absent if ms is None else Measured(value=ms, unit="ms")),
                ("sol/dram", Measured(value=88.5, unit="%")),
                ("sol/sm", Measured(value=12.0, unit="%")),
            ],
        )
        for name, _, _, ms in rows
    ]
    workloads = [SimpleNamespace(id=name, subject=subject, params=tuple(params.items())) for name, subject, params, _ in rows]
    plan = SimpleNamespace(descriptions=[SimpleNamespace(problems=problems)], workloads=workloads)
    return SimpleNamespace(plan=plan, evidence=SimpleNamespace(observations=observations))


ROWS = (
    ("a", "decode", {"d": 128}, 250.0),
    ("b", "decode", {"d": 64, "page": 64}, 400.0),
    ("c", "attention", {"d": 256}, 8.0),
    ("d", "stream", {"n": 5}, None),
)


def test_points_have_their_group_and_their_share_of_the_roof(roofline: ModuleType) -> None:
    points = roofline.points(recorded(*ROWS))
    assert [(point.name, point.group) for point in points] == [("a", "decode"), ("b", "paged"), ("c", "d256")]
    assert points[0].intensity == 4.0
    assert points[0].speed == 16e12
    assert points[0].share(H200) == pytest.approx(80.0)


def test_the_page_names_all_and_the_picture_marks_each_once(roofline: ModuleType) -> None:
    points = roofline.points(recorded(*ROWS))
    blocks = roofline.blocks(points, H200)
    assert "| `a` | 4 | 16 | 4.00 | 80 % | 88.5 % | 12.0 % |" in blocks["table"]
    assert "`d`" not in blocks["table"]
    drawing = ET.fromstring(roofline.picture(points, H200))
    titles = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["a: 80 % of the roof", "b: 50 % of the roof", "c: 2500 % of the roof"]
    names = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert "Decode, pages" in names
    assert "Streaming" not in names


def test_faster_is_higher_and_denser_is_further_right(roofline: ModuleType) -> None:
    assert roofline.up(2e12) < roofline.up(1e12)
    assert roofline.across(2.0) > roofline.across(1.0)
    assert roofline.up(roofline.Y[0]) == roofline.HEIGHT - roofline.BOTTOM
    assert roofline.across(roofline.X[1]) == roofline.WIDTH - roofline.RIGHT
