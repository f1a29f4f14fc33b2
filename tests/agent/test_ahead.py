import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import superarm
from kernels import FAMILIES
from superarm import (
    CombLinTS,
    Quota,
    ShortestPath,
    TopK,
    as_oracle,
    minimize,
    warm_up,
)
from superarm.agent.ahead import compile_all, compiled_oracles
from superarm.arrays.compiled import compiled
from superarm.arrays.namespace import is_worth_kernel
from superarm.errors import InfeasibleError, ParameterError


@compiled
def first_item(w: np.ndarray) -> int:
    return 0 * len(w)


def test_an_oracle_is_compiled_by_warming_it_up(caplog):
    warm_up(as_oracle(lambda w: [first_item(w)], K=1))
    assert first_item.kernel().overloads
    assert not caplog.records


def test_a_learner_is_compiled_with_its_oracle():
    seen = []

    class Watched(TopK):
        def solve(self, rows):
            seen.append(rows.shape)
            return super().solve(rows)

    warm_up(Watched(3), CombLinTS(lam=1.0, sigma=1.0))
    assert seen == [(1, 4), (1, 4)]


@pytest.mark.parametrize(
    "oracle",
    [
        ShortestPath([(0, 1), (1, 2)], 0, 2),
        minimize(ShortestPath([(0, 1), (1, 2)], 0, 2)),
        Quota(["a", "b", "a"], {"a": 1, "b": 1}),
    ],
)
def test_any_oracle_and_learner_can_be_warmed_up(oracle):
    warm_up(oracle)
    warm_up(oracle, CombLinTS())


def test_an_oracle_without_a_feasible_set_is_none_the_worse():
    def closed(w):
        raise InfeasibleError("nothing is open")

    warm_up(closed)


def test_examples_are_compiled_one_after_the_other():
    done = compile_all(["Quota", "CombTS"])
    assert next(done).name == "Quota"
    second = next(done)
    assert second.name == "CombTS"
    assert second.seconds >= 0.0
    with pytest.raises(
        ParameterError, match="'Matroid' has nothing to compile; what has: TopK, Quota"
    ):
        compile_all(["TopK", "Matroid"])


def test_learners_are_compiled_for_many_users_too(monkeypatch):
    decided = []

    def decide_each(learner, belief, problem, rng):
        decided.append(is_worth_kernel(problem.Phi, problem.Phi[:, 0]))

    monkeypatch.setattr(superarm.decide, "decide_each", decide_each)
    list(compile_all(["CombLinTS with scales", "CombTS"]))
    assert decided == [True]


def test_each_oracle_with_kernels_is_among_the_examples():
    """What has none is named here."""
    plain = {"Assignment", "Matroid", "Orienteering", "Slate", "VehicleRoutes"}
    oracles = {name for name in superarm.oracles.__all__ if name[0].isupper()}
    assert oracles - plain == set(compiled_oracles())
    assert set(compiled_oracles()) <= set(FAMILIES)  # what processes, threads and caches share


def test_a_message_says_what_takes_so_long_and_is_no_warning(tmp_path):
    """It goes to stderr from a plain program, where warnings are errors too."""
    code = (
        "import numpy, superarm.arrays.compiled as compiled\n"
        "compiled.SLOW = 0.01\n"
        "from superarm import TopK\n"
        "print(TopK(1)(numpy.array([0.1, 0.7])))"
    )
    source = Path(superarm.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[1]\n"
    assert done.stderr.count("superarm compiles what the first call needs") == 1


def test_the_message_goes_to_the_log_of_superarm(monkeypatch, caplog):
    from superarm.arrays import compiled as module

    module._log_compilation.cache_clear()
    with caplog.at_level(logging.WARNING, logger="superarm"):
        module._log_compilation()
        module._log_compilation()
    assert [record.name for record in caplog.records] == ["superarm"]
