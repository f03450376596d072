"""Times of the ensemble baselines on one label matrix beside the plain cost of their dominant step, in one run.

The plain step is written with NumPy, SciPy's sparse products and scikit-learn. Methods that compare pairs have it on
groups of rows with equal base labels, as they have themselves; the others on all rows. Members are not part of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.cluster.hierarchy
import scipy.sparse
from common import REPRODUCTION, SETS, changing, clock, machine, ratio, read_set
from scipy.spatial.distance import squareform
from sklearn.cluster import KMeans

from ultraspec import baselines
from ultraspec.baselines.ensemble_baseline import combine_labels
from ultraspec.engines.threads import ThreadEngine
from ultraspec.reproduce.member_cache import get_members

LIMIT = 3.0
STEPS, NEIGHBORS, WALKS = 20, 40, 64
PAIRS = ("EAC", "WCT", "PTGP")  # on Letters; the others on MNIST


def memberships(labels: np.ndarray) -> scipy.sparse.csr_array:
    """Rows and base clusters."""
    columns = np.column_stack([np.unique(column, return_inverse=True)[1] for column in labels.T])
    columns += np.concatenate([[0], np.cumsum(columns.max(axis=0) + 1)[:-1]])
    ends = np.arange(0, columns.size + 1, columns.shape[1])
    return scipy.sparse.csr_array((np.ones(columns.size, dtype=np.float32), columns.ravel(), ends))


def pairs(labels: np.ndarray, k: int) -> None:
    """One dense product of all pairs, and SciPy's linkage of it."""
    B = memberships(np.unique(labels, axis=0)).toarray()
    S = 1 - B @ B.T / labels.shape[1]
    scipy.cluster.hierarchy.cut_tree(scipy.cluster.hierarchy.linkage(squareform(S, checks=False), "average"), k)


def passes(labels: np.ndarray, k: int, n: int) -> None:
    """Run passes of k-means on the rows of base clusters."""
    B = memberships(labels)
    G = B[:k].toarray()
    for _ in range(n):
        nearest = (B @ G.T).argmax(axis=1)
        members = scipy.sparse.csr_array(
            (np.ones(len(nearest), np.float32), (nearest, np.arange(len(nearest)))), (k, len(nearest))
        )
        G = (members @ B).toarray()


def walk(labels: np.ndarray) -> None:
    """Run steps of random walks from all microclusters, with the mean number of neighbours that PTGP has."""
    n = len(np.unique(labels, axis=0))
    random = np.random.default_rng(0)
    near = (np.arange(n)[:, None] + random.integers(-500, 500, (n, NEIGHBORS))) % n
    P = scipy.sparse.csr_array(
        (np.full(near.size, 1 / NEIGHBORS, np.float32), near.ravel(), np.arange(0, near.size + 1, NEIGHBORS))
    )
    for low in range(0, n, WALKS):
        X = np.ascontiguousarray(P[low : low + WALKS].toarray().T)
        for _ in range(STEPS):
            X = P @ X


def cut(labels: np.ndarray, k: int) -> None:
    """Products of all pairs of base clusters, twice, and k-means of an embedding with three starts."""
    B = memberships(labels)
    for _ in range(2):
        (B.T @ B).toarray()
    Y = np.random.default_rng(0).normal(size=(B.shape[1], k)).astype(np.float32)
    KMeans(k, n_init=3, max_iter=100, tol=0, random_state=0).fit(B @ Y)


# what the step is, and how to run it given labels, clusters and the method's starts and iterations
PLAIN: dict[str, tuple[str, Callable[[np.ndarray, int, int], None]]] = {
    "EAC": ("M x M products by BLAS, SciPy's average linkage", lambda L, k, _: pairs(L, k)),
    "WCT": ("M x M products by BLAS, SciPy's average linkage", lambda L, k, _: pairs(L, k)),
    "KCC": ("N x k_c by k_c x k sparse products, as many passes", passes),
    "PTGP": ("20 steps of sparse M x M by M x M products", lambda L, _, __: walk(L)),
    "ECC": ("N x k_c by k_c x k sparse products, as many passes", passes),
    "SEC": ("N x k_c by k_c x k sparse products, as many passes", passes),
    "LWGP": ("k_c x k_c sparse products, k-means of N x k by scikit-learn", lambda L, k, _: cut(L, k)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*", default=list(PLAIN))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=REPRODUCTION / "cache", help="where members are kept")
    options = parser.parse_args()
    for set_title, name, _, k in SETS:
        chosen = [title for title in options.methods if set_title == ("Letters" if title in PAIRS else "MNIST")]
        if not chosen:
            continue
        folder = options.cache / "members" / f"{name}-0"  # as `ultraspec reproduce` has it for seed 0
        labels = get_members(baselines.EAC(k, random_state=0), read_set(name)[0], folder).labels
        for title in chosen:
            step, plain = PLAIN[title]
            function, model = getattr(baselines, title.lower()), getattr(baselines, title)(k)
            with ThreadEngine() as engine:  # compiles, too
                n_iter = combine_labels(model, labels, np.random.SeedSequence(0), engine).n_iter
            n = n_iter * getattr(model, "n_init", 1)  # the best start's passes stand for those of all
            ours, peers = [], []
            for _ in range(options.repeats):
                ours.append(clock(lambda: function(labels, k, random_state=0)))  # noqa: B023
                peers.append(clock(lambda: plain(labels, k, n)))  # noqa: B023
            found = ratio(title, f"{step} ({set_title})", ours, peers, LIMIT)
            with changing("baselines") as result:
                result["machine"] = machine()
                result.setdefault("speed", {})[title] = found


if __name__ == "__main__":
    main()
