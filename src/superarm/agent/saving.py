"""What the file of an agent holds: written, checked as it is read, and shown."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from superarm import contexts, learners
from superarm.agent import ids
from superarm.agent.catalogue import Catalogue
from superarm.agent.decisions import Ledger, as_time, dense_rows
from superarm.agent.state import some_rows
from superarm.arrays import Array, Features
from superarm.checks import as_features, require_count
from superarm.checks.tables import Names
from superarm.contracts import Model, require_learner
from superarm.errors import FeaturesError, FileError, ParameterError
from superarm.files import archive
from superarm.gaussian import Gaussian, mean, std
from superarm.oracles import TopK

if TYPE_CHECKING:
    from superarm.agent.agent import Agent
    from superarm.agent.kept import Snapshot

SHOWN = 8
"""Items and coefficients that `describe_agent` shows."""
_UNFIT = "damaged or does not fit this learner"


class Content(NamedTuple):
    """What a file of an agent holds, checked; the belief is checked against a prior."""

    learner: Any
    features: Features
    ids: Any
    names: Names
    generator: Mapping[str, Any]
    ledger: Ledger
    half_life: timedelta | None
    aged_at: datetime


def save(agent: "Agent", path: archive.PathLike, *, features: bool = True) -> None:
    """Write everything but the oracle, atomically; what would not load again is not written.

    Without the features, what tells them from others is written in their place.
    """
    learner = agent.learner
    if not dataclasses.is_dataclass(learner):
        raise ParameterError(
            f"{type(learner).__name__} is not a dataclass: its parameters cannot be saved"
        )
    now = agent.snapshot()
    catalogue = now.state.catalogue
    Phi = now.state.problem.Phi
    meta = {
        "learner": type(learner).__name__,
        "parameters": dataclasses.asdict(learner),
        "generator": now.generator,
        "names": catalogue.names,
        "remembered": now.ledger.limit,
        "half_life": None if now.half_life is None else now.half_life.total_seconds(),
        "aged_at": as_time(now.aged_at),
    }
    if isinstance(Phi, contexts.InContext):
        meta["context_names"] = Phi.x_names
        meta["item_names"] = Phi.item_names
    arrays = contexts.packed(Phi) if features else {}
    if not features:
        meta["features"] = {"shape": Phi.shape, "fingerprint": fingerprint(Phi)}
    if not catalogue.numbered:
        arrays |= ids.packed(catalogue.ids)
    for name, value in now.state.belief._asdict().items():
        arrays[f"belief.{name}"] = np.asarray(value)
    arrays |= now.ledger.arrays()
    archive.write_archive(path, "agent", meta, arrays, partial(_accept, now, path, arrays))


def _accept(
    now: "Snapshot",
    path: archive.PathLike,
    arrays: Mapping[str, Array],
    meta: Mapping[str, Any],
) -> None:
    """Raise if an agent that is loaded from these would be another one."""
    state = now.state
    problem = state.problem
    given = None if contexts.are_packed(arrays) else problem.Phi
    content = _content(path, meta, arrays, state.learner, given)
    belief_in(state.belief, arrays)
    catalogue = state.catalogue
    if content.names != catalogue.names:
        raise ValueError("the names of the features would be others")
    if content.ids is not None and list(content.ids) != catalogue.ids.tolist():
        raise ValueError("the ids of the items would be others")
    if content.ledger.observed != now.ledger.observed:
        raise ValueError("the observed decisions would be others")


def load(
    make: Callable[..., "Agent"],
    path: archive.PathLike,
    *,
    oracle: Any,
    learner: Any,
    seed: Any,
    features: Any,
    record_key: bytes | None,
) -> "Agent":
    """The agent in a file, which `make` makes anew and this brings to where it was."""
    if learner is not None:
        require_learner(learner)
    meta, arrays = archive.read_archive(path, "agent")
    given = None if features is None else _aligned(path, meta, arrays, features)
    with archive.as_file_error(path, _UNFIT):
        content = _content(path, meta, arrays, learner, given)
    made = partial(
        make,
        content.learner,
        features=content.features,
        items=content.ids,
        remembered=content.ledger.limit,
        half_life=content.half_life,
    )
    options = {"oracle": oracle, "seed": None if seed == "saved" else seed}
    agent = _made(made, path, options | {"record_key": record_key})
    with archive.as_file_error(path, _UNFIT):
        belief = belief_in(agent.belief, arrays)
        agent.restore(belief, content.names, content.ledger, content.aged_at)
        if seed == "saved":
            agent.rng.bit_generator.state = content.generator
    return agent


def _content(
    path: archive.PathLike,
    meta: Mapping[str, Any],
    arrays: Mapping[str, Array],
    learner: Any,
    given: Features | None,
) -> Content:
    """What the parts of a file mean, one by one; with features that are given, not its own."""
    features = _features(path, meta, arrays) if given is None else given
    found = learner_in(path, meta["learner"], meta["parameters"], learner)
    _refuse_large(found.model, features, arrays)
    limit = meta["remembered"]
    require_count(remembered=limit)
    return Content(
        learner=found,
        features=features,
        ids=ids.unpacked(arrays, features.shape[0]),
        names=_names(meta["names"], features.shape[-1]),
        generator=generator_in(meta["generator"]),
        ledger=Ledger.of_arrays(arrays, limit),
        half_life=_half_life(meta["half_life"]),
        aged_at=datetime.fromisoformat(meta["aged_at"]).astimezone(UTC),
    )


def _features(path: archive.PathLike, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    """The features that a file holds."""
    if not contexts.are_packed(arrays):
        raise FileError(f"{path} was saved without its features: give them, as features=")
    Phi = contexts.unpacked(arrays)
    if not isinstance(Phi, contexts.InContext):
        return Phi
    return dataclasses.replace(
        Phi,
        x_names=_names(meta.get("context_names"), Phi.x.shape[-1]),
        item_names=_names(meta.get("item_names"), Phi.rows.shape[1]),
    )


def _aligned(
    path: archive.PathLike,
    meta: Mapping[str, Any],
    arrays: Mapping[str, Array],
    features: Any,
) -> Features:
    """Features that are given, in the order of the file's items: by id, or the very same."""
    with archive.as_file_error(path, _UNFIT):
        L, d, saved = _known_features(meta, arrays)
        catalogue = Catalogue(ids.unpacked(arrays, L), L, _names(meta["names"], d))
        of_context = _names(meta.get("context_names"))
        of_items = _names(meta.get("item_names"))
    if isinstance(features, contexts.InContext):
        features = contexts.aligned(features, of_context, of_items)
    table = contexts.as_table(features)
    Phi = as_features(catalogue.rows(table), (L, d))
    if isinstance(Phi, contexts.InContext):
        Phi = Phi.without_ids()
    if table.ids is None and fingerprint(Phi) != saved:
        raise FeaturesError(
            f"the features are not those that {path} was saved with, or in another order: give a "
            "data frame with the ids of the items as its index, or the rows in the order of "
            "agent.items"
        )
    return Phi


def _known_features(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> tuple[int, int, str]:
    """How many items and features a file is about, and the fingerprint of the features."""
    if contexts.are_packed(arrays):
        Phi = contexts.unpacked(arrays)
        return (*Phi.shape, fingerprint(Phi))
    L, d = meta["features"]["shape"]
    require_count(items=L, features=d)
    return L, d, str(meta["features"]["fingerprint"])


def fingerprint(Phi: Features) -> str:
    """What tells features from others: a hash of many rows, of all if they are few."""
    side = contexts.side_of(some_rows(Phi))
    rows = np.ascontiguousarray(dense_rows(side), "<f8")
    return hashlib.blake2b(rows.tobytes(), digest_size=16).hexdigest()


def _made(make: Callable[..., "Agent"], path: archive.PathLike, options: dict[str, Any]) -> "Agent":
    """The agent, still without what it learned. Errors about what the caller gave stay what they
    are; what fails with anything is the file's fault.
    """
    try:
        return make(**options)
    except Exception:
        with archive.as_file_error(path, _UNFIT):
            make(oracle=TopK(1))
        raise


def _half_life(seconds: Any) -> timedelta | None:
    if seconds is None:
        return None
    return timedelta(seconds=seconds)


def learner_in(path: archive.PathLike, name: Any, parameters: Any, given: Any) -> Any:
    """The learner that a file was saved with; one that is given must be the same."""
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise TypeError("it names no learner")
    shown = archive.escape_control(name, 60)
    if given is None:
        if name not in learners.__all__:
            raise FileError(f"{path} needs the learner {shown}: pass it as learner=")
        return getattr(learners, name)(**parameters)
    if type(given).__name__ != name or given != type(given)(**parameters):
        settings = archive.escape_control(parameters, 300)
        raise FileError(
            f"{path} was saved with the learner {shown} of {settings}, not with {given}"
        )
    return given


def _refuse_large(model: Model, features: Features, arrays: Mapping[str, Array]) -> None:
    """Refuse features so many that a belief about them would be larger than that of the file."""
    L, d = features.shape
    factor = arrays.get("belief.factor")
    own = type(model).__module__.startswith("superarm.beliefs.")
    if factor is None and own and model.uses_features:
        raise ValueError("its belief has no factor")
    if factor is not None and factor.shape != (d + 1, d + 1):
        raise ValueError("the factor of its belief does not fit its features")
    lengths = [x.shape[-1:] for name, x in arrays.items() if name.startswith("belief.")]
    if not d and (L,) not in lengths:
        raise ValueError("its features do not fit its belief")


def generator_in(state: Any) -> Mapping[str, Any]:
    """The state of a generator, if it is one."""
    generator = np.random.PCG64(0)
    generator.state = state
    if generator.state != state:
        raise ValueError("the state of its generator is none")
    return generator.state


def _names(names: Any, d: int | None = None) -> Names:
    """The names of d features, or of as many as there are, if they have any."""
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("the names of its features are not texts")
    wanted = len(names) if d is None else d
    if len(names) != wanted or len(set(names)) < wanted:
        raise ValueError(f"it names {len(set(names))} of {wanted} features")
    return tuple(names)


def belief_in(like: Any, arrays: Mapping[str, Array]) -> Any:
    """The belief in a file, which must look like this one."""
    fields = {}
    for name in like._fields:
        value = arrays[f"belief.{name}"]
        expected = np.asarray(getattr(like, name))
        fits = value.shape == expected.shape and np.can_cast(value.dtype, expected.dtype)
        if not (fits and np.isfinite(value).all()):
            raise ValueError(f"the {name} of its belief does not fit its features or is not finite")
        fields[name] = value.astype(expected.dtype, copy=False)
    if fields.keys() >= set(Gaussian._fields) and (fields["factor"].diagonal()[:-1] <= 0).any():
        raise ValueError("the factor of its belief does not fit: its diagonal must be positive")
    return type(like)(**fields)


def describe_agent(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """What an opened file of an agent holds, in words: learner, items and coefficients, and then
    the meta data and arrays.
    """
    meta = header["meta"]
    parts = [f"agent with the learner {_in_words(meta['learner'], meta['parameters'])}"]
    items = ids.unpacked(arrays)
    if items is not None:
        shown = ", ".join(map(str, items[:SHOWN]))
        more = ", ..." if len(items) > SHOWN else ""
        parts.append(f"{len(items)} items: {shown}{more}")
    observed = archive.unpack_texts(arrays["observed.decision"])
    parts.append(f"{len(observed)} observed decisions remembered")
    if {"belief.factor", "belief.log_normalizer"} <= arrays.keys():
        d = len(arrays["belief.factor"]) - 1
        names = _names(meta["names"], d)
        parts.append(_coefficients(names, arrays))
    return "\n".join([*parts, "", archive.describe_archive(header, arrays)])


def _in_words(learner: str, parameters: Mapping[str, Any]) -> str:
    """A learner with its parameters, as it is written in code."""
    given = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    return f"{learner}({given})"


def _coefficients(names: Names, arrays: Mapping[str, Array]) -> str:
    """The clearest coefficients of a belief."""
    belief = Gaussian(arrays["belief.factor"], arrays["belief.log_normalizer"])
    theta = mean(belief)
    width = std(belief, np.eye(len(theta)))
    shown = names or [f"[{j}]" for j in range(len(theta))]
    lines = [f"coefficients, the clearest of {len(theta)}:"]
    for j in np.argsort(-np.abs(theta) / width, kind="stable")[:SHOWN]:
        lines.append(f"  {shown[j]} {theta[j]:+.3g} ± {width[j]:.2g}")
    return "\n".join(lines)
