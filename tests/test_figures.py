import numpy as np
import pytest

from superarm import CombLinTS, RandomChoice, simulate
from superarm.figures import plot_regret
from superarm.studies.longest_path import LongestPath


@pytest.mark.parametrize("replicates", [1, 3])
def test_plot_regret(tmp_path, replicates):
    learners = [CombLinTS(lam=10.0, sigma=1.0), RandomChoice()]
    trace = simulate(
        LongestPath(m=3, d=4), learners, episodes=8, replicates=replicates, progress=False
    )
    figure = plot_regret(trace, tmp_path / "regret.svg", title="A small path")
    regret, share = figure.axes
    lines = {line.get_label(): line.get_ydata() for line in regret.lines}
    assert list(lines) == ["RandomChoice", "CombLinTS"]
    for learner in trace.learners:
        np.testing.assert_allclose(lines[learner], trace.regret(learner).mean(0))
    assert [line.get_label() for line in share.lines] == ["RandomChoice", "CombLinTS", "optimum"]
    assert "A small path" in (tmp_path / "regret.svg").read_text()
    assert f"{replicates} replicates" in figure.get_suptitle()
