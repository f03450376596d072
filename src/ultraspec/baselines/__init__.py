"""Methods that U-SPEC and U-SENC are compared with, as complete scikit-learn estimators.

Spectral clustering: `KMeansLite`, `SC`, `ESCG`, `Nystrom`, `LSC`, `FastESC`, `EulerSC`. Ensemble clustering: `EAC`,
`WCT`, `KCC`, `PTGP`, `ECC`, `SEC`, `LWGP`, whose members are k-means clusterings; the functions `eac`, `wct`, `kcc`,
`ptgp`, `ecc`, `sec`, `lwgp` combine any label matrix. Names are imported at their first use.
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
    """Package in which a name that is both a module and a function, such as `eac`, is the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, types.ModuleType):
            return  # importing a submodule sets it as an attribute of the package
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
