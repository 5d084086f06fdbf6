"""The site in headless Chromium: axe, the console, the network, keyboard, themes and hostile text. One browser for all."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources

import pytest
from chromium import Chromium, find
from dashboards import hostile, snapshot

from flashcore_ci.dashboard import site
from flashcore_ci.run.dashboard_server import Server

PATHS = (
    "index.html",
    "versions.html",
    "compare.html#a={run}&b={old}",
    "machines.html",
    "cost.html",
    "gate.html",
    f"w/{1:012x}.html#run={{run}}",
)
RUN, OLD = f"{59:08x}{59:08x}"[:12], f"{50:08x}{50:08x}"[:12]
WIDE, PHONE = 1280, 390
ALL = "{resultTypes: ['violations']}"
DARK = "{runOnly: {type: 'rule', values: ['color-contrast']}}"
"""Colours do not change what else axe looks at."""
DRAWN = """(() => { const canvas = document.querySelector('#chart canvas');
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
let found = 0; for (let i = 0; i < pixels.length; i += 4) found += pixels[i + 3] > 200 && pixels[i + 2] - pixels[i] > 60;
return found; })()"""
"""How many pixels of the chart are blue, as its line is."""
PAINT = "performance.getEntriesByType('paint').map(p => p.startTime)[0]"


class Files:
    """A site that is there already."""

    def __init__(self) -> None:
        self.files = site.files(snapshot())

    def get(self, path: str) -> bytes | None:
        return self.files.get(path)


@contextlib.contextmanager
def running(pages: Files) -> Iterator[str]:
    with Server(0, pages) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://{server.host}/"
        server.shutdown()


@pytest.fixture(scope="module")
def pages() -> Files:
    return Files()


@pytest.fixture(scope="module")
def address(pages: Files) -> Iterator[str]:
    find()
    with running(pages) as found:
        yield found


@pytest.fixture(scope="module")
def browser(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    opened = Chromium(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def ready(browser: Chromium, address: str, path: str) -> None:
    """Open a page, and wait for what its script adds."""
    browser.open(address + path.format(run=RUN, old=OLD))
    if path.startswith("w/"):
        browser.wait("!!document.querySelector('#chart canvas') && document.getElementById('point').textContent.includes('2026')")
    if path.startswith("compare"):
        browser.wait("!!document.querySelector('#comparison table')")


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_axe_finds_nothing_on_any_page(browser: Chromium, address: str, dark: bool) -> None:
    axe = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    browser.look(width=WIDE, dark=dark)
    for path in PATHS:
        ready(browser, address, path)
        assert browser.complaints() == [], path
        assert {url.split("/")[2] for url in browser.requests() if url.startswith("http")} == {address.split("/")[2]}
        browser.value(f"{axe}; 0")
        found = browser.value(
            f"axe.run(document, {DARK if dark else ALL}).then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
        )
        assert found == [], (path, dark, json.dumps(found)[:2000])


def test_no_page_is_wider_than_a_phone(browser: Chromium, address: str) -> None:
    browser.look(width=PHONE)
    for path in PATHS:
        ready(browser, address, path)
        assert browser.value("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, path


def test_the_keyboard_moves_along_the_chart_and_the_address_keeps_the_point(browser: Chromium, address: str) -> None:
    browser.look()
    browser.open(f"{address}w/{1:012x}.html")
    browser.wait("!!document.querySelector('#chart canvas')")
    browser.value("document.getElementById('chart').focus()")
    browser.press("End")
    assert browser.value("location.hash") == f"#run={RUN}"
    browser.press("ArrowLeft")
    shown = browser.value("document.getElementById('point').textContent")
    assert "%" in shown
    assert browser.value("location.hash") == f"#run={58:08x}{58:08x}"[:17]
    browser.open(f"{address}w/{1:012x}.html#run={58:08x}0000")
    browser.wait(f"document.getElementById('point').textContent === {json.dumps(shown)}")
    assert browser.value(DRAWN) > 500
    assert browser.value(
        "document.querySelector('[data-metric=value]:not(#chart)').click(), document.getElementById('point').textContent.includes('Mcycle')"
    )


def test_the_theme_is_kept_and_the_price_counts(browser: Chromium, address: str) -> None:
    browser.open(f"{address}cost.html")
    before = browser.value("document.querySelector('[data-cost=million]').textContent")
    after = browser.value(
        "price.value = '5'; price.dispatchEvent(new Event('input')); document.querySelector('[data-cost=million]').textContent"
    )
    assert float(after.strip("$")) == pytest.approx(2 * float(before.strip("$")), abs=0.011)
    browser.value("document.getElementById('theme').click(); document.getElementById('theme').click()")
    browser.open(f"{address}index.html")
    assert browser.value("document.documentElement.dataset.theme") == "dark"
    browser.value("localStorage.clear()")


@pytest.mark.nightly
def test_the_first_paint_is_quick(browser: Chromium, address: str) -> None:
    """A machine that does other work paints later, so `make test` leaves this out."""
    times = []
    for _ in range(20):
        browser.open(f"{address}index.html")
        times.append(browser.wait(PAINT))
    assert min(times) <= 200


def test_hostile_text_runs_nothing(browser: Chromium, pages: Files, address: str) -> None:
    clean = pages.files
    try:
        for number in (1, 2, 4, 5):  # the unit tests have all
            pages.files = site.files(snapshot(hostile(number)))
            for path in (f"compare.html#a={RUN}&b={OLD}", f"w/{1:012x}.html#run={RUN}"):
                ready(browser, address, path)
                assert "owned" not in browser.value("document.title")[:20] or number == 5
                assert browser.complaints() == []
                assert (
                    browser.value("document.querySelectorAll('main script, main img, main iframe, [onerror], [onload]').length")
                    == 0
                )
                assert browser.value(
                    "![...document.body.innerText].some(c => /[\\u0000-\\u0008\\u000e-\\u001f\\u007f-\\u009f\\u200b-\\u200f\\u202a-\\u202e\\u2066-\\u2069]/.test(c))"
                )
    finally:
        pages.files = clean


LABELS = """(() => { const found = [], draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
const start = this.textAlign === 'right' ? x - this.measureText(text).width : x;
if (text.includes(' active')) found.push([start, start + this.measureText(text).width, y]); draw.call(this, text, x, y); };
document.querySelector('[data-metric=ms]').click();
return found; })()"""
"""Where the labels of alerts are: from, to, row."""


def test_labels_of_many_alerts_and_long_names_leave_room_for_the_rest(browser: Chromium, pages: Files, address: str) -> None:
    clean, made = pages.files, snapshot()
    first, *others = made.lines
    named = replace(first, series=replace(first.series, workload="prefill-" * 20))
    alerts = [replace(made.alerts[0], key=f"{number:021}") for number in range(20)]
    try:
        pages.files = site.files(replace(made, lines=(named, *others), alerts=tuple(alerts)))
        browser.look(width=PHONE)
        ready(browser, address, PATHS[-1])
        labels = browser.value(LABELS)
        assert len(labels) > 4
        assert not [1 for a in labels for b in labels if a is not b and a[2] == b[2] and a[0] < b[1] and b[0] < a[1]]
        browser.open(f"{address}cost.html")
        assert browser.value("document.querySelector('.cost tbody th').offsetWidth") < PHONE * 2 / 3
    finally:
        pages.files = clean


def test_a_script_in_a_page_is_refused(browser: Chromium, pages: Files, address: str) -> None:
    clean = pages.files["gate.html"]
    try:
        pages.files["gate.html"] = clean.replace(b"</main>", b"<script>document.title='owned'</script></main>")
        browser.open(f"{address}gate.html")
        assert any("Content Security Policy" in line for line in browser.complaints())
        assert browser.value("document.title") != "owned"
    finally:
        pages.files["gate.html"] = clean
