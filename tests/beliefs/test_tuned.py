import numpy as np
import pytest

from superarm import CombLinTS, GaussianEnvironment, Problem, TopK, episodes, gaussian
from superarm.beliefs.scales import fit_scales
from support import update


def run(learner, n, seed=1, d=4):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((40, d))
    problem, world = (
        Problem(Phi, TopK(6)),
        GaussianEnvironment.coherent(Phi, lam=0.5, sigma=0.2, rng=rng),
    )
    return problem, list(episodes(learner, problem, world, rng=rng, n=n))


def posterior(problem, steps, spread, sigma):
    belief = gaussian.prior(problem.d, spread)
    for step in steps:
        belief = gaussian.condition(belief, problem.Phi[step.A], step.w, float(sigma))
    return belief


@pytest.mark.parametrize("n", [1, 2, 3, 8, 11])
def test_the_belief_is_that_of_its_scales_and_all_the_data(n):
    problem, steps = run(CombLinTS(), n)
    belief = steps[-1].belief
    again = posterior(problem, steps, belief.spread, belief.sigma)
    np.testing.assert_allclose(belief.factor, again.factor, rtol=1e-9, atol=1e-9)
    assert gaussian.log_evidence(belief) == pytest.approx(gaussian.log_evidence(again), rel=1e-9)


def test_scales_change_after_1_2_4_8_episodes_only():
    _, steps = run(CombLinTS(), 20)
    scales = [(10.0, 1.0)] + [(float(s.belief.lam), float(s.belief.sigma)) for s in steps]
    changed = [t for t in range(1, 21) if scales[t] != scales[t - 1]]
    assert changed == [1, 2, 4, 8, 16]


def test_scales_are_those_of_fit_scales():
    problem, steps = run(CombLinTS(), 32)
    rows = np.concatenate([problem.Phi[s.A] for s in steps])
    w = np.concatenate([s.w for s in steps])
    every_row = np.concatenate([problem.Phi, rows])
    scales = fit_scales(rows / np.sqrt((every_row**2).mean(0)), w)
    assert float(steps[-1].belief.sigma) == pytest.approx(scales.sigma, rel=5e-3)
    assert float(steps[-1].belief.lam) == pytest.approx(scales.lam, rel=5e-3)
    assert scales.sigma == pytest.approx(0.2, rel=0.2)


@pytest.mark.parametrize(("given", "fixed"), [({"sigma": 0.2}, "sigma"), ({"lam": 3.0}, "lam")])
def test_a_scale_that_is_given_stays(given, fixed):
    _, steps = run(CombLinTS(**given), 16)
    other = {"lam": "sigma", "sigma": "lam"}[fixed]
    assert float(getattr(steps[-1].belief, fixed)) == given[fixed]
    assert float(getattr(steps[-1].belief, other)) not in (10.0, 1.0)


def test_nothing_but_zeros_keeps_the_scales():
    problem = Problem(np.eye(3), TopK(2))
    learner = CombLinTS()
    belief = update(learner, learner.model.prior(problem), problem, np.array([0, 1]), np.zeros(2))
    assert (belief.lam, belief.sigma, belief.t) == (10.0, 1.0, 1)


def test_what_is_forgotten_is_forgotten_in_the_data_too():
    problem, steps = run(CombLinTS(forgetting=0.9), 8)
    belief = steps[-1].belief
    assert float(belief.rows) == pytest.approx(6 * (1 - 0.9**8) / (1 - 0.9))
    again = gaussian.absorb(
        gaussian.prior(4, belief.spread), belief.data, belief.rows, float(belief.sigma)
    )
    np.testing.assert_allclose(belief.factor, again.factor, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        belief.data[:4, :4].T @ belief.data[:4, :4],
        sum(0.9 ** (8 - s.t) * problem.Phi[s.A].T @ problem.Phi[s.A] for s in steps),
        rtol=1e-9,
    )
