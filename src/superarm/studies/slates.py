"""Slates that users do not look at in full: what it costs to ignore that, and the linear cascading
bandits of Zong et al. (UAI 2016).

In Zong et al., features are the singular vectors of who liked what in one half of the users, and
attraction is measured on the other half. They take MovieLens, Yelp and the Million Song data; here
users are drawn from a low-rank model, and taken from Last.fm where it is at hand. Their
CascadeLinTS and CascadeLinUCB are CombLinTS and CombLinUCB that read clicks as a cascade, their
CascadeUCB1 is CombUCB1 that does; but here what CombUCB1 pays to see every item once is counted.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from superarm.arrays import Array, spawn
from superarm.checks import require_count
from superarm.contracts import Feedback, Problem
from superarm.errors import DataError, ParameterError
from superarm.learners import CombLinTS, CombLinUCB, CombUCB1
from superarm.oracles import Slate, TopK
from superarm.palette import styles_of
from superarm.simulation.click_models import CascadeEnvironment, PositionEnvironment, Read
from superarm.simulation.environments import BernoulliEnvironment
from superarm.slates import cascade, fit_examination, position_based
from superarm.studies.datasets import lastfm
from superarm.studies.report import (
    AS_SAID,
    UNLIKE,
    UNSURE,
    Figures,
    Outcome,
    Row,
    number,
    regret_table,
)
from superarm.studies.study import Content, Curves, Learners, Setting, Study, estimate, regret

Users: TypeAlias = Literal["positions", "cascade"]
Reading: TypeAlias = Literal["all seen", "cascade", "positions, known", "positions, learned"]
"""What the learner takes clicks for."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """Ten of a hundred items whose attraction, 0.01 to 0.4, is linear in ten features.

    Users look at position k with probability 1/k, or from the top down to their first click. To
    learn positions there are `logged` slates in random order from before.

    Args:
        users: what users do: "positions" or "cascade".
        reading: what the learner takes clicks for, one of `READINGS[users]`.
        L: how many items there are.
        K: how many are shown.
        d: how many features an item has; the first is a constant.
        logged: how many slates there are to learn positions from.

    >>> import numpy as np
    >>> problem, world = Page(users="positions", reading="positions, learned")(
    ...     np.random.default_rng(0)
    ... )
    >>> problem.L, problem.d, world.examination[:2]
    (100, 10, (1.0, 0.5))
    """

    users: Users
    reading: Reading
    L: int = 100
    K: int = 10
    d: int = 10
    logged: int = 3000

    def __post_init__(self) -> None:
        require_count(L=self.L, K=self.K, d=self.d, logged=self.logged)
        known = READINGS.get(self.users, ())
        if self.reading not in known:
            raise ParameterError(
                f"users must be one of {', '.join(READINGS)}, and reading one of what READINGS has "
                f"for them, got {self.users!r} and {self.reading!r}"
            )

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, BernoulliEnvironment]:
        """One instance.

        Returns:
            a problem, and the attractions of its items.
        """
        (past,) = spawn(rng, 1)
        X = rng.standard_normal((self.L, self.d - 1))
        score = X @ rng.standard_normal(self.d - 1)
        from_0_to_1 = (score - score.min()) / np.ptp(score)
        mean = 0.01 + 0.39 * from_0_to_1
        constant = np.ones(self.L)
        Phi = np.column_stack([constant, X]) / np.sqrt(self.d)
        p = 1 / np.arange(1, self.K + 1)
        read = self._read(mean, p, past)
        if self.users == "cascade":
            world = CascadeEnvironment(mean, read=read)
            return Problem(Phi, TopK(self.K)), world
        slate = Slate(self.K, examination=p)
        return Problem(Phi, slate), PositionEnvironment(mean, examination=p, read=read)

    def _read(self, mean: Array, p: Array, past: np.random.Generator) -> Read:
        """How the learner reads clicks."""
        if self.reading == "all seen":
            return Feedback.of
        if self.reading == "cascade":
            return cascade
        if self.reading == "positions, learned":
            orders = np.argsort(past.random((self.logged, self.L)))
            A = orders[:, : self.K]
            rates = mean[A] * p
            clicks = past.random(A.shape) < rates
            p = fit_examination(A, clicks).p
        return partial(position_based, examination=p)


READINGS: Mapping[Users, tuple[Reading, ...]] = {
    "positions": ("all seen", "cascade", "positions, known", "positions, learned"),
    "cascade": ("all seen", "cascade"),
}
"""The readings to compare, by what users do."""
LEARNER = CombLinTS(lam=1.0, sigma=0.3)
EPISODES = 3000


@functools.cache
def listened() -> Array:
    """Who of Last.fm's users listened to which of the 1,000 artists with most listeners."""
    plays = lastfm().plays
    user = np.unique(plays[:, 0], return_inverse=True)[1]
    artist = np.unique(plays[:, 1], return_inverse=True)[1]
    W = np.zeros((user.max() + 1, artist.max() + 1), dtype=bool)
    W[user, artist] = True
    most = np.argsort(-W.sum(0), kind="stable")[:1000]
    return W[:, most]


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Zong et al.: L items at random, of which K are shown to users who click the first they like.

    Args:
        source: where users come from, a model of low rank or the data of Last.fm.
        L: how many items there are.
        K: how many are shown.
        d: how many features an item has.

    >>> import numpy as np
    >>> problem, world = Recommendation(L=30, d=5)(np.random.default_rng(0))
    >>> problem.Phi.shape, round(float(np.linalg.norm(problem.Phi, axis=1).max()), 6)
    ((30, 5), 1.0)
    """

    source: Literal["low rank", "Last.fm"] = "low rank"
    L: int = 256
    K: int = 4
    d: int = 10

    def __post_init__(self) -> None:
        require_count(L=self.L, K=self.K, d=self.d)

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, CascadeEnvironment]:
        """One instance.

        Returns:
            a problem, and the users who stop at their first click.
        """
        liked = self._liked(rng)
        liked = liked[rng.permutation(len(liked))]
        train, test = np.array_split(liked, 2)
        _, scale, V = np.linalg.svd(train.astype(float), full_matrices=False)
        Phi = V[: self.d].T * scale[: self.d]
        norms = np.linalg.norm(Phi, axis=1)
        problem = Problem(Phi / norms.max(), TopK(self.K))
        return problem, CascadeEnvironment(test.mean(0))

    @functools.cached_property
    def listened(self) -> Array | None:
        """Who listened to what, where the users are Last.fm's."""
        return listened() if self.source == "Last.fm" else None

    def __getstate__(self) -> dict[str, Any]:
        """With the users: workers elsewhere may not have the data."""
        return {**vars(self), "listened": self.listened}

    def _liked(self, rng: np.random.Generator) -> Array:
        """Who likes what, (users, L)."""
        W = self.listened
        if W is not None:
            return W[:, rng.choice(W.shape[1], self.L, replace=False)]
        taste = rng.standard_normal((2000, 10))
        items = rng.standard_normal((self.L, 10)) / np.sqrt(10)
        fame = rng.normal(-2.5, 1.0, self.L)
        odds = np.exp(fame + taste @ items.T)
        return np.asarray(rng.random(odds.shape) < odds / (1 + odds))


CASCADES: Learners = {
    "CascadeLinTS": CombLinTS(lam=1.0, sigma=1.0),
    "CascadeLinUCB": CombLinUCB(lam=1.0, sigma=1.0, c=1.0),
    "CascadeUCB1": CombUCB1(),
}
SWEEPS: Mapping[str, tuple[int, ...]] = {"d": (5, 10, 20, 40), "L": (64, 256, 1000)}
SWEPT = {
    "d": ("CascadeLinTS", "CascadeLinUCB"),  # CascadeUCB1 knows no features
    "L": ("CascadeLinTS", "CascadeUCB1"),
}


def sources_at_hand() -> list[str]:
    """Where the users of `Recommendation` can come from."""
    try:
        listened()
    except DataError:
        return ["low rank"]
    return ["low rank", "Last.fm"]


def run(study: Study) -> Outcome:
    """Run both parts; writes slates.json, slates.csv and cascades.csv."""
    replicates = study.count(quick=4)
    users = _users(study, replicates)
    sources = sources_at_hand()
    curves, ends = _recommendations(study, replicates, sources)
    content = {
        "settings": {
            "replicates": replicates,
            "episodes": study.at_most(EPISODES),
            "learner": repr(LEARNER),
            "learners": {label: repr(learner) for label, learner in CASCADES.items()},
        },
        "users": {
            name: {reading: _ends(values) for reading, values in readings.items()}
            for name, readings in users.items()
        },
        "recommendations": {
            source: {label: _ends(values) for label, values in curves[source].items()}
            for source in sources
        },
        "sweeps": ends,
    }
    study.write_json("slates", content)
    study.write_curves("slates", {"regret": _flat(users)})
    study.write_curves("cascades", {"regret": _flat(curves)})
    return Outcome(
        content,
        [
            *(
                regret_table(f"Users by {name}: regret at the end", readings, what="clicks read as")
                for name, readings in users.items()
            ),
            *(
                regret_table(f"Cascades, {source}: regret at the end", learners)
                for source, learners in curves.items()
            ),
        ],
        claims=claims(content),
        ours=rows(content),
        draw=partial(draw, content, users, curves),
    )


def _users(study: Study, replicates: int) -> dict[str, dict[str, Array]]:
    """Regret by what users do and what the learner takes clicks for."""
    n = study.at_most(EPISODES)
    settings = {
        (users, reading): Setting(
            f"page n={n} {users} read as {reading}",
            Page(users=users, reading=reading),
            LEARNER,
            n,
            replicates,
        )
        for users, readings in READINGS.items()
        for reading in readings
    }
    traces = study.run(settings)
    return {
        users: {reading: regret(traces[users, reading]) for reading in readings}
        for users, readings in READINGS.items()
    }


def _recommendations(
    study: Study,
    replicates: int,
    sources: list[str],
) -> tuple[dict[str, dict[str, Array]], Content]:
    """Regret of all learners by source, and regret at the end against d and L."""
    n = study.at_most(EPISODES)

    def setting(label: str, **changes: Any) -> Setting:
        instance = Recommendation(**changes)
        name = f"cascade n={n} {instance.source} L={instance.L} d={instance.d} {label}"
        return Setting(name, instance, CASCADES[label], n, replicates)

    default = {
        (source, label): setting(label, source=source) for source in sources for label in CASCADES
    }
    swept = {
        (source, name, label, value): setting(label, source=source, **{name: value})
        for source in sources
        for name, values in SWEEPS.items()
        for label in SWEPT[name]
        for value in values
    }
    curves = {key: regret(trace) for key, trace in study.run(default).items()}
    at_end = {key: estimate(regret(trace)[:, -1]) for key, trace in study.run(swept).items()}
    by_source = {source: {label: curves[source, label] for label in CASCADES} for source in sources}
    ends = {
        source: {
            name: {
                label: {str(value): at_end[source, name, label, value] for value in values}
                for label in SWEPT[name]
            }
            for name, values in SWEEPS.items()
        }
        for source in sources
    }
    return by_source, ends


def _ends(values: Array) -> Content:
    """Regret (replicates, episodes) half way and at the end."""
    half = values.shape[-1] // 2
    at_half = values[:, half - 1]
    at_end = values[:, -1]
    return {
        "half": estimate(at_half),
        "regret": estimate(at_end),
        "second half": estimate(at_end - at_half),
    }


def _flat(groups: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Curves by group and label in one."""
    return {
        f"{group}: {label}": values
        for group, curves in groups.items()
        for label, values in curves.items()
    }


def rows(content: Content) -> Iterator[Row]:
    """What ignoring positions costs."""
    for users, readings in content["users"].items():
        naive = number(readings["all seen"]["regret"])
        for reading, found in readings.items():
            if reading != "all seen":
                yield Row(
                    f"slates, users by {users}: regret, clicks read as {reading}",
                    f"all seen: {naive}",
                    number(found["regret"]),
                )


def claims(content: Content) -> Iterator[Row]:
    """What Zong et al. say of linear cascading bandits."""
    for source, results in content["recommendations"].items():
        where = f"cascades, {source}"
        linear = results["CascadeLinTS"]
        itemwise = results["CascadeUCB1"]["regret"]
        yield Row(
            f"{where}: regret of CascadeLinTS against CascadeUCB1",
            "much lower (Zong et al.)",
            f"{number(linear['regret'])} against {number(itemwise)}",
            _difference(linear["regret"], itemwise),
        )
        yield Row(
            f"{where}: regret of CascadeLinTS in the second half, and the first",
            "flattens (Zong et al.)",
            f"{number(linear['second half'])} and {number(linear['half'])}",
            _difference(linear["second half"], linear["half"]),
        )
        by_d = content["sweeps"][source]["d"]["CascadeLinTS"]
        low, *_, high = by_d
        yield Row(
            f"{where}: regret of CascadeLinTS at d = {low} and {high}",
            "grows with d (Zong et al.)",
            f"{number(by_d[low])} and {number(by_d[high])}",
            _difference(by_d[low], by_d[high]),
        )
        by_L = content["sweeps"][source]["L"]
        low, *_, high = by_L["CascadeLinTS"]
        growth = {label: by_L[label][high]["mean"] / by_L[label][low]["mean"] for label in by_L}
        yield Row(
            f"{where}: regret at L = {high} over that at L = {low}, CascadeLinTS and CascadeUCB1",
            "of its order, and much larger (Zong et al.)",
            " and ".join(f"{factor:.2f}" for factor in growth.values()),
            AS_SAID if growth["CascadeLinTS"] < growth["CascadeUCB1"] else UNLIKE,
        )


def _difference(smaller: Content, larger: Content) -> str:
    """Whether the one is below the other by three standard errors."""
    lead = larger["mean"] - smaller["mean"]
    se = np.hypot(smaller["se"] or np.inf, larger["se"] or np.inf)
    if lead > 3 * se:
        return AS_SAID
    return UNLIKE if lead < 0 else UNSURE


AXIS = {"d": "features d", "L": "items L"}


def draw(
    content: Content,
    users: Mapping[str, Curves],
    curves: Mapping[str, Curves],
) -> Figures:
    """Regret by episode for each reading of clicks; and Zong et al.'s learners by episode, and
    against d and L.
    """
    from superarm import figures

    replicates = content["settings"]["replicates"]
    pages = figures.panels((10.5, 4.2), columns=len(users))
    for axes, (name, readings) in zip(pages.axes, users.items(), strict=True):
        drawn = styles_of(readings)
        for reading, values in figures.sort_curves(readings):
            figures.draw_band(axes, values, f"read as {reading}", drawn[reading])
        figures.finish(axes, **figures.REGRET, legend=9, title=f"users by {name}", xmargin=0)
    pages.suptitle(f"{replicates} replicates, 95 % intervals", fontsize=11)

    figure = figures.panels((12, 3.6 * len(curves)), rows=len(curves), columns=3)
    for i, (source, learners) in enumerate(curves.items()):
        left, *others = figure.axes[3 * i : 3 * i + 3]
        drawn = styles_of(learners)
        for label, values in figures.sort_curves(learners):
            figures.draw_band(left, values, label, drawn[label])
        figures.finish(left, **figures.REGRET, legend=9, title=source, xmargin=0, yscale="log")
        left.set_ylim(10, None)
        for axes, (name, by_label) in zip(others, content["sweeps"][source].items(), strict=True):
            for label, ends in by_label.items():
                x = range(len(ends))
                figures.draw_points(axes, x, list(ends.values()), label, drawn[label])
            figures.finish(
                axes, xlabel=AXIS[name], xticks=x, xticklabels=list(ends), ylim=(0, None)
            )
    figure.suptitle(f"{replicates} replicates, 95 % intervals and two standard errors", fontsize=11)
    return {"slates": pages, "cascades": figure}
