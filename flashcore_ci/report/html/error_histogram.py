"""How the errors against float64 are distributed, ours and PyTorch's own."""

from __future__ import annotations

from collections.abc import Sequence

from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Histogram
from flashcore_ci.report.html import charts
from flashcore_ci.report.html.markup import Markup, join, tag

OURS, THEIRS = "error/ours/", "error/pytorch/"
TITLE = "Errors against float64"


def histogram(seen: Observation | None, *, most: int = 4) -> Markup:
    """The histograms of the workload's first ``most`` outputs, one below the other; or why there is none."""
    if seen is None:
        return tag("figure", tag("h4", TITLE), tag("figcaption", "Not here: its outputs were not compared."))
    if seen.missing is not None:
        why = f"Not here: {seen.missing.code}: {seen.missing.message}."
        return tag("figure", tag("h4", TITLE), tag("figcaption", why))
    counted = dict(seen.histograms)
    outputs = [name.removeprefix(OURS) for name in counted if name.startswith(OURS)][:most]
    if not outputs:
        said = "Not here: this recording is from before errors were counted; its largest are below."
        worst = (tag("li", note) for note in seen.notes if "largest" in note)
        return tag("figure", tag("h4", TITLE), tag("figcaption", said, tag("ul", *worst)))
    figures = (_one(output, counted[f"{OURS}{output}"], counted.get(f"{THEIRS}{output}")) for output in outputs)
    return tag("figure", tag("h4", TITLE), join(figures))


def _one(output: str, ours: Histogram, theirs: Histogram | None) -> Markup:
    known = [side for side in (ours, theirs) if side is not None]
    low, high = extent(known)
    ours_shown, theirs_shown = (_between(side, low, high) if side else None for side in (ours, theirs))
    elements = sum(ours.counts) + ours.zeros + ours.not_finite
    said = f"{output}: {elements} elements, {ours.zeros} exact, {ours.not_finite} not finite"
    outlined = "; outlined: PyTorch's own" if theirs else ""
    picture = charts.histogram(ours_shown or (), range(low, high + 1), f"errors of {said}", outlined=theirs_shown)
    return join((picture, tag("figcaption", f"{said}; how many lie between powers of two{outlined}")))


def extent(sides: Sequence[Histogram]) -> tuple[int, int]:
    """The exponents from the first count that is not zero to behind the last, of all sides together."""
    filled = [side.first + index for side in sides for index, count in enumerate(side.counts) if count] or [sides[0].first]
    return min(filled), max(filled) + 1


def _between(side: Histogram, low: int, high: int) -> tuple[int, ...]:
    counts = dict(enumerate(side.counts, start=side.first))
    return tuple(counts.get(exponent, 0) for exponent in range(low, high))
