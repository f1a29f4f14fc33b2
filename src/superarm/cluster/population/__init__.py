"""Many users, each with a belief of their own, around a prior that they share."""

from superarm.cluster.population.population import Population

__all__ = ["Population"]
