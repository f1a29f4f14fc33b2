import threading
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from superarm.oracles import highs
from superarm.oracles.highs import Program, maximize

COSTS = sparse.csc_array([[3.0, 2.0, 2.0, 1.0]])


def test_the_best_set_and_its_bound():
    w = np.array([3.5, 2.0, 1.5, -np.inf])
    found = maximize(Program(w, COSTS, np.array([4.0])))
    assert found.x.tolist() == [1, 0, 0, 0] or found.x.tolist() == [0, 1, 1, 0]
    assert found.bound == pytest.approx(3.5)
    assert found.feasible


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e300])
def test_weights_of_any_size(scale):
    w = np.array([3.0, 2.0, 1.5, 0.1]) * scale
    found = maximize(Program(w, COSTS, np.array([4.0])))
    assert found.x.tolist() == [0, 1, 1, 0]
    assert found.bound == pytest.approx(3.5 * scale)


def test_no_set():
    found = maximize(Program(np.ones(4), -COSTS, np.array([-9.0])))
    assert not found.feasible
    assert found.x is None


def test_a_start_is_kept_when_there_is_no_time_for_more():
    start = np.array([0.0, 1.0, 0.0, 1.0])
    program = Program(np.array([3.0, 2.0, 1.5, 0.1]), COSTS, np.array([4.0]))
    found = maximize(program, start=start, seconds=0.0)
    assert found.x is None or found.x @ program.w >= 2.1


class Deaf:
    """A solver that finds a set and then looks at no clock, as HiGHS does in presolve."""

    def __init__(self):
        self.stopped = threading.Event()
        self.cbMipImprovingSolution = self

    def subscribe(self, callback):
        self.callback = callback

    def setOptionValue(self, *_):
        pass

    def run(self):
        found = SimpleNamespace(mip_solution=[0.0, 1.0 - 1e-9])
        self.callback(SimpleNamespace(data_out=found))
        self.stopped.wait()


def test_highs_is_left_to_itself_when_it_does_not_stop():
    solver = Deaf()
    seen = []
    try:
        assert not highs._run(solver, 0.5, seen)
        assert [x.tolist() for x in seen] == [[0, 1]]
    finally:
        solver.stopped.set()
