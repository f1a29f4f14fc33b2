"""The second agent of the demo: a few people are written to at a time, at least half of them women.

Members of the club answer more often, and more men are members: without the constraint, few women
would be written to.
"""

from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array
from superarm.checks.tables import Table
from superarm.client import Client
from superarm.learners import CombLinTS
from superarm.oracles import Quota

NAME = "campaign"
WRITTEN_TO = 6
"""People at a time, and half of them women at least."""
DRAWS = 50
"""For the propensities of each decision."""
WOMEN = """Ada Beatriz Chiara Dunja Emmy Fatima Grace Hedy Ingrid Jana Katalin Lise Maryam Nadia
    Olga Priya Qing Rosalind Sofia Tamar"""
MEN = """Alan Boris Carl David Emil Farid George Hugo Ivan Jonas Karim Leon Miguel Nils Omar Pierre
    Quentin Rudolf Srinivasa Thomas Umberto Victor Wolfgang Xavier Yusuf Zoltan Aziz Bruno Cesar
    Dmitri"""


class People(NamedTuple):
    """Who may be written to."""

    names: list[str]
    groups: dict[str, str]
    features: Table
    answers: Array  # (L,) how likely each answers


def people() -> People:
    """The people of the demo, always the same.

    >>> from superarm.service.campaign import people
    >>> found = people()
    >>> len(found.names), found.groups["Ada"]
    (50, 'women')
    """
    women = WOMEN.split()
    names = women + MEN.split()
    is_man = np.arange(len(names)) >= len(women)
    rng = np.random.default_rng(11)
    member = rng.random(len(names)) < np.where(is_man, 0.6, 0.2)
    young = rng.random(len(names)) < 0.4
    town = rng.random(len(names)) < 0.5
    features = np.column_stack([np.ones(len(names)), member, young, town]).astype(np.float64)
    answers = features @ np.array([0.1, 0.35, 0.15, 0.1])
    groups = {name: "men" if man else "women" for name, man in zip(names, is_man, strict=True)}
    columns = ("anyone", "member", "young", "town")
    return People(names, groups, Table(features, None, columns), answers)


def create(client: Client, found: People) -> Any:
    """The agent that chooses whom to write to."""
    return client.create_agent(
        NAME,
        learner=CombLinTS(),
        oracle=Quota(found.groups, total=WRITTEN_TO, minimum={"women": WRITTEN_TO // 2}),
        features=found.features,
        items=found.names,
    )


def write(agent: Any, found: People, rng: np.random.Generator) -> None:
    """Write to some people, of whom some answer."""
    made = agent.decide(draws=DRAWS)
    place = {name: i for i, name in enumerate(found.names)}
    likely = found.answers[[place[name] for name in made.items]]
    agent.observe(made, (rng.random(len(likely)) < likely).astype(np.float64))
