"""The exception tree. Catch `SuperarmError` for all of it, or the built-in parent as usual.

SuperarmError
├── FeaturesError    (ValueError)       features of wrong shape, or not finite
├── WeightsError     (ValueError)       weights of wrong length, not finite, or out of range
├── ItemsError       (ValueError)       items that are unknown, repeated, or not ids
├── DecisionError    (ValueError)       a decision record that is damaged, or was observed before
├── MaskError        (ValueError)       an availability mask of wrong shape or type
├── ParameterError   (ValueError)       a hyperparameter or setting out of its range
│   └── UnsupportedError                a model without an optional method that a call needs
├── InfeasibleError  (ValueError)       no feasible set is left to choose
├── OracleError      (RuntimeError)     an oracle returned no set of available items
├── NumericalError   (ArithmeticError)  numbers too large for float64
├── FileError        (ValueError)       a file that is truncated, foreign or newer than this version
├── DataError        (OSError)          a data set that is missing or not what it should be
├── ClusterError     (RuntimeError)     a cluster that cannot be reached, or lost its workers
└── ServiceError     (RuntimeError)     a service refused a request, or did not answer
"""


class SuperarmError(Exception):
    """Anything superarm raises on purpose."""


class FeaturesError(SuperarmError, ValueError):
    """Features of wrong shape, or not finite."""


class WeightsError(SuperarmError, ValueError):
    """Weights of wrong length, not finite, or out of the model's range."""


class ItemsError(SuperarmError, ValueError):
    """Items that are unknown, repeated, or not ids."""


class DecisionError(SuperarmError, ValueError):
    """A decision record that is damaged, or was observed before."""


class MaskError(SuperarmError, ValueError):
    """An availability mask of wrong shape or type."""


class ParameterError(SuperarmError, ValueError):
    """A hyperparameter or setting out of its range."""


class UnsupportedError(ParameterError):
    """A model lacks an optional method that a call needs."""


class InfeasibleError(SuperarmError, ValueError):
    """No feasible set is left to choose."""


class OracleError(SuperarmError, RuntimeError):
    """An oracle returned something that is not a set of available items."""


class NumericalError(SuperarmError, ArithmeticError):
    """Numbers too large for float64."""


class FileError(SuperarmError, ValueError):
    """A file that is truncated, foreign or newer than this version."""


class DataError(SuperarmError, OSError):
    """A data set that is missing or not what it should be."""


class ClusterError(SuperarmError, RuntimeError):
    """A cluster that cannot be reached or used, or that lost its workers again and again."""


class ServiceError(SuperarmError, RuntimeError):
    """A service refused a request, or did not answer.

    Args:
        detail: the fault, and what to change.
        status: of HTTP; None if there was no answer.
        field: JSON pointer to the field of the request that is at fault, if it is one field.

    >>> from superarm.errors import ServiceError
    >>> print(ServiceError("there is no agent 'news'", 404))
    there is no agent 'news' (404)
    """

    def __init__(self, detail: str, status: int | None = None, field: str | None = None) -> None:
        super().__init__(detail, status, field)
        self.detail = detail
        self.status = status
        self.field = field

    def __str__(self) -> str:
        optional = (self.status, self.field)
        details = [str(x) for x in optional if x is not None]
        if not details:
            return self.detail
        text = ", ".join(details)
        return f"{self.detail} ({text})"
