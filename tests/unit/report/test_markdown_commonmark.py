"""The summary and the comment as a CommonMark renderer reads them, with the tables that GitHub adds."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from golden.dossiers import DOSSIER
from golden.reports import RED, REPORTS, verdict
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.report import comment, markdown

FORMATS = {"summary": markdown.render, "comment": lambda report: comment.render(report, DOSSIER)}
OURS = re.compile(r"<!-- flashcore-ci: [\w.-]+ -->\n?|<details><summary>[^<>]*</summary>\n?|</details>\n?")


def tokens(text: str) -> list[Token]:
    found = MarkdownIt("commonmark").enable("table").parse(text)
    return [*found, *(child for token in found for child in token.children or ())]


def check(text: str) -> list[Token]:
    """Its raw HTML is ours, it has no links, images or code blocks, and every row of a table has all its cells."""
    found = tokens(text)
    assert all(OURS.fullmatch(t.content) for t in found if t.type in {"html_block", "html_inline"})
    assert not [t for t in found if t.type == "code_inline" and set(t.content) & set("`|<>&@\\")]
    assert not {"link_open", "image", "fence", "code_block"} & {t.type for t in found}
    widths: list[int] = []
    for token in found:
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in {"th_open", "td_open"}:
            widths[-1] += 1
    assert all(width >= 3 for width in widths)
    return found


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("form", FORMATS)
def test_it_renders(name: str, form: str) -> None:
    text = FORMATS[form](REPORTS[name])
    found = check(text)
    assert any(token.type == "heading_open" for token in found)
    tables = len(re.findall(r"^\|[ -|]*--- \|$", text, re.MULTILINE))
    assert sum(token.type == "table_open" for token in found) == tables
    assert not any("| ---" in token.content for token in found if token.type == "inline")  # a table that is none


@settings(deadline=None, max_examples=60)
@given(
    text=st.text()
    | st.sampled_from(["<b>", "[a](b)", "![a](b)", "`x`", "|", "\\|", "    code", "```", "<!--", "# x", "- x", "http://a.b"])
)
def test_no_text_becomes_markup(text: str) -> None:
    assert shape(text) == shape("word")


def shape(text: str) -> dict[str, list[str]]:
    finding = Finding(tool="memcheck", message=text, file=f"x{text}", line=3)
    red = verdict("finite", f"x{text}", 1.0, Outcome.FAIL, Code.OVER_LIMIT, f"x{text}", findings=(finding,), notes=(f"x{text}",))
    report: Report = replace(RED, verdicts=(red,), headline=f"x{text}", notes=(f"x{text}",))
    return {
        form: [token.type for token in check(render(report)) if token.type not in {"text", "code_inline"}]
        for form, render in FORMATS.items()
    }
