"""Features of a call: φ_{x,e} from those of the context x, as a user, and those of the items.

    Outer(Y)(x)           φ_{x,e} = x ⊗ y_e    a coefficient for each pair: who likes what
    Concatenated(Y)(x)    φ_{x,e} = (x, y_e)   a coefficient for each feature of either

Both are Y B_x with a matrix B_x that has one entry per column. They are scored as such, Y (B_x θ):
L d_i numbers are read, where the features of all items would be L d_u d_i to form and to read, and
B_x is never formed either. Put a constant 1 among x or y_e where a level or plain effects are
wanted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from superarm.arrays import (
    Array,
    ColumnSelection,
    Features,
    Product,
    is_product,
    is_selection,
    is_sparse,
    sparse_arrays,
)
from superarm.checks import as_features, as_numbers, check_features, first_repeated
from superarm.checks.tables import Names, Table, align_columns, as_mapping
from superarm.errors import FeaturesError


@dataclass(frozen=True, eq=False)
class InContext(Product):
    """The features of all items in a context x, or in n contexts, never multiplied out.

    They know what they were made from: the features of the items, with their ids and names if these
    had any, and the context, with its names.
    """

    made: "type[Outer | Concatenated]"
    x: Array  # (d_u,) or (n, d_u)
    x_names: Names = None
    item_names: Names = None
    ids: Any = None  # (L,)

    @property
    def rows(self) -> Array:
        """The features of the items themselves: (L, d_i)."""
        return self.left[:, self.made.ones :]

    @property
    def names(self) -> Names:
        """The names of all features; None if neither items nor context have any."""
        if self.x_names is None and self.item_names is None:
            return None
        d_i = self.left.shape[1] - self.made.ones
        of_context = self.x_names or tuple(f"[{j}]" for j in range(self.x.shape[-1]))
        of_items = self.item_names or tuple(f"[{j}]" for j in range(d_i))
        return self.made.joined_names(of_context, of_items)

    def __getitem__(self, key: Any) -> "InContext":
        """Some of the items; of n contexts, some of those."""
        if self.x.ndim == 1:
            ids = None if self.ids is None else np.asarray(self.ids)[key]
            return replace(self, left=self.left[key], ids=ids)
        return self.of(self.x[key])

    def of(self, x: Array) -> "InContext":
        """The features of the same items in another context, or in n of them."""
        return replace(self, right=self.made.matrix(x, self.left.shape[1]), x=x)

    def without_ids(self) -> "InContext":
        """The same features, for one who knows the ids."""
        return replace(self, ids=None)


class _Context:
    """The features of the items, (L, d_i), for all contexts."""

    ones: ClassVar[int] = 0
    """Columns of ones before the features of the items."""

    def __init__(self, items: Any) -> None:
        table = Table.of(items)
        Y = _side(table.values)
        if Y.ndim != 2:
            raise FeaturesError(
                f"the features of items must be 2-D, (items, features), got shape {Y.shape}"
            )
        self.items: Array = self.side(Y)
        self.ids = table.ids
        self.names = table.names

    @staticmethod
    def side(rows: Array) -> Array:
        """The left side of the product for these features of items."""
        return rows

    def __call__(self, context: Any) -> InContext:
        """The features of all items for this context: numbers, or a mapping or pandas Series of
        them by name. A matrix (n, d_u) or data frame holds n contexts.

        Returns:
            features for `Agent.choose` and `Agent.observe`, which are scored without being formed.

        Raises:
            FeaturesError: if names or lengths do not fit, or numbers are not finite.
        """
        x, names = _vectors(context)
        made: Any = type(self)  # Outer or Concatenated, which have `matrix` and `joined_names`
        return InContext(
            self.items,
            made.matrix(x, self.items.shape[1]),
            made,
            x,
            names,
            self.names,
            self.ids,
        )


class Outer(_Context):
    """φ_{x,e} = x ⊗ y_e, of d_u d_i features: x_1 y_e, x_2 y_e, ...

    The features of the items may be a data frame: its index holds their ids, by which they are
    aligned with those of an agent, whatever their order.

    >>> import numpy as np
    >>> from superarm.contexts import Outer
    >>> artists = np.array([[1.0, 0.2], [1.0, 0.7], [1.0, 0.5]])
    >>> features = Outer(artists)
    >>> np.asarray(features([1.0, 10.0]))  # formed, to look at
    array([[ 1. ,  0.2, 10. ,  2. ],
           [ 1. ,  0.7, 10. ,  7. ],
           [ 1. ,  0.5, 10. ,  5. ]])
    >>> features(np.ones((100, 2))).shape  # of a hundred users
    (100, 3, 4)
    """

    @staticmethod
    def matrix(x: Array, k: int) -> ColumnSelection:
        """B_x, of one context or of n."""
        source = np.tile(np.arange(k), x.shape[-1])
        scale = np.repeat(x, k, axis=-1)
        return ColumnSelection(k, source, scale)

    @staticmethod
    def joined_names(of_context: tuple[str, ...], of_items: tuple[str, ...]) -> tuple[str, ...]:
        """The names of the products."""
        return tuple(f"{u}·{y}" for u in of_context for y in of_items)


class Concatenated(_Context):
    """φ_{x,e} = (x, y_e), of d_u + d_i features; items as in `Outer`.

    >>> import numpy as np
    >>> from superarm.contexts import Concatenated
    >>> features = Concatenated(np.array([[0.2], [0.7]]))
    >>> np.asarray(features([1.0, 10.0]))
    array([[ 1. , 10. ,  0.2],
           [ 1. , 10. ,  0.7]])
    """

    ones: ClassVar[int] = 1

    @staticmethod
    def side(rows: Array) -> Array:
        """The features of the items behind a column of ones."""
        if is_sparse(rows):
            wider: Array = sparse_arrays().with_ones(rows)
            return wider
        one_each = (len(rows), 1)
        ones = np.ones(one_each, rows.dtype)
        return np.concatenate([ones, rows], axis=1)

    @staticmethod
    def matrix(x: Array, k: int) -> ColumnSelection:
        """B_x, of one context or of n."""
        *batch, d_u = x.shape
        constant = np.zeros(d_u, np.int64)
        source = np.concatenate([constant, np.arange(1, k)])
        scale = np.concatenate([x, np.ones((*batch, k - 1))], axis=-1)
        return ColumnSelection(k, source, scale)

    @staticmethod
    def joined_names(of_context: tuple[str, ...], of_items: tuple[str, ...]) -> tuple[str, ...]:
        """The names of both."""
        return of_context + of_items


KINDS: dict[str, type[Outer | Concatenated]] = {"outer": Outer, "concatenated": Concatenated}
"""What a file or record calls them."""


MOST_FEATURES = 2**17
"""Features that a file or record may speak of: a belief about as many takes a hundred gigabytes."""


def remade(
    made: type[Outer | Concatenated],
    left: Array,
    x: Array,
    x_names: Names = None,
    item_names: Names = None,
) -> InContext:
    """The features in a context that a file or record holds. So short a text may ask for so many
    that they are counted before they are made.
    """
    k = left.shape[1]
    k_x = x.size
    d = k * k_x if made is Outer else k + k_x
    if d > MOST_FEATURES:
        raise FeaturesError(
            f"a file or record may have {MOST_FEATURES} features, but a context of {k_x} and "
            f"items of {k} make {d}"
        )
    return InContext(left, made.matrix(x, k), made, x, x_names, item_names)


def kind_of(Phi: InContext) -> str:
    """What a file or record calls the way these features were made."""
    return next(name for name, made in KINDS.items() if made is Phi.made)


def _side(items: Any) -> Array:
    """The features of items as the left side of a product: dense or sparse."""
    if is_sparse(items):
        return cast(Array, as_features(items))
    return check_features(items)


def _vectors(context: Any) -> tuple[Array, Names]:
    """One context (d_u,), or n of them (n, d_u), and the names of its features if it has any."""
    names: Names = None
    if hasattr(context, "columns"):
        table = Table.of(context)
        context = table.values
        names = table.names
    elif (by_name := as_mapping(context, FeaturesError)) is not None:
        context = list(by_name.values())
        names = tuple(map(str, by_name))
        if len(set(names)) < len(names):
            raise FeaturesError(f"feature {first_repeated(names)!r} of a context is there twice")
    try:
        x = as_numbers(context)
    except ValueError as error:
        raise FeaturesError(f"a context must be a flat list of numbers ({error})") from error
    if x.ndim not in (1, 2) or not x.size or not np.isfinite(x).all():
        raise FeaturesError(
            "a context must be a flat list of finite numbers, or a matrix with one context per "
            f"row, got {context!r:.200}"
        )
    return x, names


def as_table(features: Any) -> Table:
    """Features with the ids of their rows and the names of their columns, as far as they have any:
    a data frame's, or those of the items in a context.
    """
    if isinstance(features, InContext):
        return Table(features, features.ids, features.names)
    return Table.of(features)


def aligned(Phi: InContext, x_names: Names, item_names: Names) -> InContext:
    """Features in a context, with the features of context and items in the order of these names."""
    of_context = align_columns(Phi.x_names, x_names)
    of_items = align_columns(Phi.item_names, item_names)
    if isinstance(of_context, slice) and isinstance(of_items, slice):
        return Phi
    left = Phi.made.side(Phi.rows[:, of_items])
    x = Phi.x[..., of_context]
    return replace(
        Phi,
        left=left,
        right=Phi.made.matrix(x, left.shape[1]),
        x=x,
        x_names=x_names,
        item_names=item_names,
    )


# --- rows of items, of which there may be more ----------------------------------------------------


def side_of(Phi: Features) -> Array:
    """The part of features that has a row per item: of a product, its left side."""
    return Phi.left if is_product(Phi) else Phi


def with_side(Phi: Features, side: Array) -> Features:
    """Features with another part per item."""
    return replace(Phi, left=side) if is_product(Phi) else side


def rows_taken(Phi: Features, places: Array) -> Features:
    """The features of the items at these places: of one call, or of n."""
    side = side_of(Phi)
    rows = side[places] if side.ndim == 2 else side[..., places, :]
    return with_side(Phi, rows)


def side_rows(Phi: Features, features: Any, names: Names) -> tuple[Array, Any]:
    """Features of other items as rows for the side of Phi, in its dtype, and their ids if they have
    any. Those of items in a context are the features of the items alone.
    """
    table = as_table(features)
    ones = 0
    if isinstance(Phi, InContext):
        if isinstance(features, InContext):
            table = Table(features.rows, features.ids, features.item_names)
        names = Phi.item_names
        ones = Phi.made.ones
    elif is_product(Phi):
        raise FeaturesError(
            "features that are a product of unknown making take no new items: "
            "make them by superarm.contexts.Outer or Concatenated"
        )
    rows = _rows(table, names)
    side = side_of(Phi)
    wanted = side.shape[1] - ones
    if rows.shape[1:] != (wanted,):
        raise FeaturesError(f"features must have shape (n, {wanted}), got {rows.shape}")
    with np.errstate(over="ignore"):
        rows = rows.astype(side.dtype)
    rows = _side(rows) if is_sparse(side) else check_features(rows)
    if isinstance(Phi, InContext):
        rows = Phi.made.side(rows)
    return rows, table.ids


def _rows(table: Table, names: Names) -> Array:
    """The rows of a table, with its columns in the order of the names."""
    order = align_columns(table.names, names)
    rows = _side(table.values)
    return rows if isinstance(order, slice) else rows[:, order]


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
    if isinstance(Phi, InContext):
        return _packed_rows(f"features.{kind_of(Phi)}", Phi.left) | {"features.context": Phi.x}
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


def are_packed(arrays: Mapping[str, Array]) -> bool:
    """Whether there are features among the arrays of a file."""
    return any(name == "features" or name.startswith("features.") for name in arrays)


def unpacked(arrays: Mapping[str, Array]) -> Features:
    """The features that `packed` put among the arrays of a file."""
    if "features" in arrays or "features.data" in arrays:
        return _unpacked_rows("features", arrays)
    if "features.context" in arrays:
        return _unpacked_context(arrays)
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


def _unpacked_context(arrays: Mapping[str, Array]) -> InContext:
    """The features in a context that a file holds."""
    for kind, made in KINDS.items():
        name = f"features.{kind}"
        if name not in arrays and f"{name}.data" not in arrays:
            continue
        left = _side(_unpacked_rows(name, arrays))
        x, _ = _vectors(arrays["features.context"])
        return remade(made, left, x)
    raise FeaturesError("the features of a context have no features of items with them")


def _selection(arrays: Mapping[str, Array], k: int) -> ColumnSelection:
    """The `ColumnSelection` from k columns in a file."""
    source = arrays["features.source"]
    scale = arrays["features.scale"]
    pairs = source.shape == scale.shape == (source.size,) != (0,)
    if not pairs or source.dtype.kind != "i" or scale.dtype != np.float64:
        raise FeaturesError("the features of a context must be a column and a number each")
    if source.min() < 0 or source.max() >= k:
        raise FeaturesError(f"the features of a context must be of columns 0..{k - 1}")
    return ColumnSelection(k, source, scale)
