"""In Triton's interpreter where there is no GPU; the sweep for longest paths is tested with the
oracles."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
from superarm.arrays import torch as torch_arrays  # noqa: E402  Torch was asked for above
from superarm.arrays import triton as triton_kernels  # noqa: E402  and so was Triton


@pytest.mark.parametrize("salt", [0, 3, -(2**62) - 11, 2**61 + 5])
@pytest.mark.parametrize(("n", "first"), [(0, 0), (1, 0), (1023, 5), (2500, 2**40)])
def test_uniforms_are_those_of_plain_torch_to_the_bit(salt, n, first):
    keys = torch.tensor([1, -5, 2**62, 7], device="cuda" if torch.cuda.is_available() else "cpu")
    u = triton_kernels.uniform(keys, salt, n, first)
    plain = torch_arrays.plain_uniform(keys, salt, n, first)
    np.testing.assert_array_equal(u.cpu().numpy(), plain.cpu().numpy())
