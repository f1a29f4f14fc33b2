"""What the file of an agent holds: written, checked as it is read, and shown."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from superarm import contexts, files, learners
from superarm.agent import ids
from superarm.agent.decisions import REMEMBERED, Ledger
from superarm.arrays import Array
from superarm.contracts import Model, Problem, method_of
from superarm.errors import FileError, ParameterError
from superarm.gaussian import Gaussian, mean, std
from superarm.tables import Names

if TYPE_CHECKING:
    from superarm.agent.agent import Agent

SHOWN = 8
"""Items and coefficients that `describe` shows."""


def save(agent: "Agent", path: files.PathLike) -> None:
    """Write everything but the oracle, atomically."""
    learner = agent.learner
    if not dataclasses.is_dataclass(learner):
        raise ParameterError(
            f"{type(learner).__name__} is not a dataclass: its parameters cannot be saved"
        )
    state, ledger = agent.snapshot()
    catalogue = state.catalogue
    meta = {
        "learner": type(learner).__name__,
        "parameters": dataclasses.asdict(learner),
        "generator": agent.rng.bit_generator.state,
        "names": catalogue.names,
        "remembered": ledger.limit,
    }
    arrays = contexts.packed(state.problem.Phi)
    if not catalogue.numbered:
        arrays |= ids.packed(catalogue.ids)
    for name, value in state.belief._asdict().items():
        arrays[f"belief.{name}"] = np.asarray(value)
    files.write(path, "agent", meta, arrays | ledger.arrays())


def load(
    make: Callable[..., "Agent"],
    path: files.PathLike,
    oracle: Any,
    learner: Any,
    seed: Any,
) -> "Agent":
    """The agent in a file, which `make` makes anew and this brings to where it was."""
    meta, arrays = files.read(path, "agent")
    try:
        learner = _learner(path, meta["learner"], meta["parameters"], learner)
        agent = make(
            learner,
            features=contexts.unpacked(arrays),
            oracle=oracle,
            items=ids.unpacked(arrays),
            seed=None if seed == "saved" else seed,
            remembered=meta.get("remembered", REMEMBERED),
        )
        agent.restore(
            _belief(learner.model, agent.belief, arrays, agent.problem),
            _names(meta.get("names"), agent.problem.d),
            Ledger.of_arrays(arrays, agent.ledger.limit),
        )
        if seed == "saved":
            agent.rng.bit_generator.state = meta["generator"]
    except FileError:
        raise
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise FileError(f"{path} is damaged or does not fit this learner ({error})") from error
    return agent


def _learner(path: files.PathLike, name: str, parameters: Any, given: Any) -> Any:
    """The learner that a file was saved with; one that is given must be the same."""
    if given is None:
        if name not in learners.__all__:
            raise FileError(f"{path} needs the learner {name}: pass it as learner=")
        return getattr(learners, name)(**parameters)
    if type(given).__name__ != name or given != type(given)(**parameters):
        raise FileError(
            f"{path} was saved with the learner {name} of {parameters}, not with {given}"
        )
    return given


def _names(names: list[str] | None, d: int) -> Names:
    """The names of d features."""
    if names is None:
        return None
    if len(names) != d:
        raise ValueError(f"it names {len(names)} of {d} features")
    return tuple(map(str, names))


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
    items = ids.unpacked(arrays)
    if items is not None:
        shown = ", ".join(map(str, items[:SHOWN]))
        more = ", ..." if len(items) > SHOWN else ""
        parts.append(f"{len(items)} items: {shown}{more}")
    if "observed.decision" in arrays:
        observed = files.unpacked(arrays["observed.decision"])
        parts.append(f"{len(observed)} observed decisions remembered")
    if {"belief.factor", "belief.log_scale"} <= arrays.keys():
        parts.append(_coefficients(header["meta"].get("names"), arrays))
    return "\n".join(parts)


def _coefficients(names: list[str] | None, arrays: Mapping[str, Array]) -> str:
    """The clearest coefficients of a belief."""
    belief = Gaussian(arrays["belief.factor"], arrays["belief.log_scale"])
    theta = mean(belief)
    width = std(belief, np.eye(len(theta)))
    names = names or [f"[{j}]" for j in range(len(theta))]
    lines = [f"coefficients, the clearest of {len(theta)}:"]
    for j in np.argsort(-np.abs(theta) / width, kind="stable")[:SHOWN]:
        lines.append(f"  {names[j]} {theta[j]:+.3g} ± {width[j]:.2g}")
    return "\n".join(lines)
