import json

import pytest

torch = pytest.importorskip("torch")
import device as device_bench  # noqa: E402  the line above has asked for Torch
from device import PHASES, as_text, main, measure  # noqa: E402  as above

torch.set_num_threads(1)


def test_every_phase_has_a_time_and_a_floor():
    case = measure(3, 4, torch.device("cpu"), repeats=2, episodes=5)
    assert set(case.phases) == set(case.floors) == set(PHASES)
    assert min(case.phases.values()) > 0
    assert min(case.floors.values()) > 0
    assert len(case.runs) == 2
    assert case.regret["mean"] > 0
    printed = as_text([case])
    for phase in (*PHASES, "all", "set-up"):
        assert phase in printed
    assert "the paper" not in printed


def test_bytes_of_the_default_case():
    """Φ of 1860 x 200 numbers is most of what an episode must read."""
    case = measure(30, 1, torch.device("cpu"), repeats=1, episodes=1)
    assert case.floors["score"] / sum(case.floors.values()) > 0.75
    assert "the paper 1.56e+04" in as_text([case])


def test_the_command_writes_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(device_bench, "REPLICATES", 2)
    monkeypatch.setattr(device_bench, "SIZES", (2, 3))
    monkeypatch.setattr(device_bench.measure, "__kwdefaults__", {"repeats": 1, "episodes": 2})
    main(["--device", "cpu", "--out", str(tmp_path / "new")])
    assert "longest path, m=3, 2 replicates in lock-step" in capsys.readouterr().out
    content = json.loads((tmp_path / "new" / "device.json").read_text())
    assert [case["m"] for case in content["cases"]] == [2, 3]
    with pytest.raises(SystemExit):
        main(["--device", "nowhere", "--out", str(tmp_path)])
    assert "device 'nowhere' is not available" in capsys.readouterr().err
