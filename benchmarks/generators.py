"""Compare our generators with rows of the authors' data sets, which are not part of this project.

    python benchmarks/generators.py FOLDER     # tb_100k.npz, sf_100k.npz, ... with arrays X and y
    ultraspec reproduce 4,7 --datasets none --data TB_authors.npz:y --data TB_ours.npz:y ... --runs 5 -o STORE
    python benchmarks/generators.py FOLDER --runs STORE     # scores of all methods on the authors' rows and on ours

Counts in 40 x 40 cells: the mean over cells of the two-sample chi-square between the authors' rows and as many of ours
(several draws), and between two draws of ours. Then one sample: against the expected counts from four million rows
of ours, in standard deviations from the mean of 1. All rows, and the half on which SF's parameters were not chosen.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from common import fetch, store

from ultraspec import datasets
from ultraspec.reproduce.store import read

UNIT = {"tb": 2, "sf": 1, "cc": 2, "cg": 5, "flower": 5}  # the authors' unit of length in ours
ORIGIN = {"tb": (0.0, 0.03)}  # of the authors' data, in our unit
CELLS = 40
DRAWS = 8
EXPECTED_ROWS = 4_000_000


def authors_rows(folder: Path, name: str) -> np.ndarray:
    with np.load(folder / f"{name}_100k.npz") as file:
        return file["X"] / np.float32(UNIT[name]) + np.float32(ORIGIN.get(name, (0, 0)))


def halves(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(5).permutation(n_rows)
    return order[: n_rows // 2], order[n_rows // 2 :]


def count(X: np.ndarray, edges: list[np.ndarray]) -> np.ndarray:
    x, y = (np.clip(column, edge[0], edge[-1]) for column, edge in zip(X.T, edges, strict=True))
    return np.histogram2d(x, y, bins=edges)[0].ravel()


def two_samples(a: np.ndarray, b: np.ndarray) -> float:
    """Mean chi-square per cell of two equally large samples, over cells with ten rows."""
    enough = a + b >= 10
    return float(((a - b)[enough] ** 2 / (a + b)[enough]).mean())


def one_sample(a: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Mean chi-square per cell, and its distance from 1 in standard deviations, over cells with five expected rows."""
    expected = expected / expected.sum() * a.sum()
    enough = expected >= 5
    mean = float(((a - expected)[enough] ** 2 / expected[enough]).mean())
    return mean, (mean - 1) * float(np.sqrt(enough.sum() / 2))


def compare(name: str, X: np.ndarray, edges: list[np.ndarray]) -> dict:
    def draw(seed: int, rows: int = len(X)) -> np.ndarray:
        return count(datasets.generate(name, rows, random_state=seed)[0], edges)

    theirs = count(X, edges)
    between = [two_samples(theirs, draw(seed)) for seed in range(DRAWS)]
    own = [two_samples(draw(100 + seed), draw(200 + seed)) for seed in range(DRAWS)]
    mean, deviations = one_sample(theirs, draw(999, EXPECTED_ROWS))
    return {"rows": len(X), "two_samples": between, "own": own, "one_sample": mean, "deviations": deviations}


def collect(path: Path) -> dict:
    """Return the scores of each method on the authors' rows and on ours, by data set: NMI and CA of each seed."""
    found: dict = {}
    for record in read(path):
        name, _, whose = record["dataset"].lower().partition("_")
        if record["na"] is None:
            methods = found.setdefault(name, {}).setdefault(record["method"], {"authors": [], "ours": []})
            methods[whose.rstrip("0123456789")].append([round(record["nmi"], 4), round(record["ca"], 4)])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--runs", type=Path, help="folder of `ultraspec reproduce`, on TB_authors.npz, TB_ours.npz, ..."
    )
    options = parser.parse_args()
    if options.runs is not None:
        store("generators", {**fetch("generators"), "methods": collect(options.runs / "runs.jsonl")})
        return
    folder = options.folder
    found: dict = {}
    for name in datasets.SYNTHETIC:
        X = authors_rows(folder, name)
        edges = [np.linspace(low, high, CELLS + 1) for low, high in zip(X.min(0), X.max(0), strict=True)]
        found[name] = {"all": compare(name, X, edges), "check": compare(name, X[halves(len(X))[1]], edges)}
        for part, result in found[name].items():
            between, own = (
                f"{np.mean(v):.2f} ({min(v):.2f} to {max(v):.2f})" for v in (result["two_samples"], result["own"])
            )
            print(
                f"| {name} | {part} | {between} | {own} | {result['one_sample']:.2f} ({result['deviations']:+.1f}) |",
                flush=True,
            )
    store("generators", {**fetch("generators"), "sets": found})


if __name__ == "__main__":
    main()
