"""Measures `ultraspec.tl` beside `scanpy.tl.leiden` on generated cells: a million, in types down to 0.1 % of them.

``python benchmarks/cells.py`` runs all, ``python benchmarks/cells.py uspec leiden-200k`` some. Each run has a process of
its own, and is stored in results/cells.json as it ends. Leiden needs scanpy and igraph: run it with the Python of
``make test-scanpy``.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import run_each_alone

SHARES = np.array(
    [20, 16, 12, 10, 8, 6, 5, 4, 3.5, 3, 2.5, 2, 1.6, 1.3, 1.1, 0.9, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1]
)
LINEAGES = 6  # groups of similar types
FEATURES = 20  # principal components; types differ in the first
DOUBLETS = 0.03  # share of cells that are the mean of two
RUNS = ("uspec", "kmeans", "more", "auto", "uspec-200k", "more-200k", "leiden-200k", "leiden")


def generate_cells(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return principal components of `n` cells, and the type of each; -1 for doublets of two types.

    Types belong to lineages. A type is wider along one direction of its own (a gradient of activity), the spread of
    cells varies, and components have decreasing scales, as those of gene expression do. Types are numbered by share,
    the most frequent first (`SHARES`, in percent).
    """
    rng = np.random.default_rng(seed)
    k = len(SHARES)
    scale = 0.85 ** np.arange(FEATURES)
    lineages = rng.normal(size=(LINEAGES, FEATURES)) * 9 * scale
    centres = lineages[rng.permutation(np.arange(k) % LINEAGES)] + rng.normal(size=(k, FEATURES)) * 3.5 * scale
    directions = rng.normal(size=(k, FEATURES)) * scale
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    types = rng.choice(k, size=n, p=SHARES / SHARES.sum())
    X = np.empty((n, FEATURES), dtype=np.float32)
    for start in range(0, n, 100_000):
        mine = types[start : start + 100_000]
        m = len(mine)
        width = rng.lognormal(0.0, 0.25, size=(m, 1))
        noise = rng.normal(size=(m, FEATURES)) * (0.35 + 0.65 * scale)
        gradient = directions[mine] * rng.uniform(-3.0, 3.0, size=(m, 1))
        X[start : start + m] = centres[mine] + noise * width + gradient
    second = rng.integers(n, size=n)
    doublet = rng.random(n) < DOUBLETS
    X[doublet] = (X[doublet] + X[second[doublet]]) / 2
    y = types.astype(np.int32)
    y[doublet & (types != types[second])] = -1
    return X, y


def scores(y: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Compare labels with types, without doublets; a type is found if a cluster has an F1 of at least 0.8 for it."""
    from ultraspec import metrics

    known = y >= 0
    y, labels = y[known], labels[known]
    table = np.zeros((y.max() + 1, labels.max() + 1))
    np.add.at(table, (y, labels), 1)
    f1 = (2 * table / (table.sum(axis=1, keepdims=True) + table.sum(axis=0))).max(axis=1)
    return {
        "ari": metrics.ari(y, labels),
        "ami": metrics.ami(y, labels),
        "n_clusters": int(labels.max()) + 1,
        "f1": f1.round(3).tolist(),
        "found": int((f1 >= 0.8).sum()),
        "rare_found": int((f1[-3:] >= 0.8).sum()),
    }


def run(name: str) -> dict[str, Any]:
    """Run one of `RUNS` in this process, and return times and scores."""
    method, _, size = name.partition("-")
    n = 200_000 if size else 1_000_000
    X, y = generate_cells(n, seed=1)
    import anndata

    adata = anndata.AnnData(obsm={"X_pca": X}, shape=(n, 0))
    if method == "leiden":
        import scanpy

        warm, _ = generate_cells(5_000, seed=2)
        small = anndata.AnnData(obsm={"X_pca": warm}, shape=(5_000, 0))
        scanpy.pp.neighbors(small, use_rep="X_pca")  # compiles
        started, cpu = time.perf_counter(), time.process_time()
        scanpy.pp.neighbors(adata, n_neighbors=15, use_rep="X_pca", random_state=0)
        graph, graph_cpu = time.perf_counter() - started, time.process_time() - cpu
        scanpy.tl.leiden(adata, flavor="igraph", n_iterations=2, directed=False, random_state=0)
        key, extra = "leiden", {"graph_seconds": graph, "graph_cpu_seconds": graph_cpu}
    else:
        from ultraspec import tl

        small = anndata.AnnData(obsm={"X_pca": X[:20_000]}, shape=(20_000, 0))
        k: Any = {"auto": "auto", "more": 2 * len(SHARES)}.get(method, len(SHARES))
        options = {"discretize": "kmeans"} if method in ("kmeans", "more") else {}
        tl.uspec(small, k, **options)  # compiles
        started, cpu = time.perf_counter(), time.process_time()
        tl.uspec(adata, k, **options)
        key, extra = "uspec", {}
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    labels = adata.obs[key].cat.codes.to_numpy()
    return {"cells": n, "seconds": seconds, "cpu_seconds": cpu_seconds, **extra, **scores(y, labels)}


if __name__ == "__main__":
    run_each_alone("cells", __file__, RUNS, run)
