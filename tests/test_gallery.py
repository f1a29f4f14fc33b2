"""The pictures of the oracles are of the code on their page."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from superarm import TopK

PATH = Path(__file__).parent.parent / "docs" / "gallery.py"
SPEC = importlib.util.spec_from_file_location("gallery", PATH)
gallery = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gallery)


@pytest.mark.parametrize("name", gallery.PICTURES)
def test_a_picture_is_drawn_and_is_on_the_page(name):
    figure = Figure()
    assert gallery.PICTURES[name](figure.subplots())
    page = (PATH.parent / "oracles.md").read_text(encoding="utf-8")
    assert f"(images/{name}.png)" in page


def test_the_bars_are_those_of_the_code_above_them():
    figure = Figure()
    axes = figure.subplots()
    gallery.topk(axes)
    w = np.random.default_rng(0).random(20)  # as on the page
    heights = [bar.get_height() for bar in axes.patches]
    assert np.allclose(heights, w)
    chosen = [bar.get_facecolor() != axes.patches[2].get_facecolor() for bar in axes.patches]
    assert set(np.flatnonzero(chosen)) == set(TopK(6)(w).tolist())
