"""Streams: the same alone, in a batch, in a part and on a device, and as random as others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from superarm import CombGaussianTS, CombMixTS, CombTS, Feedback, Problem, RandomChoice, TopK
from superarm.arrays import Stream, as_stream, beta, item_normal, normal, spawn, uniform
from superarm.arrays.random import TAIL, mix
from superarm.errors import ParameterError

KEYS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5)
SHAPES = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(tuple)
DRAWS = [Stream.uniform, Stream.normal, Stream.item_uniform, Stream.item_normal]


def numbers_of(stream, n):
    """A number of each kind of draw, one after the other: (*B, 5, n)."""
    a = np.full((*stream.keys.shape, n), 2.5)
    draws = [draw(stream, (n,)) for draw in DRAWS]
    return np.stack([*draws, stream.beta(a, a)], axis=-2)


# --- what a number depends on ---------------------------------------------------------------------


def test_the_integers_are_those_of_splitmix64():
    """Reference values: java.util.SplittableRandom's algorithm with seed 1234567."""
    golden = 0x9E3779B97F4A7C15
    states = [np.uint64((1234567 + i * golden) % 2**64) for i in range(3)]
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [int(mix(state)) for state in states] == expected
    state = int(mix(np.uint64(5 ^ golden)))  # of key 5 in its first draw
    bits = np.array([int(mix(np.uint64(state ^ i))) for i in range(4)], dtype=np.uint64)
    np.testing.assert_array_equal(Stream(5).uniform((4,)), ((bits >> 12) + 0.5) * 2.0**-52)


@given(KEYS, st.integers(0, 12))
def test_a_batch_draws_what_each_key_draws_alone(keys, n):
    batch = numbers_of(Stream(keys), n)
    for key, numbers in zip(keys, batch, strict=True):
        np.testing.assert_array_equal(numbers_of(Stream(key), n), numbers)
        np.testing.assert_array_equal(numbers_of(Stream([key]), n)[0], numbers)


@given(KEYS, SHAPES)
def test_the_shape_of_a_draw_is_that_of_its_positions(keys, shape):
    n = int(np.prod(shape))
    for draw in (Stream.uniform, Stream.normal):
        flat = draw(Stream(keys), (n,))
        np.testing.assert_array_equal(draw(Stream(keys), shape), flat.reshape(len(keys), *shape))


@given(st.integers(0, 2**64 - 1), st.integers(0, 50), st.integers(1, 50))
def test_a_part_of_a_catalogue_draws_what_the_whole_does(key, start, n):
    whole = numbers_of(Stream(key), 100)[2:]
    run = numbers_of(Stream(key, first=start), n)
    np.testing.assert_array_equal(run[2:], whole[:, start : start + n])
    items = np.random.default_rng(n).permutation(100)[:n]
    some = numbers_of(Stream(key, first=items), n)
    np.testing.assert_array_equal(some[2:], whole[:, items])
    np.testing.assert_array_equal(some[:2], run[:2])  # what belongs to no item


@given(KEYS, st.lists(st.integers(1, 9), max_size=3))
def test_a_part_of_the_keys_goes_on_where_the_whole_is(keys, sizes):
    stream = Stream(keys)
    for n in sizes:
        stream.normal((n,))
    parts = [stream[:1], stream[1:]]
    one = stream[0]
    whole = numbers_of(stream, 4)
    np.testing.assert_array_equal(numbers_of(one, 4), whole[0])
    np.testing.assert_array_equal(np.concatenate([numbers_of(part, 4) for part in parts]), whole)
    assert len(stream) == len(keys)
    assert len(stream[:0]) == 0


def test_spawned_streams_are_of_the_same_items():
    children = Stream([3, 4], first=7).spawn(2)
    alone = Stream(4).spawn(2)
    for child, whole in zip(children, alone, strict=True):
        expected = whole.item_normal((20,))[7:]
        np.testing.assert_array_equal(child.item_normal((13,))[1], expected)


@pytest.mark.parametrize("first", [0, 5])
def test_a_device_has_the_same_uniforms_and_normals_as_precise(first):
    torch = pytest.importorskip("torch")
    keys = np.array([0, 1, 2**63 + 11, 2**64 - 1], dtype=np.uint64)
    host, device = Stream(keys, first), Stream(torch.tensor(keys.view(np.int64)), first)
    pairs = [(host, device), *zip(host.spawn(3), device.spawn(3), strict=True)]
    for ours, theirs in pairs:
        for draw in (Stream.uniform, Stream.item_uniform):
            np.testing.assert_array_equal(draw(theirs, (4, 3)).numpy(), draw(ours, (4, 3)))
        u = ours[:].item_uniform((9,))
        np.testing.assert_allclose(theirs.item_normal((9,)).numpy(), stats.norm.ppf(u), rtol=1e-12)


def test_a_stream_draws_for_as_many_items_and_entries_as_it_has():
    with pytest.raises(ParameterError, match="a stream of 2 items cannot draw for 3"):
        Stream(1, first=np.array([4, 9])).item_normal((3,))
    message = r"streams of a batch \(2,\) cannot draw for \(3, 2\): there must be one per entry"
    for draw in (normal, item_normal, uniform):
        with pytest.raises(ParameterError, match=message):
            draw(Stream([1, 2]), np.zeros((3, 2)))
    with pytest.raises(ParameterError, match=message):
        beta(Stream([1, 2]), np.ones((3, 2)), np.ones((3, 2)))


# --- how random they are --------------------------------------------------------------------------

MILLION = 10**6


def samples(draw):
    """A million numbers: over positions, over keys, over draws, and far out in all of them."""
    stream = Stream(11)
    yield draw(stream, (MILLION,))
    yield draw(Stream(np.arange(MILLION // 10)), (10,)).ravel()
    yield np.concatenate([draw(stream, (100,)) for _ in range(MILLION // 100)])
    yield draw(Stream(2**64 - 1, first=2**62), (MILLION,))
    yield draw(Stream(5, first=7 * np.arange(MILLION)), (MILLION,))


@pytest.mark.parametrize(
    ("draw", "law"), [(Stream.item_normal, stats.norm), (Stream.item_uniform, stats.uniform)]
)
def test_numbers_have_their_distribution(draw, law):
    """Kolmogorov-Smirnov: each of 10 fails by chance once in 1,000 times."""
    for numbers in samples(draw):
        assert stats.kstest(numbers, law.cdf, method="asymp").pvalue > 1e-3


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, 1), (2.5, 0.7), (0.7, 2.5), (0.3, 0.3), (0.02, 0.5), (31, 970), (1, 1e6), (1e4, 3e6)],
)
def test_betas_have_their_distribution(a, b):
    """Kolmogorov-Smirnov, over items and over keys: each of 16 fails once in 1,000 times."""
    law = stats.beta(a, b)
    for stream in (Stream(5, first=2**40), Stream(np.arange(10_000))):
        shape = (*stream.keys.shape, 200_000 // stream.keys.size)
        draws = stream.beta(np.full(shape, a), np.broadcast_to(b, shape))
        assert stats.kstest(draws.ravel(), law.cdf, method="asymp").pvalue > 1e-3


def test_betas_are_independent():
    """Of neighbouring items, keys and draws: of 8 correlations one is beyond 4.5 standard errors
    once in 20,000 times."""
    n = 200_000
    a = np.full((3, n), 1.5)
    stream = Stream([0, 1, 2])
    first, second = stream.beta(a, 2 * a), stream.beta(a, 2 * a)
    pairs = [(first[0, 1:], first[0, :-1]), *zip(first, second, strict=True)]
    pairs += [(first[1], first[0]), (first[2], first[1])]
    pairs += [(first[1], second[0]), (first[0], second[1])]
    for x, y in pairs:
        assert abs(np.corrcoef(x, y)[0, 1]) < 4.5 / np.sqrt(n)


def test_tiny_parameters_leave_no_nan():
    draws = Stream(1).beta(np.full(1000, 1e-4), np.full(1000, 1e-4))
    assert ((draws >= 0) & (draws <= 1)).all()
    assert 0.4 < draws.mean() < 0.6


def test_normals_have_their_moments():
    for z in samples(Stream.item_normal):
        # standard errors of the first four moments of n normals
        for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
            assert abs((z**power).mean() - moment) < 4 * np.sqrt(variance / len(z))


@pytest.mark.parametrize("bound", [2.0, 3.0, TAIL, 4.0, 4.5])
def test_the_tails_are_as_heavy_as_they_should_be(bound):
    """Also beyond 3.65, where the layers end and the tail has a draw of its own."""
    z, p = Stream(2).normal((4 * MILLION,)), stats.norm.sf(bound)
    for tail in (z > bound, z < -bound):
        assert abs(tail.sum() - len(z) * p) < 4 * np.sqrt(len(z) * p)


def test_the_bits_of_a_normal_are_used_once():
    """Layers are chosen by other bits than the places within them: no |z| is commoner."""
    z = np.abs(Stream(4).normal((4 * MILLION,)))
    bins = np.linspace(0, 1, 257)
    counts = np.histogram(stats.norm.cdf(z) * 2 - 1, bins)[0]
    expected = len(z) / 256
    # chi-square with 255 degrees of freedom: above 342 with probability 2e-4
    assert ((counts - expected) ** 2 / expected).sum() < 342


@pytest.mark.parametrize("draw", DRAWS[2:])
def test_neighbours_are_independent(draw):
    """Of positions, of keys, of draws, and of keys and draws together."""
    n = 500_000
    stream = Stream([0, 1, 2, 3, 2**32, 2**63])
    first, second, third = (draw(stream, (n,)) for _ in range(3))
    pairs = [
        *[(first[0, k:], first[0, :-k]) for k in (1, 2, 4, 256)],
        *zip(first[1:], first[:-1], strict=True),
        *zip(first, second, strict=True),
        *zip(first[1:], second[:-1], strict=True),  # of the next key, and of the next draw
        *zip(first[:-1], second[1:], strict=True),
        *zip(first[:-2], third[2:], strict=True),
    ]
    limit = 4.5 / np.sqrt(n)  # standard errors: one of 60 fails by chance once in 2,500 times
    for x, y in pairs:
        m = min(len(x), len(y))
        for a, b in ((x[:m], y[:m]), (abs(x[:m] - x.mean()), abs(y[:m] - y.mean()))):
            assert abs(np.corrcoef(a, b)[0, 1]) < limit


def test_no_two_streams_share_numbers():
    """Not of neighbouring keys, draws or children: 1.2 million numbers, all different."""
    stream = Stream(np.arange(1000))
    children = stream.spawn(2)
    numbers = [s.uniform((100,)) for s in (stream, stream, *children) for _ in range(3)]
    assert len(np.unique(numbers)) == np.size(numbers)


# --- for learners ---------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [normal, item_normal, uniform])
def test_generators_streams_and_lists_of_them(draw):
    like = np.zeros((2, 7))
    seeds = [3, 4]
    generators = [np.random.default_rng(seed) for seed in seeds]
    method = "random" if draw is uniform else "standard_normal"
    expected = [getattr(np.random.default_rng(seed), method)(7) for seed in seeds]
    np.testing.assert_array_equal(draw(generators, like), expected)
    one = getattr(np.random.default_rng(3), method)((2, 7))
    np.testing.assert_array_equal(draw(np.random.default_rng(3), like), one)
    by_streams = draw([Stream(seed) for seed in seeds], like)
    np.testing.assert_array_equal(by_streams, draw(Stream(seeds), like))


def test_generators_draw_keys_of_streams():
    rng = np.random.default_rng(1)
    keys = np.random.default_rng(1).integers(2**64, size=(2, 3), dtype=np.uint64)
    stream = as_stream(rng, np.zeros((2, 3)))
    np.testing.assert_array_equal(stream.keys, keys)
    assert as_stream(stream, np.zeros((2, 3))) is stream
    each = as_stream([np.random.default_rng(i) for i in range(2)], np.zeros(2))
    first = np.random.default_rng(1).integers(2**64, dtype=np.uint64)
    assert each[1].keys == first


def test_spawned_from_lists_and_streams():
    lists = spawn([Stream(3), Stream(4)], 2)
    children = spawn(Stream([3, 4]), 2)
    for some, child in zip(lists, children, strict=True):
        both = normal(list(some), np.zeros((2, 5)))
        np.testing.assert_array_equal(both, normal(child, np.zeros((2, 5))))


@pytest.mark.parametrize(
    "learner",
    [
        CombMixTS(explore=1.0, lam=1.0, sigma=0.5, tau=0.5),
        CombMixTS(explore=0.3),
        CombMixTS(),
        CombGaussianTS(lam=1.0, sigma=0.5),
        CombTS(),
        RandomChoice(),
    ],
    ids=repr,
)
def test_parts_of_a_catalogue_weigh_their_items_as_the_whole_does(learner):
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((90, 4))
    problem = Problem(Phi, TopK(3))
    belief = learner.model.prior(problem)
    feedback = Feedback.of(problem, np.arange(40), rng.random(40))
    belief = learner.model.learn(belief, problem, feedback)
    whole = learner.scores(belief, problem, Stream(8))
    for start, stop in ((0, 30), (30, 31), (31, 90)):
        items = np.arange(start, stop)
        part = problem._replace(Phi=Phi[items])
        some = learner.model.select_items(belief, items)
        weights = learner.scores(some, part, Stream(8, first=start))
        np.testing.assert_allclose(weights, whole[items], rtol=1e-13, atol=1e-15)


def test_many_decisions_have_a_key_each():
    learner = CombMixTS(explore=1.0, lam=1.0, sigma=0.5, tau=0.5)
    Phi = np.random.default_rng(0).standard_normal((2, 20, 3))
    problem = Problem(Phi, TopK(3))
    belief = learner.model.prior(problem)
    both = learner.scores(belief, problem, Stream([1, 2]))
    for i, key in enumerate((1, 2)):
        one = type(belief)(*(x[i] for x in belief))
        alone = learner.scores(one, Problem(Phi[i], TopK(3)), Stream(key))
        np.testing.assert_allclose(both[i], alone, rtol=1e-13)
