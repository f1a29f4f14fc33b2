"""The words of the report: headings, captions, and how open points of the papers were read."""

TITLES = {
    "longest-path": "Longest paths through a grid",
    "ads": "A hundred people for a campaign",
    "artists": "Ten artists for an average user",
    "beyond": "What the paper leaves open",
    "slates": "Slates that users do not read in full",
}
"""By experiment."""

CAPTIONS = {
    "longest-path": (
        "Cumulative regret by episode: the mean over replicates with its 95 % interval. Lower is "
        "better; a learner that has learned everything stays level."
    ),
    "longest-path-sweeps": (
        "Regret at the end when one number is changed: the size of the grid, the features per "
        "edge, or what the learner takes for the noise and for the width of its prior. Bars are "
        "two standard errors."
    ),
    "longest-path-bounds": "Regret at the end beside the bound that the paper proves for it.",
    "ads": (
        "What the chosen people earn, as a share of what the best hundred would: the mean of all "
        "episodes so far. The first episodes matter most, so the axis is logarithmic."
    ),
    "artists": (
        "What the chosen artists earn, as a share of what the best ten would: the mean of all "
        "episodes so far, on a logarithmic axis."
    ),
    "beyond": (
        "Cumulative regret by episode: where the truth wanders, and where weights are clicks."
    ),
    "explore": (
        "Regret of CombMixTS at the end for fixed amounts of exploration, beside its own rule and"
        " CombLinTS. Bars are two standard errors."
    ),
    "slates": "Cumulative regret by episode for each way to read the clicks.",
    "cascades": (
        "The learners of Zong et al.: cumulative regret by episode, and regret at the end against"
        " the number of features d and of items L."
    ),
}
"""By figure."""

READINGS = {
    "longest-path": (
        "The paper finds that a tiny σ makes CombLinTS much worse. That comes from rounding in "
        "its recursion, not from statistics: with a square-root belief there is no such cliff, "
        "and the curve of the literal recursion shows it.",
        "The refined theorem prints ln(1 + nKλ²/d) where its lemma has ln(1 + nKλ²/(dσ²)), and "
        "states its condition on c without a factor √2 that its proof needs. The bounds here "
        "follow the proofs. They ask for ‖φ‖ ≤ 1, so λ is scaled by the largest ‖φ‖.",
        "The paper did not evaluate CombLinUCB; here it uses c = 1.",
    ),
    "ads": (
        "The people are the 32,561 of adult.data. Ages fall into seven groups (17-26, 27-36, ...,"
        " 77 and more); education is education-num/16.",
        "The paper does not give λ and σ for its ads: λ = 10 and σ = 1 are those of its longest "
        "paths.",
        "About 400 feature rows are distinct, so ties decide who is shown: the people are "
        "shuffled anew in every replicate.",
    ),
    "artists": (
        "The stated filter (two listeners, one of the twenty top tags) gives 4,768 artists, not "
        "about 6,000.",
        "A user likes an artist if the listening count is above the user's own mean. That "
        "threshold is our choice, and the table has two others.",
    ),
    "slates": (
        "Zong et al. take MovieLens, Yelp and the Million Song data. Here users are drawn from a "
        "low-rank model, and taken from Last.fm where it is at hand.",
        "What CascadeUCB1 pays to see every item once is counted here.",
    ),
}
"""By experiment."""
