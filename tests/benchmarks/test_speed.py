import importlib.util
import json

import numpy as np
import pytest

import features
import speed as bench
from peers import OTHERS, PEERS, against_peers
from speed import main
from turns import Bare, Row, as_text, interleaved

SMALL = (200, 4, 3)


def test_contestants_take_turns_and_the_first_turn_does_not_count():
    order = []
    taken = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 4
    assert set(taken) == {"a", "b"}
    assert min(taken.values()) > 0


def test_bare_numpy_learns():
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((100, 3))
    mean = Phi @ rng.standard_normal(3)
    bare = Bare(Phi, 5, seed=0)
    for _ in range(100):
        items = bare.choose()
        bare.observe(items, mean[items])
    assert set(bare.choose()) == set(np.argsort(-mean)[:5])


def test_rows_of_each_section():
    missing = []
    (row,) = bench.agents(1, [SMALL], missing)
    assert (row.what, row.reference) == ("choose + observe, L=200 d=4 k=3", "bare NumPy")
    assert row.ratio > 0
    assert len(list(bench.ucb_widths(1, 100, 10, 2))) == 2
    speed, memory = bench.catalogue(1, L=300_000, d=4, k=5)
    assert speed.reference == "one pass of the blocked product"
    assert memory.ratio < 1
    floor, literal = bench.replicate(1)
    assert floor.ratio > 0.5
    assert literal.ratio < 1


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peers_do_the_task(peer):
    if importlib.util.find_spec(peer.library) is None:
        pytest.skip(f"{peer.library} is not installed: pip install 'superarm[bench]'")
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((60, 3))
    mean = Phi @ rng.standard_normal(3)
    choose, observe = peer.make(Phi, 5, 0.5, 1)
    for _ in range(30):
        items = np.asarray(choose())
        assert len(set(items.tolist())) == 5
        observe(items, mean[items])
    assert mean[np.asarray(choose())].mean() > mean.mean()


def test_run_writes_a_table_and_a_plot(tmp_path, monkeypatch, capsys):
    row = Row("this", 0.001, "that", 0.5, "at most 1")
    for section in ("replicate", "agents", "mixed", "ucb_widths"):
        monkeypatch.setattr(bench, section, lambda *args: iter([row]))
    points = [{"value": value, "choose": value * 1e-5, "observe": 2e-5} for value in (10, 20)]
    monkeypatch.setattr(bench, "growth", lambda repeats: {"L": points, "episodes": points})
    main(["--quick", "--out", str(tmp_path / "new")])
    printed = capsys.readouterr().out
    assert "choose, L=20" in printed
    assert "run without --quick" in printed
    content = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert content["rows"][0] == row._asdict()
    assert [row["ratio"] for row in content["rows"][4:]] == [2.0, 1.0, 2.0]
    assert (tmp_path / "new" / "bench.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(SystemExit):
        main(["--repeats", "0", "--out", str(tmp_path)])
    assert "--repeats must be at least 1" in capsys.readouterr().err


def test_features_that_are_not_formed():
    bare, kronecker = features.contexts(1, L=50, d_u=4, d_i=100)
    assert bare.reference.startswith("the bare Y (Θᵀx)")
    assert bare.asked == "at most 1.5"
    assert kronecker.ratio < 1
    scores, *_ = features.sparse(1, L=200, d=30, density=0.1, k=3)
    assert scores.reference == "the bare CSR product"


def test_those_left_out_are_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    missing = []
    (row,) = against_peers("it", np.ones((10, 2)), np.ones(10), 2, 1, missing)
    assert row.reference == "bare NumPy"
    low, high = row.spread
    assert low <= row.ratio <= high
    named = [peer.name for peer in PEERS] + list(OTHERS)
    assert all(line.startswith(name) for line, name in zip(missing, named, strict=True))


def test_growth_has_every_axis(monkeypatch):
    monkeypatch.setattr(
        bench, "interleaved", lambda contestants, repeats: dict.fromkeys(contestants, 1e-6)
    )
    assert set(bench.growth(1)) == {"L", "d", "K", "episodes"}


def test_as_text_aligns():
    lines = as_text(
        [Row("a", 1.0, "b", 2.0, ""), Row("longer", 0.5, "c", 3.0, "at most 4")]
    ).splitlines()
    assert lines[0].index("ratio") == lines[1].index("2")


def test_ratios_are_shown_with_their_spread():
    text = as_text([Row("a", 1.0, "b", 0.05, "", (0.04, 0.1))])
    assert "1/20 (1/25 to 1/10)" in text
