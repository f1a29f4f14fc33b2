"""A heap of nodes by their distance, for compiled searches: the nearest is on top.

A node is pushed again when a shorter way to it is found; what is left of the longer one is passed
over when it comes to the top.
"""

from superarm.arrays import Array
from superarm.arrays.compiled import compiled


@compiled
def push(length: Array, node: Array, size: int, d: float, x: int) -> int:
    """Add (d, x) to the heap length[:size], whose top is the least; returns its new size."""
    i = size
    while i > 0:
        parent = (i - 1) // 2
        if d >= length[parent]:
            break
        length[i] = length[parent]
        node[i] = node[parent]
        i = parent
    length[i] = d
    node[i] = x
    return size + 1


@compiled
def pop(length: Array, node: Array, size: int) -> int:
    """Remove the top of the heap; returns its new size."""
    size -= 1
    d = length[size]
    x = node[size]
    i = 0
    child = 1
    while child < size:
        if child + 1 < size and length[child + 1] < length[child]:
            child += 1
        if d <= length[child]:
            break
        length[i] = length[child]
        node[i] = node[child]
        i = child
        child = 2 * child + 1
    length[i] = d
    node[i] = x
    return size
