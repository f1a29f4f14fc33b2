"""What the file of a population holds."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from superarm import files, learners
from superarm.agent import ids
from superarm.arrays.packed import packed_size
from superarm.checks import check_features
from superarm.errors import FileError, ParameterError
from superarm.oracles import TopK

if TYPE_CHECKING:
    from superarm.cluster.population import Population

_UNFIT = "damaged or does not fit this version"


def save(population: "Population", path: files.PathLike) -> None:
    """Write everything but the oracle, atomically."""
    learner: Any = population.learner
    if type(learner).__name__ not in learners.__all__:
        raise ParameterError(f"{type(learner).__name__} is not a learner of superarm's own")
    n = len(population)
    state = population._all
    users = ids.packed(ids.as_ids(population.users))
    arrays = {
        "features": population._Phi,
        "data": population._data[:n],
        "rows": population._rows[:n],
        "t": population._t[:n],
        "all.data": state.data,
        "all.spread": state.spread,
        **{f"users.{name}": array for name, array in users.items()},
    }
    if not population.catalogue.numbered:
        arrays |= ids.packed(population.catalogue.ids)
    meta = {
        "learner": type(learner).__name__,
        "parameters": dataclasses.asdict(learner),
        "names": population.catalogue.names,
        "worth": population.worth,
        "users": n,
        "rows": state.rows,
        "lam": state.lam,
        "sigma": state.sigma,
        "t": state.t,
    }
    files.write(path, "population", meta, arrays)


def load(make: Any, path: files.PathLike, *, oracle: Any, seed: int | None) -> "Population":
    """The population in a file, which `make` makes anew and this brings to where it was."""
    meta, arrays = files.read(path, "population")
    with files.blaming(path, _UNFIT):
        if meta["learner"] not in learners.__all__:
            raise FileError(f"{path} needs a learner that this version does not have")
        learner = getattr(learners, meta["learner"])(**meta["parameters"])
        features = check_features(arrays["features"])
        options = {
            "features": features,
            "items": ids.unpacked(arrays, len(features)),
            "worth": meta["worth"],
        }
        make(learner, oracle=TopK(1), **options)
    population: Population = make(learner, oracle=oracle, seed=seed, **options)
    with files.blaming(path, _UNFIT):
        _restore(population, meta, arrays)
    return population


def _restore(population: "Population", meta: Any, arrays: Any) -> None:
    n = int(meta["users"])
    d = population.problem.d
    own = {name.removeprefix("users."): x for name, x in arrays.items() if name[:6] == "users."}
    users = list(ids.unpacked(own, n)) if n else []
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
    places = population._with_users(plain)
    population._data[places] = arrays["data"]
    population._rows[places] = arrays["rows"]
    population._t[places] = arrays["t"]
    population.catalogue.names = None if meta["names"] is None else tuple(meta["names"])
    population._all = population._all._replace(
        data=arrays["all.data"],
        rows=float(meta["rows"]),
        spread=arrays["all.spread"],
        lam=float(meta["lam"]),
        sigma=float(meta["sigma"]),
        t=int(meta["t"]),
    )
