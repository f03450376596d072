"""The peers, each as a class with ``fit_predict(X)``: their own defaults, or what their documentation advises.

Label -1 is noise. `n_clusters` is a parameter of those that are given the number of clusters. Nothing is chosen by the
truth. Imports are inside, so that a missing package fails only its own runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

Labels = Any
LEIDEN_NEIGHBORS = 15  # as scanpy's and UMAP's default
LEIDEN_STEPS = 20  # of the search for a resolution that gives k clusters
TUTORIAL_SHARE = 140  # UMAP's tutorial on clustering: clusters of at least 500 of 70,000 rows


@dataclass
class KMeans:
    n_clusters: int
    random_state: int = 0

    def fit_predict(self, X: np.ndarray) -> Labels:
        from sklearn.cluster import KMeans

        return KMeans(self.n_clusters, random_state=self.random_state).fit_predict(X)


@dataclass
class MiniBatchKMeans:
    n_clusters: int
    random_state: int = 0

    def fit_predict(self, X: np.ndarray) -> Labels:
        from sklearn.cluster import MiniBatchKMeans

        return MiniBatchKMeans(self.n_clusters, random_state=self.random_state).fit_predict(X)


@dataclass
class FaissKMeans:
    """Defaults: 25 iterations, at most 256 rows per centre are used for training; all rows are then labelled."""

    n_clusters: int
    random_state: int = 0

    def fit_predict(self, X: np.ndarray) -> Labels:
        import faiss

        rows = np.ascontiguousarray(X, np.float32)
        model = faiss.Kmeans(X.shape[1], self.n_clusters, seed=self.random_state + 1)
        model.train(rows)
        return model.index.search(rows, 1)[1].ravel()


@dataclass
class SpectralClustering:
    """Default affinity: a dense Gaussian kernel of width 1."""

    n_clusters: int
    random_state: int = 0
    n_jobs: int = 1
    affinity: ClassVar[str] = "rbf"

    def fit_predict(self, X: np.ndarray) -> Labels:
        from sklearn.cluster import SpectralClustering

        model = SpectralClustering(
            self.n_clusters, random_state=self.random_state, n_jobs=self.n_jobs, affinity=self.affinity
        )
        return model.fit_predict(X)


class SpectralClusteringKnn(SpectralClustering):
    """With the other affinity that scikit-learn offers, a graph of 10 neighbours."""

    affinity = "nearest_neighbors"


@dataclass
class Genie:
    n_clusters: int
    n_jobs: int = 1

    def fit_predict(self, X: np.ndarray) -> Labels:
        import genieclust

        return genieclust.Genie(n_clusters=self.n_clusters).fit_predict(X)


@dataclass
class Hdbscan:
    n_jobs: int = 1

    def fit_predict(self, X: np.ndarray) -> Labels:
        import hdbscan

        return hdbscan.HDBSCAN(core_dist_n_jobs=self.n_jobs).fit_predict(X)


@dataclass
class FastHdbscan:
    def fit_predict(self, X: np.ndarray) -> Labels:
        import fast_hdbscan

        return fast_hdbscan.HDBSCAN().fit_predict(X)


@dataclass
class FastHdbscanTutorial:
    """Cluster sizes as in UMAP's tutorial, not the defaults."""

    def fit_predict(self, X: np.ndarray) -> Labels:
        import fast_hdbscan

        return fast_hdbscan.HDBSCAN(min_samples=10, min_cluster_size=least_size(X)).fit_predict(X)


@dataclass
class Evoc:
    random_state: int = 0

    def fit_predict(self, X: np.ndarray) -> Labels:
        import evoc

        return evoc.EVoC(random_state=self.random_state).fit_predict(np.ascontiguousarray(X, np.float32))


@dataclass
class UmapHdbscan:
    """As UMAP's tutorial on clustering advises; without a seed, which would restrict UMAP to one thread."""

    n_jobs: int = 1

    def fit_predict(self, X: np.ndarray) -> Labels:
        import hdbscan
        import umap

        flat = umap.UMAP(n_neighbors=30, min_dist=0.0, n_components=2, n_jobs=self.n_jobs).fit_transform(X)
        model = hdbscan.HDBSCAN(min_samples=10, min_cluster_size=least_size(X), core_dist_n_jobs=self.n_jobs)
        return model.fit_predict(flat)


@dataclass
class Leiden:
    """As scanpy does it: UMAP's weights on a graph of 15 neighbours, igraph's Leiden for modularity, two iterations."""

    random_state: int = 0

    def fit_predict(self, X: np.ndarray) -> Labels:
        return partition(neighbor_graph(X, self.random_state), 1.0, self.random_state)


@dataclass
class LeidenToK:
    """The same, with the resolution searched (by halving intervals of its logarithm) until there are k clusters."""

    n_clusters: int
    random_state: int = 0

    def fit_predict(self, X: np.ndarray) -> Labels:
        graph = neighbor_graph(X, self.random_state)
        low, high = np.log(1e-4), np.log(10.0)
        best: tuple[int, Labels] | None = None
        for _ in range(LEIDEN_STEPS):
            middle = (low + high) / 2
            labels = partition(graph, float(np.exp(middle)), self.random_state)
            found = int(labels.max()) + 1
            if best is None or abs(found - self.n_clusters) < best[0]:
                best = abs(found - self.n_clusters), labels
            if found == self.n_clusters:
                break
            low, high = (middle, high) if found < self.n_clusters else (low, middle)
        assert best is not None
        return best[1]


@dataclass
class Secuer:
    """Find the number of clusters itself, or take it."""

    random_state: int = 0

    def fit_predict(self, X: np.ndarray) -> Labels:
        return secuer_labels(X, None, self.random_state)


@dataclass
class SecuerToK:
    n_clusters: int
    random_state: int = 0

    def fit_predict(self, X: np.ndarray) -> Labels:
        return secuer_labels(X, self.n_clusters, self.random_state)


@dataclass
class Uspec:
    n_clusters: int
    random_state: int = 0
    n_jobs: int = 1

    def fit_predict(self, X: np.ndarray) -> Labels:
        from ultraspec import USPEC

        return USPEC(self.n_clusters, random_state=self.random_state, n_jobs=self.n_jobs).fit_predict(X)


@dataclass
class Usenc:
    n_clusters: int
    random_state: int = 0
    n_jobs: int = 1

    def fit_predict(self, X: np.ndarray) -> Labels:
        from ultraspec import USENC

        return USENC(self.n_clusters, random_state=self.random_state, n_jobs=self.n_jobs).fit_predict(X)


@dataclass
class UspecAuto:
    random_state: int = 0
    n_jobs: int = 1

    def fit_predict(self, X: np.ndarray) -> Labels:
        from ultraspec import USPEC

        return USPEC("auto", random_state=self.random_state, n_jobs=self.n_jobs).fit_predict(X)


def least_size(X: np.ndarray) -> int:
    """Return the smallest size of a cluster, as the same share of the rows as in UMAP's tutorial."""
    return max(10, len(X) // TUTORIAL_SHARE)


def secuer_labels(X: np.ndarray, k: int | None, seed: int) -> Labels:
    """Return the clusters of Secuer, without what it prints."""
    import contextlib
    import io

    from secuer import secuer

    with contextlib.redirect_stdout(io.StringIO()):
        return np.asarray(secuer(np.asarray(X, np.float64), Ks=k, seed=seed))


def neighbor_graph(X: np.ndarray, seed: int) -> Any:
    """Return UMAP's weighted graph of 15 neighbours as a graph of igraph."""
    import igraph
    from scipy.sparse import triu
    from umap.umap_ import fuzzy_simplicial_set

    random = np.random.RandomState(seed)
    weights, *_ = fuzzy_simplicial_set(np.asarray(X, np.float32), LEIDEN_NEIGHBORS, random, "euclidean")
    upper = triu(weights, k=1).tocoo()
    graph = igraph.Graph(n=len(X), edges=np.column_stack([upper.row, upper.col]))
    graph.es["weight"] = upper.data
    return graph


def partition(graph: Any, resolution: float, seed: int) -> Labels:
    """Return igraph's Leiden clusters for modularity."""
    import random

    import igraph

    igraph.set_random_number_generator(random.Random(seed))
    found = graph.community_leiden("modularity", weights="weight", resolution=resolution, n_iterations=2)
    return np.asarray(found.membership)
