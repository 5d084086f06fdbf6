"""Fill the generated blocks of a hand-written page. Pure."""

from __future__ import annotations


def filled(text: str, **blocks: str) -> str:
    """Exchange what is between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``. ValueError without these markers."""
    for name, content in blocks.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"the page has no block between {begin.strip()} and {end}")
        text = before + begin + content.rstrip("\n") + "\n" + end + after
    return text
