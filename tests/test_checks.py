import numpy as np
import pytest

from superarm.checks import require_count, require_positive
from superarm.errors import ParameterError


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", None, 1j])
def test_require_positive(value):
    with pytest.raises(ParameterError, match="lam must be a positive, finite number"):
        require_positive(sigma=1.0, lam=value)


def test_numpy_numbers_are_numbers():
    require_positive(lam=np.float32(1), sigma=np.int64(2))
    require_count(k=np.int64(3))


@pytest.mark.parametrize("value", [0, -3, 2.0, "2", None, True])
def test_require_count(value):
    with pytest.raises(ParameterError, match="episodes must be a whole number of at least 1"):
        require_count(episodes=value)
