import os
import subprocess
import sys

import joblib
import pytest

from superarm.engine.local import create_engine
from superarm.errors import ParameterError


def test_no_more_workers_than_calls():
    with joblib.parallel_config(backend="loky", n_jobs=2), create_engine(None) as engine:
        processes = {result for _, result in engine.map(os.getpid, [()])}
        assert processes == {os.getpid()}


def test_actors_of_this_machine_are_the_objects_themselves():
    with create_engine(None) as engine:
        counts = [engine.create_actor(list, engine.put((1, 2, 2))), engine.create_actor(list, (1,))]
        assert counts == [[1, 2, 2], [1]]
        assert engine.call(counts, "count", [(2,), (1,)]) == [2, 1]
        assert engine.settings == {}


def test_bad_settings():
    with pytest.raises(ParameterError, match="workers must not be 0"):
        create_engine(None, workers=0)


def test_ray_is_imported_only_when_asked_for():
    code = (
        "import sys, superarm\n"
        "from superarm.engine.local import create_engine\n"
        "with create_engine(None) as engine: list(engine.map(pow, [(2, 3)]))\n"
        "assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("cluster", "workers", "says"),
    [(5, None, "cluster must be"), (None, "2", "workers must be"), (None, 1.5, "workers must be")],
)
def test_what_is_no_engine(cluster, workers, says):
    with pytest.raises(ParameterError, match=says):
        create_engine(cluster, workers)
