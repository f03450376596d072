"""Times of the baselines beside the plain cost of their dominant step, written with BLAS in NumPy, in one run.

The plain step is what a direct transcription of the method spends most of its time in, on all cores, without anything
around it. SC is also measured against scikit-learn's KMeans on the whole of MNIST (--whole).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from common import changing, clock, machine, ratio, read_set
from sklearn.cluster import KMeans

from ultraspec.reproduce.declarations import METHODS
from ultraspec.reproduce.experiment import choose
from ultraspec.reproduce.worker import find_estimator

ROWS, K, P, D = 20_000, 10, 1000, 500  # of MNIST; clusters, landmarks, features
BLOCK = 2000
LIMIT, LIMIT_SC = 3.0, 25.0


def make(title: str) -> Any:
    (method,) = choose(METHODS, [title], "method")
    return find_estimator(method.estimator)(K, **method.parameters, random_state=0)


def blocks(X: np.ndarray) -> list[np.ndarray]:
    return [X[low : low + BLOCK] for low in range(0, len(X), BLOCK)]


def distances(X: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Squared distances, by one matrix product."""
    return (X * X).sum(axis=1)[:, None] - 2 * (X @ C.T) + (C * C).sum(axis=1)


def assign(X: np.ndarray, k: int, passes: int) -> None:
    """Run passes of k-means: nearest centres and sums."""
    C = X[:k]
    for _ in range(passes):
        labels = np.concatenate([distances(B, C).argmin(axis=1) for B in blocks(X)])
        C = np.array([X[labels == c].sum(axis=0) for c in range(k)]) if k <= 100 else C


def nearest(X: np.ndarray, C: np.ndarray, n: int) -> None:
    """Find the nearest few of many points."""
    for B in blocks(X):
        np.argpartition(distances(B, C), n, axis=1)


def gram_of_affinities(X: np.ndarray) -> None:
    """Affinities to the landmarks, and the products of all of them."""
    total = np.zeros((P, P))
    for B in blocks(X):
        A = np.exp(-distances(B, X[:P]) / 2e7)
        total += A.T @ A


def gram_of_features(X: np.ndarray) -> None:
    """Cosines and sines of projections, and the products of all of them."""
    frequencies, total = X[: D // 2].T / 1e6, np.zeros((D, D))
    for B in blocks(X):
        angles = B @ frequencies
        F = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        total += F.T @ F


def turn(X: np.ndarray, passes: int) -> None:
    """Run passes of k-means on cosines and sines."""
    for _ in range(passes):
        for B in blocks(X):
            F = np.concatenate([np.cos(B / 500), np.sin(B / 500)], axis=1)
            distances(F, F[:K]).argmin(axis=1)


# what the step is, and how to run it given the rows and the fitted model
PLAIN: dict[str, tuple[str, Callable[[np.ndarray, Any], None]]] = {
    "k-means": ("N x k products, as many passes", lambda X, model: assign(X, K, model.n_iter_)),
    "SC": ("N x N products, the 5 nearest", lambda X, _: nearest(X, X, 5)),
    "ESCG": ("N x N products, the 5 nearest", lambda X, _: nearest(X, X, 5)),
    "Nystrom": ("N x p affinities and their p x p products", lambda X, _: gram_of_affinities(X)),
    "LSC-K": ("5 passes of k-means with p centres, N x p products, the 5 nearest", lambda X, _: (assign(X, P, 5), nearest(X, X[:P], 5))),
    "LSC-R": ("N x p products, the 5 nearest", lambda X, _: nearest(X, X[:P], 5)),
    "FastESC": ("N x D cosines and sines, their D x D products, N x k products in the passes of 10 starts", lambda X, model: (gram_of_features(X), assign(X[:, :K].copy(), K, 10 * model.n_iter_))),
    "EulerSC": ("N x 2d cosines and sines and N x k products, as many passes", lambda X, model: turn(X, model.n_iter_)),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*", default=list(PLAIN))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="SC on all of MNIST instead")
    options = parser.parse_args()
    X = read_set("mnist")[0].astype(np.float32)
    if options.whole:
        make("SC").fit(X[:3000])
        peer = KMeans(K, n_init=1, random_state=0)
        found = ratio(
            "SC on MNIST", "KMeans", [clock(lambda: make("SC").fit(X))], [clock(lambda: peer.fit(X))], LIMIT_SC
        )
        with changing("baselines") as result:
            result["whole"] = found
        return
    X = np.ascontiguousarray(X[np.random.default_rng(0).permutation(len(X))[:ROWS]])
    for title in options.methods:
        step, plain = PLAIN[title]
        model = make(title).fit(X[:3000])  # compiles
        ours, peers = [], []
        for _ in range(options.repeats):
            ours.append(clock(lambda: model.fit(X)))  # noqa: B023
            peers.append(clock(lambda: plain(X, model)))  # noqa: B023
        found = ratio(title, step, ours, peers, LIMIT)
        with changing("baselines") as result:
            result["machine"] = machine()
            result.setdefault("speed", {})[title] = found


if __name__ == "__main__":
    main()
