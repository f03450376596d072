"""Ultra-scalable spectral and ensemble clustering.

Names are imported when they are first used: ``import ultraspec`` itself loads neither scikit-learn nor numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ultraspec import datasets, metrics, plots, report, tl
    from ultraspec._input import open_rows
    from ultraspec.ensemble.combine import consensus
    from ultraspec.persistence import load, save
    from ultraspec.usenc import USENC
    from ultraspec.uspec import USPEC

_HOMES = {
    "USENC": "ultraspec.usenc",
    "USPEC": "ultraspec.uspec",
    "consensus": "ultraspec.ensemble.combine",
    "datasets": "",
    "load": "ultraspec.persistence",
    "metrics": "",
    "open_rows": "ultraspec._input",
    "plots": "",
    "report": "",
    "save": "ultraspec.persistence",
    "tl": "",
}

__all__ = [
    "USENC",
    "USPEC",
    "__version__",
    "consensus",
    "datasets",
    "load",
    "metrics",
    "open_rows",
    "plots",
    "report",
    "save",
    "tl",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ultraspec' has no attribute {name!r}")
    home = _HOMES[name]
    value = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"ultraspec.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
