"""Files that nobody saved: an error of superarm's, and no more memory than for an honest file.

The honest file is of an agent with 5,000 items; a hostile one is made from its parts.
"""

import io
import json
import os
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from superarm import Agent, CombLinTS, CombTS, TopK
from superarm.agent.decisions import Observed
from superarm.arrays import sparse_arrays
from superarm.cli import main
from superarm.contexts import Outer
from superarm.errors import FileError, OracleError, ParameterError, SuperarmError
from superarm.files import archive
from support import FEATURES, K, L, make, peak_memory, state

FILES = int(os.environ.get("SUPERARM_HOSTILE_FILES", "200"))
ITEMS, D = 5000, 40


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """An honest file: its path, its bytes, its parts and the state it holds."""
    rng = np.random.default_rng(0)
    agent = Agent(
        CombLinTS(lam=1.0, sigma=1.0),
        features=rng.standard_normal((ITEMS, D)),
        items=[f"item {e}" for e in range(ITEMS)],
        oracle=TopK(2),
        seed=0,
    )
    for _ in range(30):
        agent.observe(agent.decide(), rng.standard_normal(2))
    path = tmp_path_factory.mktemp("honest") / "agent.npz"
    agent.save(path)
    return Honest(path, state(Agent.load(path, oracle=TopK(2))))


class Honest:
    def __init__(self, path, saved_state):
        self.path = path
        self.state = saved_state
        self.bytes = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            self.parts = {name: archive.read(name) for name in archive.namelist()}
        self.header = json.loads(str(np.load(io.BytesIO(self.parts["superarm.json.npy"]))))

    def with_header(self, header):
        text = header if isinstance(header, str) else json.dumps(header)
        return {**self.parts, "superarm.json.npy": npy(np.array(text))}

    def with_meta(self, **changes):
        return self.with_header({**self.header, "meta": {**self.header["meta"], **changes}})

    def with_arrays(self, **arrays):
        """Arrays that are changed, with the header in step; None leaves one out."""
        names = {name.replace("__", "."): x for name, x in arrays.items()}
        members = dict(self.header["members"])
        parts = dict(self.parts)
        for name, x in names.items():
            parts.pop(f"{name}.npy", None)
            members.pop(name, None)
            if x is not None:
                parts[f"{name}.npy"] = npy(x)
                members[name] = [x.dtype.str, list(x.shape)]
        header = {**self.header, "members": members}
        return {**parts, "superarm.json.npy": npy(np.array(json.dumps(header)))}


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_of(descr, fortran, shape, data=b""):
    """An array with any header."""
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def zipped(parts, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        listed = parts.items() if isinstance(parts, dict) else parts
        for name, data in listed:
            archive.writestr(name, data)
    return file.getvalue()


# --- ways to attack, each a function of the honest file and a generator ---------------------------


def flipped(honest, rng):
    content = bytearray(honest.bytes)
    for at in rng.integers(len(content), size=rng.integers(1, 5)):
        content[at] ^= int(rng.integers(1, 256))
    return bytes(content)


def flipped_at_the_ends(honest, rng):
    """Where the records of the archive and the headers of the arrays are."""
    content = bytearray(honest.bytes)
    at = rng.integers(1500) if rng.random() < 0.5 else len(content) - 1 - rng.integers(1500)
    content[at] ^= int(rng.integers(1, 256))
    return bytes(content)


def cut(honest, rng):
    return honest.bytes[: rng.integers(len(honest.bytes))]


def noise(honest, rng):
    return rng.bytes(int(rng.integers(0, 5000)))


def spliced(honest, rng):
    a, b = sorted(rng.integers(len(honest.bytes), size=2))
    return honest.bytes[:a] + rng.bytes(int(rng.integers(500))) + honest.bytes[b:]


def bad_json(honest, rng):
    texts = [
        "[" * 100_000,
        '{"a":' * 50_000,
        "[" * 900 + "]" * 900,
        '{"superarm": "agent", "version": 1, "meta": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"superarm": "agent", "version": 1' + "0" * 5000 + ', "meta": {}}',
        "",
        "null",
        "1e999",
        '"agent"',
        "{},",
        "[" + "{}," * 100_000 + "{}]",
        '{"superarm": "agent", "version": 1, "meta": {"x": [' + "[]," * 100_000 + "[]]}}",
    ]
    return zipped(honest.with_header(texts[rng.integers(len(texts))]))


JUNK = [None, 7, -1, 2.5, "x", "", [], {}, [1, 2], {"a": 1}, True, 10**30, [["x"]], ["\0"]]


def bad_header(honest, rng):
    name = ["superarm", "version", "members", "meta"][rng.integers(4)]
    junk = JUNK[rng.integers(len(JUNK))]
    if name == "version" and junk in (1, True):
        junk = 0
    return zipped(honest.with_header({**honest.header, name: junk}))


def bad_meta(honest, rng):
    name = ["learner", "parameters", "generator", "remembered", "names"][rng.integers(5)]
    junk = JUNK[rng.integers(len(JUNK))]
    fine = (name == "names" and junk is None) or (name == "remembered" and junk in (7, 10**30))
    return zipped(honest.with_meta(**{name: "junk" if fine and junk is not True else junk}))


def bad_parameter(honest, rng):
    name = ["lam", "sigma", "forgetting", "link", "nobody"][rng.integers(5)]
    junk = [None, "x", [], {}, -1.0, 0, [1.0], {"a": 1}, 1e999][rng.integers(9)]
    parameters = {**honest.header["meta"]["parameters"], name: junk}
    return zipped(honest.with_meta(parameters=parameters))


def bad_generator(honest, rng):
    good = honest.header["meta"]["generator"]
    inner = good["state"]
    choices = [
        {**good, "bit_generator": "MT19937"},
        {**good, "bit_generator": 5},
        {**good, "state": {**inner, "state": -1}},
        {**good, "state": {**inner, "inc": 2**200}},
        {**good, "state": {**inner, "state": 0.5}},
        {**good, "state": [1, 2]},
        {**good, "state": "x"},
        {**good, "has_uint32": "yes"},
        {**good, "uinteger": 2**40},
        {**good, "uinteger": -1},
        {"bit_generator": "PCG64"},
    ]
    return zipped(honest.with_meta(generator=choices[rng.integers(len(choices))]))


def bad_array(honest, rng):
    """An array whose .npy header lies."""
    name = list(honest.parts)[rng.integers(len(honest.parts))]
    data = rng.bytes(int(rng.integers(0, 200)))
    size = len(data)
    choices = [
        npy_of("'<f8'", "False", f"({10 ** int(rng.integers(5, 30))},)", data),
        npy_of("'<f8'", "False", f"({10**9}, {10**9})", data),
        npy_of("'|O'", "False", "(1,)", b"\x80\x04N."),
        npy_of("'|V0'", "False", f"({10**12},)"),
        npy_of("'<U0'", "False", f"({10**12},)"),
        npy_of("'<U9999999999'", "False", "()", data),
        npy_of("[('a', '<f8'), ('b', '|O')]", "False", "(1,)", data),
        npy_of("'<M8[s]'", "False", f"({size // 8},)", data[: size // 8 * 8]),
        npy_of("'<f8'", "True", f"(-1, {-size})", data),
        npy_of("'<f8'", "__import__('os')", "(1,)", data),
        npy_of("'<f8'", "False", "(" * 900, data),
        npy_of("'<f8'", "False", f"({10**12}, 0)"),
        npy_of("'<c16'", "False", f"({size // 16},)", data[: size // 16 * 16]),
        b"\x93NUMPY\x02\x00" + struct.pack("<L", 2**31) + data,
        b"\x93NUMPY\x01\x00\xff\xff" + data,
        b"\x80\x04N.",
        data,
    ]
    return zipped({**honest.parts, name: choices[rng.integers(len(choices))]})


def other_arrays(honest, rng):
    """Arrays that are what they say, but not those of this agent; with and without a list."""
    n = int(rng.integers(1, 300))
    changes = [
        {"features": np.zeros((1, 20_000))},
        {"features": np.zeros((10**7, 0))},
        {"features": np.zeros((0, D))},
        {"features": np.full((ITEMS, D), np.nan)},
        {"features": np.array(["x"] * ITEMS)},
        {"features": np.zeros(n)},
        {"features": np.zeros((2, ITEMS, D))},
        {"features": None},
        {"features": None, "features__left": np.zeros((ITEMS, 2))},
        {
            "features": None,
            "features__left": np.zeros((ITEMS, 1)),
            "features__source": np.zeros(30_000, np.int64),
            "features__scale": np.zeros(30_000),
        },
        {
            "features": None,
            "features__data": np.ones(1),
            "features__indices": np.array([10**6]),
            "features__indptr": np.array([0] * ITEMS + [1]),
            "features__shape": np.array([ITEMS, D]),
        },
        {
            "features": None,
            "features__data": np.ones(1),
            "features__indices": np.array([0]),
            "features__indptr": np.array([0] * ITEMS + [1]),
            "features__shape": np.array([ITEMS, 10**6]),
        },
        {"items": np.zeros(ITEMS, np.int64)},
        {"items": np.zeros(10**5, np.uint8)},
        {"items": np.full(ITEMS, 255, np.uint8)},
        {"items": np.arange(float(ITEMS))},
        {"items": np.array(["x"] * ITEMS)},
        {"belief__factor": None},
        {"belief__factor": np.eye(n + D + 1)},
        {"belief__factor": -np.eye(D + 1)},
        {"belief__factor": np.full((D + 1, D + 1), np.inf)},
        {"belief__factor": np.eye(D + 1).astype("U8")},
        {"belief__log_normalizer": np.zeros(n)},
        {"belief__log_normalizer": None},
        {"observed__decision": np.zeros(10**5, np.uint8)},
        {"observed__decision": np.full(10**5, 255, np.uint8)},
        {"observed__time": np.zeros(n, np.uint8)},
        {"observed__time": np.zeros(n)},
        {"observed__places": archive.pack_texts(["x"] * 30)},
        {"observed__places": archive.pack_texts(["f" * 30_000] * 30)},
        {"observed__places": None},
        {"observed__before": archive.pack_texts(["a", "b"])},
        {"observed__before": archive.pack_texts(["zzz"])},
        {"observed__before": np.zeros(0, np.uint8)},
    ]
    chosen = changes[rng.integers(len(changes))]
    return zipped(honest.with_arrays(**chosen))


def bomb(honest, rng):
    """Compressed: many times as large as it looks."""
    name = ["features.npy", "superarm.json.npy", "unknown.npy"][rng.integers(3)]
    parts = {**honest.parts, name: npy(np.zeros(2**19))}
    return zipped(parts, zipfile.ZIP_DEFLATED)


def twice(honest, rng):
    names = list(honest.parts)
    name = names[rng.integers(len(names))]
    return zipped([*honest.parts.items(), (name, honest.parts[name])])


def overlapping(honest, rng):
    """All arrays of the directory are the first one."""
    content = bytearray(honest.bytes)
    at = content.find(b"PK\1\2")
    while at >= 0:
        content[at + 42 : at + 46] = bytes(4)
        content[at + 20 : at + 28] = struct.pack("<LL", 400_000, 400_000)
        at = content.find(b"PK\1\2", at + 4)
    return bytes(content)


def crowded(honest, rng):
    """Thousands of names."""
    return zipped(
        {**{f"belief.{i}.npy": b"" for i in range(int(rng.integers(200, 1500)))}, **honest.parts}
    )


def unfaithful(honest, rng):
    """The list in the header and the arrays differ."""
    members = {name: list(x) for name, x in honest.header["members"].items()}
    name = list(members)[rng.integers(len(members))]
    promise = [["<f4", [ITEMS, D]], ["<f8", [10**9]], "x", None, [], {"nobody": 1}][rng.integers(6)]
    if promise is None:
        promise = ["<f8", [1]]
        name = "nobody"
    members[name] = promise
    return zipped(honest.with_header({**honest.header, "members": members}))


ATTACKS = [
    flipped,
    flipped_at_the_ends,
    cut,
    noise,
    spliced,
    bad_json,
    bad_header,
    bad_meta,
    bad_parameter,
    bad_generator,
    bad_array,
    other_arrays,
    other_arrays,
    bomb,
    twice,
    overlapping,
    crowded,
    unfaithful,
]
HARMLESS = {flipped, flipped_at_the_ends, crowded}
"""Which may change only what is not read, as the date of an array or one that nobody knows."""


@pytest.mark.parametrize("attack", sorted({a.__name__ for a in ATTACKS}))
def test_hostile_files(honest, tmp_path, capsys, attack):
    """The memory is that which Python and NumPy ask for, over a whole load."""
    share = FILES * sum(a.__name__ == attack for a in ATTACKS) // len(ATTACKS)
    make_file = next(a for a in ATTACKS if a.__name__ == attack)
    rng = np.random.default_rng(ATTACKS.index(make_file))
    path = tmp_path / "agent.npz"
    Agent.load(honest.path, oracle=TopK(2))
    sparse_arrays()  # so that what is imported at first use does not count
    tracemalloc.start()
    try:
        for _ in range(share):
            content = make_file(honest, rng)
            path.write_bytes(content)
            room = 2 * max(len(honest.bytes), len(content))
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            try:
                loaded = Agent.load(path, oracle=TopK(2))
            except FileError:
                loaded = None
            assert tracemalloc.get_traced_memory()[1] - before < room
            if loaded is not None:
                assert make_file in HARMLESS
                assert state(loaded) == honest.state
            tracemalloc.reset_peak()
            code = main(["inspect", str(path)])
            assert tracemalloc.get_traced_memory()[1] - before < 2 * room
            printed = capsys.readouterr()
            assert code in (0, 2)
            if code == 2:
                assert printed.err.startswith("superarm: ")
                assert printed.err.count("\n") == 1
            assert path.read_bytes() == content
    finally:
        tracemalloc.stop()


def test_members_that_the_header_does_not_list_are_not_read(honest, tmp_path):
    path = tmp_path / "agent.npz"
    path.write_bytes(zipped({**honest.parts, "more.npy": npy_of("'|O'", "False", "(1,)", b"N.")}))
    assert state(Agent.load(path, oracle=TopK(2))) == honest.state
    assert "more" not in archive.open_file(path)[1]


def test_loading_takes_little_more_memory_than_the_file(honest):
    peak = peak_memory(lambda: Agent.load(honest.path, oracle=TopK(2)))
    assert peak < 2 * len(honest.bytes)


def test_errors_about_the_oracle_and_the_learner_stay_what_they_are(honest):
    with pytest.raises(OracleError, match="an oracle is a function"):
        Agent.load(honest.path, oracle=5)
    with pytest.raises(SuperarmError) as wrong:
        Agent.load(honest.path, oracle=TopK(2), learner="CombLinTS")
    assert not isinstance(wrong.value, FileError)


def test_what_would_not_load_again_is_not_saved(tmp_path):
    path = tmp_path / "agent.npz"
    agent = make()
    agent.save(path)
    before = path.read_bytes()
    factor = agent.belief.factor.copy()
    factor[0, 0] = np.nan
    spoilt = make()
    now = spoilt.snapshot()
    spoilt.restore(agent.belief._replace(factor=factor), None, now.ledger, now.aged_at)
    forged = make()
    forged.ledger.observed["a\0b"] = Observed(forged.decide().time, 1)
    named = make()
    named.restore(named.belief, (1, 2, 3, 4), named.ledger, now.aged_at)
    for bad in (spoilt, forged, named):
        with pytest.raises(FileError, match=r"agent\.npz stays as it was: .* would not load again"):
            bad.save(path)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["agent.npz"]
    Agent.load(path, oracle=TopK(K))


def test_what_a_terminal_might_obey_is_not_printed(tmp_path, capsys):
    path = tmp_path / "agent.npz"
    ids = [f"\x1b[31m{e}\ud800" for e in range(L)]
    Agent(CombTS(), features=FEATURES, items=ids, oracle=TopK(K), seed=0).save(path)
    assert main(["inspect", str(path)]) == 0
    assert r"\x1b[31m0\xd800, \x1b[31m1\xd800" in capsys.readouterr().out
    assert Agent.load(path, oracle=TopK(K)).items.tolist() == ids


def test_learners_with_many_parameters_load_again(tmp_path):
    """A number per item in the JSON."""
    alpha = tuple(np.linspace(1, 2, 20_000).tolist())
    for prior in (alpha, (1.0,) * 20_000):
        agent = Agent(CombTS(alpha=prior), features=np.zeros((20_000, 1)), oracle=TopK(1), seed=0)
        agent.save(tmp_path / "agent.npz")
        back = Agent.load(tmp_path / "agent.npz", oracle=TopK(1))
        assert back.learner == agent.learner
    with pytest.raises(ParameterError, match="numbers, but there are"):
        Agent(CombTS(alpha=alpha), features=np.zeros((3, 1)), oracle=TopK(1))


def test_a_small_file_makes_no_large_features(tmp_path):
    """A context and items of 3,000 features each would make nine million."""
    path = tmp_path / "agent.npz"
    Agent(CombTS(), features=Outer(np.ones((3, 2)))([1.0, 2.0]), oracle=TopK(1)).save(path)
    meta, arrays = archive.read_archive(path, "agent")
    wide = {"features.outer": np.ones((3, 3000)), "features.context": np.ones(3000)}
    archive.write_archive(path, "agent", meta, arrays | wide)
    with pytest.raises(FileError, match="may have 131072 features"):
        Agent.load(path, oracle=TopK(1))
