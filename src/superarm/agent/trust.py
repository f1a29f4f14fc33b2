"""Whether a decision record can be trusted: its signature, and features that the agent had."""

import dataclasses
import hashlib
import hmac
from typing import Any

import numpy as np

from superarm.agent.decisions import Decision
from superarm.arrays import Array, Features, is_product, is_selection, is_sparse
from superarm.errors import DecisionError, ParameterError

FAR = 1e6
"""How many times as large as what the agent knows features of a record may be."""
SHORTEST_KEY = 16
"""Bytes of a key that signs records."""


def signed(decision: Decision, key: bytes) -> Decision:
    """The decision with a signature that only those with the key can make.

    >>> import numpy as np
    >>> from superarm import Decision
    >>> from superarm.agent.trust import signed, verify
    >>> key = b"a secret of sixteen bytes or more"
    >>> made = Decision("1", ("a",), np.eye(1), "2026-01-01T00:00:00.000000+00:00", 0)
    >>> record = signed(made, key).to_json()
    >>> verify(Decision.from_json(record), key)
    """
    return dataclasses.replace(decision, signature=_hmac(decision, key))


def verify(decision: Decision, key: bytes) -> None:
    """Raise if the decision was not signed with this key, or was changed since."""
    wanted = _hmac(decision, key)
    if decision.signature is None:
        raise DecisionError(
            f"decision {decision.id!r:.60} is not signed, and this agent has a key: "
            "it learns only from decisions that were signed with it"
        )
    found = str(decision.signature).encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(found, wanted.encode()):
        raise DecisionError(
            f"decision {decision.id!r:.60} was signed with another key, or changed since"
        )


def _hmac(decision: Decision, key: bytes) -> str:
    require_key(key)
    message = b"superarm decision\n" + decision.content()
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def require_key(key: Any) -> None:
    """Refuse what is no key to sign records with."""
    if not isinstance(key, bytes) or len(key) < SHORTEST_KEY:
        raise ParameterError(
            f"a key that signs records must be bytes, {SHORTEST_KEY} or more, "
            "as of secrets.token_bytes(32)"
        )


def refuse_implausible(rows: Array, d: int, largest: float) -> None:
    """Raise if rows of a record cannot be features that the agent had.

    Args:
        rows: the features in the record.
        d: how many features there are.
        largest: the largest magnitude of any feature that the agent has, as `reach` tells, or was
            given in a context; 0 if it had none but zeros.
    """
    if rows.ndim != 2 or rows.shape[1] != d:
        raise DecisionError(
            f"this decision is of items with {rows.shape[-1] if rows.ndim else 0} features, not {d}"
        )
    found = reach(rows)
    if not np.isfinite(found):
        raise DecisionError("the features in this decision are not finite")
    if largest > 0 and found / FAR > largest:
        raise DecisionError(
            f"the features in this decision reach {found:.3g}, those of the agent {largest:.3g}: "
            "they are not of this agent"
        )


def reach(Phi: Features) -> float:
    """The largest magnitude of any feature; of a context's product, a bound on it.

    >>> import numpy as np
    >>> from superarm.agent.trust import reach
    >>> reach(np.array([[1.0, -3.0]]))
    3.0
    """
    if is_product(Phi):
        right = Phi.right.scale if is_selection(Phi.right) else Phi.right
        return reach(Phi.left) * reach(right)
    values: Any = Phi.data if is_sparse(Phi) else Phi
    if not np.size(values):
        return 0.0
    return float(max(values.max(), -values.min()))
