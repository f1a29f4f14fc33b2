import numpy as np
import pytest
from scipy import stats

from superarm import CombLinTS, CombLinUCB, RandomChoice
from superarm.errors import ParameterError
from superarm.simulation import paired
from support import run


def test_intervals_are_those_of_a_paired_t_test():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(9)
    y = x + 0.3 + 0.1 * rng.standard_normal(9)
    for confidence in (0.8, 0.95, 0.999):
        found = paired(x, y, confidence=confidence)
        expected = stats.ttest_rel(x, y).confidence_interval(confidence)
        np.testing.assert_allclose((found.low, found.high), expected)
        assert (found.replicates, found.confidence) == (9, confidence)


def test_intervals_hold_the_truth_as_often_as_they_say():
    """0.95 ± 0.007, a standard error of 1,000 binomials."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        common = 100 * rng.standard_normal(6)
        found = paired(common + rng.standard_normal(6), common + rng.standard_normal(6) - 2)
        held += found.low <= 2 <= found.high
    assert 0.93 < held / 1000 < 0.97


def test_every_learner_beside_one():
    scales = {"lam": 10.0, "sigma": 1.0}
    trace = run([RandomChoice(), CombLinUCB(**scales, c=1.0), CombLinTS(**scales)])
    found = trace.differences("CombLinTS", confidence=0.9)
    assert [x.learner for x in found] == [x for x in trace.ranked() if x != "CombLinTS"]
    for difference in found:
        lost = trace.regret(difference.learner)[:, -1] - trace.regret("CombLinTS")[:, -1]
        assert difference.mean == pytest.approx(lost.mean())
        assert difference.se == pytest.approx(stats.sem(lost))
        assert difference.baseline == "CombLinTS"
    assert "more regret than CombLinTS (90 % interval: " in str(found[-1])


def test_what_cannot_be_paired_is_refused():
    with pytest.raises(ParameterError, match="two replicates or more, got 1"):
        run(replicates=1).differences("CombLinTS")
    with pytest.raises(ParameterError, match="no learner 'X' in this trace"):
        run().differences("X")
    with pytest.raises(ParameterError, match=r"got the shapes \(3,\) and \(2,\)"):
        paired(np.ones(3), np.ones(2))
    with pytest.raises(ParameterError, match="confidence must be between 0 and 1, got 95"):
        run().differences("CombLinTS", confidence=95)
