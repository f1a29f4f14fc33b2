"""Three servers on one Postgres, killed at random under load: minutes, run by name."""

import os

import pytest

from postgres import Cluster, programs
from three_servers import killed

KILLS = int(os.environ.get("SUPERARM_SERVER_KILLS", "200"))


@pytest.mark.skipif(programs() is None, reason="Postgres is not installed")
def test_kills_lose_nothing_and_count_nothing_twice(capsys):
    cluster = Cluster()
    try:
        numbers = killed(cluster, KILLS)
    finally:
        cluster.close()
    with capsys.disabled():
        print(numbers)
