"""The methods that U-SPEC and U-SENC are compared with, each a working estimator.

Spectral: `KMeansLite`, `SC`, `ESCG`, `Nystrom`, `LSC`, `FastESC`, `EulerSC`. Ensemble: `EAC`, `WCT`, `KCC`, `PTGP`,
`ECC`, `SEC`, `LWGP`, which generate their members by k-means, and as functions of any label matrix `eac`, `wct`,
`kcc`, `ptgp`, `ecc`, `sec`, `lwgp`. Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ultraspec.baselines.eac import EAC, eac
    from ultraspec.baselines.ecc import ECC, ecc
    from ultraspec.baselines.escg import ESCG
    from ultraspec.baselines.eulersc import EulerSC
    from ultraspec.baselines.fastesc import FastESC
    from ultraspec.baselines.kcc import KCC, kcc
    from ultraspec.baselines.kmeanslite import KMeansLite
    from ultraspec.baselines.lsc import LSC
    from ultraspec.baselines.lwgp import LWGP, lwgp
    from ultraspec.baselines.nystrom import Nystrom
    from ultraspec.baselines.ptgp import PTGP, ptgp
    from ultraspec.baselines.sc import SC
    from ultraspec.baselines.sec import SEC, sec
    from ultraspec.baselines.wct import WCT, wct

__all__ = [
    "EAC",
    "ECC",
    "ESCG",
    "KCC",
    "LSC",
    "LWGP",
    "PTGP",
    "SC",
    "SEC",
    "WCT",
    "EulerSC",
    "FastESC",
    "KMeansLite",
    "Nystrom",
    "eac",
    "ecc",
    "kcc",
    "lwgp",
    "ptgp",
    "sec",
    "wct",
]


class _Package(types.ModuleType):
    """The package itself. A function has the name of its module here: the function is what users see."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, types.ModuleType):
            return  # importing a module would put it here under its name
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'ultraspec.baselines' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"ultraspec.baselines.{name.lower()}"), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted(__all__)


sys.modules[__name__].__class__ = _Package
