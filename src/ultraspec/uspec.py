"""U-SPEC, ultra-scalable spectral clustering: the estimator, and the paper's phases in order."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ultraspec import bipartite, discretize
from ultraspec._callbacks import with_callbacks
from ultraspec._estimator import RowEstimator, all_or_nothing
from ultraspec._spool import as_array, stays_in_memory
from ultraspec._validation import open_input, seed_sequence, warn_user
from ultraspec.engines import ThreadEngine
from ultraspec.phases import GraphOptions, Model, embed
from ultraspec.space import PreparedRows


class USPEC(RowEstimator):
    """Ultra-scalable spectral clustering (U-SPEC).

    Finds clusters of any shape in millions of rows. A few representatives stand for the data; every row is tied to
    its nearest representatives; the bipartite graph of rows and representatives is cut through an eigenproblem of
    the representatives' size. Time and memory grow linearly with the number of rows.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" takes the number at the largest eigengap, between 2 and 50.
    n_representatives : int, default=1000
        Number of representatives, p. Small data uses at most a third of its rows.
    n_neighbors : int, default=5
        Nearest representatives each row is tied to, K.
    selection : {"hybrid", "random", "kmeans"}, default="hybrid"
        How representatives are chosen: k-means centres of a random sample, random rows, or k-means centres of all
        rows (slow, rarely better).
    candidate_factor : int, default=10
        The sample of "hybrid" has this many times `n_representatives` rows.
    neighbors : {"approx", "exact"}, default="approx"
        Search nearest representatives coarse-to-fine, as the paper does, or exactly.
    neighborhood_factor : int, default=10
        The approximate search looks at this many times `n_neighbors` representatives around the nearest one found.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance. "cosine" scales rows to unit length first; rows of zeros are refused.
    n_init : int, default=3
        Starts of the k-means that turns the embedding into labels; the best is kept.
    max_iter : int, default=100
        Iterations of that k-means, at most.
    regularization : float, default=1e-3
        Weight of a faint edge between all representatives, as a share of their mean degree. It joins the pieces of a
        graph that falls apart, so that outliers do not take a cluster each. 0 is the paper to the letter.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Threads. None and -1 mean every core the process may use.
    verbose : int, default=0
        1 shows phases, a progress bar and times on standard error.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of each row.
    representatives_ : ndarray of shape (p, n_features), float64
        The representatives (under the cosine metric: directions).
    sigma_ : float
        Width of the Gaussian affinity: the mean distance of rows to their K nearest representatives.
    eigenvalues_ : ndarray, float64
        Largest eigenvalues of the representatives' normalised affinity, descending from 1.
    n_iter_ : int
        Iterations of the k-means that gave the centres.
    n_clusters_ : int
        Number of clusters found.
    fit_profile_ : dict
        For each phase of the fit, its ``seconds`` and the most resident memory seen, ``resident_bytes``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had them.
    scaling_ : Scaling or None
        ``mean`` and ``deviation`` of the columns, if the rows came scaled (``open_rows(path, scale="standard")``).

    See Also
    --------
    USENC : An ensemble of these, and its consensus.
    sklearn.cluster.SpectralClustering : Spectral clustering on all pairs of rows, for up to some ten thousand rows.
    sklearn.cluster.KMeans : Faster on compact clusters, cannot follow others.

    Notes
    -----
    `labels_` equals ``predict(X)`` for the X that was fitted, bit for bit.

    Sizes: beside X and the labels a fit holds about 42 bytes per row at K = 5; a pickled model holds the labels and a
    few MB.

    References
    ----------
    D. Huang, C.-D. Wang, J.-S. Wu, J.-H. Lai, C.-K. Kwoh. "Ultra-Scalable Spectral Clustering and Ensemble
    Clustering". IEEE Transactions on Knowledge and Data Engineering 32 (6), 2020.

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, metrics
    >>> X, y = datasets.generate("cc", 20_000, random_state=0)  # three concentric circles
    >>> model = USPEC(n_clusters=3, random_state=0).fit(X)
    >>> metrics.nmi(y, model.labels_) > 0.99
    True
    >>> model.predict([[0.0, 0.35], [0.0, 0.33]]).tolist() == model.labels_[y == 2][:2].tolist()
    True
    >>> model.cut(2).labels_.max()
    np.int32(1)
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = 8,
        *,
        n_representatives: int = 1000,
        n_neighbors: int = 5,
        selection: str = "hybrid",
        candidate_factor: int = 10,
        neighbors: str = "approx",
        neighborhood_factor: int = 10,
        metric: str = "euclidean",
        n_init: int = 3,
        max_iter: int = 100,
        regularization: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_representatives = n_representatives
        self.n_neighbors = n_neighbors
        self.selection = selection
        self.candidate_factor = candidate_factor
        self.neighbors = neighbors
        self.neighborhood_factor = neighborhood_factor
        self.metric = metric
        self.n_init = n_init
        self.max_iter = max_iter
        self.regularization = regularization
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> USPEC:  # noqa: ARG002
        """Cluster the rows of X.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Any numeric type and memory order; read-only and memory-mapped arrays are not copied.
        y : Ignored
            For the interface.

        Returns
        -------
        USPEC
            The fitted estimator itself.
        """
        self._check_parameters()
        rows = open_input(self, X, reset=True)
        wanted = self._wanted_clusters(rows)
        seeds = seed_sequence(self.random_state).spawn(4)
        reporter = self._reporter()
        with ThreadEngine(self.n_jobs, reporter) as engine:
            with reporter.phase("survey"):
                space = self._survey(rows, seeds[0], engine)
            n_vectors = max(bipartite.KEPT_VECTORS, wanted + 1)
            prepared = PreparedRows(rows, space)
            found = embed(prepared, GraphOptions.of(self), wanted, n_vectors, seeds[1:3], engine)
            if self.n_clusters == "auto":
                wanted = bipartite.largest_eigengap(found.spectrum.eigenvalues, self.regularization)
            with reporter.phase("labels"):
                partition, labels, n_iter = self._discretize(found.edges, found.spectrum, wanted, seeds[3], engine)
            reporter.close()
        self._warn_of_pieces(found.graph.pieces(), wanted)
        self._space, self._edges, self._labels_seed, self._n_rows = space, found.edges, seeds[3], rows.n_rows
        self._keep(Model(found.index, found.sigma, partition), n_iter)
        self.labels_, self.fit_profile_ = labels, reporter.profile
        return self

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """Cluster of each row of X, also of rows that were not fitted.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,), int32
        """
        check_is_fitted(self)
        rows = open_input(self, X, reset=False)
        return self._map_rows(rows, self._model.label, np.empty(rows.n_rows, dtype=np.int32))

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Spectral embedding of X: rows of unit length, in which the clusters are compact.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters), float32
        """
        check_is_fitted(self)
        model = self._model
        rows = open_input(self, X, reset=False)
        out = np.empty((rows.n_rows, self._n_features_out), dtype=np.float32)
        return self._map_rows(rows, lambda block: model.partition.lift(model.edges(block)), out)

    def cut(self, n_clusters: int, X: Any = None) -> USPEC:
        """The same graph and eigenvectors cut into another number of clusters, without fitting again.

        Parameters
        ----------
        n_clusters : int
            Number of clusters, up to 60 (or what was fitted, if more).
        X : array-like, optional
            The rows that were fitted. Needed only where the model was unpickled or loaded, as the rows' edges (30
            bytes each) are not kept in files.

        Returns
        -------
        USPEC
            A new fitted estimator with these clusters; this one stays as it is.

        Examples
        --------
        >>> from ultraspec import USPEC, datasets
        >>> X, _ = datasets.generate("sf", 5_000, random_state=0)
        >>> model = USPEC(2, random_state=0).fit(X)
        >>> [len(set(model.cut(k).labels_)) for k in (2, 3, 4)]
        [2, 3, 4]
        """
        check_is_fitted(self)
        model = self._model
        spectrum = model.partition.spectrum
        self._check_cut(n_clusters, spectrum)
        reporter = self._console()
        with ThreadEngine(self.n_jobs, reporter) as engine, reporter.phase("labels"):
            edges = self._fitted_edges(X, engine)
            partition, labels, n_iter = self._discretize(edges, spectrum, int(n_clusters), self._labels_seed, engine)
        other = copy.copy(self)
        other.n_clusters, other._edges = int(n_clusters), edges
        other._keep(replace(model, partition=partition), n_iter)
        other.labels_ = labels
        return other

    def _check_parameters(self) -> None:
        self._check_graph_parameters()
        if self.n_clusters != "auto" and self.n_clusters > self.n_representatives:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than n_representatives={self.n_representatives}: clusters are "
                "groups of representatives. Raise n_representatives."
            )

    def _discretize(
        self,
        edges: bipartite.Edges | bipartite.FoundEdges,
        spectrum: bipartite.Spectrum,
        k: int,
        seed: np.random.SeedSequence,
        engine: ThreadEngine,
    ) -> tuple[discretize.Partition, npt.NDArray[np.int32], int]:
        """k-means on the embedding: clusters that have rows, the labels of all rows, and the iterations."""
        points = discretize.EmbeddedPoints(edges, spectrum.vectors[:, :k])
        found = discretize.kmeans(points, k, self.n_init, self.max_iter, np.random.default_rng(seed), engine)
        found = discretize.renumber(
            found,
            k,
            "the rows have only so many distinct places in the graph of representatives. X may have too few distinct "
            "rows; otherwise raise n_representatives.",
        )
        partition = discretize.Partition(spectrum, found.centers)
        if len(found.labels) == len(edges):
            return partition, found.labels, found.n_iter
        labels = edges.room(np.int32)
        partition = discretize.label_all(edges, partition, labels, engine)
        return partition, as_array(labels), found.n_iter

    def _keep(self, model: Model, n_iter: int) -> None:
        """Set what a fitted estimator has beside the labels, which a loaded one has not."""
        self._model = model
        self.n_clusters_ = len(model.partition.centers)
        self.n_iter_ = n_iter
        self.representatives_ = self._space.restore(model.index.representatives)
        self.sigma_ = model.sigma * self._space.scale
        self.eigenvalues_ = model.partition.spectrum.eigenvalues
        self._n_features_out = model.partition.centers.shape[1]

    def _fitted_edges(self, X: Any, engine: ThreadEngine) -> bipartite.Edges | bipartite.FoundEdges:
        if X is None:
            if self._edges is None:
                raise ValueError("This model holds no rows: it came from a file or is a copy. Call cut(n_clusters, X).")
            return self._edges
        rows, index = self._open_fitted(X), self._model.index
        if not stays_in_memory(rows, 6 * rows.n_rows * index.n_neighbors):
            return bipartite.FoundEdges(PreparedRows(rows, self._space), index, self._model.sigma)
        edges = bipartite.Edges.empty(rows.n_rows, self._model.index.n_neighbors)

        def connect(span: tuple[int, int]) -> None:
            edges[slice(*span)] = self._model.edges(self._prepare_new(rows, span))

        engine.map(connect, rows.blocks())
        return edges

    def _warn_of_pieces(self, sizes: npt.NDArray[np.int64], k: int) -> None:
        if len(sizes) <= k:
            return
        shown = ", ".join(f"{size:,}" for size in sizes[:5]) + (", ..." if len(sizes) > 5 else "")
        done = (
            f"Faint edges (regularization={self.regularization:g}) joined them, so clusters follow the larger pieces"
            if self.regularization > 0
            else "regularization=0 leaves them apart, so which pieces share a cluster is arbitrary"
        )
        warn_user(
            f"The graph is in {len(sizes)} pieces that share no edge (rows: {shown}; smallest {sizes[-1]:,}), more "
            f"than the {k} clusters. {done}. To change this, raise n_clusters if the pieces are real, "
            f"raise n_neighbors (now {self.n_neighbors}) or lower n_representatives (now {self.n_representatives}) to "
            "join them, or drop outliers.",
            UserWarning,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the rows' edges: a model in a file stays small."""
        state = dict(super().__getstate__())
        if "_edges" in state:
            state["_edges"] = None
        return state
