"""Artist recommendation on Last.fm: ten artists an average user would choose."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from superarm.arrays import Array
from superarm.contracts import Problem
from superarm.errors import ParameterError
from superarm.oracles import TopK
from superarm.simulation.environments import BernoulliEnvironment
from superarm.studies import returns
from superarm.studies.datasets import lastfm
from superarm.studies.report import AS_SAID, UNLIKE, UNSURE, Outcome, Row, format_percent
from superarm.studies.returns import Catalogue
from superarm.studies.study import Content, Study

Likes = Literal["user mean", "user median", "global median"]
"""When a user likes an artist: the listening count is above this."""
TAGS = 20


def _liked(plays: Array, likes: Likes) -> Array:
    """Whether each listening count says that the user likes the artist."""
    from scipy import ndimage

    if likes not in get_args(Likes):
        raise ParameterError(
            f"likes must be 'user mean', 'user median' or 'global median', got {likes!r}"
        )
    count = plays[:, 2]
    who = np.unique(plays[:, 0], return_inverse=True)[1]
    if likes == "global median":
        who[:] = 0  # all of them as one
    statistic = ndimage.mean if likes == "user mean" else ndimage.median
    bar = statistic(count, who, np.unique(who))
    return np.asarray(count > bar[who])


def _probabilities(plays: Array, liked: Array) -> Array:
    """P(user likes artist) for each listening, by a two-class naive Bayes over user and artist with
    Laplace α = 1.
    """

    def score(of_class: Array) -> Array:
        """P(class) P(user | class) P(artist | class)."""
        n = of_class.sum()
        product: Array = n / len(liked)
        for column in (0, 1):
            who = np.unique(plays[:, column], return_inverse=True)[1]
            count = np.bincount(who, of_class)
            product = product * ((count + 1) / (n + len(count)))[who]
        return product

    like = score(liked)
    return np.asarray(like / (score(~liked) + like))


@functools.cache
def catalogue(likes: Likes = "user mean") -> Catalogue:
    """The 4,768 artists with two listeners and one of the twenty top tags.

    φ_e[j] is the share of those who tagged artist e that gave it tag j; w̄(e) is the mean over its
    listeners of the probability that they like it.
    """
    data = lastfm()
    plays = data.plays
    tags = data.tags
    listened = plays[:, 1]
    artists = max(listened.max(), tags[:, 1].max()) + 1
    per_artist = functools.partial(np.bincount, minlength=artists)
    listeners = per_artist(listened)
    taggers = per_artist(np.unique(tags[:, :2], axis=0)[:, 1])
    top = np.argsort(-np.bincount(tags[:, 2]), kind="stable")[:TAGS]
    assigned = np.column_stack([per_artist(tags[tags[:, 2] == tag, 1]) for tag in top])
    chosen = np.flatnonzero((listeners >= 2) & assigned.any(1))
    probability = _probabilities(plays, _liked(plays, likes))
    liking = per_artist(listened, probability)
    return Catalogue(
        assigned[chosen] / taggers[chosen, None],
        liking[chosen] / listeners[chosen],
    )


@dataclass(frozen=True, kw_only=True)
class Artists:
    """The paper's third experiment. `likes` is our reading of a point the paper leaves open."""

    likes: Likes = "user mean"

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, BernoulliEnvironment]:
        """One instance.

        Returns:
            the problem, with artists in random order, and the world that answers.
        """
        artists = self.catalogue.shuffled(rng)
        return Problem(artists.Phi, TopK(10)), BernoulliEnvironment(artists.mean)

    @functools.cached_property
    def catalogue(self) -> Catalogue:
        """All artists."""
        return catalogue(self.likes)

    def __getstate__(self) -> dict[str, Any]:
        """With the artists: workers elsewhere may not have the data."""
        return {**vars(self), "catalogue": self.catalogue}


def run(study: Study) -> Outcome:
    """Run the paper's learners and ours, and the paper's on the other readings of "likes"; writes
    artists.json and artists.csv, of the other readings below `readings`.
    """
    catalogue()  # so that missing data is found, or fetched, once and not by every worker
    learners = {**returns.LEARNERS, **returns.OURS}
    baselines = {name: learners[name] for name in ("CombLinTS", "CombTS", "CombUCB1")}
    del learners["CombLinTS, logit"]
    readings = {}
    for likes in get_args(Likes)[1:]:
        part = replace(study, out=study.out / "readings" / likes.replace(" ", "-"))
        found = returns.run(part, "artists", Artists(likes=likes), baselines, 8, {})
        readings[likes] = found.content["results"]
    found = returns.run(study, "artists", Artists(), learners, 8, {}, readings=readings)
    return found._replace(claims=claims(found.content))


def claims(content: Content) -> Iterator[Row]:
    """What the paper says about artists, in each reading."""
    readings = {"": content["results"], **content["readings"]}
    for reading, results in readings.items():
        thompson = results["CombLinTS"]
        t = max(thompson["return_at"], key=int)
        linear = returns.return_at(thompson, t)
        rivals = [returns.return_at(results[name], t) for name in returns.BASELINES]
        best = max(rivals, key=lambda rival: rival["mean"])
        lead = linear["mean"] - best["mean"]
        se = np.hypot(linear["se"] or np.inf, best["se"] or np.inf)
        difference = UNSURE
        if lead > 3 * se:
            difference = AS_SAID
        elif lead < 0:
            difference = UNLIKE
        which = f", likes above the {reading}" if reading else ""
        yield Row(
            f"artists{which}: CombLinTS at {int(t):,} against the baselines",
            "much faster",
            f"{format_percent(linear)} against {format_percent(best)}",
            difference,
        )
