"""The exception tree. Catch `SuperarmError` for all of it, or the built-in parent as usual.

SuperarmError
├── FeaturesError    (ValueError)       features of wrong shape, or not finite
├── WeightsError     (ValueError)       weights of wrong length, not finite, or out of the model's range
├── ItemsError       (ValueError)       items that are unknown, repeated, or not ids
├── DecisionError    (ValueError)       a decision record that is damaged, or was observed before
├── MaskError        (ValueError)       an availability mask of wrong shape or type
├── ParameterError   (ValueError)       a hyperparameter or setting out of its range
├── InfeasibleError  (ValueError)       no feasible set is left to choose
├── OracleError      (RuntimeError)     an oracle returned something that is not a set of available items
├── NumericalError   (ArithmeticError)  numbers too large for float64
├── FileError        (ValueError)       a file that is truncated, foreign or newer than this version
└── DataError        (OSError)          a data set that is missing or not what it should be
"""

import numbers


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


def require_positive(**parameters: float) -> None:
    """Refuse the first parameter that is not a positive, finite number.

    >>> require_positive(lam=1.0, sigma=-0.3)
    Traceback (most recent call last):
    superarm.errors.ParameterError: sigma must be a positive, finite number, got -0.3
    """
    for name, value in parameters.items():
        if not (is_real(value) and 0 < value < float("inf")):
            raise ParameterError(f"{name} must be a positive, finite number, got {value!r}")


def is_real(value: object) -> bool:
    """Whether it is a number of Python's or NumPy's, other than a complex one.

    >>> is_real(0.5), is_real("0.5"), is_real(1j)
    (True, False, False)
    """
    return isinstance(value, float | numbers.Real)  # the first is much the faster to tell


def is_whole(value: object) -> bool:
    """Whether it is an integer of Python's or NumPy's; truth values are not.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def require_count(**parameters: int) -> None:
    """Refuse the first parameter that is not a whole number of at least 1.

    >>> require_count(replicates=0)
    Traceback (most recent call last):
    superarm.errors.ParameterError: replicates must be a whole number of at least 1, got 0
    """
    for name, value in parameters.items():
        if not (is_whole(value) and value >= 1):
            raise ParameterError(f"{name} must be a whole number of at least 1, got {value!r}")
