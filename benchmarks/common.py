"""What the benchmarks share: the data sets, the machine, results on disk."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import datasets

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAPER: dict[str, Any] = json.loads((HERE / "paper.json").read_text())

# the paper's ten data sets: name there, name here, rows (None: as loaded), clusters
SETS = [
    ("PenDigits", "pendigits", None, 10),
    ("USPS", "usps", None, 10),
    ("Letters", "letters", None, 26),
    ("MNIST", "mnist", None, 10),
    ("Covertype", "covertype", None, 7),
    ("TB-1M", "tb", 1_000_000, 2),
    ("SF-2M", "sf", 2_000_000, 4),
    ("CC-5M", "cc", 5_000_000, 3),
    ("CG-10M", "cg", 10_000_000, 11),
    ("Flower-20M", "flower", 20_000_000, 13),
]


def read_set(name: str, n_rows: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and classes of a data set: generated (a reconstruction) if a size is given, else loaded."""
    return datasets.load(name) if n_rows is None else datasets.generate(name, n_rows, random_state=seed)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    import numba
    import scipy
    import sklearn

    import ultraspec

    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {m.__name__: m.__version__ for m in (ultraspec, np, scipy, sklearn, numba)},
        "date": time.strftime("%Y-%m-%d"),
    }


def store(name: str, result: dict[str, Any]) -> None:
    """Write a result, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(scratch, path)


def fetch(name: str) -> dict[str, Any]:
    """A stored result, or nothing."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}
