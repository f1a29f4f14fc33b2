from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from superarm.formatting import (
    escape_latex,
    format_columns,
    latex_math,
    latex_table,
    percent,
    plus_minus,
)


@pytest.mark.parametrize(
    ("mean", "se", "shown"),
    [
        (15593.2, 161.3, "15,590 ± 160"),
        (15593.2, 9.96, "15,593 ± 10"),
        (15593.2, None, "15,590"),
        (15593.2, float("nan"), "15,590"),
        (667.25, 12.4, "667 ± 12"),
        (0.51234, 0.0123, "0.512 ± 0.012"),
        (-3.0, 0.5, "-3.00 ± 0.50"),
        (3.0, 0.0, "3.0 ± 0.0"),
        (0.0, 0.0, "0.0 ± 0.0"),
        (1.5e-9, 2e-10, "1.5e-09 ± 2e-10"),
        (6.5e20, 3e15, "6.5e+20 ± 3e+15"),
        (float("inf"), None, "inf"),
    ],
)
def test_estimates(mean, se, shown):
    assert plus_minus(mean, se) == shown


@given(
    st.floats(-1e9, 1e9),
    st.floats(1e-3, 1e8),
)
def test_an_estimate_is_off_by_less_than_half_a_tenth_of_its_standard_error(mean, se):
    shown, shown_se = (Decimal(x.replace(",", "")) for x in plus_minus(mean, se).split(" ± "))
    assert abs(float(shown) - mean) <= 0.0501 * se
    assert abs(float(shown_se) - se) <= 0.0501 * se


def test_percent():
    assert percent(0.6683, 0.0011) == "66.8% ± 0.1%"
    assert percent(0.4817, 0.0002) == "48.17% ± 0.02%"
    assert percent(1.0, 0.0) == "100.0% ± 0.0%"
    assert percent(0.5, float("nan")) == "50.0%"


def test_columns():
    assert format_columns([("a", "12", "c"), ("bb", "3", "")]) == "a   12  c\nbb  3"
    assert format_columns([("a", "12"), ("b", "3")], numbers=True) == "a  12\nb   3"
    assert format_columns([("", "12"), ("", "3")]) == "  12\n  3"


def test_latex_is_escaped():
    assert escape_latex("50% of a_b & λ") == r"50\% of a\_b \& $\lambda$"
    assert escape_latex("\\{x}^~") == r"\textbackslash{}\{x\}\textasciicircum{}\textasciitilde{}"
    assert latex_math("1,230 ± 45") == r"$1{,}230 \pm 45$"
    table = latex_table(["learner", "regret"], [["A", "1"]])
    assert table.count(r"\\") == 2
    assert table.startswith(r"\begin{tabular}{lr}")
