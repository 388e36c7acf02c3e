"""Colours can be read in light and dark, and told apart by colour-blind readers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from krisis.pages.palette import (
    ABSTAINED,
    CORRECT,
    INK,
    LINK,
    MUTED,
    RAISED,
    REFERENCE,
    SURFACE,
    WRONG,
    Tone,
)

SIDES = ("light", "dark")
# Viénot, Brettel and Mollon, Digital video colourmaps for checking the legibility of displays by
# dichromats, Color Research & Application 24 (1999): linear RGB as a dichromat sees it.
VISION = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]
    ),
    "no green cones": np.array(
        [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]
    ),
}


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    weights = np.array([0.2126, 0.7152, 0.0722])
    light, dark = sorted((float(linear(c) @ weights) for c in (first, second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(np.clip(to_xyz @ rgb, 1e-6, None) / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("tone", [INK, MUTED, LINK, CORRECT, WRONG], ids=str)
@pytest.mark.parametrize("ground", [SURFACE, RAISED], ids=str)
def test_text_stands_out_from_its_ground(side: str, tone: Tone, ground: Tone) -> None:
    assert contrast(getattr(tone, side), getattr(ground, side)) >= 4.5


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("tone", [CORRECT, WRONG, ABSTAINED, REFERENCE], ids=str)
def test_marks_stand_out_from_their_ground(side: str, tone: Tone) -> None:
    assert contrast(getattr(tone, side), getattr(SURFACE, side)) >= 3.0


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("vision", VISION)
def test_outcomes_differ_for_every_kind_of_colour_vision(side: str, vision: str) -> None:
    seen = {
        tone.name: lab(VISION[vision] @ linear(getattr(tone, side)))
        for tone in (CORRECT, WRONG, ABSTAINED)
    }
    for first, second in combinations(seen, 2):
        assert np.linalg.norm(seen[first] - seen[second]) >= 20, (first, second)
