"""What workers run in tests, and how to wait for those that were killed."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from superarm.errors import ClusterError, InfeasibleError
from superarm.studies.longest_path import LongestPath


def square(x):
    return x * x


def refuse(x):
    if x == 3:
        raise InfeasibleError("no set for 3")
    return x


class Unfit(Exception):
    """An error that cannot be made from what it says."""

    def __init__(self, item, why):
        super().__init__(f"item {item}: {why}")
        self.item = item


def refuse_in_own_words(x):
    if x == 3:
        raise Unfit(x, "no price")
    return x


def refuse_with_a_lock(x):
    if x == 3:
        error = Unfit(x, "no price")
        error.lock = threading.Lock()
        raise error
    return x


def leave(x):
    if x == 3:
        sys.exit(x)
    return x


class Prices:
    """Something that lives on a node."""

    def of(self, item):
        raise Unfit(item, "no price")


def killed_once(x, path):
    """One of them kills its own worker, as the system does where memory is short."""
    return killed_each_once(x, path, [3])


def killed_each_once(x, path, kills):
    """Each of those in `kills` kills its own worker, but not once the path exists."""
    if x in kills:
        try:
            Path(path).touch(exist_ok=False)
        except FileExistsError:
            return square(x)
        os.kill(os.getpid(), signal.SIGKILL)
    return square(x)


def killed_always(x):
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


class Fragile:
    """Longest paths; each of the replicates in `kills` kills its worker the first time."""

    def __init__(self, folder, kills):
        self.folder = folder
        self.kills = kills

    def __call__(self, rng):
        problem, world = LongestPath(m=3, d=4)(rng)
        path = Path(self.folder) / str(problem.Phi[0, 0])
        if path.name in self.kills:
            killed_once(3, path)
        return problem, world


def insist(call, *arguments):
    """Call until the shards are there again."""
    for _ in range(600):
        try:
            return call(*arguments)
        except ClusterError:
            time.sleep(0.1)
    raise TimeoutError("the shards have not come back")
