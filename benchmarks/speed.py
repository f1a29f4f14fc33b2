"""What things cost, as ratios to a floor, to bare NumPy and to other libraries, measured in one
run.

Absolute times depend on the machine and its mood. So contestants take turns, repeat after repeat,
and medians are compared; BLAS has one thread, as everywhere in superarm.
"""

import argparse
import functools
import itertools
import json
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtpqrt, dtrtrs
from threadpoolctl import threadpool_limits

import features
import items
from peers import against_peers
from superarm import gaussian
from superarm.agent import Agent
from superarm.arrays import Array
from superarm.contracts import Feedback, Learner, Problem
from superarm.engine.ray_nodes import versions
from superarm.learners import CombLinTS, CombLinUCB, CombMixTS
from superarm.oracles import TopK
from superarm.simulation import episodes, simulate
from superarm.studies.ads import Ads
from superarm.studies.longest_path import LongestPath
from turns import SIGMA, Bare, Row, as_text, interleaved, turn_of

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from reference import comb_lin_ts

SIZES = [(6_000, 20, 10), (100_000, 64, 50), (1_000_000, 32, 100)]


# A replicate of the paper's default case.


def _floor_of_a_replicate(Phi: Array, K: int, n: int) -> None:
    """Only the LAPACK and BLAS calls and the draws, on the same shapes."""
    L, d = Phi.shape
    rng = np.random.default_rng(1)
    factor = np.asfortranarray(0.1 * np.eye(d + 1))
    rows = rng.standard_normal((K, d + 1))
    for _ in range(n):
        theta = dtrtrs(factor[:d, :d], rng.standard_normal(d))[0]
        Phi @ theta
        rng.standard_normal(L)
        dtpqrt(0, 16, factor, np.asfortranarray(rows), overwrite_a=1, overwrite_b=1)


def replicate(repeats: int) -> Iterator[Row]:
    """150 episodes of the default longest path."""
    problem, world = LongestPath()(np.random.default_rng(0))
    learner = CombLinTS(lam=10.0, sigma=1.0)

    def ours() -> None:
        for _ in episodes(learner, problem, world, rng=np.random.default_rng(1), n=150):
            pass

    def floor() -> None:
        _floor_of_a_replicate(np.asarray(problem.Phi), 60, 150)

    rng = np.random.default_rng(1)

    def literal_loops() -> None:
        def draw(t: int) -> Array:
            return world.sample(rng)

        for _ in comb_lin_ts(problem.Phi, problem.oracle, 10.0, 1.0, 150, draw, rng):
            pass

    taken = interleaved({"ours": ours, "floor": floor, "literal": literal_loops}, repeats)
    for name, reference, asked in (
        ("floor", "floor: tpqrt, solve, product, draws", "at most 1.8"),
        ("literal", "the paper's literal loops", "at most 1/6"),
    ):
        yield Row(
            "one default longest-path replicate",
            taken["ours"],
            reference,
            taken["ours"] / taken[name],
            asked,
        )


# One decision and one update.


def agents(repeats: int, sizes: list[tuple[int, int, int]], missing: list[str]) -> Iterator[Row]:
    """`Agent.choose` + `observe` against bare NumPy, and at the first size against peers."""
    for L, d, k in sizes:
        rng = np.random.default_rng(0)
        Phi = rng.standard_normal((L, d))
        mean = Phi @ rng.standard_normal(d)
        agent = Agent(CombLinTS(lam=1.0, sigma=SIGMA), features=Phi, oracle=TopK(k), seed=1)
        bare = Bare(Phi, k, seed=1)
        turns = {
            "ours": turn_of(agent.choose, agent.observe, mean, 2),
            "bare NumPy": turn_of(bare.choose, bare.observe, mean, 2),
        }
        taken = interleaved(turns, max(20, min(100 * repeats, 2 * 10**7 // L)))
        what = f"choose + observe, L={L:,} d={d} k={k}"
        asked = "at most 1.5" if L < 10**5 else "at most 1.15"
        yield Row(what, taken["ours"], "bare NumPy", taken["ours"] / taken["bare NumPy"], asked)
        if (L, d, k) == SIZES[0]:
            yield from against_peers(what, Phi, mean, k, repeats, missing)


def mixed(repeats: int) -> Iterator[Row]:
    """A decision of CombMixTS against one of CombLinTS, with the beliefs of 100 episodes."""
    problem, world = Ads()(np.random.default_rng(0))
    learners: dict[str, Learner] = {
        "CombMixTS": CombMixTS(),
        "CombLinTS": CombLinTS(lam=1.0, sigma=0.3),
    }
    made = {
        name: Agent(x, features=problem.Phi, oracle=problem.oracle, seed=1)
        for name, x in learners.items()
    }
    rng = np.random.default_rng(1)
    for _ in range(100):
        for agent in made.values():
            items = agent.choose()
            agent.observe(items, world.sample(rng)[items])
    taken = interleaved({name: agent.choose for name, agent in made.items()}, 100 * repeats)
    ratio = taken["CombMixTS"] / taken["CombLinTS"]
    yield Row(
        f"CombMixTS.choose, L={problem.L:,} d={problem.d}",
        taken["CombMixTS"],
        "CombLinTS",
        ratio,
        "at most 2",
    )


# CachedStd, workers, large catalogues.


def ucb_widths(repeats: int, L: int = 20_000, d: int = 200, K: int = 20) -> Iterator[Row]:
    """CachedStd of all items against a matrix product, and kept widths against widths computed
    anew.
    """
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((L, d))
    problem = Problem(Phi, TopK(K))
    learner = CombLinUCB(lam=10.0, sigma=1.0, c=1.0)
    model = learner.model
    belief: Any = model.prior(problem)
    for _ in range(40):
        feedback = Feedback.of(problem, rng.permutation(L)[:K], rng.standard_normal(K))
        belief = model.learn(belief, problem, feedback)
    R = np.array(belief.factor[:-1, :-1])
    taken = interleaved(
        {"ours": lambda: gaussian.std(belief, Phi), "product": lambda: Phi @ R}, 2 * repeats
    )
    where = f"L={L:,} d={d}"
    yield Row(
        f"widths of all items, {where}",
        taken["ours"],
        "the product ΦR",
        taken["ours"] / taken["product"],
        "",
    )
    turns_of = [(rng.permutation(L)[:K], rng.standard_normal(K)) for _ in range(50)]
    turns = itertools.cycle(turns_of)
    now = belief

    def kept() -> None:
        nonlocal now
        now = model.learn(now, problem, Feedback.of(problem, *next(turns)))
        learner.scores(now, problem, rng)

    def anew() -> None:
        items, w = turns_of[0]
        after = gaussian.condition(belief, Phi[items], w, 1.0)
        Phi @ gaussian.mean(after) + gaussian.std(after, Phi)

    taken = interleaved({"kept": kept, "anew": anew}, 4 * repeats)
    what = f"CombLinUCB, update + weights, {where} K={K}"
    yield Row(
        what, taken["kept"], "widths computed anew", taken["kept"] / taken["anew"], "at most 0.6"
    )


def workers(repeats: int) -> Iterator[Row]:
    """40 replicates of the default case with one worker and with two."""

    def run(n: int) -> Callable[[], Any]:
        learners = [CombLinTS(lam=10.0, sigma=1.0)]
        return lambda: simulate(
            LongestPath(), learners, episodes=150, replicates=40, workers=n, progress=False
        )

    taken = interleaved({"one": run(1), "two": run(2)}, max(1, repeats // 3))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    what = f"40 replicates with two workers, on {cores} cores"
    yield Row(what, taken["two"], "one worker", taken["two"] / taken["one"], "at most 1/1.7")


def catalogue(repeats: int, L: int = 10_000_000, d: int = 32, k: int = 100) -> Iterator[Row]:
    """A decision over a memory-mapped catalogue in float32 against one pass of the bare blocked
    product.
    """
    step = 65_536
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        rng = np.random.default_rng(0)
        made = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(L, d))
        for start in range(0, L, step):
            made[start : start + step] = rng.standard_normal(
                (min(step, L - start), d), dtype=np.float32
            )
        del made
        Phi = np.load(path, mmap_mode="r")
        agent = Agent(CombLinTS(lam=1.0, sigma=SIGMA), features=Phi, oracle=TopK(k), seed=1)
        theta = rng.standard_normal(d).astype(np.float32)

        def bare() -> None:
            for start in range(0, L, step):
                Phi[start : start + step] @ theta

        taken = interleaved({"ours": agent.choose, "bare": bare}, max(2, repeats // 2))
        tracemalloc.start()
        agent.choose()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    what = f"choose, L={L:,} d={d}, memory-mapped float32"
    yield Row(
        what,
        taken["ours"],
        "one pass of the blocked product",
        taken["ours"] / taken["bare"],
        "at most 1.5",
    )
    yield Row(
        f"{what}: peak memory {peak / 1e6:.1f} MB",
        taken["ours"],
        "200 MB",
        peak / 200e6,
        "at most 1",
    )


def growth(repeats: int) -> dict[str, list[dict[str, float]]]:
    """Seconds of `choose` and `observe` against L, d, K and the number of episodes before."""
    base = {"L": 20_000, "d": 32, "K": 20, "episodes": 0}
    along = {
        "L": [2_500, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000],
        "d": [8, 16, 32, 64, 128, 256],
        "K": [5, 10, 20, 40, 80, 160],
        "episodes": [0, 100, 1_000, 5_000],
    }
    found: dict[str, list[dict[str, float]]] = {}
    for name, values in along.items():
        for value in values:
            size = base | {name: value}
            rng = np.random.default_rng(0)
            Phi = rng.standard_normal((size["L"], size["d"]))
            mean = rng.standard_normal(size["L"])
            agent = Agent(
                CombLinTS(lam=1.0, sigma=SIGMA), features=Phi, oracle=TopK(size["K"]), seed=1
            )
            for _ in range(size["episodes"]):
                items = agent.choose()
                agent.observe(items, mean[items])
            items = agent.choose()
            observe = functools.partial(agent.observe, items, mean[items])
            # one after the other: in turns, a decision drives what an update needs out of the cache
            choosing = interleaved({"choose": agent.choose}, 20 * repeats)
            observing = interleaved({"observe": observe}, 20 * repeats)
            found.setdefault(name, []).append({"value": value, **choosing, **observing})
    return found


def growth_rows(cost: Mapping[str, list[dict[str, float]]]) -> Iterator[Row]:
    """What growth there should be, and what there should not."""
    for name, what, i, j in (
        ("L", "choose", -1, -2),
        ("L", "observe", -1, 0),
        ("episodes", "choose", -1, 0),
    ):
        large = cost[name][i]
        small = cost[name][j]
        asked = "about 2" if (name, what) == ("L", "choose") else "about 1"
        where = f"{what}, {name}={large['value']:,}"
        yield Row(
            where, large[what], f"{name}={small['value']:,}", large[what] / small[what], asked
        )


def run(out: Path, *, repeats: int = 9, quick: bool = False) -> tuple[list[Row], list[str]]:
    """Measure everything, write bench.json and bench.png to `out`; returns the table and what is
    missing from it.
    """
    missing: list[str] = []
    sizes = SIZES[:1] if quick else SIZES
    sections: list[Callable[[], Iterator[Row]]] = [
        lambda: replicate(repeats),
        lambda: agents(repeats, sizes, missing),
        lambda: mixed(repeats),
        lambda: ucb_widths(repeats, *((2_000, 100, 10) if quick else (20_000, 200, 20))),
    ]
    if quick:
        missing.append(
            "contexts and sparse features, two workers, L=100,000 and above: run without --quick"
        )
    else:
        sections += [
            lambda: features.contexts(repeats),
            lambda: features.sparse(repeats),
            lambda: items.one_item(repeats),
            lambda: items.few(repeats),
            lambda: workers(repeats),
            lambda: catalogue(repeats),
        ]
    rows: list[Row] = []
    with threadpool_limits(limits=1):
        for i, section in enumerate(sections, 1):
            print(f"\rmeasuring {i}/{len(sections) + 1}", end="", file=sys.stderr, flush=True)
            rows += section()
        print(f"\rmeasuring {len(sections) + 1}/{len(sections) + 1}", file=sys.stderr)
        cost = growth(1 if quick else repeats)
    rows += growth_rows(cost)
    content = {
        "rows": [row._asdict() for row in rows],
        "growth": cost,
        "missing": missing,
        "settings": {"repeats": repeats, "quick": quick},
        "versions": versions(),
    }
    (out / "bench.json").write_text(json.dumps(content, indent=2) + "\n")
    try:
        plot_growth(cost, out / "bench.png")
    except ImportError as error:
        missing.append(f"the plot: {error}; pip install 'superarm[plot]'")
    return rows, missing


def plot_growth(cost: Mapping[str, list[dict[str, float]]], path: Path) -> None:
    """Save a plot of the time of a decision and of an update against L, d, K and the episodes
    before, on logarithmic scales.
    """
    from superarm import figures

    figure = figures.panels((3.3 * len(cost), 3.6), columns=len(cost), sharey=True)
    for axes, (name, points) in zip(figure.axes, cost.items(), strict=True):
        values = [max(point["value"], 1) for point in points]
        for what, color in (("choose", "C0"), ("observe", "C1")):
            microseconds = [1e6 * point[what] for point in points]
            axes.plot(values, microseconds, "o-", color=color, label=what, markersize=4)
        figures.finish(axes, xlabel=name, xscale="log", yscale="log")
    figure.axes[0].set_ylabel("microseconds")
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, dpi=150)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(
        description="Measure decisions and updates in one run, contestants taking turns. "
        "Prints ratios of medians and writes DIR/bench.json and DIR/bench.png.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes only, in half a minute")
    parser.add_argument("--repeats", type=int, default=9, help="turns of the slowest contestants")
    parser.add_argument(
        "--out", type=Path, default=Path("bench"), metavar="DIR", help="where to write"
    )
    arguments = parser.parse_args(argv)
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows, missing = run(arguments.out, repeats=arguments.repeats, quick=arguments.quick)
    print(as_text(rows))
    for line in missing:
        print(f"\n{line}")
    print(f"\nJSON and plot: {arguments.out}")


if __name__ == "__main__":
    main()
