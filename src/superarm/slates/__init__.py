"""Ordered slates: what clicks say about items that were seen, or may not have been."""

from superarm.slates.examination import Examination, fit_examination
from superarm.slates.feedback import (
    Examined,
    cascade,
    examined_weights,
    position_based,
    seen,
    seen_weights,
)

__all__ = [
    "Examination",
    "Examined",
    "cascade",
    "examined_weights",
    "fit_examination",
    "position_based",
    "seen",
    "seen_weights",
]
