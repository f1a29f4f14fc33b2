"""Whether a decision record can be trusted: its signature, and features that the agent had."""

import dataclasses
import hashlib
import hmac
from typing import Any

import numpy as np

from superarm.agent.decisions import Decision
from superarm.agent.state import State, reach
from superarm.errors import DecisionError, ParameterError

FAR = 1e6
"""How many times as large as the agent's own the features of a record may be."""
FAR_IN_CONTEXT = 1e12
"""The same where features may differ from call to call."""
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


def refuse_implausible(decision: Decision, state: State) -> None:
    """Raise if the features of a record cannot be those that the agent had.

    Those of a context may be of other magnitudes than the agent's own, within reason.
    """
    model = state.learner.model
    if not model.uses_features or not decision.items:
        return
    found = reach(decision.features)
    if not np.isfinite(found):
        raise DecisionError("the features in this decision are not finite")
    far = FAR if model.fixed_features else FAR_IN_CONTEXT
    if state.reach > 0 and found / far > state.reach:
        raise DecisionError(
            f"the features in this decision reach {found:.3g}, those of the agent "
            f"{state.reach:.3g}: they are not of this agent"
        )
