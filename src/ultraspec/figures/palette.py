"""Colours and markers of clusters, for readers with any colour vision.

The first colours are those of Okabe and Ito. Each of the others is as far as possible from those before it, and from
the grey of rows that are not selected, under normal vision and each common kind of colour blindness (distances in
OKLab). Twenty colours and seven markers have no common factor, so 140 clusters look different.
"""

from __future__ import annotations

LIGHT = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
    "#414957",
    "#6e1a10",
    "#4b1a86",
    "#94ad7c",
    "#645c2a",
    "#a462fc",
    "#102850",
    "#8f5878",
    "#2840bf",
    "#8087d7",
    "#500030",
    "#d7a7b7",
    "#873080",
    "#78cf70",
)
DARK = (
    "#3f8edb",
    "#efb02e",
    "#14b386",
    "#d98ab8",
    "#ee6a2c",
    "#8fd6fb",
    "#d5dbe6",
    "#ad6558",
    "#8a70b8",
    "#abca8d",
    "#f3dd3a",
    "#b994f8",
    "#6060e7",
    "#bf3887",
    "#8778ff",
    "#9748bf",
    "#dfafc7",
    "#d74018",
    "#b77097",
    "#97ffa7",
)

MARKERS = ("circle", "square", "triangle", "diamond", "wedge", "plus", "cross")

# From no confidence, which stands out, to full confidence.
CONFIDENCE_LIGHT = ("#a8320a", "#e5942f", "#7ea6c9")
CONFIDENCE_DARK = ("#ffc07a", "#c8692b", "#4b6f8f")

# From low to high agreement.
AGREEMENT_LIGHT = ("#eef3f8", "#0b5a93")
AGREEMENT_DARK = ("#222a33", "#84c8f7")

# From low to high values of a column: lightness rises evenly, so that the order is seen with any colour vision.
FEATURE_LIGHT = ("#2c1e5c", "#33528f", "#2f8a92", "#62b96a", "#d9c62f")
FEATURE_DARK = ("#4a3f8f", "#3f6fb5", "#2fa0a4", "#7bcb7a", "#f3e04d")

# From values below the mean to values above it.
DIVERGING_LIGHT = ("#2f6fae", "#f4f5f7", "#b8561b")
DIVERGING_DARK = ("#4f9fe0", "#20262e", "#e08745")


def channels(color: str) -> tuple[float, float, float]:
    """Return red, green and blue, from 0 to 1, of a colour such as "#0072b2".

    Examples
    --------
    >>> channels("#ff0000")
    (1.0, 0.0, 0.0)
    """
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
