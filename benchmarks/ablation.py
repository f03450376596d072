"""Ablation of the affinity: each part of ``affinity="robust"`` and the exact search, alone and together.

Parts: the median distance instead of the mean, 0.7 times it, rows weighted by the square root of their degree, exact
neighbours. All else is the default of `USPEC`. Development data and seeds only. Results are stored after every run;
finished runs are not repeated. ``--report`` prints the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from common import run_or_report
from sklearn.metrics import adjusted_mutual_info_score
from which_data import SETTINGS, make

from ultraspec import USPEC, datasets
from ultraspec.spectral import edges
from ultraspec.spectral.options import GraphOptions

SEEDS = range(100, 110)
REAL = ("pendigits", "usps", "letters")
GENERATED = {"sf": 20_000, "cg": 20_000, "tb": 20_000, "flower": 20_000}
SOME_SETTINGS = (
    "mixed",
    "blob-overlap",
    "worm-2d",
    "ring-2d",
    "heavy-2d",
    "mixed-16d",
    "blob-64d",
    "mixed-k25",
    "mixed-half-4.0",
    "parts-80-3.0",
    "blob-dense-80",
    "mixed-70-16d",
    "mixed-halving-dense",
    "mixed-widths",
    "mixed-noise-2d",
)
SETTING_ROWS = 6_000

# median, factor, exponent of the degree of a row in its weight, search
VARIANTS: dict[str, tuple[bool, float, float, str]] = {
    "none": (False, 1.0, 1.0, "approx"),
    "median": (True, 1.0, 1.0, "approx"),
    "factor 0.7": (False, 0.7, 1.0, "approx"),
    "root of degree": (False, 1.0, 0.5, "approx"),
    "exact": (False, 1.0, 1.0, "exact"),
    "all": (True, 0.7, 0.5, "exact"),
}


def data(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows, classes and the number of clusters; generated data is drawn again for each seed."""
    if name in REAL:
        X, y = datasets.load(name)
        return X, y, datasets.N_CLASSES[name]
    if name in GENERATED:
        return *datasets.generate(name, GENERATED[name], random_state=seed), datasets.N_CLASSES[name]
    return *make(SETTINGS[name], SETTING_ROWS, seed), SETTINGS[name].k


def fit(X: np.ndarray, k: int, seed: int, median: bool, factor: float, power: float, neighbors: str) -> np.ndarray:
    """Labels by the default with another affinity."""

    def sigma(sq: np.ndarray) -> float:
        distances = np.sqrt(sq[sq > 0], dtype=np.float64)
        typical = np.median(distances) if median else distances.mean()
        return factor * float(typical) if distances.size else 1.0

    with (
        mock.patch.object(edges, "_robust_sigma", sigma),
        mock.patch.object(GraphOptions, "row_power", power),
    ):
        return USPEC(k, neighbors=neighbors, random_state=seed, n_jobs=1).fit(X).labels_


def run(runs: dict[str, Any]) -> Iterator[None]:
    """Score all variants, seed by seed, so that an unfinished table is balanced."""
    for seed in SEEDS:
        for name in (*REAL, *GENERATED, *SOME_SETTINGS):
            done = runs.setdefault(name, {})
            missing = [variant for variant in VARIANTS if str(seed) not in done.get(variant, {})]
            if not missing:
                continue
            X, y, k = data(name, seed)
            known = y >= 0
            for variant in missing:
                labels = fit(X, k, seed, *VARIANTS[variant])
                score = round(100 * float(adjusted_mutual_info_score(y[known], labels[known])), 2)
                done.setdefault(variant, {})[str(seed)] = score
            print(name, seed, {variant: done[variant][str(seed)] for variant in VARIANTS}, flush=True)
            yield


def report(runs: dict[str, Any]) -> str:
    """Return the table in Markdown: mean AMI, and the number of sets whose mean differs by more than a point."""
    seeds = min(len(each) for done in runs.values() for each in done.values())
    means = {
        variant: np.array([np.mean(list(done[variant].values())[:seeds]) for done in runs.values()])
        for variant in VARIANTS
    }
    real = np.array([name in REAL for name in runs])
    lines = ["| changed | real | generated | all | better | worse | worst loss |", "|---" * 7 + "|"]
    for variant, values in means.items():
        change = values - means["none"]
        cells = [f"{each.mean():.1f}" for each in (values[real], values[~real], values)]
        cells += [str((change > 1).sum()), str((change < -1).sum())]
        cells += [f"{-change.min():.1f} ({list(runs)[int(change.argmin())]})" if change.min() < -1 else "–"]
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    lines += ["", f"{len(runs)} sets, {seeds} seeds."]
    lines += ["", "| set | " + " | ".join(VARIANTS) + " |", "|---" * (1 + len(VARIANTS)) + "|"]
    for row, name in enumerate(runs):
        lines.append(f"| {name} | " + " | ".join(f"{values[row]:.1f}" for values in means.values()) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_or_report("ablation", run, report)
