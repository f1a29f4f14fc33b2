"""Which model the parameters of a learner ask for."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from superarm.beliefs.cached_std import CachedStdModel
from superarm.beliefs.empirical_bayes import EmpiricalBayesModel
from superarm.beliefs.linear import LinearModel
from superarm.beliefs.logit import EmpiricalBayesLogitModel, LogitModel, RandomEffectsLogitModel
from superarm.beliefs.random_effects import RandomEffectsModel
from superarm.checks import is_real, require_positive
from superarm.errors import ParameterError

Scale: TypeAlias = float | Literal["auto"]
"""A number, or "auto": by the marginal likelihood, anew after 1, 2, 4, 8, ... episodes."""


LinearFamily: TypeAlias = LinearModel | LogitModel | EmpiricalBayesModel | CachedStdModel


def known_scales(**scales: Scale) -> dict[str, float]:
    """The scales that are numbers, which must be positive."""
    known: dict[str, Any] = {}
    for name, value in scales.items():
        if not isinstance(value, str):
            known[name] = value
        elif value != "auto":
            raise ParameterError(f'{name} must be a positive number or "auto", got {value!r}')
    require_positive(**known)
    known = {name: float(value) for name, value in known.items()}  # NumPy's would keep their dtype
    extreme = any(not 1e-100 < value < 1e100 for value in known.values())
    if extreme and len(known) < len(scales):
        raise ParameterError(
            f'beside a scale that is "auto", others must lie between 1e-100 and 1e100, got {known}'
        )
    return known


def _check_options(forgetting: Any, link: Any) -> None:
    if not (is_real(forgetting) and 0 < forgetting <= 1):
        raise ParameterError(
            f"forgetting must lie in (0, 1], where 1 forgets nothing, got {forgetting!r}"
        )
    if link not in ("identity", "logit"):
        raise ParameterError(f"link must be 'identity' or 'logit', got {link!r}")


def _refuse_sigma(known: dict[str, float]) -> None:
    if "sigma" in known:
        raise ParameterError("the logit link has no sigma: a coin brings its own noise")


def linear_model(lam: Scale, sigma: Scale, forgetting: float, link: str) -> LinearFamily:
    """The linear model; with a link, of log-odds. Its scales are those given, or found."""
    known = known_scales(lam=lam, sigma=sigma)
    _check_options(forgetting, link)
    if link == "logit":
        _refuse_sigma(known)
        if known:
            return LogitModel(known["lam"], forgetting)
        return EmpiricalBayesLogitModel(forgetting=forgetting)
    if len(known) < 2:
        return EmpiricalBayesModel(known, forgetting)
    return LinearModel(known["lam"], known["sigma"], forgetting)


def mixed_model(
    scales: Mapping[str, Scale],
    forgetting: float,
    link: str,
    contexts: bool,
) -> RandomEffectsModel:
    """The mixed-effects model, of log-odds for clicks; τ may be 0."""
    tau = scales["tau"]
    without = is_real(tau) and tau == 0
    asked = {name: value for name, value in scales.items() if name != "tau" or not without}
    known = known_scales(**asked)
    if without:
        known["tau"] = 0.0
    _check_options(forgetting, link)
    if contexts not in (False, True):
        raise ParameterError(f"contexts must be True or False, got {contexts!r}")
    if link == "logit":
        _refuse_sigma(known)
        return RandomEffectsLogitModel(known | {"sigma": 1.0}, forgetting, bool(contexts))
    return RandomEffectsModel(known, forgetting, bool(contexts))
