"""Every plot. Needs matplotlib: `pip install superarm[plot]`."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import stdtrit

from superarm.arrays import Array
from superarm.files import PathLike
from superarm.simulate import Trace, mean_se


def plot_regret(trace: Trace, path: PathLike | None = None, *, title: str = "") -> Figure:
    """Cumulative regret and per-step return of every learner, with 95 % intervals; saved if a path is given.

    The file's ending decides its format (.png, .svg, .pdf).

    >>> from superarm import CombLinTS, RandomChoice, simulate
    >>> from superarm.experiments.longest_path import LongestPath
    >>> from superarm.figures import plot_regret
    >>> learners = [CombLinTS(lam=10.0, sigma=1.0), RandomChoice()]
    >>> trace = simulate(LongestPath(m=3, d=4), learners, episodes=30, replicates=4, progress=False)
    >>> figure = plot_regret(trace)
    """
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    regret, share = figure.subplots(1, 2)
    order = sorted(trace.learners, key=lambda learner: -trace.regret(learner)[:, -1].mean())
    for i, learner in enumerate(order):
        _band(regret, trace.regret(learner), learner, f"C{i}")
        _band(share, trace.per_step_return(learner) / trace.per_step_optimum(), learner, f"C{i}")
    share.axhline(1, color="0.3", linewidth=1, linestyle=":", label="optimum")
    regret.set(xlabel="episode", ylabel="cumulative regret", ylim=(0, None))
    share.set(xlabel="episode", ylabel="per-step return / optimum")
    replicates = trace.oracle_expected.shape[0]
    figure.suptitle(f"{title}{' · ' if title else ''}mean and 95 % interval over {replicates} replicates", fontsize=11)
    for axes in (regret, share):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.margins(x=0)
    regret.legend(frameon=False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _band(axes: Axes, values: Array, label: str, color: str) -> None:
    """The mean of values (replicates, episodes) as a line, with its 95 % interval."""
    mean, se = mean_se(values)
    t = range(1, len(mean) + 1)
    axes.plot(t, mean, label=label, color=color, linewidth=1.8)
    width = stdtrit(max(len(values) - 1, 1), 0.975) * se
    axes.fill_between(t, mean - width, mean + width, color=color, alpha=0.18, linewidth=0)
