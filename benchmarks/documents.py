"""Measures U-SPEC beside k-means and HDBSCAN on generated embeddings: a million documents of 200 uneven topics.

``python benchmarks/documents.py`` runs all, ``python benchmarks/documents.py uspec kmeans`` some; ``uspec-100k`` is
a run with 100,000 rows. Each run has a process of its own, and is stored in results/documents.json as it ends. HDBSCAN
has fewer rows: at most ten minutes were allowed.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import run_each_alone

TOPICS = 200
FEATURES = 384  # as many as small language models give
OFF_TOPIC = 0.05  # share of documents without a topic
NEW = 100_000  # documents that are not fitted, and predicted
RUNS = ("uspec", "auto", "kmeans", "uspec-20k", "hdbscan-20k")


def generate_documents(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return unit vectors of `n` documents, float32, and the topic of each; -1 for those without one.

    Twenty themes have ten topics each. The shares of the topics fall from 1.7 % to 0.2 %. A document is its topic's
    direction plus noise of about the same length: two documents of a topic have a cosine of 0.5 on average. Documents
    without a topic have a random mixture of all topics as their direction.
    """
    rng = np.random.default_rng(seed)
    themes = _unit(rng.normal(size=(20, FEATURES)))
    centres = _unit(themes[np.arange(TOPICS) % 20] + _unit(rng.normal(size=(TOPICS, FEATURES))))
    shares = 1 / (25 + np.arange(TOPICS))
    topics = rng.choice(TOPICS, size=n, p=shares / shares.sum()).astype(np.int32)
    topics[rng.random(n) < OFF_TOPIC] = -1
    X = np.empty((n, FEATURES), dtype=np.float32)
    for start in range(0, n, 50_000):
        mine = topics[start : start + 50_000]
        length = rng.lognormal(0.0, 0.2, size=(len(mine), 1)) / np.sqrt(FEATURES)
        noise = rng.standard_normal((len(mine), FEATURES), dtype=np.float32) * length
        directions = centres[mine]
        off = mine < 0
        directions[off] = _unit(rng.normal(size=(off.sum(), TOPICS)) @ centres)
        X[start : start + len(mine)] = _unit(directions + noise)
    return X, topics


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def scores(y: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Compare labels with topics; -1 are documents without a topic, and rows that a method leaves out."""
    from ultraspec import metrics

    table = np.zeros((TOPICS, labels.max() + 1))
    both = (y >= 0) & (labels >= 0)
    np.add.at(table, (y[both], labels[both]), 1)
    sizes = np.bincount(y[y >= 0], minlength=TOPICS)[:, None] + np.bincount(labels[labels >= 0])
    return {
        "ami": metrics.ami(y[y >= 0], labels[y >= 0]),
        "ari": metrics.ari(y[y >= 0], labels[y >= 0]),
        "n_clusters": int(labels.max()) + 1,
        "found": int(((2 * table / sizes).max(axis=1) >= 0.8).sum()),
        "left_out": float((labels[y >= 0] < 0).mean()),
    }


def run(name: str) -> dict[str, Any]:
    """Run one of `RUNS` in this process, and return times and scores."""
    method, _, size = name.partition("-")
    n = 1_000 * int(size.removesuffix("k")) if size else 1_000_000
    X, y = generate_documents(n + NEW, seed=1)
    X, new, y, new_y = X[:n], X[n:], y[:n], y[n:]
    model: Any
    if method == "hdbscan":
        from sklearn.cluster import HDBSCAN

        model = HDBSCAN(min_cluster_size=max(15, n // 2_000), copy=True, n_jobs=-1)
    elif method == "kmeans":
        from sklearn.cluster import KMeans

        model = KMeans(TOPICS, n_init=1, random_state=0)
    else:
        from ultraspec import USPEC

        k: Any = "auto" if method == "auto" else TOPICS
        model = USPEC(k, metric="cosine", random_state=0)
        USPEC(k, metric="cosine", random_state=0).fit(X[:20_000])  # compiles
    started, cpu = time.perf_counter(), time.process_time()
    model.fit(X)
    found = {"rows": n, "seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    found |= scores(y, model.labels_)
    if method in ("uspec", "auto"):
        model.predict(new[:1_000])
        started, cpu = time.perf_counter(), time.process_time()
        marked = model.predict(new, outliers=1 - OFF_TOPIC)
        found["predicted_per_second"] = len(new) / (time.perf_counter() - started)
        found["predicted_per_cpu_second"] = len(new) / (time.process_time() - cpu)
        off = new_y < 0
        found["outliers_precision"] = float(off[marked == -1].mean())
        found["outliers_recall"] = float((marked[off] == -1).mean())
    return found


if __name__ == "__main__":
    run_each_alone("documents", __file__, RUNS, run)
