import first_calls


def test_a_first_call_is_measured_cold_and_warm(capsys):
    first_calls.main(["Intervals"])
    printed = capsys.readouterr().out.split("\n")
    assert printed[0].split() == ["oracle", "cold", "warm", "asked"]
    assert printed[1].startswith("Intervals ")


def test_what_takes_too_long_is_said_so():
    slow = first_calls.First("TopK", 2.1, 0.1)
    assert not slow.kept
    assert slow._replace(name="Knapsack").kept
    assert not slow._replace(cold=1.0, warm=0.6).kept
    assert first_calls.as_text([slow]).endswith("too long")
