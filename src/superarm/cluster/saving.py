"""What the file of a population holds."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from superarm import files, learners
from superarm.agent import ids
from superarm.arrays.packed import packed_size
from superarm.checks import check_features
from superarm.cluster.users import Known, Scales, Total
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
        "all.spread": population._scales.spread,
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
        "lam": population.lam,
        "sigma": population.sigma,
        "t": total.t,
    }
    files.write(path, "population", meta, arrays)


def load(make: Any, path: files.PathLike, given: Mapping[str, Any]) -> "Population":
    """The population in a file, made anew with what is given and brought to where it was."""
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
        known = _known(meta, arrays)
        scales = Scales(arrays["all.spread"], float(meta["lam"]), float(meta["sigma"]))
        names = None if meta["names"] is None else tuple(meta["names"])
    population: Population = make(learner, **options, **given)
    population.restore(known, scales)
    population.catalogue.names = names
    return population


def _known(meta: Any, arrays: Any) -> Known:
    """What a file knows of users, checked."""
    n = int(meta["users"])
    d = arrays["features"].shape[1]
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
    total = Total(n, arrays["all.data"], float(meta["rows"]), int(meta["t"]))
    return Known(plain, arrays["data"], arrays["rows"], arrays["t"], total)
