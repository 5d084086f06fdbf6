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


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('codes = ["crash"]', 'waiver[0].codes: no waiver covers "crash"'),
        ('codes = ["over-limit", "no-evidence"]', 'no waiver covers "no-evidence"'),
        ('codes = ["within-limit"]', 'no waiver covers "within-limit"'),
        ('codes = ["drifted"]', "finite never gives drifted: name what it gives"),
        ('codes = ["over-limit", "over-limit"]', "a code is given twice"),
        ("codes = []", "waiver[0].codes: "),
        ('codes = ["*"]', "waiver[0].codes"),
        ('finding = "*"', '"*" does not name a finding'),
        ('finding = "* *:* *"', "does not name a finding"),
        ('finding = "k k.cu:7 *"', "does not name a finding"),
        ('finding = "k k.cu:7 ?nvalid read*"', ""),
        ('finding = "k *.cu:7 Invalid read"', "does not name a finding"),
        ('finding = "*k k.cu:7 Invalid read"', "does not name a finding"),
        ('finding = "k k.cu:7 Invalid*read of size 4"', "does not name a finding"),
        ('finding = "k k.cu:[0-9] Invalid read of size 4"', "does not name a finding"),
    ],
)
def test_what_a_waiver_may_cover(problems, read, checkout, line, words):
    (checkout / "gates/waivers.toml").write_text(WAIVER + line)
    if words:
        assert any(words in problem for problem in problems(WHOLE))
    else:
        assert read(WHOLE).waivers


@pytest.mark.parametrize("key", ["reason", "owner"])
def test_a_blank_reason_is_none(problems, checkout, key):
    (checkout / "gates/waivers.toml").write_text(WAIVER.replace('"known"' if key == "reason" else '"kernels"', '" \\t "'))
    assert any(f"waiver[0].{key}" in line for line in problems(WHOLE))


def test_the_codes_of_a_waiver(read, checkout):
    (checkout / "gates/waivers.toml").write_text(WAIVER + 'codes = ["under-limit"]')
    assert read(WHOLE).waivers[0].codes == ("under-limit",)
