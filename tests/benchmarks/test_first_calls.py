import first_calls


def test_a_first_call_is_measured_cold_and_warm(capsys):
    first_calls.main(["--kernels", "Intervals"])
    printed = capsys.readouterr().out.split("\n")
    assert printed[0].split() == ["first", "call", "cold", "warm", "at", "most"]
    assert printed[1].startswith("Intervals ")
    assert printed[3].split() == ["Intervals", "compiled", "in"]
    assert printed[4].endswith(" s")


def test_what_takes_too_long_is_said_so():
    slow = first_calls.First("TopK", 2.1, 0.1, {})
    assert not slow.is_fast
    assert slow._replace(name="Knapsack").is_fast
    assert not slow._replace(cold=1.0, warm=0.6).is_fast
    assert first_calls.as_text([slow]).endswith("too long")
