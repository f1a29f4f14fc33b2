"""What the file of an agent holds: written, checked as it is read, and shown."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from superarm import contexts, files, learners
from superarm.agent.catalogue import Names
from superarm.agent.decisions import REMEMBERED, Ledger
from superarm.arrays import Array, Features
from superarm.checks import require_count
from superarm.contracts import Model, Problem, method_of, require_learner
from superarm.errors import FileError, ParameterError
from superarm.gaussian import Gaussian, mean, std
from superarm.oracles import TopK

if TYPE_CHECKING:
    from superarm.agent.agent import Agent

SHOWN = 8
"""Items and coefficients that `describe` shows."""
_UNFIT = "damaged or does not fit this learner"


class Content(NamedTuple):
    """What a file of an agent holds, checked; the belief is checked against a prior."""

    learner: Any
    features: Features
    ids: Any
    names: Names
    generator: Mapping[str, Any]
    ledger: Ledger


def save(agent: "Agent", path: files.PathLike) -> None:
    """Write everything but the oracle, atomically; what would not load again is not written."""
    learner = agent.learner
    if not dataclasses.is_dataclass(learner):
        raise ParameterError(
            f"{type(learner).__name__} is not a dataclass: its parameters cannot be saved"
        )
    catalogue = agent.catalogue
    meta = {
        "learner": type(learner).__name__,
        "parameters": dataclasses.asdict(learner),
        "generator": agent.rng.bit_generator.state,
        "names": catalogue.names,
        "remembered": agent.ledger.limit,
    }
    arrays = contexts.packed(agent.problem.Phi)
    if not catalogue.numbered:
        ids = catalogue.ids
        arrays["items"] = files.packed(ids.tolist()) if ids.dtype == object else ids
    for name, value in agent.belief._asdict().items():
        arrays[f"belief.{name}"] = np.asarray(value)
    arrays |= agent.ledger.arrays()
    files.write(path, "agent", meta, arrays, partial(_accept, agent, path, arrays))


def _accept(
    agent: "Agent",
    path: files.PathLike,
    arrays: Mapping[str, Array],
    meta: Mapping[str, Any],
) -> None:
    """Raise if an agent that is loaded from these would be another one."""
    content = _content(path, meta, arrays, agent.learner)
    _belief(content.learner.model, agent.belief, arrays, agent.problem)
    if content.names != agent.catalogue.names:
        raise ValueError("the names of the features would be others")
    if content.ids is not None and list(content.ids) != agent.catalogue.ids.tolist():
        raise ValueError("the ids of the items would be others")
    if content.ledger.observed != agent.ledger.observed:
        raise ValueError("the observed decisions would be others")


def load(make: Callable[..., "Agent"], path: files.PathLike, oracle: Any, learner: Any) -> "Agent":
    """The agent in a file, which `make` makes anew and this brings to where it was."""
    if learner is not None:
        require_learner(learner)
    meta, arrays = files.read(path, "agent")
    with files.blaming(path, _UNFIT):
        content = _content(path, meta, arrays, learner)
    agent = _made(make, path, content, oracle)
    with files.blaming(path, _UNFIT):
        agent.catalogue.names = content.names
        agent.belief = _belief(content.learner.model, agent.belief, arrays, agent.problem)
        agent.rng.bit_generator.state = content.generator
        agent.ledger = content.ledger
    return agent


def _content(
    path: files.PathLike,
    meta: Mapping[str, Any],
    arrays: Mapping[str, Array],
    learner: Any,
) -> Content:
    """What the parts of a file mean, one by one."""
    features = contexts.unpacked(arrays)
    found = _learner(path, meta["learner"], meta["parameters"], learner)
    _refuse_large(found.model, features, arrays)
    limit = meta.get("remembered", REMEMBERED)
    require_count(remembered=limit)
    return Content(
        learner=found,
        features=features,
        ids=_ids(arrays, features.shape[0]),
        names=_names(meta.get("names"), features.shape[-1]),
        generator=_generator(meta["generator"]),
        ledger=Ledger.of_arrays(arrays, limit),
    )


def _made(
    make: Callable[..., "Agent"],
    path: files.PathLike,
    content: Content,
    oracle: Any,
) -> "Agent":
    """The agent, still without what it learned. Errors about the oracle stay what they are; what
    fails with any oracle is the file's fault.
    """
    made = partial(
        make,
        content.learner,
        features=content.features,
        items=content.ids,
        remembered=content.ledger.limit,
    )
    try:
        return made(oracle=oracle)
    except Exception:
        with files.blaming(path, _UNFIT):
            made(oracle=TopK(1))
        raise


def _learner(path: files.PathLike, name: Any, parameters: Any, given: Any) -> Any:
    """The learner that a file was saved with; one that is given must be the same."""
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise TypeError("it names no learner")
    shown = files.printable(name, 60)
    if given is None:
        if name not in learners.__all__:
            raise FileError(f"{path} needs the learner {shown}: pass it as learner=")
        return getattr(learners, name)(**parameters)
    if type(given).__name__ != name or given != type(given)(**parameters):
        raise FileError(
            f"{path} was saved with the learner {shown} of {files.printable(parameters, 300)}, "
            f"not with {given}"
        )
    return given


def _refuse_large(model: Model, features: Features, arrays: Mapping[str, Array]) -> None:
    """Refuse features so many that a belief about them would be larger than that of the file."""
    L, d = features.shape
    factor = arrays.get("belief.factor")
    own = type(model).__module__.startswith("superarm.")
    if factor is None and own and model.uses_features:
        raise ValueError("its belief has no factor")
    if factor is not None and factor.shape != (d + 1, d + 1):
        raise ValueError("the factor of its belief does not fit its features")
    lengths = [x.shape[-1:] for name, x in arrays.items() if name.startswith("belief.")]
    if not d and (L,) not in lengths:
        raise ValueError("its features do not fit its belief")


def _generator(state: Any) -> Mapping[str, Any]:
    """The state of a generator, if it is one."""
    generator = np.random.PCG64(0)
    generator.state = state
    if generator.state != state:
        raise ValueError("the state of its generator is none")
    return generator.state


def _ids(arrays: Mapping[str, Array], L: int | None = None) -> Any:
    """The ids of the L items in a file; None if it has none."""
    ids = arrays.get("items")
    if ids is None or ids.dtype != np.uint8:
        return ids
    return files.unpacked(ids, L)


def _names(names: Any, d: int) -> Names:
    """The names of d features, if they have any."""
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("the names of its features are not texts")
    if len(names) != d or len(set(names)) < d:
        raise ValueError(f"it names {len(set(names))} of {d} features")
    return tuple(names)


def _belief(model: Model, like: Any, arrays: Mapping[str, Array], problem: Problem) -> Any:
    """The belief in a file, which must look like this one."""
    fields = {}
    for name in like._fields:
        value = arrays.get(f"belief.{name}")
        if value is None:
            continue
        wanted = np.asarray(getattr(like, name))
        fits = value.shape == wanted.shape and np.can_cast(value.dtype, wanted.dtype)
        if not (fits and np.isfinite(value).all()):
            raise ValueError(f"the {name} of its belief does not fit its features or is not finite")
        fields[name] = value.astype(wanted.dtype, copy=False)
    if fields.keys() >= set(Gaussian._fields) and (fields["factor"].diagonal()[:-1] <= 0).any():
        raise ValueError("the factor of its belief does not fit: its diagonal must be positive")
    if len(fields) < len(like):  # a file of before the model had all of these
        fields = method_of(model, "completed")(fields | _left_over(like, arrays), problem)
    return type(like)(**fields)


def _left_over(like: Any, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """What a file holds of a belief that such beliefs no longer have."""
    found = {}
    for key, value in arrays.items():
        name = key.removeprefix("belief.")
        if name == key or name in like._fields:
            continue
        if value.dtype.kind not in "fiu" or not np.isfinite(value).all():
            raise ValueError(f"the {name} of its belief is not finite")
        found[name] = value
    return found


def describe(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """What an opened file of an agent holds, in words: meta data, items and coefficients."""
    parts = [files.describe(header, arrays)]
    ids = _ids(arrays)
    if ids is not None:
        shown = ", ".join(map(str, ids[:SHOWN]))
        more = ", ..." if len(ids) > SHOWN else ""
        parts.append(f"{len(ids)} items: {shown}{more}")
    if "observed.decision" in arrays:
        observed = files.unpacked(arrays["observed.decision"])
        parts.append(f"{len(observed)} observed decisions remembered")
    if {"belief.factor", "belief.log_scale"} <= arrays.keys():
        d = len(arrays["belief.factor"]) - 1
        names = _names(header["meta"].get("names"), d)
        parts.append(_coefficients(names, arrays))
    return "\n".join(parts)


def _coefficients(names: Names, arrays: Mapping[str, Array]) -> str:
    """The clearest coefficients of a belief."""
    belief = Gaussian(arrays["belief.factor"], arrays["belief.log_scale"])
    theta = mean(belief)
    width = std(belief, np.eye(len(theta)))
    shown = names or [f"[{j}]" for j in range(len(theta))]
    lines = [f"coefficients, the clearest of {len(theta)}:"]
    for j in np.argsort(-np.abs(theta) / width, kind="stable")[:SHOWN]:
        lines.append(f"  {shown[j]} {theta[j]:+.3g} ± {width[j]:.2g}")
    return "\n".join(lines)
