"""The batched kernel of `TopK` and `Quota` for Torch tensors, without leaving the device."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

Tensor: TypeAlias = Any
Array: TypeAlias = npt.NDArray[Any]


def select(w: Tensor, group: Array, start: Array, floor: float) -> tuple[Tensor, Tensor]:
    """The start[g+1] - start[g] largest weights above `floor` of each group g; ties go to the
    lowest index.

    w is (n, L). Returns the items, the best of a group first and -1 where there are too few, and
    whether each row is below +inf.
    """
    parts = []
    for g, k in enumerate(np.diff(start).tolist()):
        if not len(group):
            parts.append(_best(w, k, floor))
        elif k:
            members = torch.as_tensor(np.flatnonzero(group == g), device=w.device)
            found = _best(w[:, members], k, floor)
            parts.append(torch.where(found >= 0, members[found.clamp(min=0)], -1))
    nothing = torch.empty((len(w), 0), dtype=torch.int64, device=w.device)
    A = torch.cat([nothing, *parts], -1)
    return A, (w < torch.inf).all(-1)


def _best(w: Tensor, k: int, floor: float) -> Tensor:
    """All above the k-th largest weight, and of those equal to it the first: `torch.topk` leaves
    ties to chance.
    """
    most = min(k, w.shape[-1])
    w = w.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)  # refused later
    last = w.topk(most, dim=-1).values[:, -1:]
    above = w > last
    equal = w == last
    missing = most - above.sum(-1, keepdim=True)
    chosen = above | (equal & (equal.cumsum(-1) <= missing))
    items = chosen.nonzero()[:, 1].reshape(len(w), most)
    value, order = w.gather(-1, items).sort(dim=-1, descending=True, stable=True)
    items = torch.where(value > floor, items.gather(-1, order), -1)
    return torch.nn.functional.pad(items, (0, k - most), value=-1)
