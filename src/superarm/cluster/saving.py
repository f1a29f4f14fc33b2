"""What the file of a population holds, and that of an agent whose catalogue is in shards."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from superarm import learners
from superarm.agent import ids
from superarm.agent.saving import belief_in, generator_in, learner_in
from superarm.arrays import Array
from superarm.checks import check_features, require_count
from superarm.cluster.columns import added_columns, packed, unpacked
from superarm.cluster.heads import Later, problem_of
from superarm.cluster.population.packed_triangles import packed_size
from superarm.cluster.population.user_shard import Known, SharedHyperparameters, Total
from superarm.contexts import Concatenated, Outer
from superarm.errors import FeaturesError, MaskError, ParameterError
from superarm.files import archive
from superarm.oracles import TopK

if TYPE_CHECKING:
    from superarm.cluster import sharded
    from superarm.cluster.population.population import Population

CONTEXTS = {kind.__name__: kind for kind in (Outer, Concatenated)}
_UNFIT = "damaged or does not fit this version"


def save_population(population: "Population", path: archive.PathLike) -> None:
    """Write everything but the oracle, atomically."""
    learner: Any = population.learner
    if type(learner).__name__ not in learners.__all__:
        raise ParameterError(f"{type(learner).__name__} is not a learner of superarm's own")
    population._choose_scales()
    scales = population._scales
    known = population._known()
    total = population._all
    listed = [user for each in known for user in each.users]
    users = ids.packed(ids.as_ids(listed))
    arrays = {
        "features": population._Phi,
        "data": np.concatenate([each.data for each in known]),
        "rows": np.concatenate([each.rows for each in known]),
        "t": np.concatenate([each.t for each in known]),
        "all.data": total.data,
        "all.spread": scales.spread,
        **{f"users.{name}": array for name, array in users.items()},
    }
    if not population.catalogue.numbered:
        arrays |= ids.packed(population.catalogue.ids)
    meta = {
        "learner": type(learner).__name__,
        "parameters": dataclasses.asdict(learner),
        "names": population.catalogue.names,
        "worth": population.worth,
        "users": total.users,
        "rows": total.rows,
        "lam": scales.lam,
        "sigma": scales.sigma,
        "t": total.t,
    }

    def accept(written: Mapping[str, Any]) -> None:
        if _known(written, arrays).users != listed:
            raise ValueError("the users would be others")

    archive.write_archive(path, "population", meta, arrays, accept)


def load_population(make: Any, path: archive.PathLike, given: Mapping[str, Any]) -> "Population":
    """The population in a file, made anew with what is given and brought to where it was."""
    meta, arrays = archive.read_archive(path, "population")
    with archive.as_file_error(path, _UNFIT):
        learner = learner_in(path, meta["learner"], meta["parameters"], None)
        features = check_features(arrays["features"])
        options = {
            "features": features,
            "items": ids.unpacked(arrays, len(features)),
            "worth": meta["worth"],
        }
        make(learner, oracle=TopK(1), **options)
        known = _known(meta, arrays)
        scales = SharedHyperparameters(
            arrays["all.spread"], float(meta["lam"]), float(meta["sigma"])
        )
        names = None if meta["names"] is None else tuple(meta["names"])
    population: Population = make(learner, **options, **given)
    population.restore(known, scales)
    population.catalogue.names = names
    return population


def _known(meta: Any, arrays: Any) -> Known:
    """What a file knows of users, checked."""
    n = int(meta["users"])
    d = arrays["features"].shape[1]
    users = list(ids.unpacked(_named("users.", arrays), n)) if n else []
    expected = {
        "data": (n, packed_size(d + 1)),
        "rows": (n,),
        "t": (n,),
        "all.data": (d + 1, d + 1),
        "all.spread": (d,),
    }
    for name, shape in expected.items():
        array = arrays[name]
        if array.shape != shape or array.dtype.kind not in "if" or not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite numbers of shape {shape}")
    scales = np.array([meta["lam"], meta["sigma"], *arrays["all.spread"]], dtype=float)
    if not ((scales > 0) & np.isfinite(scales)).all() or len(set(users)) != n:
        raise ValueError("scales must be positive, and each user be there once")
    plain = [user.item() if isinstance(user, np.generic) else user for user in users]
    total = Total(n, arrays["all.data"], float(meta["rows"]), int(meta["t"]))
    return Known(plain, arrays["data"], arrays["rows"], arrays["t"], total)


# --- agents ---------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """What the file of an agent holds, checked."""

    learner: Any
    contexts: type[Outer | Concatenated] | None
    context_width: int | None
    items: int  # in the files of features
    known: Array  # (M,) the items that the belief is about
    held: Array  # (M, d) their rows
    belief: Any  # None before the first decision
    added: Later
    removed: Array
    generator: Mapping[str, Any]


def save_agent(agent: "sharded.Agent", path: archive.PathLike) -> None:
    """Write everything but the oracle and the files of features, atomically."""
    learner = agent.learner
    if not dataclasses.is_dataclass(learner) or isinstance(learner, type):
        raise ParameterError(
            f"{type(learner).__name__} is not a dataclass: its parameters cannot be saved"
        )
    arrays = {
        "known": agent._known,
        "held": agent._held,
        "added": agent._added.rows,
        "removed": agent._removed,
    }
    columns = agent._added.columns
    for name, values in columns.items():
        arrays[f"column.{name}"] = packed(values)
    if agent.belief is not None:
        for name, value in agent.belief._asdict().items():
            arrays[f"belief.{name}"] = np.asarray(value)
    meta = {
        "learner": type(learner).__name__,
        "parameters": dataclasses.asdict(learner),
        "generator": agent._rng.bit_generator.state,
        "contexts": None if agent._contexts is None else agent._contexts.__name__,
        "context_width": agent._context_width,
        "items": agent.L,
        "types": {name: values.dtype.str for name, values in columns.items()},
    }

    def accept(written: Mapping[str, Any]) -> None:
        _saved(path, written, arrays, learner)

    archive.write_archive(path, "sharded agent", meta, arrays, accept)


def load_agent(
    make: Any,
    path: archive.PathLike,
    features: Any,
    oracle: Any,
    learner: Any,
    seed: Any,
    given: Mapping[str, Any],
) -> "sharded.Agent":
    """The agent in a file, made anew with what is given and brought to where it was."""
    meta, arrays = archive.read_archive(path, "sharded agent")
    with archive.as_file_error(path, _UNFIT):
        saved = _saved(path, meta, arrays, learner)
    options = {
        "features": features,
        "oracle": TopK(1),
        "contexts": saved.contexts,
        "seed": None if seed == "saved" else seed,
    }
    agent: sharded.Agent = make(saved.learner, **options, **given)
    try:
        agent.restore(saved, oracle)
    except BaseException:
        agent.close()
        raise
    if seed == "saved":
        agent._rng.bit_generator.state = saved.generator
    return agent


def fitting(saved: Saved, items: int, width: int, types: Mapping[str, Any]) -> Later:
    """The items that were added; refused if they have other columns, or if there was another number
    of items or of features.
    """
    if (saved.items, saved.held.shape[1]) != (items, width):
        raise FeaturesError(
            f"the agent was saved with {saved.items} items of {saved.held.shape[1]} features, "
            f"not with {items} of {width}"
        )
    n = len(saved.added.rows)
    if not n:
        return saved.added
    try:
        return Later(saved.added.rows, added_columns(saved.added.columns, n, types))
    except MaskError as error:
        raise MaskError(
            f"{n} items were added before the agent was saved, with entries in the columns "
            f"{tuple(saved.added.columns)}, which do not fit those given: {error}"
        ) from error


def _saved(path: archive.PathLike, meta: Any, arrays: Mapping[str, Array], learner: Any) -> Saved:
    """What the parts of a file mean, one by one."""
    found = learner_in(path, meta["learner"], meta["parameters"], learner)
    contexts = None if meta["contexts"] is None else CONTEXTS[meta["contexts"]]
    width = meta["context_width"]
    items = meta["items"]
    require_count(items=items, context_width=1 if width is None else width)
    held = check_features(arrays["held"])
    added = Later(_finite(arrays["added"], held.shape[1]), _columns(meta, arrays))
    end = items + len(added.rows)
    known = _numbers(arrays["known"], end)
    belief = None
    if "belief.factor" in arrays:
        problem = problem_of(held, TopK(1), contexts, width)
        belief = belief_in(found.model.prior(problem), arrays)
    if len(known) != len(held) or any(len(x) != len(added.rows) for x in added.columns.values()):
        raise ValueError("its items do not fit their features")
    removed = _numbers(arrays["removed"], end)
    generator = generator_in(meta["generator"])
    of_items = (items, known, held, belief, added, removed)
    return Saved(found, contexts, width, *of_items, generator)


def _finite(rows: Array, width: int) -> Array:
    if rows.ndim != 2 or rows.shape[1] != width or not np.isfinite(rows).all():
        raise ValueError(f"the features of items that were added must be finite, {width} each")
    return rows


def _numbers(items: Array, end: int) -> Array:
    """Numbers of items, each below `end`."""
    if items.ndim != 1 or items.dtype.kind != "i" or ((items < 0) | (items >= end)).any():
        raise ValueError(f"items must be numbers from 0 to {end - 1}")
    return items


def _columns(meta: Any, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The columns of items that were added."""
    booleans = meta.get("booleans", ())  # of files that tell no other types
    types = meta.get("types", {}) | dict.fromkeys(booleans, "|b1")
    columns = _named("column.", arrays)
    return {name: unpacked(x, types.get(name)) for name, x in columns.items()}


def _named(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays whose names begin like this, by what follows."""
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}
