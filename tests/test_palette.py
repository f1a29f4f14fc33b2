"""Colors that people tell apart, also those who see fewer of them."""

import itertools

import numpy as np
import pytest

from superarm.palette import LEARNERS, OTHERS, style_of, styles_of

MACHADO = {  # Machado, Oliveira & Fernandes 2009, table of matrices for severity 1.0
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "all colors": np.eye(3),
}
XYZ = np.array(  # of linear sRGB
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def linear(color):
    """A color as #rrggbb in linear sRGB."""
    c = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    t = XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def ciede2000(one, other):
    """Sharma, Wu & Dalal 2005, equations (2) to (22)."""
    (L1, a1, b1), (L2, a2, b2) = one, other
    C = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    G = 0.5 * (1 - np.sqrt(C**7 / (C**7 + 25.0**7)))
    a1, a2 = (1 + G) * a1, (1 + G) * a2
    C1, C2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    dh = 0.0 if C1 * C2 == 0 else (h2 - h1 + 180) % 360 - 180
    dH = 2 * np.sqrt(C1 * C2) * np.sin(np.radians(dh / 2))
    L, C = (L1 + L2) / 2, (C1 + C2) / 2
    h = h1 + h2 if C1 * C2 == 0 else (h1 + dh / 2) % 360
    T = 1 - 0.17 * np.cos(np.radians(h - 30)) + 0.24 * np.cos(np.radians(2 * h))
    T += 0.32 * np.cos(np.radians(3 * h + 6)) - 0.20 * np.cos(np.radians(4 * h - 63))
    S_L = 1 + 0.015 * (L - 50) ** 2 / np.sqrt(20 + (L - 50) ** 2)
    S_C = 1 + 0.045 * C
    S_H = 1 + 0.015 * C * T
    turn = 30 * np.exp(-(((h - 275) / 25) ** 2))
    R = -2 * np.sqrt(C**7 / (C**7 + 25.0**7)) * np.sin(np.radians(2 * turn))
    x, y, z = (L2 - L1) / S_L, (C2 - C1) / S_C, dH / S_H
    return np.sqrt(x * x + y * y + z * z + R * y * z)


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [  # from Sharma, Wu & Dalal 2005, table 1
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
    ],
)
def test_the_measure_of_differences(one, other, difference):
    assert ciede2000(one, other) == pytest.approx(difference, abs=1e-4)


@pytest.mark.parametrize("vision", MACHADO)
def test_everybody_can_tell_the_learners_apart(vision):
    seen = {name: lab(MACHADO[vision] @ linear(style.color)) for name, style in LEARNERS.items()}
    least = min(ciede2000(seen[a], seen[b]) for a, b in itertools.combinations(seen, 2))
    assert least >= 11


def test_all_are_seen_on_white_and_on_the_dark_page():
    for style in LEARNERS.values():
        light = XYZ[1] @ linear(style.color)
        assert 1.05 / (light + 0.05) > 2.95
        assert (light + 0.05) / (XYZ[1] @ linear("#0e1116") + 0.05) > 2.9


def test_dash_and_marker_tell_apart_what_has_a_like_color():
    for styles in (LEARNERS.values(), OTHERS):
        assert len({style.color for style in styles}) == len(styles)
    assert not set(LEARNERS.values()) & set(OTHERS)
    drawn = [(style.dash, style.marker) for style in LEARNERS.values()]
    assert len(set(drawn)) == len(drawn)


def test_others_are_drawn_by_their_names_and_not_by_their_order():
    names = [f"mine-{i}" for i in range(8)]
    found = styles_of([*names, "CombLinTS"])
    assert found == styles_of(["CombLinTS", *reversed(names)])
    assert found["CombLinTS"] == style_of("CombLinTS") == LEARNERS["CombLinTS"]
    assert len({style.color for style in found.values()}) == 9
    assert len({style_of(name) for name in names}) > 3


def test_more_learners_than_styles():
    assert len(styles_of([f"mine-{i}" for i in range(100)])) == 100
