from __future__ import annotations

from dataclasses import replace

import pytest
from evidence_factories import make_observation
from factories import make_workload
from golden.dossiers import DOSSIER
from golden.reports import GREEN, HOSTILE, INCONCLUSIVE, RED, REPORTS, SHADES, passed
from hypothesis import given
from hypothesis import strategies as st

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Kind, Roof
from flashcore_ci.report import comment
from flashcore_ci.report.paired_rounds import comparison_of


def paired(metric: str, base: tuple[float, ...], head: tuple[float, ...]) -> tuple[tuple[str, Samples], ...]:
    return ((f"base/{metric}", Samples(values=base, unit="u")), (f"head/{metric}", Samples(values=head, unit="u")))


def compared_dossier(
    roof: Roof = Roof.COMPUTE, base: tuple[float, ...] = (2.0, 2.0, 4.0), head: tuple[float, ...] = (2.0, 2.1, 4.4)
) -> Dossier:
    samples = (*paired("cycles/gpu/cold", base, head), *paired("time/gpu/cold", (1.0,) * 3, (1.5,) * 3))
    seen = make_observation(Kind.COMPARISON, "big", readings=(), samples=samples)
    return Dossier(workloads=(make_workload("big", roof=roof),), observations=(seen,))


def rows(text: str) -> list[list[str]]:
    table = next(block for block in text.split("\n\n") if block.startswith("| gate"))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_the_marker_is_the_first_line_and_the_same_for_every_run_of_a_suite() -> None:
    assert comment.render(RED, DOSSIER).splitlines()[0] == "<!-- flashcore-ci: hopper -->"
    assert comment.marker(GREEN.suite) == comment.marker(RED.suite)
    assert comment.marker("a --> <script>") == "<!-- flashcore-ci: a------script -->"


def test_the_evidence_and_both_commits_follow_the_verdict() -> None:
    blocks = comment.render(GREEN, DOSSIER).split("\n\n")
    assert blocks[1] == "All 6 checks were judged live \\(H200, 2026-11-21\\)."
    assert blocks[2] == "Judged commit 89abcde, evidence of commit 0123456."


def test_an_advisory_result_has_its_own_mark_and_code_is_code() -> None:
    text = comment.render(SHADES, DOSSIER)
    assert "🟣 FAIL \\(advisory\\)" in text
    assert "`flashcore-ci` must not let a wrong kernel merge" in text


def test_a_gate_is_shown_by_its_most_important_check() -> None:
    table = {row[0]: row[1:] for row in rows(comment.render(RED, Dossier()))}
    assert list(table) == ["max-diff", "racecheck", "finite", "stability", "build", "registers", "sol-sm"]
    assert table["max-diff"] == [
        "—",
        "2.0004e-3 \\(limit 2e-3\\), gqa-bf16-b2-h32-s1023-d128",
        "—",
        "❌ FAIL \\(2 of 3 passed\\)",
    ]
    assert table["sol-sm"][3] == "✅ PASS"


def test_a_comparison_shows_base_head_and_change() -> None:
    report = replace(GREEN, verdicts=(passed("stability", "big", 0.5, evidence=Kind.COMPARISON),))
    (row,) = rows(comment.render(report, compared_dossier()))
    assert row == ["stability", "2 u", "2.1 u", "\\+5.00 %", "✅ PASS"]


def test_cycles_count_but_time_where_memory_is_the_roof() -> None:
    assert comparison_of(compared_dossier(), "big").change == pytest.approx(5.0)
    assert comparison_of(compared_dossier(Roof.MEMORY), "big").change == pytest.approx(50.0)


@pytest.mark.parametrize("sides", [((), ()), ((1.0,), (1.0, 1.0)), ((0.0,), (1.0,))])
def test_unpaired_sides_are_not_compared(sides: tuple[tuple[float, ...], tuple[float, ...]]) -> None:
    assert comparison_of(compared_dossier(base=sides[0], head=sides[1]), "big") is None
    assert comparison_of(Dossier(), "big") is None


@pytest.mark.parametrize("name", REPORTS)
def test_it_fits_into_a_comment_and_folds_are_closed(name: str) -> None:
    text = comment.render(REPORTS[name], DOSSIER)
    assert len(text) < 65_536
    assert text.count("<details>") == text.count("</details>")


def test_a_long_section_is_cut_and_counted_and_the_rest_still_shows() -> None:
    many = tuple(replace(v, target=f"{v.target}-{n}", notes=("x" * 400,)) for n in range(20) for v in INCONCLUSIVE.verdicts)
    text = comment.render(replace(INCONCLUSIVE, verdicts=many), DOSSIER)
    assert len(text.encode()) <= comment.MOST_BYTES
    assert "more parts did not fit" in text
    assert "Provenance" in text


def test_tool_output_is_text() -> None:
    text = comment.render(HOSTILE, DOSSIER)
    assert "<script>" not in text
    assert "@everyone" not in text


@given(text=st.text())
def test_any_text_leaves_the_structure_alone(text: str) -> None:
    report = replace(GREEN, verdicts=(replace(passed("finite", text, 0.0), gate=text),), headline=text, notes=(text,))
    made = comment.render(report, Dossier())
    assert made.count("<!--") == made.count("-->") == 1
    assert made.count("<details>") == made.count("</details>") == 1
