"""Check that no text and no number from evidence changes the structure of the page."""

from __future__ import annotations

import re
from dataclasses import replace

from evidence_factories import make_observation
from factories import make_build, make_entry_build, make_workload
from golden.dossiers import DOSSIER, TIMED
from golden.reports import GREEN, RED, passed, verdict
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_html import read

from flashcore_ci.model.codes import Code
from flashcore_ci.model.dossier import Dossier, Excerpt
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Measured, Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome
from flashcore_ci.report.html import page

tricky = st.text() | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "'--><b>",
        "</style><script>",
        "&lt;",
        "javascript:alert(1)",
        "\x00",
        "\udcff",
        "\u202e",
        "]]>",
    ]
)


@settings(max_examples=60, deadline=None)
@given(text=tricky)
def test_no_text_becomes_markup(text: str) -> None:
    """The page with ``text`` everywhere has the very elements of the page with a harmless word everywhere."""
    assert skeleton(text) == skeleton("word")


def skeleton(text: str) -> list[tuple[str, tuple[str, ...]]]:
    finding = Finding(tool=text, message=text, kernel=text, file=f"x{text}", line=3)
    red = verdict("finite", f"x{text}", 1.0, Outcome.FAIL, Code.OVER_LIMIT, f"x{text}", findings=(finding,), notes=(text,))
    timed = passed("stability", f"x{text}", 0.5, notes=(text,), why=text)
    report = replace(
        RED,
        suite=text,
        headline=text,
        verdicts=(red, replace(timed, gate=f"x{text}")),
        notes=(text,),
        builds=(make_build(entries=(make_entry_build(text),)),),
    )
    workload = make_workload(f"x{text}", params=((text, text),))
    seen = make_observation(Kind.TIMING, workload.id, notes=(f"clocks were held {text}",), samples=(("time/gpu/cold", Samples(values=(1.0,), unit=text)), ("cycles/gpu/cold", Samples(values=(1.0,), unit=text)), ("clock/sm", Samples(values=(1.0,), unit=text))))  # fmt: skip
    excerpt = Excerpt(file=finding.file, line=3, first=2, lines=(text, text, text))
    dossier = Dossier(workloads=(workload,), observations=(seen,), excerpts=(excerpt,), suite_file=f"x{text}")
    return [(tag, tuple(has)) for tag, has in read(page.render(report, dossier)).elements if tag != "code"]


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8), flops=st.floats(0, 1e300))
def test_any_numbers_make_pictures_of_finite_coordinates(values: list[float], flops: float) -> None:
    sides = tuple((name, Samples(values=tuple(values), unit="u")) for name in ("time/gpu/cold", "cycles/gpu/cold", "clock/sm"))
    timed = make_observation(Kind.TIMING, TIMED[0], samples=sides)
    lit = make_observation(Kind.PROFILE, TIMED[0], readings=(("sol/sm", Measured(value=values[0], unit="%")),))
    problem = replace(DOSSIER.descriptions[0].problems[0], flops=flops)
    dossier = replace(DOSSIER, observations=(timed, lit), descriptions=(replace(DOSSIER.descriptions[0], problems=(problem,)),))
    text = page.render(GREEN, dossier)
    assert not re.search(r'="-?(nan|inf)', text)
    read(text)
