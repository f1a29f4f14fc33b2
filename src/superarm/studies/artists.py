"""Artist recommendation on Last.fm: ten artists an average user would choose."""

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from superarm.arrays import Array
from superarm.contracts import Problem
from superarm.errors import ParameterError
from superarm.oracles import TopK
from superarm.simulation.worlds import BernoulliEnvironment
from superarm.studies.datasets import Listening, lastfm

Likes = Literal["user mean", "user median", "global median"]
"""When a user likes an artist: the listening count is above this."""


def _liked(plays: Array, likes: Likes) -> Array:
    """Whether each listening count says that the user likes the artist."""
    user, count = plays[:, 0], plays[:, 2]
    if likes == "user mean":
        bar = (np.bincount(user, count) / np.maximum(np.bincount(user), 1))[user]
    elif likes == "user median":
        median = np.zeros(user.max() + 1)
        for u in np.unique(user):
            median[u] = np.median(count[user == u])
        bar = median[user]
    elif likes == "global median":
        bar = np.full(len(count), np.median(count))
    else:
        raise ParameterError(
            f"likes must be 'user mean', 'user median' or 'global median', got {likes!r}"
        )
    return count > bar


def _probabilities(plays: Array, liked: Array) -> Array:
    """P(user likes artist) for each listening, by a two-class naive Bayes over user and artist with
    Laplace α = 1.
    """
    _, user = np.unique(plays[:, 0], return_inverse=True)
    _, artist = np.unique(plays[:, 1], return_inverse=True)
    score = []
    for of_class in (~liked, liked):
        n = of_class.sum()
        by_user, by_artist = np.bincount(user, of_class), np.bincount(artist, of_class)
        likelihood = (by_user + 1) / (n + len(by_user)), (by_artist + 1) / (n + len(by_artist))
        score.append(n / len(liked) * likelihood[0][user] * likelihood[1][artist])
    probability: Array = score[1] / (score[0] + score[1])
    return probability


@functools.cache
def catalogue(likes: Likes = "user mean") -> tuple[Array, Array]:
    """Features (4,768, 20) and mean weights of the artists with two listeners and one of the twenty
    top tags.

    φ_e[j] is the share of those who tagged artist e that gave it tag j; w̄(e) is the mean over its
    listeners of the probability that they like it.
    """
    data: Listening = lastfm()
    plays, tags = data
    size = int(max(plays[:, 1].max(), tags[:, 1].max())) + 1
    listeners = np.bincount(plays[:, 1], minlength=size)
    tag_uses = np.bincount(tags[:, 2])
    top = np.argsort(-tag_uses, kind="stable")[:20]
    column = np.full(len(tag_uses), -1)
    column[top] = np.arange(20)
    counted = column[tags[:, 2]] >= 0
    assigned = np.zeros((size, 20))
    np.add.at(assigned, (tags[counted, 1], column[tags[counted, 2]]), 1)
    taggers = np.bincount(np.unique(tags[:, :2], axis=0)[:, 1], minlength=size)
    chosen = np.flatnonzero((listeners >= 2) & (assigned.sum(1) > 0))
    probability = _probabilities(plays, _liked(plays, likes))
    mean = np.bincount(plays[:, 1], probability, minlength=size)[chosen] / listeners[chosen]
    return assigned[chosen] / taggers[chosen, None], mean


@dataclass(frozen=True, kw_only=True)
class Artists:
    """The paper's third experiment. `likes` is our reading of a point the paper leaves open."""

    likes: Likes = "user mean"

    def __call__(self, rng: np.random.Generator) -> tuple[Problem, BernoulliEnvironment]:
        """One instance; the artists come in random order, as ties go to the first."""
        Phi, mean = catalogue(self.likes)
        order = rng.permutation(len(mean))
        return Problem(Phi[order], TopK(10)), BernoulliEnvironment(mean[order])


READINGS: tuple[Likes, ...] = ("user mean", "user median", "global median")
