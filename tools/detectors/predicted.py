"""What was predicted of the next recording, when, and for which rule."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PREDICTED = (
    ("rows, each of all GPUs", "10"),
    ("rows that scatter ≤ 0.07 %", "1"),
    ("of these, +0.3 % seen at the commit in ≥ 99 %", "all"),
    ("rows above that, and ≤ 0.15 %", "3"),
    ("of these, +0.5 % seen at the commit in ≥ 99 %", "all"),
    ("rows ≤ 0.15 % whose creep is found in time in ≥ 95 %", "all"),
    ("false alerts, clean (95 % bound per 1,000)", "8 (0.072)"),
    ("false alerts, disturbed", "1 (0.024)"),
    ("planted levels that were measured within 0.1 %", "38 of 42"),
)
"""Written at ``PREDICTED_AT``, for the rule whose files have the digest ``RULE``."""
PREDICTED_AT = "2026-11-23T20:30:00Z"
RULE_FILES = ("detection.py", "levels.py", "scatter.py")
RULE = "f5d07be4ffd775cb"


def rule_digest() -> str:
    """Digest the files of the rule."""
    return hashlib.sha256(b"".join((ROOT / "flashcore_ci/history" / name).read_bytes() for name in RULE_FILES)).hexdigest()[:16]


def standing(at: str, rule: str) -> str:
    """Say whether a recording came after the predictions, for the same rule."""
    if at <= PREDICTED_AT:
        return "It is older than the predictions below, so it is not untouched."
    if rule != RULE:
        return f"The rule was changed after the predictions below (its digest was `{RULE}`), so it is not untouched."
    return f"It came after the predictions ({PREDICTED_AT[:16]}), for the rule as it is (digest `{RULE}`)."
