"""Properties of the sequential test: monotone in the slowdown, independent of order and unit, strict on impossible values."""

import math

from comparing import CHECK, comparison, context, make_noise, samples_of, verdict_on
from hypothesis import assume, example, given
from hypothesis import strategies as st

from flashcore_ci.judge import no_slower
from flashcore_ci.judge.stats.paired_estimate import Prior
from flashcore_ci.judge.stats.sequential_test import Rounds, decide
from flashcore_ci.model.codes import FAILING, PASSING, Code
from flashcore_ci.model.verdict import Outcome

MARGIN = math.log1p(0.003)
ROWS = 16
deviations = st.floats(-0.01, 0.01)
pairs = st.lists(st.tuples(deviations, deviations), min_size=5, max_size=12)
priors = st.none() | st.builds(Prior, variance=st.floats(1e-9, 1e-4), df=st.floats(0.5, 24.0))
slowness = st.floats(-0.05, 0.2)


def rounds_of(found, slow=0.0, scale=1.0):
    base = tuple(scale * math.exp(one) for one, _ in found)
    return Rounds(base=base, head=tuple(scale * math.exp(two + slow) for _, two in found))


def scattered(found):
    ratios = [two - one for one, two in found]
    assume(max(ratios) - min(ratios) > 1e-6)


def code(rounds, prior, time=None):
    return decide(rounds, time, margin=MARGIN, rows=ROWS, noise=(prior, prior)).code


@given(pairs, priors, slowness, st.floats(0.0, 0.2))
def test_more_slowdown_never_improves_the_code(found, prior, slow, more):
    scattered(found)
    before, after = (code(rounds_of(found, slow + extra), prior) for extra in (0.0, more))
    order = {Code.FASTER: 0, Code.SAME: 1, Code.UNDECIDED: 2, Code.BELOW_RESOLUTION: 2, Code.BIMODAL: 2, Code.SLOWER: 3}
    assert order[after] >= order[before] or Code.BIMODAL in {before, after}
    assert not (before in FAILING and after in PASSING)


@given(pairs, priors, slowness, st.integers(0, 11), st.floats(0.0, 0.2))
def test_one_slower_process_never_turns_fail_into_pass(found, prior, slow, which, more):
    scattered(found)
    before = code(rounds_of(found, slow), prior)
    which %= len(found)
    worse = [(one, two + more) if index == which else (one, two) for index, (one, two) in enumerate(found)]
    scattered(worse)
    assert not (before in FAILING and code(rounds_of(worse, slow), prior) in PASSING)


@given(pairs, priors, slowness, st.randoms(use_true_random=False))
def test_the_order_of_rounds_does_not_matter(found, prior, slow, random):
    scattered(found)
    shuffled = list(found)
    random.shuffle(shuffled)
    assert code(rounds_of(shuffled, slow), prior) is code(rounds_of(found, slow), prior)


@given(pairs, priors, slowness, st.sampled_from([2.0**-20, 2.0**-3, 2.0, 2.0**20]))
def test_the_unit_does_not_matter(found, prior, slow, scale):
    scattered(found)
    rounds = rounds_of(found, slow)
    scaled = Rounds(base=tuple(scale * v for v in rounds.base), head=tuple(scale * v for v in rounds.head))
    assert code(scaled, prior) is code(rounds, prior)  # powers of two change no digit, so that no verdict at its edge moves


@given(pairs, st.sampled_from([0.0, -1.0, -0.0, 1e-320, 1e300]), st.integers(0, 23), st.booleans())
@example([(0.0, 0.001), (0.0, 0.0)] * 4, 0.0, 0, True)
def test_impossible_values_are_inconclusive(found, bad, where, noisy):
    values = [math.exp(value) for pair in found for value in pair]
    where %= len(values)
    values[where] = bad
    samples = samples_of(values[::2], values[1::2])
    noise = make_noise(0.1) if noisy else None
    final = no_slower.is_final(CHECK, dict(samples), context(noise))
    verdict = verdict_on(comparison(samples))
    if bad <= 0:
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert verdict.reason.code in {Code.INVALID_RESULT, Code.TOO_FEW_PROCESSES}
        assert not final
    assert verdict.outcome is not Outcome.PASS or -0.01 < verdict.reading.value < 0.3
