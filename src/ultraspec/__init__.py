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

_HOMES = {  # other names are modules
    "USENC": "ultraspec.usenc",
    "USPEC": "ultraspec.uspec",
    "consensus": "ultraspec.ensemble.combine",
    "load": "ultraspec.persistence",
    "open_rows": "ultraspec._input",
    "save": "ultraspec.persistence",
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
    if name not in __all__:
        raise AttributeError(f"module 'ultraspec' has no attribute {name!r}")
    module = importlib.import_module(_HOMES.get(name, f"ultraspec.{name}"))
    globals()[name] = value = getattr(module, name) if name in _HOMES else module
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
