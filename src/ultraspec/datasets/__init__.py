"""Data to try things on: the paper's synthetic sets, reconstructed, and its five real sets.

``generate`` and ``stream`` draw the synthetic ones at any size, ``load`` finds or downloads the real ones.
"""

from .real import N_CLASSES as _REAL_CLASSES
from .real import PAPER_ROWS as _REAL_ROWS
from .real import load
from .synthetic import N_CLASSES as _SYNTHETIC_CLASSES
from .synthetic import PAPER_ROWS as _SYNTHETIC_ROWS
from .synthetic import chunk, generate, seed_of, stream

SYNTHETIC = tuple(_SYNTHETIC_CLASSES)
"""Names that `generate` and `stream` take."""

REAL = tuple(_REAL_CLASSES)
"""Names that `load` takes."""

NAMES = REAL + SYNTHETIC
"""All ten, in the order of the paper's tables."""

N_CLASSES = {**_REAL_CLASSES, **_SYNTHETIC_CLASSES}
"""Name to number of classes."""

N_ROWS = {**_REAL_ROWS, **_SYNTHETIC_ROWS}
"""Name to number of rows in the paper."""

__all__ = ["NAMES", "N_CLASSES", "N_ROWS", "REAL", "SYNTHETIC", "chunk", "generate", "load", "seed_of", "stream"]
