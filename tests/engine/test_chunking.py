import time

from hypothesis import given, settings
from hypothesis import strategies as st

from superarm.engine import chunking
from superarm.engine.chunking import (
    TARGET_SECONDS,
    ChunkQueue,
    ChunkResult,
    SharedArgument,
    run_chunk,
)


def played(task, seconds):
    """What a worker sends back whose clock goes by the calls."""
    results = []
    took = 0.0
    for _, (x,) in task:
        if took > TARGET_SECONDS:
            break
        results.append(-x)
        took += seconds[x]
    return ChunkResult(results, took)


@given(st.lists(st.floats(0.0, 1.0), max_size=60), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_every_piece_is_played_once_whatever_is_lost(seconds, random):
    left = ChunkQueue([(x,) for x in range(len(seconds))])
    running = []
    found = []
    alone = set()
    while left or running:
        while left and len(running) < 4:
            running.append(left.take())
        task = running.pop(random.randrange(len(running)))
        assert len(task) == 1 or not alone & {call.number for call in task}
        if len(task) > 1 and random.random() < 0.3:
            alone |= {call.number for call in task}
            left.requeue(task)
        else:
            found += left.complete(task, played(task, seconds))
    assert sorted(found) == [(x, -x) for x in range(len(seconds))]


def sizes(seconds):
    """How many pieces each task is given that is taken when the one before is done."""
    left = ChunkQueue([(x,) for x in range(len(seconds))])
    found = []
    while left:
        task = left.take()
        found.append(len(task))
        left.complete(task, played(task, seconds))
    return found


def test_tasks_grow_until_they_are_long():
    assert sizes([TARGET_SECONDS / 10.5] * 45) == [1, 2, 4, 8, 10, 10, 10]
    assert sizes([2 * TARGET_SECONDS] * 3) == [1, 1, 1]


def test_what_is_left_at_the_end_is_enough_for_all_workers():
    left = ChunkQueue([(x,) for x in range(100)])
    left.size = 40
    found = []
    while left:
        found.append(len(left.take(4)))
    assert found[0] == 25 and found[-4:] == [1, 1, 1, 1]
    assert sum(found) == 100


def test_what_takes_longer_than_before_is_played_one_by_one():
    short = [TARGET_SECONDS / 1000] * 7
    assert sizes([*short, *[10 * TARGET_SECONDS] * 8]) == [1, 2, 4, 8, *[1] * 7]


def test_a_worker_stops_when_it_has_played_long_enough(monkeypatch):
    monkeypatch.setattr(chunking, "TARGET_SECONDS", 0.2)
    calls = [[0.2, SharedArgument(0)], [0.2, SharedArgument(0)], [0.2, SharedArgument(1)]]
    results, seconds = run_chunk(waited, calls, ["a", "b"])
    assert len(results) < 3 and set(results) == {"a"}
    assert seconds > 0.2
    assert run_chunk(waited, [[0.0, SharedArgument(1)]] * 3, ["a", "b"]).results == ["b"] * 3


def waited(seconds, x):
    time.sleep(seconds)
    return x
