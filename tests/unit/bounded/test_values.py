from __future__ import annotations

import pytest
from report_factories import make_verdict

from flashcore_ci.bounded import values


def test_ordinary_json_is_decoded() -> None:
    assert values.loads('{"a": [1, 2.5, "x", null, true]}') == {"a": [1, 2.5, "x", None, True]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 50 + "]" * 50, "nested more than 40 deep"),
        ("[" * 100_000, "nested too deeply"),
        ('"' + "x" * 5000 + '"', "5000 characters"),
        (str(1 << 64), "64 bits"),
        ("9" * 5000, "too large for a number"),
        ("1e999", "too large for a number"),
        ("NaN", "not a number"),
        ('{"a": 1, "a": 2}', "occurs twice"),
        ("[" + "[]," * 200_000 + "1]", "lists and tables"),
    ],
)
def test_what_grows_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        values.loads(text)


def test_a_text_is_weighed_each_time_that_it_is_repeated() -> None:
    verdict = make_verdict(notes=("n" * 1000,))
    one = values.weigh((verdict,), 1 << 30)
    assert values.weigh((verdict,) * 10, 1 << 30) == 10 * one
    assert values.weigh((verdict,) * 10, 50) == 50


def test_a_message_is_shortened() -> None:
    assert values.shorten("x" * 2000).endswith("x...")
    assert len(values.shorten("x" * 2000)) == values.MAX_MESSAGE
    assert values.shorten("short") == "short"
