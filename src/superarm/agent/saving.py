"""Parts of an agent in a file, checked as they come back, and a look at them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from superarm import files, learners
from superarm.arrays import Array, Features, Product
from superarm.checks import check_features
from superarm.contracts import Model, Problem, method_of
from superarm.errors import FileError
from superarm.files import PathLike
from superarm.gaussian import Gaussian, mean, std

SHOWN = 8
"""Items and coefficients that `describe` shows."""


def describe(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """What the opened file of an agent holds, in words: meta data and shapes, items and
    coefficients.
    """
    parts = [files.describe(header, arrays)]
    if (ids := saved_ids(arrays)) is not None:
        parts.append(
            f"{len(ids)} items: {', '.join(map(str, ids[:SHOWN]))}{', ...' if len(ids) > SHOWN else ''}"
        )
    if "observed.decision" in arrays:
        parts.append(
            f"{len(files.unpacked(arrays['observed.decision']))} observed decisions remembered"
        )
    if {"belief.factor", "belief.log_scale"} <= arrays.keys():
        parts.append(_coefficients(header["meta"].get("names"), arrays))
    return "\n".join(parts)


def _coefficients(names: list[str] | None, arrays: Mapping[str, Array]) -> str:
    """The clearest coefficients of a belief."""
    belief = Gaussian(arrays["belief.factor"], arrays["belief.log_scale"])
    theta = mean(belief)
    width = std(belief, np.eye(len(theta)))
    names = names or [f"[{j}]" for j in range(len(theta))]
    clearest = np.argsort(-np.abs(theta) / width, kind="stable")[:SHOWN]
    lines = [f"  {names[j]} {theta[j]:+.3g} ± {width[j]:.2g}" for j in clearest]
    return "\n".join([f"coefficients, the clearest of {len(theta)}:", *lines])


def saved_learner(path: PathLike, name: str, parameters: dict[str, Any], given: Any) -> Any:
    """The learner a file was saved with; one that is given must be the same."""
    if given is None:
        if name not in learners.__all__:
            raise FileError(f"{path} needs the learner {name}: pass it as learner=")
        return getattr(learners, name)(**parameters)
    if type(given).__name__ != name or given != type(given)(**parameters):
        raise FileError(
            f"{path} was saved with the learner {name} of {parameters}, not with {given}"
        )
    return given


def packed_ids(ids: Array) -> Array:
    """Ids of items for a file: numbers as they are, texts as bytes."""
    return files.packed(ids.tolist()) if ids.dtype == object else ids


def saved_ids(arrays: Mapping[str, Array]) -> Any:
    """The ids in a file; None if it has none."""
    ids = arrays.get("items")
    return files.unpacked(ids) if ids is not None and ids.dtype == np.uint8 else ids


def packed_features(Phi: Features) -> dict[str, Array]:
    """Features for a file, an array or a product."""
    return (
        {"features.left": Phi.left, "features.right": Phi.right}
        if isinstance(Phi, Product)
        else {"features": Phi}
    )


def saved_features(arrays: Mapping[str, Array]) -> Features:
    """The features in a file, an array or a product."""
    if "features" in arrays:
        return arrays["features"]
    return Product(check_features(arrays["features.left"]), arrays["features.right"])


def saved_belief(
    path: PathLike, model: Model, template: Any, arrays: Mapping[str, Array], problem: Problem
) -> Any:
    """The belief in a file, which must look like `template`."""
    saved = {}
    for name in template._fields:
        value = arrays.get(f"belief.{name}")
        if value is None:
            continue
        like = np.asarray(getattr(template, name))
        fits = (
            value.shape == like.shape
            and np.can_cast(value.dtype, like.dtype)
            and np.isfinite(value).all()
        )
        if not fits or (name == "factor" and not (value.diagonal()[:-1] > 0).all()):
            raise FileError(
                f"{path} is damaged: the {name} of its belief does not fit its features or is not finite"
            )
        saved[name] = value.astype(like.dtype, copy=False)
    if len(saved) < len(template):  # a file of before the model had all of these
        saved = method_of(model, "completed")(saved, problem)
    return type(template)(**saved)
