"""What a method returns that only fulfils a contract: its page says so in the contract's words."""

import inspect
import re

from superarm import contracts

CONTRACTS = (
    contracts.Learner,
    contracts.Model,
    contracts.Environment,
    contracts.SlateEnvironment,
    contracts.World,
    contracts.Oracle,
)


def _section(docstring: str | None) -> str:
    """The section "Returns" of a docstring, or nothing."""
    text = inspect.cleandoc(docstring or "")
    found = re.search(r"^(?:Returns|Yields):\n(?:    .*\n?)+", text, flags=re.MULTILINE)
    return "" if found is None else found[0].rstrip()


def returned(method: str, docstring: str | None) -> str:
    """What a method returns, as its own docstring says or the contract that has a method of this
    name.

    >>> returned("draw", "Weights that nobody knows.").splitlines()[-1].strip()
    'one weight per item, (*B, L).'
    """
    own = _section(docstring)
    if own:
        return own
    for contract in CONTRACTS:
        if method in vars(contract):
            return _section(vars(contract)[method].__doc__)
    return ""
