import hashlib
import json
import re
from dataclasses import replace

import pytest
from dashboards import HOSTILE, NOW, hostile, snapshot
from reading_html import VOID, read

from flashcore_ci.dashboard import cost, digest, gate_page, page, site, versions
from flashcore_ci.dashboard.assets import ASSETS

VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""uPlot 1.6.32 from npm."""
EVENTS = re.compile("on[a-z]+")


@pytest.fixture(scope="module", params=range(len(HOSTILE)))
def text(request):
    return hostile(request.param)


def pages(files):
    return {path: content.decode() for path, content in files.items() if path.endswith(".html")}


def parsed(content):
    """Read a page without our own style and script, which are in every page once."""
    VOID.add("link")
    for name, text in page.INLINE.items():
        assert content.count(f"<{name}>") == 1
        content = content.replace(f"<{name}>{text}</{name}>", "")
    return read(content.replace("<!DOCTYPE html>\n", ""))


def test_every_page_is_nested_and_loads_only_the_site():
    files = site.files(snapshot())
    assert {"index.html", "versions.html", "compare.html", "machines.html", "cost.html", "gate.html"} <= files.keys()
    for path, content in pages(files).items():
        seen = parsed(content)
        root = "../" if path.startswith("w/") else ""
        loaded = [value.partition("?")[0] for value in (*seen.values("src"), *seen.values("data-src"))]
        linked = [value.partition("#")[0].partition("?")[0] for value in seen.values("href")]
        for address in (*loaded, *linked):
            target = address.removeprefix(root)
            assert address == "" or (address.startswith(root) and target in files), (path, address)
        assert page.POLICY in seen.values("content")
        assert not [has for _, has in seen.elements if has.get("rel") == "stylesheet" or ("src" in has and "defer" not in has)]


def test_hostile_text_stays_text(text):
    for path, content in site.files(snapshot(text)).items():
        if path.endswith(".html"):
            seen = parsed(content.decode())
            assert not [name for _, given in seen.elements for name in given if EVENTS.fullmatch(name)], path
            assert seen.tags() <= ALLOWED, seen.tags() - ALLOWED
            assert all(not value.lower().startswith("javascript:") for value in seen.values("href"))
            assert (seen.text + "".join(seen.values("title")) + "".join(seen.values("aria-label"))).isprintable()
        elif path.endswith(".json"):
            assert all(word.isprintable() and len(word) <= 301 for word in words(json.loads(content))), path


ALLOWED = {
    *("html", "head", "meta", "title", "link", "script", "body", "header", "nav", "main", "footer", "section", "h1", "h2", "p"),
    *("a", "b", "span", "button", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "div", "svg", "polyline", "circle"),
    *("figure", "figcaption", "details", "summary", "dl", "dt", "dd", "label", "select", "input", "noscript"),
}


def words(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (word for pair in value.items() for each in pair for word in words(each))
    elif isinstance(value, list):
        yield from (word for each in value for word in words(each))


def test_hostile_text_cannot_leave_a_cell_of_the_digest(text):
    lines = digest.render(snapshot(text), 7).splitlines()
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if re.search(r"(?<!\\)[<>@]", line)]
    tables = [line for line in lines if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {5}


def test_the_digest_says_what_matters():
    text = digest.render(snapshot(), 7)
    assert text.startswith("# 1 workload regressed, 1 failed, 1 improved\n")
    for words in ("## Regressed (1)", "abc-1: +3.05 %", "The waiver of no-slower", "new code"):
        assert words in text


def test_a_chart_has_its_table_and_small_data():
    files = site.files(snapshot())
    key = f"w/{1:012x}.html"
    seen = parsed(files[key].decode())
    assert "The newest 50 points" in seen.text
    data = json.loads(files[f"data/series/{1:012x}.json"])
    assert (
        len(
            {
                len(data[name])
                for name in ("run", "commit", "at", "ratio", "error", "value", "ms", "mhz", "outcome", "epoch", "code")
            }
        )
        == 1
    )
    assert data["alerts"][0]["at"] == 55
    first = sum(
        len(files[path])
        for path in (
            key,
            f"data/series/{1:012x}.json",
            *(f"assets/{name}" for name in ("dashboard.js", "uPlot.iife.min.js", "icon.svg")),
        )
    )
    assert first <= 300_000


def test_what_a_regression_costs():
    total, extra = cost.daily(3.6, 0.0, calls=1.0, price=2.0)
    assert (total, extra) == (2.0, 0.0)
    total, extra = cost.daily(1.1, 0.0953101798, calls=1.0, price=1.0)
    assert extra == pytest.approx(total / 11)
    assert cost.dollars(-1234.5) == f"{page.MINUS}$1,234.50"


def test_the_gate_shows_why_and_what_ends():
    text = parsed(gate_page.render(snapshot()).decode()).text
    for words in ("stale-evidence", "2026-12-01", "timing", "60.0 s", "1 of 1 closed alert"):
        assert words in text
    assert gate_page.days_left("2026-12-01", NOW) == 13
    assert gate_page.days_left("never", NOW) == -1


def test_uplot_is_what_npm_has():
    assert {name: hashlib.sha256(ASSETS[name]).hexdigest() for name in VENDORED} == VENDORED
    assert b"Leon Sorokin" in ASSETS["uPlot.LICENSE.txt"]


def test_versions_of_one_sitting_are_in_the_order_of_their_commits():
    shown = snapshot()
    runs = {number: replace(run, collected_at=NOW) for number, run in shown.runs.items()}
    mixed = dict(sorted(runs.items(), key=lambda pair: pair[1].digest[::-1]))
    before, after = (versions.entries_of(replace(shown, runs=each)) for each in (shown.runs, mixed))
    assert {symbol: [each.first for each in found] for symbol, found in after.items()} == {
        symbol: [each.first for each in found] for symbol, found in before.items()
    }


def test_a_line_that_is_shown_whole_names_no_samples():
    shown = snapshot()
    (line, *_) = shown.lines
    assert (
        b"are samples of"
        not in site.files(replace(shown, lines=(replace(line, total=len(line.dots), sampled=0),)))[f"w/{line.key}.html"]
    )


def test_rates_of_versions_are_of_one_workload_and_no_version_is_left_out():
    shown = snapshot()
    line = shown.lines[0]
    facts = [replace(code.entries[0], machine_code=f"m{n}") for n, code in enumerate([next(iter(shown.codes.values()))] * 12)]
    other = replace(line, key="ffffffffffff", series=replace(line.series, workload="only-the-newest"), flops=1e30)
    found = [versions.EntryVersion(facts=fact, first=1, reached={line.key: (line, (1.0, 0.01))}) for fact in facts]
    found[-1].reached[other.key] = (other, (1.0, None))
    assert versions.common(found) is line
    assert versions.common(found[-1:]) is other
    assert versions.common([]) is None
    text = str(versions._entry("kernel", found, shown))
    assert "only-the-newest" not in text
    assert "4 older versions" in text
    assert all(f">v{number}<" in text for number in range(1, 13))
    assert text.count("+1.01 %") == 12
