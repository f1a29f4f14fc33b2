"""Sets of items under linear constraints by HiGHS: quiet, and within a limit that is kept."""

import threading
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Array

_GRACE = 1.1  # of its time limit, for HiGHS to notice it


class Answer(NamedTuple):
    """What HiGHS found until it stopped."""

    x: Array | None  # (n,) of 0 and 1; None if it found no set
    bound: float  # no set is worth more; inf if it does not know
    feasible: bool  # False if it is sure that there is no set


class Program(NamedTuple):
    """Sets x of items in {0,1}^n with A (x, y) <= b for some numbers y >= 0, of which w x shall be
    the largest.
    """

    w: Array  # (n,), -inf for items that are not available
    A: Any  # (m, n + helpers), a SciPy sparse array by column; the last ones are those of y
    b: Array  # (m,)


def maximize(
    program: Program,
    *,
    relative_gap: float = 0.0,
    start: Array | None = None,
    seconds: float | None = None,
) -> Answer:
    """The best set for the program, or what was found after so many seconds.

    The search begins at the set `start`, and ends when the bound exceeds the value by at most
    `relative_gap` of it.
    """
    import highspy

    solver = highspy.Highs()
    solver.silent()
    solver.setOptionValue("mip_rel_gap", relative_gap)
    exponent = _pass_model(solver, program)
    n = len(program.w)
    if start is not None:
        solver.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
    seen: list[Array] = []
    if not _run(solver, seconds, seen):
        return Answer(seen[-1][:n] if seen else None, np.inf, True)

    info = solver.getInfo()
    x = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        x = np.round(solver.getSolution().col_value[:n])
    impossible = solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
    bound = -np.ldexp(info.mip_dual_bound, exponent)
    return Answer(x, float(bound), not impossible)


def _pass_model(solver: Any, program: Program) -> int:
    """Tell HiGHS what to minimize: minus the weights times 2^-e. Returns e.

    HiGHS takes sets within 1e-6 for equal, so the largest weight is scaled to about 1e6.
    """
    import highspy

    w, A, b = program
    n = A.shape[1]
    helpers = n - len(w)
    available = w > -np.inf
    worth = np.where(available, w, 0.0)
    _, exponent = np.frexp(np.abs(worth).max(initial=0.0))
    exponent = int(exponent) - 20
    solver.passModel(
        n,
        len(b),
        A.nnz,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        np.append(-np.ldexp(worth, -exponent), np.zeros(helpers)),
        np.zeros(n),
        np.append(available.astype(float), np.full(helpers, np.inf)),
        np.full(len(b), -np.inf),
        b,
        A.indptr.astype(np.int32),
        A.indices.astype(np.int32),
        A.data,
        np.append(np.ones(len(w), np.int32), np.zeros(helpers, np.int32)),
    )
    return exponent


def _run(solver: Any, seconds: float | None, seen: list[Array]) -> bool:
    """Run HiGHS; False if it is not done after so many seconds, when it is left to itself.

    HiGHS knows its limit, but looks at no clock while it simplifies a large problem. So it runs in
    a thread, and what it has seen by then counts. A process that ends waits for that thread:
    were it a daemon, HiGHS could return to an interpreter that is gone, which aborts the process.
    """
    if seconds is None:
        solver.run()
        return True

    solver.setOptionValue("time_limit", seconds)
    solver.cbMipImprovingSolution.subscribe(
        lambda event: seen.append(np.round(event.data_out.mip_solution))
    )
    thread = threading.Thread(target=solver.run)
    thread.start()
    thread.join(_GRACE * seconds)
    return not thread.is_alive()
