"""Tallies against a plain recount of the log, whatever happened, and whoever was killed."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counted import ITEMS, Book, counted, counted_items, few_at_once, require_counted
from postgres import Cluster, programs
from superarm.service import commits
from superarm.service.dashboard import counting, tallies
from superarm.service.postgres import Postgres
from superarm.service.sqlite import Sqlite

NAMES = st.sampled_from(["one", "two"])
WEIGHT = st.integers(-8, 8).map(lambda n: n / 4)
SUBSETS = st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4, unique=True)
STEPS = st.one_of(
    st.tuples(st.just("decide"), NAMES, SUBSETS, st.sampled_from([None, True, False])),
    st.tuples(st.just("decide"), NAMES, SUBSETS, st.none()),
    st.tuples(
        st.just("observe"),
        NAMES,
        st.lists(st.tuples(st.integers(0, 9), SUBSETS, WEIGHT), min_size=1, max_size=3),
    ),
    st.tuples(st.just("observe all"), NAMES, WEIGHT),
    st.tuples(st.just("sweep"), NAMES, WEIGHT),
    st.tuples(st.just("items"), NAMES),
    st.tuples(st.just("wait"), st.sampled_from([0.0003, 0.7, 59.0, 4000.0])),
    st.just(("count",)),
    st.just(("kill",)),
)


def happen(book, step):
    """Let one thing happen."""
    what, *given = step
    if what == "decide":
        book.decide(*given)
    elif what == "observe":
        name, wanted = given
        said = []
        for which, items, weight in wanted:
            if book.made[name]:
                made = book.made[name][-1 - which % len(book.made[name])]
                weights = {item: weight for item in items if item in made.items}
                known = {one.id for one, _ in said}
                if made.id not in known:  # what is there twice in one request is refused
                    said.append((made, weights))
        if said:
            book.observe(name, *said)
    elif what == "observe all":
        name, weight = given
        for made in book.made[name][-3:]:
            book.observe(name, (made, dict.fromkeys(made.items, weight)))
    elif what == "sweep":
        book.sweep(*given)
    elif what == "items":
        book.change_items(*given)
    elif what == "wait":
        book.wait(*given)
    elif what == "count":
        book.follower.count()
    else:
        book.another()


@pytest.fixture(params=["new", "old"])
def era(request):
    """A log whose events say what was known when they came, or one of before they did."""
    return request.param


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
    derandomize=True,
)
@given(steps=st.lists(STEPS, max_size=40))
def test_tallies_are_what_a_recount_finds(tmp_path_factory, monkeypatch, era, steps):
    few_at_once(monkeypatch)
    book = Book(Sqlite(tmp_path_factory.mktemp("book") / "superarm.db"))
    try:
        for step in steps:
            happen(book, step)
            if era == "old":
                book.forget_what_was_known()
        book.count()
        require_counted(book.database.read())
    finally:
        book.close()


@pytest.mark.skipif(programs() is None, reason="Postgres is not installed")
def test_tallies_in_postgres(monkeypatch):
    few_at_once(monkeypatch)
    cluster = Cluster()
    try:
        book = Book(Postgres(cluster.database()))
        try:
            _some_days(book)
            book.count()
            require_counted(book.database.read())
        finally:
            book.close()
    finally:
        cluster.close()


def _some_days(book):
    for i in range(30):
        made = book.decide("one", ITEMS[i % 3 :], explored=[None, True, False][i % 3])
        book.wait(2000.0)
        if i % 2:
            book.observe("one", (made, {made.items[0]: 1.0}))
        if i % 4 == 1:
            book.observe("one", (made, {made.items[0]: 0.5, made.items[-1]: 2.0}))
        if i % 7 == 0:
            book.follower.count()
            book.another()
    book.sweep("one", 0.25)


@pytest.fixture
def book(tmp_path):
    found = Book(Sqlite(tmp_path / "superarm.db"))
    yield found
    found.close()


def test_an_agent_that_is_removed_leaves_nothing(book):
    _some_days(book)
    book.decide("two", ITEMS)
    book.count()
    agent = book.agents["one"]
    book.remove("one")
    made = book.made["one"][-1]
    book.observe("one", (made, {made.items[0]: 1.0}))  # it was on its way
    book.count()
    for span in tallies.SPANS:
        assert not counted(book.database.read(), agent, span)
    assert not counted_items(book.database.read(), agent)
    require_counted(book.database.read())


def test_one_who_counted_before_does_not_count_again(book):
    """Of two servers that both believe to lead, one is refused, and goes on from the other."""
    first = book.follower
    book.decide("one", ITEMS)
    first.count()
    second = book.another()
    book.decide("one", ITEMS)
    second.count()
    book.decide("one", ITEMS)
    assert first.count() is False
    book.count()
    require_counted(book.database.read())


def test_what_was_counted_of_a_user_who_is_forgotten_stays(book):
    made = book.decide("one", ITEMS)
    with book.database.transaction() as tx:
        tx.execute("UPDATE events SET person = 'ada' WHERE kind = 'decided'")
    book.observe("one", (made, {"a": 1.0}))
    book.count()
    before = counted(book.database.read(), book.agents["one"], 60)
    book.write(commits.erase_from_log("ada"))
    book.count()
    assert counted(book.database.read(), book.agents["one"], 60) == before


def test_a_database_of_before_there_were_tallies(tmp_path):
    path = tmp_path / "superarm.db"
    book = Book(Sqlite(path))
    _some_days(book)
    with book.database.transaction() as tx:
        tx.execute("DROP TABLE tallies")
        tx.execute("DROP TABLE item_tallies")
        tx.execute("DROP INDEX events_decided")
        tx.execute("DELETE FROM meta WHERE name = 'tallied'")
    book._writer.stop()
    book.database.close()
    again = Book(Sqlite(path), agents=())
    try:
        again.count()
        require_counted(again.database.read())
    finally:
        again.close()


def test_counts_that_take_much_memory_are_read_again(book, monkeypatch):
    monkeypatch.setattr(counting, "IN_MEMORY", 2)
    for _ in range(4):
        made = book.decide("one", ITEMS)
        book.observe("one", (made, {"a": 1.0}))
        book.count()
    assert not book.follower._state.items._counts
    require_counted(book.database.read())


def test_delays(book):
    """The median's power of two is exact; between powers it is interpolated."""
    tally = tallies.Tally(delays={}, scales={})
    assert tally.median_delay is None and tally.mean_delay is None
    for seconds in (0.0, 1.0, 1.5, 3.0, 100.0):
        tally.wait(seconds)
    assert tally.delays == {-10: 1, 0: 2, 1: 1, 6: 1}
    assert 1 <= tally.median_delay < 2
    assert tally.mean_delay == pytest.approx(21.1)


def test_weights_at_the_end_of_their_range(book):
    """Sums that overflow are counted as what they are, and nothing fails."""
    for _ in range(3):
        made = book.decide("one", ITEMS)
        book.observe("one", (made, dict.fromkeys(ITEMS, 1e150)))
        book.observe("one", (made, dict.fromkeys(ITEMS, -1e150)))
    book.count()
    (kept,) = counted(book.database.read(), book.agents["one"], 3600).values()
    assert kept["answered"] == 3
    assert kept["weights"] == 12
