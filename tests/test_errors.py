import numpy as np
import pytest

from superarm import errors

TREE = [value for value in vars(errors).values() if isinstance(value, type)]


def test_every_exception_is_drawn_in_the_docstring_with_its_parent():
    for error in TREE:
        assert error.__name__ in errors.__doc__
        if error is not errors.SuperarmError:
            assert error.__bases__[0] is errors.SuperarmError
            line = next(line for line in errors.__doc__.splitlines() if f" {error.__name__} " in line)
            assert f"({error.__bases__[1].__name__})" in line


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", None, 1j])
def test_require_positive(value):
    with pytest.raises(errors.ParameterError, match="lam must be a positive, finite number"):
        errors.require_positive(sigma=1.0, lam=value)


def test_numpy_numbers_are_numbers():
    errors.require_positive(lam=np.float32(1), sigma=np.int64(2))
    errors.require_count(k=np.int64(3))


@pytest.mark.parametrize("value", [0, -3, 2.0, "2", None, True])
def test_require_count(value):
    with pytest.raises(errors.ParameterError, match="episodes must be a whole number of at least 1"):
        errors.require_count(episodes=value)
