import itertools
import pickle

import numpy as np
import pytest

from superarm import Agent, CombLinTS, Slate, TopK, decide
from superarm.errors import InfeasibleError, ParameterError
from superarm.testing import check_oracle


@pytest.mark.parametrize("examination", [[1.0, 0.5, 0.2], [0.2, 1.0, 0.2], [0.3, 0.3, 0.3]])
def test_contract(examination):
    slate = Slate(3, examination=examination)
    check_oracle(slate, 6, family=itertools.combinations(range(6), 3))


def test_ties_go_to_the_lowest_index_and_the_first_position():
    assert Slate(3, examination=[0.5, 1.0, 0.5])(np.zeros(5)).tolist() == [1, 0, 2]
    assert Slate(2, examination=[0.4, 0.4])(np.array([1.0, 3.0, 3.0])).tolist() == [1, 2]


def test_with_falling_examination_it_is_topk():
    w = np.random.default_rng(0).standard_normal((4, 30))
    slate = Slate(5, examination=np.linspace(1.0, 0.2, 5))
    np.testing.assert_array_equal(slate(w), TopK(5)(w))


def test_refusals():
    with pytest.raises(ParameterError, match="a slate of 3 needs the examination of 3 positions"):
        Slate(3, examination=[1.0, 0.5])
    with pytest.raises(ParameterError, match=r"\(0, 1\], but that of position 1 is 0"):
        Slate(2, examination=[1.0, 0.0])
    with pytest.raises(ParameterError, match="one probability per position"):
        Slate(1, examination=0.5)
    with pytest.raises(ParameterError, match="one per position"):
        Slate(1, examination=["much"])
    with pytest.raises(ParameterError, match="k must be"):
        Slate(0, examination=[])
    with pytest.raises(InfeasibleError):
        Slate(2, examination=[1.0, 0.5])(np.array([1.0, -np.inf]))


def test_equal_slates_are_equal_and_can_be_sent():
    slate = Slate(2, examination=np.array([1.0, 0.5]))
    assert slate == Slate(2, examination=(1.0, 0.5))
    assert repr(slate) == "Slate(k=2, examination=(1.0, 0.5))"
    assert pickle.loads(pickle.dumps(slate)) == slate


def test_millions_of_items_are_looked_at_in_parts(monkeypatch):
    Phi = np.random.default_rng(0).standard_normal((300, 3))

    def chosen():
        oracle = Slate(4, examination=[0.1, 0.2, 0.3, 0.4])
        return Agent(CombLinTS(lam=1.0, sigma=1.0), features=Phi, oracle=oracle, seed=5).choose()

    whole = chosen()
    monkeypatch.setattr(decide, "MAX_ITEMS_AT_ONCE", 10)
    monkeypatch.setattr("superarm.oracles.base.CHUNK_ITEMS", 7)
    assert chosen().tolist() == whole.tolist()


def test_tensors():
    torch = pytest.importorskip("torch")
    w = np.random.default_rng(1).standard_normal((6, 9))
    slate = Slate(3, examination=[0.2, 1.0, 0.5])
    np.testing.assert_array_equal(slate(torch.tensor(w)).numpy(), slate(w))
