"""Features of a call: φ_{x,e} from those of the context x, as a user, and those of the items.

    Outer(Y)(x)           φ_{x,e} = x ⊗ y_e    a coefficient for each pair: who likes what
    Concatenated(Y)(x)    φ_{x,e} = (x, y_e)   a coefficient for each feature of either

Both are Y B_x with a matrix B_x that has one entry per column. They are scored as such, Y (B_x θ):
L d_i numbers are read, where the features of all items would be L d_u d_i to form and to read, and
B_x is never formed either. Put a constant 1 among x or y_e where a level or plain effects are
wanted.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np

from superarm.arrays import (
    Array,
    Features,
    Product,
    Selection,
    is_product,
    is_selection,
    is_sparse,
    sparse_arrays,
)
from superarm.checks import as_features, as_numbers, check_features, require_count
from superarm.errors import FeaturesError


class _Context:
    """The features of the items, (L, d_i), for all contexts."""

    def __init__(self, items: Any) -> None:
        Y = _side(items)
        if Y.ndim != 2:
            raise FeaturesError(
                f"the features of items must be 2-D, (items, features), got shape {Y.shape}"
            )
        self.items: Array = Y


class Outer(_Context):
    """φ_{x,e} = x ⊗ y_e, of d_u d_i features: x_1 y_e, x_2 y_e, ...

    >>> import numpy as np
    >>> from superarm.contexts import Outer
    >>> artists = np.array([[1.0, 0.2], [1.0, 0.7], [1.0, 0.5]])
    >>> features = Outer(artists)
    >>> np.asarray(features([1.0, 10.0]))  # formed, to look at
    array([[ 1. ,  0.2, 10. ,  2. ],
           [ 1. ,  0.7, 10. ,  7. ],
           [ 1. ,  0.5, 10. ,  5. ]])
    """

    def __call__(self, context: Any) -> Product:
        """The features of all items for this context."""
        x = _vector(context)
        d_i = self.items.shape[1]
        source = np.tile(np.arange(d_i), len(x))
        scale = np.repeat(x, d_i)
        return Product(self.items, Selection(d_i, source, scale))


class Concatenated(_Context):
    """φ_{x,e} = (x, y_e), of d_u + d_i features.

    >>> import numpy as np
    >>> from superarm.contexts import Concatenated
    >>> features = Concatenated(np.array([[0.2], [0.7]]))
    >>> np.asarray(features([1.0, 10.0]))
    array([[ 1. , 10. ,  0.2],
           [ 1. , 10. ,  0.7]])
    """

    def __init__(self, items: Any) -> None:
        super().__init__(items)
        if is_sparse(self.items):
            self.items = sparse_arrays().with_ones(self.items)
            return
        ones = np.ones((len(self.items), 1), self.items.dtype)
        self.items = np.concatenate([ones, self.items], axis=1)

    def __call__(self, context: Any) -> Product:
        """The features of all items for this context."""
        x = _vector(context)
        k = self.items.shape[1]
        constant = np.zeros(len(x), np.int64)
        source = np.concatenate([constant, np.arange(1, k)])
        scale = np.concatenate([x, np.ones(k - 1)])
        return Product(self.items, Selection(k, source, scale))


def _side(items: Any) -> Array:
    """The features of items as the left side of a product: dense or sparse."""
    if is_sparse(items):
        return cast(Array, as_features(items))
    return check_features(items)


def _vector(context: Any) -> Array:
    try:
        x = as_numbers(context)
    except ValueError as error:
        raise FeaturesError(f"a context must be a flat list of numbers ({error})") from error
    if x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise FeaturesError(
            f"a context must be a flat list of finite numbers, got {context!r:.200}"
        )
    return x


def joined(Phi: Features, more: Features) -> Features:
    """The features of both, one below the other, in the dtype of the first.

    Products are joined as such if they are of the same context.
    """
    if not is_product(Phi) and not is_product(more):
        return _joined_rows(Phi, more)
    if is_product(Phi) and is_product(more) and np.array_equal(Phi.right, more.right):
        left = _joined_rows(Phi.left, more.left)
        return Product(left, Phi.right)
    raise FeaturesError(
        "new items need features made as those of the agent were, for the same context"
    )


def _joined_rows(rows: Array, more: Array) -> Array:
    with np.errstate(over="ignore"):
        added = more.astype(rows.dtype)
    if is_sparse(rows):
        together: Array = sparse_arrays().joined_rows(rows, as_features(added))
        return together
    return np.concatenate([rows, check_features(added)])


def alike(Phi: Features, other: Features) -> bool:
    """Whether two features are the same numbers; sparse rows are like sparse rows alone."""
    if not is_sparse(Phi) and not is_sparse(other):
        return np.array_equal(np.asarray(Phi), np.asarray(other))
    one = packed(Phi)
    two = packed(other)
    if one.keys() != two.keys():
        return False
    pairs = zip(one.values(), two.values(), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def packed(Phi: Features) -> dict[str, Array]:
    """Features as arrays for a file; `unpacked` reads them back."""
    if not is_product(Phi):
        return _packed_rows("features", Phi)
    left = _packed_rows("features.left", Phi.left)
    B = Phi.right
    if is_selection(B):
        return left | {"features.source": B.source, "features.scale": B.scale}
    return left | {"features.right": B}


def _packed_rows(name: str, rows: Array) -> dict[str, Array]:
    if not is_sparse(rows):
        return {name: rows}
    fields = sparse_arrays().packed(rows)
    return {f"{name}.{field}": array for field, array in fields.items()}


def unpacked(arrays: Mapping[str, Array]) -> Features:
    """The features that `packed` put among the arrays of a file."""
    if "features" in arrays or "features.data" in arrays:
        return _unpacked_rows("features", arrays)
    left = _side(_unpacked_rows("features.left", arrays))
    if "features.right" in arrays:
        return Product(left, arrays["features.right"])
    return Product(left, _selection(arrays, left.shape[-1]))


def _unpacked_rows(name: str, arrays: Mapping[str, Array]) -> Array:
    if f"{name}.data" not in arrays:
        return arrays[name]
    sparse = sparse_arrays()
    fields = {field: arrays[f"{name}.{field}"] for field in sparse.FIELDS}
    rows: Array = sparse.unpacked(fields)
    return rows


def _selection(arrays: Mapping[str, Array], k: int) -> Selection:
    """The `Selection` from k columns in a file."""
    source = arrays["features.source"]
    scale = arrays["features.scale"]
    pairs = source.shape == scale.shape == (source.size,) != (0,)
    if not pairs or source.dtype.kind != "i" or scale.dtype != np.float64:
        raise FeaturesError("the features of a context must be a column and a number each")
    if source.min() < 0 or source.max() >= k:
        raise FeaturesError(f"the features of a context must be of columns 0..{k - 1}")
    return Selection(k, source, scale)


def hashed(
    columns: Mapping[str, Iterable[Any]] | Any,
    buckets: int,
    *,
    sparse: bool = False,
) -> Array:
    """Categories as numbers, (n, buckets): each category adds 1 or -1 in a bucket of its own, by
    the hash of its name.

    New categories need no new features. Two may meet in one bucket, with random signs, so that on
    average they do not disturb each other: take several times as many buckets as there are
    categories that matter. None and NaN add nothing. The hash is that of the column's name and of
    the category as text, the same in any process; 7.0 counts as 7.

    Args:
        columns: a list of categories per column, one category per row; a data frame will do.
        buckets: how many features.
        sparse: return SciPy's CSR rows, for very many buckets.

    >>> from superarm.contexts import hashed
    >>> hashed({"genre": ["jazz", "folk", "jazz"], "live": [True, None, True]}, buckets=4)
    array([[-1.,  0.,  1.,  0.],
           [ 0.,  0., -1.,  0.],
           [-1.,  0.,  1.,  0.]])
    """
    require_count(buckets=buckets)
    table = {}
    try:
        for name in getattr(columns, "columns", columns):
            table[str(name)] = _categories(columns[name])
    except (IndexError, KeyError, TypeError) as error:
        raise FeaturesError(
            f"columns must be lists of categories, by the names of the columns ({error})"
        ) from error
    lengths = {len(values) for values in table.values()}
    if len(lengths) != 1:
        raise FeaturesError(f"columns must be lists of one length, got lengths {sorted(lengths)}")
    shape = (*lengths, buckets)
    rows: list[int] = []
    places: list[int] = []
    signs: list[float] = []
    for name, values in table.items():
        known: dict[str, tuple[int, float]] = {}
        for row, value in enumerate(values):
            if value is None:
                continue
            if value not in known:
                known[value] = _place(f"{len(name)} {name}={value}", buckets)
            bucket, sign = known[value]
            rows.append(row)
            places.append(bucket)
            signs.append(sign)
    if sparse:
        found: Array = sparse_arrays().from_entries(signs, rows, places, shape)
        return found
    out = np.zeros(shape)
    np.add.at(out, (rows, places), signs)
    return out


def _categories(values: Iterable[Any]) -> list[str | None]:
    """Categories as texts, None for those that are missing."""
    if isinstance(values, str | bytes):
        raise TypeError(f"{values!r:.60} is one category, not a list of them")
    return [None if _missing(value) else _text(value) for value in values]


def _missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN
    except TypeError:  # pandas' NA is neither equal nor unequal
        return True


def _text(value: Any) -> str:
    """The value as text; whole numbers are alike whether or not a gap made their column floats."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _place(text: str, buckets: int) -> tuple[int, float]:
    """The bucket of a category, and its sign."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    h = int.from_bytes(digest, "little")
    sign = 1.0 if h & 1 else -1.0
    return (h >> 1) % buckets, sign
