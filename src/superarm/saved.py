"""Parts of an agent in a file, checked as they come back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from superarm import learners
from superarm.arrays import Array, Features, Product
from superarm.errors import FileError
from superarm.files import PathLike
from superarm.gaussian import Gaussian
from superarm.problem import check_features
from superarm.widths import Widths, with_widths


def saved_learner(path: PathLike, name: str, parameters: dict[str, Any], given: Any) -> Any:
    """The learner a file was saved with; one that is given must be the same."""
    if given is None:
        if name not in learners.__all__:
            raise FileError(f"{path} needs the learner {name}: pass it as learner=")
        return getattr(learners, name)(**parameters)
    if type(given).__name__ != name or given != type(given)(**parameters):
        raise FileError(f"{path} was saved with the learner {name} of {parameters}, not with {given}")
    return given


def saved_features(arrays: Mapping[str, Array]) -> Features:
    """The features in a file, an array or a product."""
    if "features" in arrays:
        return arrays["features"]
    return Product(check_features(arrays["features.left"]), arrays["features.right"])


def saved_belief(path: PathLike, template: Any, arrays: Mapping[str, Array], Phi: Features) -> Any:
    """The belief in a file, which must look like `template`."""
    if isinstance(template, Widths) and "belief.squared" not in arrays:  # from before widths were kept
        return with_widths(saved_belief(path, Gaussian(*template[:2]), arrays, Phi), np.asarray(Phi))
    saved = {name: arrays[f"belief.{name}"] for name in template._fields}
    for name, value in saved.items():
        like = np.asarray(getattr(template, name))
        if value.shape != like.shape or value.dtype != like.dtype or not np.isfinite(value).all():
            raise FileError(f"{path} is damaged: the {name} of its belief does not fit its features or is not finite")
    return type(template)(**saved)
