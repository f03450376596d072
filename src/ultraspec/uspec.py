"""U-SPEC, ultra-scalable spectral clustering: the estimator, which calls the phases of the paper in order."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ultraspec._checks import check_checkpoint, check_choice, check_integer, to_python
from ultraspec._estimator import Fitted, RowEstimator, all_or_nothing
from ultraspec._input import open_input
from ultraspec.engines.callbacks import with_callbacks
from ultraspec.engines.threads import engine_for
from ultraspec.rows import RowView, sample_indices, subset
from ultraspec.spectral.discretize import DISCRETIZATIONS
from ultraspec.spectral.edges import Edges, LazyEdges, connect, find_edges
from ultraspec.spectral.embedding import stores_edges
from ultraspec.spectral.model import Model
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.options import GraphOptions, LabelOptions
from ultraspec.spectral.partition import VotePartition, label_rows
from ultraspec.spectral.preprocess import PreparedRows, Preprocessor
from ultraspec.spectral.representatives import count_representatives, select_representatives
from ultraspec.spectral.transfer_cut import Graph, reduce_graph, transfer_cut, warn_of_components
from ultraspec.storage.checkpoint import NoCheckpoint

WITHOUT_EFFECT = ("random_state", "n_jobs", "verbose", "checkpoint")  # on labels, or compared separately


class USPEC(RowEstimator):
    """Ultra-scalable spectral clustering (U-SPEC).

    Finds clusters of any shape in millions of rows. A small set of representatives is selected, and each row is
    connected to its nearest representatives. The bipartite graph of rows and representatives is cut by solving an
    eigenproblem whose size is the number of representatives. Time and memory grow linearly with the number of rows.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters, or "auto" to choose it at the largest eigengap, between 2 and 50. With
        discretize="consensus", if there is no clear eigengap, the number is chosen from the merge tree, at the largest
        drop in similarity.
    n_representatives : int, default=1000
        Number of representatives, p. Small data uses at most a third of its rows.
    n_neighbors : int, default=5
        Number of nearest representatives that each row is connected to, K.
    selection : {"hybrid", "random", "kmeans"}, default="hybrid"
        How representatives are selected. "hybrid" takes the k-means centres of a random sample, "random" takes random
        rows, "kmeans" takes the k-means centres of all rows (slow, rarely better, and for rows from files it holds 8
        bytes per row in memory).
    candidate_factor : int, default=10
        Size of the random sample of the "hybrid" selection, as a multiple of `n_representatives`.
    neighbors : {"approx", "exact"}, default="approx"
        How nearest representatives are searched for. "approx" searches from coarse to fine, as the paper does; "exact"
        computes all distances.
    neighborhood_factor : int, default=10
        Size of the neighbourhood that the approximate search examines, as a multiple of `n_neighbors`.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance between rows. "cosine" scales rows to unit length first; rows of zeros raise an error.
    n_init : int, default=3
        Number of k-means runs on the embedding; the best one gives the labels.
    max_iter : int, default=100
        Maximum number of k-means iterations.
    regularization : float, default=1e-3
        Weight of an edge that is added between all representatives, as a fraction of their mean degree. It connects the
        components of a disconnected graph, so that outliers do not become clusters of their own. 0 follows the paper
        exactly.
    discretize : {"kmeans", "representatives", "consensus"}, default="kmeans"
        How the embedding is divided into clusters. "kmeans" clusters the embedded rows, as in the paper.
        "representatives" clusters the representatives, weighted by their rows, and rows take the label with the largest
        weight among their representatives: nearly the same clusters in less time. "consensus" combines a hundred rough
        clusterings of the representatives into a tree, and rows are labelled through their representatives: it follows
        elongated and uneven clusters that k-means cuts, but may split a cluster that holds half of the rows.
    graph_rows : int or None, default=None
        Number of rows to sample for the graph; all rows are then labelled in one pass. None uses all rows. For many
        millions of rows, a million is sufficient.
    checkpoint : str or path, default=None
        Folder for intermediate results, from which an interrupted fit is resumed. It is new, or belongs to an
        unfinished fit of the same data with the same parameters; URLs of fsspec are accepted. For rows that are not in
        memory, the result of each pass over all rows is stored (at most p x p numbers): a fit that was killed continues
        after its last finished pass and gives the same labels. The folder is not deleted.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random numbers. The same integer gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Number of threads. None and -1 use every core that is available to the process.
    verbose : int, default=0
        1 shows phases, a progress bar and times on standard error.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of each row.
    representatives_ : ndarray of shape (p, n_features), float64
        The representatives, in the coordinates of X; with metric="cosine", scaled to unit length.
    sigma_ : float
        Width of the Gaussian affinity: the mean distance of rows to their K nearest representatives.
    eigenvalues_ : ndarray, float64
        Largest eigenvalues of the normalised affinity of the representatives, in descending order from 1.
    n_iter_ : int
        Number of k-means iterations.
    n_clusters_ : int
        Number of clusters. A warning says if it is smaller than `n_clusters`.
    fit_profile_ : dict
        For each phase of the fit, its duration in ``seconds`` and the peak of the resident memory in
        ``resident_bytes``, or None if the operating system does not report it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has names.
    scaling_ : Scaling or None
        ``mean`` and ``deviation`` of the columns if X was scaled by ``open_rows(path, scale="standard")``, else None.

    See Also
    --------
    USENC : Ensemble of U-SPEC models and its consensus.
    sklearn.cluster.SpectralClustering : Spectral clustering with all pairs of rows, for up to about ten thousand rows.
    sklearn.cluster.KMeans : Faster, for compact clusters only.

    Notes
    -----
    For the rows that were fitted, ``predict(X)`` returns exactly `labels_`.

    Memory: in addition to X and the labels, a fit needs about 42 bytes per row for K = 5. A pickled model contains the
    labels and a few MB.

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
        discretize: str = "kmeans",
        graph_rows: int | None = None,
        checkpoint: Any = None,
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
        self.discretize = discretize
        self.graph_rows = graph_rows
        self.checkpoint = checkpoint
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
            Rows of any numeric type and memory order; read-only and memory-mapped arrays are not copied.
        y : Ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        USPEC
            The fitted estimator itself.
        """
        self._check_parameters()
        rows = open_input(self, X, reset=True)
        n_clusters = self._least_clusters(rows)
        discretization = DISCRETIZATIONS[self.discretize]
        n_vectors = discretization.n_vectors(n_clusters)
        options = GraphOptions.of(self)
        with self._open_run(rows, self._describe()) as (engine, checkpoint, seed):
            phase = engine.reporter.phase
            seeds = seed.spawn(4)
            rngs = [np.random.default_rng(each) for each in seeds]

            with phase("survey"):  # check the rows and choose the scale of float32
                sample = self._sample(rows.n_rows, seeds[3])
                graph_rows = rows if sample is None else subset(rows, sample)
                preprocessor = checkpoint.run(
                    "space",
                    Preprocessor.fit,
                    graph_rows,
                    self.metric,
                    rngs[0],
                    engine,
                    getattr(self, "feature_names_in_", None),
                    sample,
                    restore=partial(Preprocessor.from_arrays, self.metric),
                )
                prepared = PreparedRows(graph_rows, preprocessor)

            with phase("representatives"):  # section 3.1.1
                representatives = checkpoint.run(
                    "representatives",
                    select_representatives,
                    prepared,
                    count_representatives(prepared.n_rows, options.n_representatives, n_clusters, options.n_neighbors),
                    options.selection,
                    options.candidate_factor,
                    options.metric,
                    rngs[1],
                    engine,
                )

            with phase("neighbors"):  # section 3.1.2
                index = engine.apply(
                    RepresentativeIndex.build,
                    representatives,
                    options.n_neighbors,
                    options.neighborhood_factor,
                    options.neighbors == "exact",
                    rngs[2],
                )
                stored = stores_edges(prepared, index.n_neighbors, n_vectors)
                if stored:
                    checkpoint = NoCheckpoint()  # computing stored edges again is faster than reading them
                restore = partial(LazyEdges.from_arrays, prepared, index)
                edges = checkpoint.run("sigma", connect, prepared, index, engine, stored, restore=restore)

            with phase("graph"):  # section 3.1.3, the graph of the representatives
                p = len(index.representatives)
                graph = checkpoint.run("graph", reduce_graph, edges, p, prepared, engine, restore=Graph.from_arrays)

            with phase("eigenvectors"):  # section 3.1.3, the transfer cut
                spectrum = engine.call(transfer_cut, graph, n_vectors, options.regularization, index.representatives)

            with phase("labels"):  # section 3.1.3, discretisation
                kmeans = LabelOptions(int(self.n_init), int(self.max_iter), seeds[3])
                tree = None
                if self.n_clusters == "auto":
                    n_clusters, tree = discretization.choose_n_clusters(
                        spectrum, options.regularization, kmeans, engine
                    )
                partition, n_iter = discretization.divide(spectrum, edges, n_clusters, kmeans, engine, tree)
                if sample is not None:
                    edges = LazyEdges(self._unseen(rows, preprocessor), index, edges.sigma)
                partition, labels = label_rows(edges, partition, engine)
        warn_of_components(graph.component_sizes(), n_clusters, options)
        model = Model(index, edges.sigma, partition)
        edges = edges.without_ids() if isinstance(edges, LazyEdges) else edges
        state = Fitted(model, preprocessor, rows.n_rows, n_iter, seeds[3], edges=edges)
        self._finish_fit(state, rows, engine.reporter)
        self.labels_ = self._map_rows(rows, model.label, np.int32) if rows.remote else labels
        return self

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """Label the rows of X, which need not have been fitted.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,), int32
            Cluster of each row.
        """
        check_is_fitted(self)
        return self._map_rows(open_input(self, X, reset=False), self._fitted.model.label, np.int32)

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Compute the spectral embedding of X: rows of unit length, in which the clusters are compact.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters), float32
            Embedded rows.
        """
        check_is_fitted(self)
        rows = open_input(self, X, reset=False)
        return self._map_rows(rows, self._fitted.model.embed, np.float32, self._n_features_out)

    def cut(self, n_clusters: int, X: Any = None, *, discretize: str | None = None) -> USPEC:
        """Cut the same graph into another number of clusters, without fitting again.

        Parameters
        ----------
        n_clusters : int
            Number of clusters, up to 60 (or what was fitted, if more); with discretize="consensus", where every number
            is a cut of one tree, up to the number of representatives (a warning says if some of very many clusters
            have no rows).
        X : array-like, optional
            The rows that were fitted. Needed only if the model was unpickled or loaded, because files do not store the
            edges of the rows (30 bytes per row).
        discretize : {"kmeans", "representatives", "consensus"}, optional
            Another way to find the clusters. By default that of this model.

        Returns
        -------
        USPEC
            A new fitted estimator with these clusters; this one does not change.

        Examples
        --------
        >>> from ultraspec import USPEC, datasets
        >>> X, _ = datasets.generate("sf", 5_000, random_state=0)
        >>> model = USPEC(2, random_state=0).fit(X)
        >>> [len(set(model.cut(k).labels_)) for k in (2, 3, 4)]
        [2, 3, 4]
        >>> model.cut(4, discretize="consensus")
        USPEC(discretize='consensus', n_clusters=4, random_state=0)
        """
        check_is_fitted(self)
        other = copy.copy(self)
        if discretize is not None:
            check_choice("discretize", discretize, tuple(DISCRETIZATIONS))
            other.discretize = discretize
        discretization = DISCRETIZATIONS[other.discretize]
        self._check_cut(n_clusters, has_tree=discretization.has_tree)
        other.n_clusters = int(n_clusters)
        state = self._fitted
        model = state.model
        assert isinstance(model, Model)
        tree = model.partition.tree if isinstance(model.partition, VotePartition) and discretization.has_tree else None
        edges = self._edges_of(X, model)
        rows = edges.rows if isinstance(edges, LazyEdges) else None
        reporter = self._console()
        with engine_for(rows, self.n_jobs, reporter) as engine, reporter.phase("labels"):
            if rows is not None and X is not None:
                edges = find_edges(rows, model.index, model.sigma, engine)
            sample = None if discretization.votes else self._sample(len(edges), state.labels_seed)
            graph_edges = edges if sample is None else edges[sample]
            kmeans = LabelOptions(int(self.n_init), int(self.max_iter), state.labels_seed)
            spectrum = model.partition.spectrum
            partition, n_iter = discretization.divide(spectrum, graph_edges, other.n_clusters, kmeans, engine, tree)
            partition, labels = label_rows(edges, partition, engine)
        other._set_fitted(replace(state, model=replace(model, partition=partition), n_iter=n_iter, edges=edges))
        if isinstance(rows, RowView) and rows.remote:
            labels = self._map_rows(rows.rows, other._fitted.model.label, np.int32)
        other.labels_ = labels
        return other

    def _check_parameters(self) -> None:
        self._check_graph_parameters()
        if self.n_clusters != "auto" and self.n_clusters > self.n_representatives:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than n_representatives={self.n_representatives}: clusters are "
                "groups of representatives. Ask for fewer clusters, or raise n_representatives if X has enough rows."
            )
        check_choice("discretize", self.discretize, tuple(DISCRETIZATIONS))
        check_checkpoint(self.checkpoint)
        if self.graph_rows is not None:
            check_integer("graph_rows", self.graph_rows, least=1, alternatives=(None,))
            if self.n_clusters != "auto" and self.graph_rows < self.n_clusters:
                raise ValueError(
                    f"graph_rows={self.graph_rows} rows cannot form n_clusters={self.n_clusters} clusters. Raise "
                    "graph_rows, or pass None to use all rows."
                )

    def _sample(self, n_rows: int, seed: np.random.SeedSequence) -> npt.NDArray[np.int64] | None:
        """Return the rows that the graph is built from, None for all."""
        if self.graph_rows is None or self.graph_rows >= n_rows:
            return None
        sample_seed = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
        return sample_indices(n_rows, int(self.graph_rows), np.random.default_rng(sample_seed))

    def _describe(self) -> dict[str, Any]:
        """Return the parameters that determine the labels, for a checkpoint."""
        parameters = {name: value for name, value in self.get_params().items() if name not in WITHOUT_EFFECT}
        return {"estimator": "USPEC", **{name: to_python(value) for name, value in parameters.items()}}

    def _set_fitted(self, state: Fitted) -> None:
        assert isinstance(state.model, Model)
        self._fitted = state
        self.n_clusters_ = state.partition.n_clusters
        self.n_iter_ = state.n_iter
        self.representatives_ = state.preprocessor.restore(state.model.index.representatives)
        self.sigma_ = state.model.sigma * state.preprocessor.scale
        self.eigenvalues_ = state.partition.spectrum.eigenvalues

    def _edges_of(self, X: Any, model: Model) -> Edges | LazyEdges:
        """Return the edges of the fitted rows, those of X if it is given."""
        if X is None:
            if self._fitted.edges is None:
                raise ValueError(
                    "This model does not hold its rows: it came from a file or is a copy. Call cut(n_clusters, X)."
                )
            return self._fitted.edges
        rows = self._unseen(self._open_fitted(X), self._fitted.preprocessor)
        return LazyEdges(rows, model.index, model.sigma)
