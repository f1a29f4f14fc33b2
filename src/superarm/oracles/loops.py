"""What NumPy has in a word, as plain loops for kernels: Numba takes seconds to compile NumPy's."""

import numpy as np

from superarm.arrays import Array
from superarm.arrays.compiled import compiled


@compiled
def copy_into(target: Array, values: Array) -> None:
    """Copy the values (n,) to the begin of the target."""
    for i in range(len(values)):
        target[i] = values[i]


@compiled
def none_of(n: int) -> Array:
    """No item of n, as a set (n,)."""
    x = np.empty(n, np.bool_)
    x[:] = False
    return x


@compiled
def numbers(n: int) -> Array:
    """The numbers below n."""
    below = np.empty(n, np.int64)
    for i in range(n):
        below[i] = i
    return below


@compiled
def taken(values: Array, order: Array) -> Array:
    """The values in this order."""
    found = np.empty(len(order), values.dtype)
    for i in range(len(order)):
        found[i] = values[order[i]]
    return found


@compiled
def items_of(x: Array) -> Array:
    """The items of the set x (n,), in increasing order."""
    size = 0
    for e in range(len(x)):
        size += x[e]
    items = np.empty(size, np.int64)
    size = 0
    for e in range(len(x)):
        if x[e]:
            items[size] = e
            size += 1
    return items


@compiled
def into_row(x: Array, row: Array) -> None:
    """Put the items of the set x into the row, in increasing order."""
    k = 0
    for e in range(len(x)):
        if x[e]:
            row[k] = e
            k += 1


@compiled
def in_order(items: Array, keys: Array) -> Array:
    """The items, those with the least keys[item] first; ties stay in their order.

    Runs of sorted items are merged, two by two, into runs of twice the length.
    """
    n = len(items)
    runs = np.empty(n, np.int64)
    merged = np.empty(n, np.int64)
    copy_into(runs, items)
    length = 1
    while length < n:
        for low in range(0, n, 2 * length):
            middle = min(low + length, n)
            high = min(middle + length, n)
            i = low
            j = middle
            for k in range(low, high):
                if j == high or (i < middle and keys[runs[i]] <= keys[runs[j]]):
                    merged[k] = runs[i]
                    i += 1
                else:
                    merged[k] = runs[j]
                    j += 1
        runs, merged = merged, runs
        length *= 2
    return runs
