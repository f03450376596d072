"""Scores of plain ``USENC(k)`` beside plain ``USPEC(k)``: sets of the paper, generated settings.

Development data and seeds. Results are stored after every run; finished runs are not repeated. ``--report`` prints the
table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import run_or_report
from sklearn.metrics import adjusted_mutual_info_score
from which_data import SETTINGS, make

from ultraspec import USENC, USPEC, datasets

SEEDS = range(300, 306)
REAL = ("pendigits", "usps", "letters")
GENERATED = ("sf", "cg", "flower", "tb", "cc")
GENERATED_ROWS = 100_000
RARE = "two classes of 0.3 %"
SOME_SETTINGS = (
    "mixed-64d",
    "blob-overlap",
    "mixed-half-4.0",
    "mixed-noise-2d",
    "parts-80-3.0",
    "mixed-k25",
    "blob-dense-80",
)
SETTING_ROWS = 10_000
ESTIMATORS = {"USPEC": USPEC, "USENC": USENC}


def rare(seed: int, n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Draw ten classes of 20 features, the last two of which are rare."""
    random = np.random.default_rng(seed)
    y = random.choice(10, n, p=[0.3, 0.25, 0.15, 0.1, 0.08, 0.06, 0.034, 0.02, 0.003, 0.003])
    X = 2.0 * random.normal(size=(10, 20))[y] + random.normal(size=(n, 20))
    return X.astype(np.float32), y


def data(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows, classes and the number of clusters; generated data is drawn again for each seed."""
    if name in REAL:
        return *datasets.load(name), datasets.N_CLASSES[name]
    if name in GENERATED:
        return *datasets.generate(name, GENERATED_ROWS, random_state=seed), datasets.N_CLASSES[name]
    if name == RARE:
        return *rare(seed), 10
    return *make(SETTINGS[name], SETTING_ROWS, seed), SETTINGS[name].k


def found(y: np.ndarray, labels: np.ndarray, rare_class: int) -> bool:
    """Whether a class has a cluster of its own: F1 above 0.8."""
    cluster = np.bincount(labels[y == rare_class]).argmax()
    both = ((labels == cluster) & (y == rare_class)).sum()
    return bool(2 * both / ((labels == cluster).sum() + (y == rare_class).sum()) > 0.8)


def run(runs: dict[str, Any]) -> Iterator[None]:
    """Score both estimators, seed by seed."""
    for seed in SEEDS:
        for name in (*REAL, *GENERATED, RARE, *SOME_SETTINGS):
            done = runs.setdefault(name, {})
            if str(seed) in done:
                continue
            X, y, k = data(name, seed)
            known = y >= 0
            entry: dict[str, Any] = {}
            for title, kind in ESTIMATORS.items():
                started = time.process_time()
                labels = kind(k, random_state=seed, n_jobs=1).fit(X).labels_
                seconds = round(time.process_time() - started, 2)
                score = round(100 * float(adjusted_mutual_info_score(y[known], labels[known])), 2)
                entry[title] = {"AMI": score, "seconds": seconds}
                if name == RARE:
                    entry[title]["found"] = sum(found(y, labels, each) for each in (8, 9))
            done[str(seed)] = entry
            print(name, seed, entry, flush=True)
            yield


def report(runs: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    lines = ["| set | seeds | USPEC, AMI | USENC, AMI | difference | CPU seconds |", "|---" * 6 + "|"]
    for name, done in runs.items():
        if not done:
            continue
        a, b = (np.array([entry[title]["AMI"] for entry in done.values()]) for title in ESTIMATORS)
        seconds = [np.median([entry[title]["seconds"] for entry in done.values()]) for title in ESTIMATORS]
        cells = [f"{each.mean():.1f} ± {each.std():.1f}" for each in (a, b)]
        lines.append(
            f"| {name} | {len(done)} | {cells[0]} | {cells[1]} | {np.mean(b - a):+.1f} | "
            f"{seconds[0]:.1f}, {seconds[1]:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    run_or_report("ensemble", run, report)
