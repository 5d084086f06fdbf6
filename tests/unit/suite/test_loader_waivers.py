import pytest
from suite_texts import WAIVER, WHOLE

from flashcore_ci.model.suite import Waiver


@pytest.mark.parametrize("day", ["2026-12-31", '"2026-12-31"'], ids=["date", "text"])
def test_they_lie_beside_the_suite_and_a_day_may_be_text(read, checkout, day):
    (checkout / "gates/waivers.toml").write_text(WAIVER.replace("2026-12-31", day))
    expected = Waiver(gate="finite", target="big-1", reason="known", owner="kernels", expires="2026-12-31")
    assert read(WHOLE).waivers == (expected,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WAIVER + WAIVER, "gates/waivers.toml: waiver[1]: finite on big-1 is waived twice"),
        (WAIVER.replace("2026-12-31", '"soon"'), "gates/waivers.toml: waiver[0].expires: "),
        (WAIVER.replace("expires", "until"), 'gates/waivers.toml: waiver[0].until: unknown key "until"'),
        (WAIVER.replace("[[waiver]]", "[[waivers]]"), 'unknown key "waivers" (did you mean "waiver"?)'),
        ("[[", "gates/waivers.toml: not valid TOML"),
    ],
)
def test_wrong_ones_are_errors(problems, checkout, text, words):
    (checkout / "gates/waivers.toml").write_text(text)
    assert any(words in line for line in problems(WHOLE))


def test_an_intended_slow_down_is_waived_for_a_pair_and_not_until_a_day(read, checkout):
    pair = "0123456789ab..ba9876543210"
    (checkout / "gates/waivers.toml").write_text(WAIVER.replace("expires = 2026-12-31", f'pair = "{pair}"'))
    (waiver,) = read(WHOLE).waivers
    assert (waiver.pair, waiver.expires) == (pair, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WAIVER.replace("expires = 2026-12-31", ""), "needs either a last day (expires) or the pair"),
        (WAIVER + 'pair = "0123456789ab..ba9876543210"', "needs either a last day (expires) or the pair"),
        (WAIVER.replace("expires = 2026-12-31", 'pair = "main..mine"'), "waiver[0].pair: "),
    ],
)
def test_a_waiver_has_one_end(problems, checkout, text, words):
    (checkout / "gates/waivers.toml").write_text(text)
    assert any(words in line for line in problems(WHOLE))
