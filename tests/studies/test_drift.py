from superarm import mean_se, simulate
from superarm.studies.drift import LEARNERS, Drift
from support import TIMES


def test_forgetting_follows_a_wandering_world():
    trace = simulate(
        Drift(), LEARNERS, episodes=500, replicates=8 * TIMES, workers=1, progress=False
    )
    regret = {name: trace.regret(name)[:, -1] for name in LEARNERS}
    saved, se = mean_se(regret["CombLinTS"] - regret["forgetting 0.95"])
    assert saved > 3 * se
    best_window = min(regret[name].mean() for name in regret if name.startswith("sliding"))
    assert regret["forgetting 0.9"].mean() < 1.25 * best_window
