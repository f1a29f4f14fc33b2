"""The paper's section 6 and what goes beyond it, from settings to files: what `superarm reproduce`
does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from superarm.errors import DataError
from superarm.studies import ads, artists, beyond, longest_path, report, returns
from superarm.studies.study import Study, read_curves

EXPERIMENTS = ("longest-path", "ads", "artists", "beyond")
FULL_REPLICATES, SLOW_REPLICATES, LARGEST_REPLICATES, GRID_REPLICATES = 200, 50, 20, 20
PAPER_ADS = {100: 0.70, 1000: 0.80}
QUICK_SWEEPS: dict[str, list[float]] = {"m": [10, 30, 50], "sigma": [1e-7, 1e-4, 1.0, 1e4]}
QUICK_REPLICATES = (8, 4)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much to run."""

    full: bool = False
    replicates: int | None = None
    episodes: int | None = None

    def count(self, quick: int) -> int:
        """Replicates: as asked for, else the paper's 200 or the quick number."""
        return self.replicates or (FULL_REPLICATES if self.full else quick)


def run_longest_path(
    study: Study,
    scale: Scale,
    *,
    case: longest_path.Case | None = None,
    learners: Sequence[str] = ("CombLinTS", "CombLinUCB"),
    sweeps: Mapping[str, Sequence[float]] | None = None,
    most: tuple[int, int] = (FULL_REPLICATES, SLOW_REPLICATES),
) -> dict[str, Any]:
    """Longest path: the case, the sweeps around it, and m = 250 at full scale.

    `most` limits the replicates in sweeps, of CombLinTS and of the slower learners.
    """
    replicates = scale.count(quick=20)
    most_of_largest = LARGEST_REPLICATES if study.device is None else FULL_REPLICATES

    def sweep_replicates(learner: str) -> int:
        return min(replicates, most[0] if learner == "CombLinTS" else most[1])

    return longest_path.reproduce(
        study,
        case=case or longest_path.Case(),
        learners=list(learners),
        episodes=scale.episodes or longest_path.EPISODES,
        replicates=replicates,
        sweeps=longest_path.SWEEPS if scale.full and sweeps is None else sweeps or {},
        sweep_replicates=sweep_replicates,
        largest=min(replicates, most_of_largest)
        if scale.full and sweeps is None and case is None
        else 0,
    )


def run_ads(study: Study, scale: Scale) -> dict[str, Any]:
    """Ads on Adult."""
    return returns.reproduce(
        study,
        "ads",
        instance=ads.Ads(),
        learners={**returns.LEARNERS, **returns.BEYOND},
        episodes=scale.episodes or returns.EPISODES,
        replicates=scale.count(quick=4),
    )


def run_artists(study: Study, scale: Scale) -> dict[str, Any]:
    """Artists on Last.fm, with the other readings of "likes" beside."""
    artists.catalogue()  # so that missing data is found, or fetched, once and not by every worker
    episodes, replicates = scale.episodes or returns.EPISODES, scale.count(quick=8)
    baselines = {name: returns.LEARNERS[name] for name in ("CombLinTS", "CombTS", "CombUCB1")}
    readings = {}
    for likes in artists.READINGS[1:]:
        part = replace(study, out=study.out / "readings" / likes.replace(" ", "-"))
        instance = artists.Artists(likes=likes)
        made = returns.reproduce(
            part,
            "artists",
            instance=instance,
            learners=baselines,
            episodes=episodes,
            replicates=replicates,
        )
        readings[likes] = made["results"]
    content = returns.reproduce(
        study,
        "artists",
        instance=artists.Artists(),
        learners=returns.LEARNERS
        | {name: returns.BEYOND[name] for name in returns.BEYOND if "logit" not in name},
        episodes=episodes,
        replicates=replicates,
    )
    content["readings"] = readings
    study.write_json("artists", content)
    return content


def run_beyond(study: Study, scale: Scale) -> dict[str, Any]:
    """Drift, clicks, and the choice of `explore`; without Last.fm on three problems."""
    problems = dict(beyond.EXPLORED)
    try:
        artists.catalogue()
    except DataError:
        del problems["artists"]
    return beyond.reproduce(
        study,
        replicates=scale.count(quick=4),
        episodes=scale.episodes,
        problems=problems,
        grid=min(scale.count(quick=4), GRID_REPLICATES) if scale.full else 0,
    )


def draw(study: Study, contents: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """The figures of the experiments that were run, as PNG and SVG; returns the PNGs."""
    from superarm import figures

    paths: list[Path] = []
    if "longest-path" in contents:
        content = contents["longest-path"]
        curves = read_curves(study.out / "longest-path.csv", "regret")
        paths += figures.save(figures.plot_curves(curves, content), study.out, "longest-path")
        if content["sweeps"]:
            paper = longest_path.PAPER_REGRET if report.is_papers_case(content) else {}
            paths += figures.save(
                figures.plot_sweeps(content["sweeps"], paper), study.out, "longest-path-sweeps"
            )
        if (
            any(content["bounds"].get(sweep) for sweep in ("m", "d"))
            and "CombLinTS" in content["results"]
        ):
            paths += figures.save(figures.plot_bounds(content), study.out, "longest-path-bounds")
    for name, paper in (("ads", PAPER_ADS), ("artists", {})):
        if name in contents:
            curves = read_curves(study.out / f"{name}.csv", "return / optimum")
            episodes = contents[name]["settings"]["episodes"]
            reached = {t: share for t, share in paper.items() if t <= episodes}
            paths += figures.save(
                figures.plot_returns(curves, contents[name], reached, name), study.out, name
            )
    if "beyond" in contents:
        drift, clicks = (
            read_curves(study.out / f"{name}.csv", "regret") for name in ("drift", "clicks")
        )
        replicates = contents["beyond"]["settings"]["replicates"]
        paths += figures.save(figures.plot_beyond(drift, clicks, replicates), study.out, "beyond")
        paths += figures.save(
            figures.plot_explore(contents["beyond"]["explore"], replicates), study.out, "explore"
        )
    return [path for path in paths if path.suffix == ".png"]


def reproduce(
    names: Sequence[str], study: Study, scale: Scale, run_path: Callable[[], dict[str, Any]]
) -> tuple[str, Path, list[str]]:
    """Run the experiments, draw the figures and write the report; returns tables, its path and what
    was left out.
    """
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "longest-path": run_path,
        "ads": lambda: run_ads(study, scale),
        "artists": lambda: run_artists(study, scale),
        "beyond": lambda: run_beyond(study, scale),
    }
    contents: dict[str, dict[str, Any]] = {}
    left_out = []
    for name in names:
        try:
            contents[name] = runs[name]()
        except DataError as error:
            if len(names) == 1:
                raise
            left_out.append(f"{name}: {error}")
    table = report.rows(contents)
    path = study.out / "report.html"
    settings = f"Seed {study.seed}; " + "; ".join(
        f"{name}: {content['settings']['replicates']} replicates"
        for name, content in contents.items()
    )
    try:
        figures = draw(study, contents)
    except ImportError as error:
        figures = []
        left_out.append(f"figures: {error}; pip install 'superarm[plot]'")
    ours = report.beyond_rows(contents)
    report.write_html(path, table, ours, figures, left_out, settings + ".")
    return report.as_text(table, ours), path, left_out
