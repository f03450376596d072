"""How often n_clusters="auto" finds the number of clusters, beside HDBSCAN, EVoC and k-means with the silhouette.

The seeds and draws of this program were not used to choose anything. Results are stored after every set; finished ones
are not repeated. ``--report`` prints the tables. Run it in the environment of `make peers`, which has EVoC.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import fetch, machine, read_set, store
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import silhouette_score

from ultraspec import USENC, USPEC, datasets

SEEDS = range(4001, 4006)
LARGE_SEEDS = range(4001, 4003)  # for sets that take long
PEER_ROWS = 10_000  # that peers are given at most: they take longer than all the rest
EVOC_FEATURES, EVOC_ROWS = 4, 1_000  # fewer than these fail in EVoC
Data = tuple[np.ndarray, int]


def separate_blobs(k: int, d: int, n: int, seed: int, apart: float = 8.0) -> Data:
    """Draw blobs of unit width; centres are at least `apart` from each other."""
    random = np.random.default_rng(seed)
    width = 10.0
    while True:
        centers = random.uniform(-width, width, (k, d))
        distances = np.linalg.norm(centers[:, None] - centers, axis=2) + 1e9 * np.eye(k)
        if distances.min() > apart:
            return make_blobs(n, d, centers=centers, random_state=seed)[0], k
        width *= 1.05


def stretched(n: int, seed: int) -> Data:
    """Draw three blobs, stretched in one direction."""
    X, _ = make_blobs(n, centers=[[-5, -5], [0, 5], [6, -2]], random_state=seed)
    return X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), 3


def uneven(n: int, seed: int) -> Data:
    """Draw three blobs of widths 1, 2.5 and 0.5."""
    centers = [[-9, 0], [2, 8], [4, -6]]
    return make_blobs(n, cluster_std=[1.0, 2.5, 0.5], centers=centers, random_state=seed)[0], 3


def topics(n: int, d: int, k: int, seed: int) -> Data:
    """Draw unit vectors around `k` directions with uneven shares, and 2 % noise."""
    random = np.random.default_rng(seed)
    shares = np.maximum(random.dirichlet(np.full(k, 2.0)), 0.2 / k)
    y = random.choice(k, n, p=shares / shares.sum())
    centers = random.standard_normal((k, d))
    centers /= np.linalg.norm(centers, axis=1)[:, None]
    X = np.empty((n, d), dtype=np.float32)
    for c in range(k):
        rows = np.flatnonzero(y == c)
        inner = random.standard_normal((15, d)) / np.sqrt(d)
        X[rows] = centers[c] + 0.25 * random.standard_normal((len(rows), 15)) @ inner
        X[rows] += 0.6 * random.standard_normal((len(rows), d)) / np.sqrt(d)
    noise = random.random(n) < 0.02
    X[noise] = random.standard_normal((noise.sum(), d)) / np.sqrt(d)
    return X / np.linalg.norm(X, axis=1)[:, None], k


def generated(name: str, n: int, seed: int) -> Data:
    """Draw one of the paper's synthetic sets."""
    return datasets.generate(name, n, random_state=seed)[0], datasets.N_CLASSES[name]


def structureless(kind: str, d: int, n: int, seed: int) -> Data:
    """Draw rows of one uniform or Gaussian distribution."""
    random = np.random.default_rng(seed)
    return (random.random((n, d)) if kind == "uniform" else random.standard_normal((n, d))), 1


Maker = Callable[[int], Data]
GROUPS: dict[str, dict[str, Maker]] = {
    "separate blobs": {
        f"{k} blobs, {n:,} x {d}": (lambda seed, k=k, d=d, n=n: separate_blobs(k, d, n, seed))
        for k in (5, 8, 15, 30, 60)
        for d in (2, 10, 50)
        for n in (5_000,)
    },
    "small": {
        "30 blobs, 300 x 2": lambda seed: separate_blobs(30, 2, 300, seed),
        "5 blobs, 100 x 10": lambda seed: separate_blobs(5, 10, 100, seed),
        "3 blobs, 60 x 2": lambda seed: separate_blobs(3, 2, 60, seed),
        "moons, 300": lambda seed: (make_moons(300, noise=0.05, random_state=seed)[0], 2),
        "circles, 400": lambda seed: (make_circles(400, noise=0.04, factor=0.5, random_state=seed)[0], 2),
    },
    "shapes": {
        "moons": lambda seed: (make_moons(5_000, noise=0.07, random_state=seed)[0], 2),
        "circles": lambda seed: (make_circles(5_000, noise=0.05, factor=0.5, random_state=seed)[0], 2),
        "stretched blobs": lambda seed: stretched(5_000, seed),
        "blobs of uneven width": lambda seed: uneven(5_000, seed),
        **{
            f"{name}, 100,000": (lambda seed, name=name: generated(name, 100_000, seed))
            for name in ("tb", "sf", "cc", "cg", "flower")
        },
    },
    "no structure": {
        f"{kind}, {n:,} x {d}": (lambda seed, kind=kind, d=d, n=n: structureless(kind, d, n, seed))
        for kind in ("uniform", "Gaussian")
        for d in (2, 5, 10, 50)
        for n in (1_000, 10_000, 100_000)
    },
}


def peers(X: np.ndarray) -> dict[str, int]:
    """Return the numbers that HDBSCAN, EVoC and k-means with the largest silhouette find, on at most 10,000 rows."""
    import evoc

    X = X[np.random.default_rng(0).permutation(len(X))[:PEER_ROWS]]
    some = X[:2_000]
    numbers = [number for number in (2, 3, 4, 5, 6, 8, 10, 11, 13, 15, 20, 26, 30, 40, 50, 60) if number < len(some)]
    scores = [silhouette_score(some, KMeans(each, n_init=3, random_state=0).fit_predict(some)) for each in numbers]
    hdbscan = HDBSCAN(min_cluster_size=max(5, min(50, len(X) // 100))).fit(X).labels_
    found = {"HDBSCAN": int(hdbscan.max()) + 1, "KMeans, silhouette": numbers[int(np.argmax(scores))]}
    if X.shape[1] >= EVOC_FEATURES and len(X) >= EVOC_ROWS:
        labels = evoc.EVoC(random_state=0).fit_predict(np.ascontiguousarray(X, np.float32))
        found["EVoC"] = int(labels.max()) + 1
    return found


def run_group(runs: dict[str, Any], makers: dict[str, Maker]) -> Iterator[None]:
    """Find the number of clusters of each set of a group."""
    for title, maker in makers.items():
        done = runs.setdefault(title, {})
        for seed in LARGE_SEEDS if "100,000" in title else SEEDS:
            if str(seed) in done:
                continue
            X, k = maker(seed)
            started = time.perf_counter()
            model = USPEC("auto", random_state=seed).fit(X)
            seconds = time.perf_counter() - started
            found: dict[str, Any] = {"classes": k, "seconds": round(seconds, 2)}
            found["layers"] = [[layer.n_clusters, round(layer.strength, 3)] for layer in model.layers_]
            found["USPEC"] = model.n_clusters_
            if seed in LARGE_SEEDS and len(X) <= PEER_ROWS:
                found["USENC"] = USENC("auto", n_estimators=5, random_state=seed).fit(X).n_clusters_
                found |= peers(X)
            done[str(seed)] = found
            print(title, seed, found, flush=True)
            yield


def run_real(runs: dict[str, Any]) -> Iterator[None]:
    """Find the number of clusters of the digits, and of many topics."""
    for title in ("PenDigits", "USPS", "Letters", "MNIST", "50 topics, 200,000 x 384"):
        done = runs.setdefault(title, {})
        for seed in LARGE_SEEDS if "topics" in title else SEEDS:
            if str(seed) in done:
                continue
            X, k = topics(200_000, 384, 50, seed) if "topics" in title else (read_set(title.lower(), None)[0], None)
            k = k or (26 if title == "Letters" else 10)
            started = time.perf_counter()
            model = USPEC("auto", random_state=seed).fit(X)
            found: dict[str, Any] = {"classes": k, "seconds": round(time.perf_counter() - started, 2)}
            found["layers"] = [[layer.n_clusters, round(layer.strength, 3)] for layer in model.layers_]
            found["USPEC"] = model.n_clusters_
            done[str(seed)] = found
            print(title, seed, found, flush=True)
            yield


def report(result: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    methods = ("USPEC", "USENC", "HDBSCAN", "EVoC", "KMeans, silhouette")
    lines = ["| data | classes | " + " | ".join(methods) + " | layers of the first seed |", "|---" * 8 + "|"]
    summary = []
    for group, runs in result.items():
        if group == "machine":
            continue
        exact: dict[str, list[bool]] = {method: [] for method in methods}
        for title, done in runs.items():
            first = next(iter(done.values()))
            cells = []
            for method in methods:
                found = [run[method] for run in done.values() if method in run]
                # no cluster at all, only noise, is right if there is no structure
                exact[method] += [max(run[method], 1) == run["classes"] for run in done.values() if method in run]
                cells.append(", ".join(map(str, found)) or "-")
            layers = ", ".join(f"{k} ({strength:.2f})" for k, strength in first["layers"])
            lines.append(f"| {title} | {first['classes']} | " + " | ".join(cells) + f" | {layers} |")
        shares = [f"{method} {sum(hits)} of {len(hits)}" for method, hits in exact.items() if hits]
        summary.append(f"* {group}: exact number in {'; '.join(shares)}.")
    return "\n".join([*summary, "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", nargs="*", default=[*GROUPS, "real"])
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    result = fetch("n_clusters")
    if options.report:
        print(report(result))
        return
    result["machine"] = machine()
    warnings.simplefilter("ignore")
    for group in options.groups:
        runs = result.setdefault(group, {})
        for _ in run_real(runs) if group == "real" else run_group(runs, GROUPS[group]):
            store("n_clusters", result)


if __name__ == "__main__":
    main()
