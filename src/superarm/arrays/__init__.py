"""Arrays of NumPy, Torch and SciPy: everything the algorithms need beyond plain array operators."""

from superarm.arrays.column_statistics import (
    add_rows as add_rows,
    column_scales as column_scales,
    merge_column_statistics as merge_column_statistics,
    summarize_columns as summarize_columns,
)
from superarm.arrays.namespace import (
    add_at as add_at,
    all_finite as all_finite,
    as_float64 as as_float64,
    as_like as as_like,
    backend as backend,
    below_infinity as below_infinity,
    broadcast as broadcast,
    full as full,
    log as log,
    log_sigmoid as log_sigmoid,
    matvec as matvec,
    nonzero_rows as nonzero_rows,
    row_norms as row_norms,
    sigmoid as sigmoid,
    solve_rows as solve_rows,
    sparse_arrays as sparse_arrays,
    take as take,
    take_rows as take_rows,
    to_numpy as to_numpy,
    triangle as triangle,
    where as where,
    where_features as where_features,
    with_column as with_column,
)
from superarm.arrays.posterior_std import (
    is_ill_conditioned as is_ill_conditioned,
    map_row_chunks as map_row_chunks,
    posterior_row_norms as posterior_row_norms,
    product_row_norms as product_row_norms,
)
from superarm.arrays.qr_update import (
    UpdatedFactor as UpdatedFactor,
    diagonal as diagonal,
    log_det as log_det,
    qr_append as qr_append,
    qr_downdate as qr_downdate,
    qr_stack as qr_stack,
    refuse_rows as refuse_rows,
    solve_factor as solve_factor,
)
from superarm.arrays.random import (
    Stream as Stream,
    as_stream as as_stream,
    beta as beta,
    item_normal as item_normal,
    normal as normal,
    spawn as spawn,
    uniform as uniform,
)
from superarm.arrays.types import (
    Array as Array,
    ColumnSelection as ColumnSelection,
    Features as Features,
    Product as Product,
    Rng as Rng,
    is_contiguous_float64 as is_contiguous_float64,
    is_product as is_product,
    is_selection as is_selection,
    is_sparse as is_sparse,
    is_tensor as is_tensor,
    unbroadcast as unbroadcast,
)
