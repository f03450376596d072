"""The data sets of the paper: generators of its five synthetic sets, and its five real sets.

``generate`` and ``stream`` draw synthetic sets of any size, ``load`` reads or downloads real sets.
"""

from .real import N_CLASSES as _REAL_CLASSES
from .real import PAPER_ROWS as _REAL_ROWS
from .real import load
from .synthetic import N_CLASSES as _SYNTHETIC_CLASSES
from .synthetic import PAPER_ROWS as _SYNTHETIC_ROWS
from .synthetic import chunk, generate, seed_of, stream

SYNTHETIC = tuple(_SYNTHETIC_CLASSES)
"""Names of the synthetic sets, for `generate` and `stream`."""

REAL = tuple(_REAL_CLASSES)
"""Names of the real sets, for `load`."""

NAMES = REAL + SYNTHETIC
"""Names of all ten sets, in the order of the paper's tables."""

N_CLASSES = {**_REAL_CLASSES, **_SYNTHETIC_CLASSES}
"""Number of classes of each set, by name."""

N_ROWS = {**_REAL_ROWS, **_SYNTHETIC_ROWS}
"""Number of rows of each set in the paper, by name."""

__all__ = ["NAMES", "N_CLASSES", "N_ROWS", "REAL", "SYNTHETIC", "chunk", "generate", "load", "seed_of", "stream"]
