"""Is the confidence right, and are outliers found? Calibration of `confidence_`, and ROC of `outlier_scores_`.

A row is right if its cluster is the one that its class is matched with, one to one, so that most rows are right. Among
rows of confidence c a share close to c should be right; the calibration error is the mean difference, over ten bins.
Seeds and draws were not used to choose anything. ``--report`` prints the tables.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import fetch, machine, read_set, store
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import make_blobs, make_moons
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from which_data import SETTINGS, make

from ultraspec import USPEC, datasets

SEED = 4201
BINS = 10
SETS = {"pendigits": 10, "usps": 10, "letters": 26, "mnist": 10, "covertype": 7}


def is_right(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return whether the cluster of each row is matched with its class."""
    classes, codes = np.unique(y, return_inverse=True)
    counts = np.zeros((labels.max() + 1, len(classes)))
    np.add.at(counts, (labels, codes), 1)
    clusters, matched = linear_sum_assignment(-counts)
    match = np.full(labels.max() + 1, -1)
    match[clusters] = matched
    return match[labels] == codes


def curve(confidence: np.ndarray, right: np.ndarray) -> list[list[float]]:
    """Return mean confidence, share of right rows and share of rows of each bin."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    parts = [(confidence[bins == b], right[bins == b]) for b in range(BINS) if (bins == b).any()]
    return [[round(float(x), 4) for x in (c.mean(), r.mean(), len(c) / len(right))] for c, r in parts]


def calibration_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """Yield the paper's ten sets, synthetic ones with 200,000 rows, and 41 generated settings."""
    for name, k in SETS.items():
        yield name, *read_set(name), k
    for name in ("tb", "sf", "cc", "cg", "flower"):
        yield name, *datasets.generate(name, 200_000, random_state=SEED), datasets.N_CLASSES[name]
    for name in list(SETTINGS)[1::2]:
        yield name, *make(SETTINGS[name], 10_000, SEED), SETTINGS[name].k


def run_calibration(runs: dict[str, Any]) -> Iterator[None]:
    """Compare the confidence of rows with the share of right ones."""
    for name, X, y, k in calibration_sets():
        if name in runs:
            continue
        model = USPEC(k, random_state=SEED).fit(X)
        known = y >= 0
        confidence = model.confidence_[known]
        right = is_right(y[known], model.labels_[known])
        points = curve(confidence, right)
        error = sum(abs(c - r) * share for c, r, share in points)
        runs[name] = {
            "confidence": round(float(confidence.mean()), 4),
            "right": round(float(right.mean()), 4),
            "error": round(error, 4),
            "curve": points,
        }
        print(name, runs[name], flush=True)
        yield


def outlier_sets(seed: int) -> Iterator[tuple[str, np.ndarray, int, int]]:
    """Yield a title, rows whose last ones are outliers, their number, and the number of clusters."""
    random = np.random.default_rng(seed)
    for d in (2, 10, 50):
        X, _ = make_blobs(10_000, d, centers=5, center_box=(-10 * max(1, 4 / d), 10 * max(1, 4 / d)), random_state=seed)
        low, high = X.min(axis=0) - 2, X.max(axis=0) + 2
        yield f"blobs, {d} features, uniform noise", np.vstack([X, random.uniform(low, high, (200, d))]), 200, 5
        spread = X[random.integers(len(X), size=200)] + 4 * random.standard_normal((200, d))
        yield f"blobs, {d} features, noise near the blobs", np.vstack([X, spread]), 200, 5
    X, _ = make_blobs(10_000, 2, cluster_std=[0.3, 1.0, 3.0], centers=[[0, 0], [8, 0], [0, 25]], random_state=seed)
    near = np.array([0, 0]) + random.uniform(-3, 3, (100, 2))
    near = near[np.linalg.norm(near, axis=1) > 1.5]
    yield "blobs of uneven width, noise near the narrow one", np.vstack([X, near]), len(near), 3
    X, _ = make_moons(10_000, noise=0.05, random_state=seed)
    noise = random.uniform([-1.5, -1], [2.5, 1.5], (400, 2))
    gaps = np.linalg.norm(noise[:, None] - X[::20], axis=2).min(axis=1)
    noise = noise[gaps > 0.2]
    yield "moons, noise between them", np.vstack([X, noise]), len(noise), 2
    clump = np.full((20, 2), 30.0) + 0.01 * random.standard_normal((20, 2))
    X, _ = make_blobs(10_000, 2, centers=5, random_state=seed)
    yield "blobs, a far clump of 20 rows", np.vstack([X, clump]), 20, 5


def run_outliers(runs: dict[str, Any]) -> Iterator[None]:
    """Compare the outlier scores with those of other methods, by the area under the ROC curve."""
    for seed in (SEED, SEED + 1):
        for title, X, n_outliers, k in outlier_sets(seed):
            done = runs.setdefault(title, {})
            if str(seed) in done:
                continue
            truth = np.arange(len(X)) >= len(X) - n_outliers
            scores = {
                "USPEC": USPEC(k, random_state=seed).fit(X).outlier_scores_,
                "IsolationForest": -IsolationForest(random_state=seed).fit(X).score_samples(X),
                "LocalOutlierFactor": -LocalOutlierFactor().fit(X).negative_outlier_factor_,
            }
            try:
                from hdbscan import HDBSCAN
            except ImportError:
                pass
            else:
                scores["HDBSCAN"] = np.nan_to_num(HDBSCAN(min_cluster_size=50).fit(X).outlier_scores_)
            done[str(seed)] = {name: round(float(roc_auc_score(truth, each)), 4) for name, each in scores.items()}
            print(title, seed, done[str(seed)], flush=True)
            yield


def report(result: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    runs = result.get("calibration", {})
    lines = ["| data | mean confidence | right | calibration error |", "|---|---|---|---|"]
    for name, run in runs.items():
        if name in (*SETS, *datasets.N_CLASSES):
            lines.append(f"| {name} | {run['confidence']:.3f} | {run['right']:.3f} | {run['error']:.3f} |")
    generated = [run for name, run in runs.items() if name in SETTINGS]
    if generated:
        cells = [f"{np.mean([run[key] for run in generated]):.3f}" for key in ("confidence", "right", "error")]
        lines.append(f"| {len(generated)} generated settings, mean | " + " | ".join(cells) + " |")
    outliers = result.get("outliers", {})
    if outliers:
        names = list(next(iter(next(iter(outliers.values())).values())))
        lines += [
            "",
            "| outliers, area under the ROC curve | " + " | ".join(names) + " |",
            "|---" * (1 + len(names)) + "|",
        ]
        for title, done in outliers.items():
            means = [np.mean([run[name] for run in done.values()]) for name in names]
            lines.append(f"| {title} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="*", default=["outliers", "calibration"])
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    result = fetch("trust")
    if options.report:
        print(report(result))
        return
    result["machine"] = machine()
    warnings.simplefilter("ignore")
    parts = {"outliers": run_outliers, "calibration": run_calibration}
    for part in options.parts:
        for _ in parts[part](result.setdefault(part, {})):
            store("trust", result)


if __name__ == "__main__":
    main()
