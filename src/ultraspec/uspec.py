"""U-SPEC, ultra-scalable spectral clustering: the estimator, which calls the phases of the paper in order."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ultraspec._checks import check_checkpoint, check_choice, check_integer, to_python
from ultraspec._estimator import Fitted, RowEstimator, all_or_nothing, row_confidence
from ultraspec._input import open_further, open_input, open_weighted
from ultraspec.engines.callbacks import with_callbacks
from ultraspec.engines.finite import counting_not_finite
from ultraspec.engines.threads import ThreadEngine, engine_for
from ultraspec.rows import Rows, RowView, missing_of, spread, stays_in_memory
from ultraspec.spectral.candidates import LABELINGS, build_hierarchy
from ultraspec.spectral.choice import (
    Choice,
    Chosen,
    Panel,
    Pilot,
    build_choice,
    n_vectors_for,
    run_pilot,
    sample_pool,
)
from ultraspec.spectral.discretize import DISCRETIZATIONS, cluster_rows
from ultraspec.spectral.edges import Edges, LazyEdges, connect, connect_exactly, exact_edges, find_edges
from ultraspec.spectral.embedding import stores_edges, weights_of_edges
from ultraspec.spectral.graph_rows import check_graph_rows, sample_graph_rows, survey
from ultraspec.spectral.layers import find_layers, warn_of_no_structure
from ultraspec.spectral.model import Model, score_stored_rows
from ultraspec.spectral.neighbors import ProbeIndex, build_index
from ultraspec.spectral.options import PAPER_GRAPH, GraphOptions, LabelOptions
from ultraspec.spectral.outliers import (
    distances_of_edges,
    join_quantiles,
    map_stored,
    score_quantiles,
    warn_of_distant_rows,
)
from ultraspec.spectral.partition import Partition, VotePartition, continued_numbers, label_edges, label_rows
from ultraspec.spectral.representatives import count_representatives, select_representatives
from ultraspec.spectral.sums import GraphSums, mass_of
from ultraspec.spectral.transfer_cut import (
    KEPT_VECTORS,
    Graph,
    Spectrum,
    attach_fragments,
    reduce_graph,
    transfer_cut,
    warn_of_components,
)
from ultraspec.storage.checkpoint import NoCheckpoint

WITHOUT_EFFECT = ("random_state", "n_jobs", "verbose", "checkpoint")  # on labels, or compared separately


class Division(NamedTuple):
    """Clusters, the iterations of k-means on rows, and the agreement of each candidate if there was a choice."""

    partition: Partition
    n_iter: int
    agreements: dict[str, float] | None = None


class Stale(NamedTuple):
    """Model to which rows were added, and which is to be cut again.

    Attributes
    ----------
    state : Fitted
        State with the sums of all rows, and the edges of those that were added last.
    distances : ndarray of float32, or None
        Mean distances of these to their representatives, if they are in memory.
    discretize : str
        How to find the clusters, as `discretize` was when the rows were added.
    n_clusters : int
        Number of clusters.
    """

    state: Fitted
    distances: npt.NDArray[np.float32] | None
    discretize: str
    n_clusters: int


def _can_add_rows(model: Any) -> bool:
    """Return whether rows can be added to the graph; raise AttributeError if not."""
    if model.discretize == "kmeans":
        raise AttributeError(
            "This USPEC has no partial_fit: with discretize='kmeans', clusters are those of k-means on all rows, which "
            "a model does not hold. Pass another discretize."
        )
    return True


class USPEC(RowEstimator):
    """Ultra-scalable spectral clustering (U-SPEC).

    Finds clusters of any shape in millions of rows. A small set of representatives is selected, and each row is
    connected to its nearest representatives. The bipartite graph of rows and representatives is cut by solving an
    eigenproblem whose size is the number of representatives. Time and memory grow linearly with the number of rows.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" takes the number, from 1 to some hundreds, at which graphs of disjoint halves of the
        rows agree most, see `layers_`. One cluster means that no structure was found.
    n_representatives : int or "auto", default="auto"
        Number of representatives, p. "auto" takes 1,000 for up to eight features. For more, up to 10,000 or half of the
        rows: graphs become finer while they stay well connected. Small data uses at most a third of its rows.
    n_neighbors : int, default=5
        Number of nearest representatives that each row is connected to, K.
    n_components : int, "auto" or None, default="auto"
        Number of principal components on which rows are projected before distances are computed. "auto" takes 50 if
        there are more features, and does not project otherwise. None never projects.
    selection : {"hybrid", "random", "kmeans"}, default="hybrid"
        How representatives are selected. "hybrid" takes the k-means centres of a random sample (in two levels beyond
        2,000 representatives), "random" takes random rows, "kmeans" takes the k-means centres of all rows (slow, rarely
        better, and for rows from files it holds 8 bytes per row in memory).
    candidate_factor : int, default=10
        Size of the random sample of the "hybrid" selection, as a multiple of `n_representatives`.
    neighbors : {"auto", "approx", "exact"}, default="auto"
        How nearest representatives are searched for. "approx" searches from coarse to fine, as the paper does; "exact"
        compares all representatives. "auto" is exact up to 4,000 representatives (2,000 for up to eight features).
        Beyond, it compares those of the twelve nearest groups; for up to eight features it is "approx", and for few or
        sparse rows, or if these groups hold most representatives, it is exact.
    neighborhood_factor : int, default=10
        Size of the neighbourhood that the approximate search examines, as a multiple of `n_neighbors`.
    metric : {"euclidean", "cosine", "haversine"}, default="euclidean"
        Distance between rows. "cosine" scales rows to unit length first; rows of zeros raise an error. "haversine" is
        the distance on the globe between places: X has two columns, latitude and longitude in degrees.
    missing : {"error", "drop"}, default="error"
        What to do with rows that have missing values (NaN). "error" raises one that counts them; "drop" leaves them
        out and labels them -1 (confidence and other numbers: NaN), in `fit` and for new rows.
    affinity : {"robust", "paper"}, default="robust"
        How edges and rows are weighted. "paper": the Gaussian affinity is as wide as the mean distance of rows to their
        representatives, and rows weigh as much as their degree. "robust": 0.7 times the median distance, which outliers
        do not change, and rows weigh as much as the square root of their degree.
    n_init : int, default=3
        Number of k-means runs on the embedding, for discretize="kmeans"; the best one gives the labels.
    max_iter : int, default=100
        Maximum number of k-means iterations, for discretize="kmeans".
    regularization : float, default=1e-3
        Weight of an edge that is added between all representatives, as a fraction of their mean degree. It connects the
        components of a disconnected graph, so that outliers do not become clusters of their own. 0 follows the paper
        exactly.
    discretize : {"auto", "kmeans", "agreement", "linked", "border"}, default="auto"
        How the graph is divided into clusters. "kmeans" clusters the embedded rows, as in the paper. The others divide
        the representatives, and each row takes the label with the largest weight among its representatives. "agreement"
        combines a hundred rough clusterings into a tree by average linkage: it follows elongated and uneven
        clusters that k-means cuts. "linked" and "border" build trees that also look at the edges between two clusters;
        "border" keeps a cluster together that holds most of the rows. "auto" computes the three trees and k-means of
        the representatives, and takes the clusters that agree most with those of `n_graphs` - 1 other graphs.
    n_graphs : int, default=3
        Number of independent graphs that discretize="auto" compares. The others are built from a sample of rows.
    graph_rows : int, "auto" or None, default="auto"
        Number of rows to sample for the graph; all rows are then labelled in one pass. "auto" takes two million rows,
        fewer of more than 33 features, or all if there are no more: more rows hardly change the graph. None always uses
        all rows.
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
        Cluster of each row; the largest cluster is 0.
    representatives_ : ndarray of shape (p, n_features), float64
        The representatives, in the coordinates of X; with metric="cosine", scaled to unit length. If rows were
        projected on principal components, points in their span.
    sigma_ : float
        Width of the Gaussian affinity.
    eigenvalues_ : ndarray, float64
        Largest eigenvalues of the normalised affinity of the representatives, in descending order from 1.
    n_iter_ : int
        Number of k-means iterations on the rows; 0 if representatives were divided.
    n_clusters_ : int
        Number of clusters. A warning says if it is smaller than `n_clusters`.
    discretize_ : str
        The way in which the clusters were found: that of `candidates_` which agrees most, or `discretize`.
    candidates_ : dict of str to float, or None
        With discretize="auto", the agreement of the clusters of each candidate with those of the other graphs (mean
        adjusted Rand index), the largest first: that one was taken. Else None.
    layers_ : list of Layer, or None
        With n_clusters="auto", the numbers of clusters that the data supports, each with its strength (0 is the most
        that data without structure reaches, 1 is perfect agreement), the best first: that one was taken. Else None.
    confidence_ : ndarray of shape (n_samples,), float32
        How far other graphs keep each row with its cluster, from 0 to 1. Not for discretize="kmeans".
    cluster_confidence_ : ndarray of shape (n_clusters,), float64
        Mean confidence in the rows of each cluster.
    probabilities_ : ndarray of shape (n_samples,), float32
        Membership of each row in its own cluster: the largest entry of `predict_proba`. Not for discretize="kmeans".
    outlier_scores_ : ndarray of shape (n_samples,), float32
        How far each row lies from its representatives, see `outlier_score`: from 0 to 1, outliers have large ones.
    fit_profile_ : dict
        For each phase of the fit, its duration in ``seconds`` and the peak of the resident memory in
        ``resident_bytes``, or None if the operating system does not report it.
    n_samples_seen_ : int
        Number of rows that were fitted, and added by `partial_fit`. Not for discretize="kmeans".
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

    Memory: in addition to X and the labels, a fit needs about 42 bytes per row of the graph for K = 5. A pickled model
    contains the labels and a few MB. If the graph is built from a sample, the model keeps a reference to X.

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

    _refreshed = (
        "_fitted",
        "labels_",
        "n_clusters_",
        "n_iter_",
        "candidates_",
        "layers_",
        "discretize_",
        "sigma_",
        "eigenvalues_",
    )

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = 8,
        *,
        n_representatives: int | Literal["auto"] = "auto",
        n_neighbors: int = 5,
        n_components: int | Literal["auto"] | None = "auto",
        selection: str = "hybrid",
        candidate_factor: int = 10,
        neighbors: str = "auto",
        neighborhood_factor: int = 10,
        metric: str = "euclidean",
        missing: str = "error",
        affinity: str = "robust",
        n_init: int = 3,
        max_iter: int = 100,
        regularization: float = 1e-3,
        discretize: str = "auto",
        n_graphs: int = 3,
        graph_rows: int | Literal["auto"] | None = "auto",
        checkpoint: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_representatives = n_representatives
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.selection = selection
        self.candidate_factor = candidate_factor
        self.neighbors = neighbors
        self.neighborhood_factor = neighborhood_factor
        self.metric = metric
        self.missing = missing
        self.affinity = affinity
        self.n_init = n_init
        self.max_iter = max_iter
        self.regularization = regularization
        self.discretize = discretize
        self.n_graphs = n_graphs
        self.graph_rows = graph_rows
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper(cls, n_clusters: int | Literal["auto"] = 8, **changes: Any) -> USPEC:
        """Return the estimator with the parameters of the paper.

        These are 1,000 representatives, the approximate search, an affinity as wide as the mean distance, no
        regularisation, a graph of all rows, and k-means of all embedded rows.

        Parameters
        ----------
        n_clusters : int or "auto", default=8
            Number of clusters.
        **changes : any
            Parameters that differ from the paper, as those of `USPEC`.

        Examples
        --------
        >>> from ultraspec import USPEC
        >>> USPEC.paper(3, n_neighbors=7).n_representatives
        1000
        """
        return cls(n_clusters, **{**PAPER_GRAPH, "discretize": "kmeans", **changes})

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> USPEC:  # noqa: ARG002
        """Cluster the rows of X.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows of any numeric type and memory order; read-only and memory-mapped arrays are not copied.
        y : Ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_samples,), row source of one column, or str, default=None
            Weight of each row: one of weight 2 counts as two equal rows, one of weight 0 is labelled but does not
            count. A name is that of a column of X, which is then no feature. None counts all rows alike.

        Returns
        -------
        USPEC
            The fitted estimator itself.
        """
        self._check_parameters()
        rows, weight_scale = open_weighted(self, X, sample_weight)
        n_clusters = self._least_clusters(rows)
        options = GraphOptions.of(self)
        names = getattr(self, "feature_names_in_", None)
        opened = self._open_run(rows, self._describe())
        with counting_not_finite(rows, self.n_jobs, names), opened as (engine, checkpoint, seed):
            phase = engine.reporter.phase
            seeds = seed.spawn(6)
            rngs = [np.random.default_rng(each) for each in seeds]

            with phase("survey"):  # check the rows, choose the scale of float32 and principal components
                sample = sample_graph_rows(rows.n_rows, rows.n_features, rows.weights, self.graph_rows, seeds[3])
                preprocessor, prepared = survey(
                    rows, sample, self.metric, self.n_components, rngs[0], names, checkpoint, engine
                )

            layers, panel = None, None
            if self.n_clusters == "auto":
                with phase("layers"):  # how many clusters: graphs of disjoint halves of sampled rows
                    layers, panel = engine.apply(find_layers, sample_pool(prepared, seeds[4]), options, seeds[5])
                    n_clusters = layers[0].n_clusters
                    warn_of_no_structure(layers)

            with phase("pilot"):  # other graphs, of sampled rows: how fine should the graph be, and who judges it
                pilot = self._run_pilot(prepared, n_clusters, options, seeds[4], panel, engine)
                on_rows = self.discretize == "kmeans"
                n_vectors = max(KEPT_VECTORS, n_clusters + 1) if on_rows else n_vectors_for(n_clusters)

            with phase("representatives"):  # section 3.1.1
                representatives = checkpoint.run(
                    "representatives",
                    select_representatives,
                    prepared,
                    pilot.n_representatives,
                    options.selection,
                    options.candidate_factor,
                    options.metric,
                    rngs[1],
                    engine,
                )

            with phase("neighbors"):  # section 3.1.2
                index = engine.apply(
                    build_index,
                    representatives,
                    options.n_neighbors,
                    options.neighborhood_factor,
                    options.neighbors,
                    prepared.n_rows,
                    prepared.sparse,
                    rngs[2],
                )
                searched_later = sample is not None and isinstance(index, ProbeIndex)  # nothing else needs its edges
                stored = not searched_later and stores_edges(prepared, index.n_neighbors, n_vectors)
                if stored:
                    checkpoint = NoCheckpoint()  # computing stored edges again is faster than reading them
                edges = checkpoint.run(
                    "sigma",
                    connect,
                    prepared,
                    index,
                    engine,
                    stored,
                    None,
                    options.affinity,
                    restore=partial(LazyEdges.from_arrays, prepared, index),
                )

            with phase("graph"):  # section 3.1.3, the graph of the representatives
                p = len(index.representatives)
                distances = None
                if isinstance(edges, Edges) and sample is None:  # while their weights are squared distances
                    distances = map_stored(edges, lambda part, _: distances_of_edges(part), engine)
                graph = checkpoint.run(
                    "graph",
                    reduce_graph,
                    *exact_edges(edges, prepared, index, engine),
                    p,
                    engine,
                    options.row_power,
                    restore=Graph.from_arrays,
                )

                sums = None if on_rows else GraphSums.of(graph, rows, weight_scale)

            with phase("eigenvectors"):  # section 3.1.3, the transfer cut
                graph = attach_fragments(graph, index.representatives, options)
                spectrum = engine.apply(transfer_cut, graph, n_vectors, options.regularization, index.representatives)

            with phase("labels"):  # section 3.1.3, discretisation
                choice = None
                if not on_rows:
                    number = int(seeds[3].generate_state(1)[0])
                    choice = engine.apply(build_choice, pilot, graph, spectrum, index, edges.sigma, n_clusters, number)
                division = self._divide(self.discretize, n_clusters, spectrum, choice, edges, seeds[3], engine)
                if sample is not None:
                    edges = LazyEdges(self._unseen(rows, preprocessor), index, edges.sigma)
                partition, labels = label_rows(edges, division.partition, engine)
        warn_of_components(graph.component_sizes(), n_clusters, options, p)
        model = Model(index, edges.sigma, partition, choice)
        with ThreadEngine(self.n_jobs) as threads:
            scores = score_stored_rows(model, edges, distances, threads)
            quantiles = score_quantiles(prepared, model.outlier_scores, scores, threads)
        if isinstance(edges, LazyEdges):
            edges = edges.without_ids()
        state = Fitted(
            model,
            preprocessor,
            rows.n_rows,
            division.n_iter,
            seeds[3],
            edges=edges,
            agreements=division.agreements,
            layers=layers,
            outlier_quantiles=quantiles,
            outlier_scores=scores,
            sums=sums,
        )
        self.__dict__.pop("_stale", None)
        self._finish_fit(state, rows, engine.reporter)
        self.labels_ = self._map_rows(rows, model.label, np.int32) if rows.remote else spread(labels, missing_of(rows))
        return self

    @available_if(_can_add_rows)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> USPEC:
        """Add the rows of X to the graph of a fitted model, without those that were fitted before.

        The graph is then that of all rows so far, with the representatives and the width of the affinity of the first
        fit. It is cut again when that is needed: by `predict`, `cut`, or an attribute. Clusters keep their numbers
        where they continue. The graphs that judge the clusters are those of the first fit. If the estimator is not
        fitted, this is `fit`.

        Attributes with a value per row, such as `labels_`, are then those of these rows. `n_samples_seen_` counts all.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Further rows.
        y : Ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n_samples,), row source of one column, or str, default=None
            Weights of these rows, as in `fit`, and relative to the weights there.

        Returns
        -------
        USPEC
            The estimator itself.

        Warns
        -----
        DistantRows
            If many of the rows lie farther from all representatives than those before: the graph cannot represent them.

        Notes
        -----
        The affinity of the representatives equals that of one pass over all rows: bit for bit if that sum runs in one
        piece (up to 80,000 rows with 1,000 representatives), otherwise up to the rounding of sums. If the graph is one
        of sampled rows (`graph_rows`, or more than 4,000 representatives), the same share of these rows is sampled.

        Examples
        --------
        >>> from ultraspec import USPEC, datasets
        >>> X, _ = datasets.generate("cc", 9_000, random_state=0)
        >>> model = USPEC(3, random_state=0).fit(X[::3])
        >>> model.partial_fit(X[1::3]).partial_fit(X[2::3]).n_samples_seen_
        9000
        >>> len(model.labels_), len(set(model.predict(X)))
        (3000, 3)
        """
        if not self._is_fitted():
            return self.fit(X, y, sample_weight)
        self._check_parameters()
        state = vars(self)["_stale"].state if "_stale" in vars(self) else self._fitted
        model = state.model
        assert isinstance(model, Model)
        if state.sums is None or model.choice is None:
            raise ValueError(
                "This model has no sums of its graph, to which rows could be added: it comes from a file of an older "
                "release. Fit again."
            )
        rows = open_further(self, X, sample_weight, state.sums.weight_scale)
        unseen = self._unseen(rows, state.preprocessor)
        with engine_for(rows, self.n_jobs, self._console()) as engine:
            quantiles = score_quantiles(unseen, model.outlier_scores, None, engine)
            edges: Edges | LazyEdges = LazyEdges(unseen, model.index, model.sigma)
            distances = None
            if stays_in_memory(rows, 6 * rows.n_rows * model.index.n_neighbors):
                edges = connect_exactly(unseen, model.index, model.sigma, engine)
                distances = map_stored(edges, lambda part, _: distances_of_edges(part), engine)
            sums = state.sums.add(edges, unseen, model.index, GraphOptions.of(self).row_power, engine)
        if state.outlier_quantiles is not None:
            warn_of_distant_rows(quantiles, state.outlier_quantiles, rows.n_counted)
            quantiles = join_quantiles([state.outlier_quantiles, quantiles], [state.sums.mass, mass_of(rows)])
        state = replace(
            state,
            n_rows=rows.n_rows,
            edges=edges,
            outlier_quantiles=quantiles,
            outlier_scores=None,
            missing=missing_of(rows),
            weights=rows.weights,
            sums=sums,
        )
        state = replace(state, fingerprint=self._fingerprint(rows, state))
        for name in self._refreshed:
            self.__dict__.pop(name, None)
        n_clusters = state.partition.n_clusters if self.n_clusters == "auto" else int(self.n_clusters)
        self._stale = Stale(state, distances, self.discretize, n_clusters)
        self.n_samples_seen_ = sums.n_rows
        return self

    def _refresh(self) -> None:
        """Cut the graph of all rows so far, and label the rows that were added last."""
        state, distances, discretize, n_clusters = self._stale
        model, sums, edges = state.model, state.sums, state.edges
        assert isinstance(model, Model)
        assert model.choice is not None
        assert sums is not None
        assert edges is not None
        before = model.partition
        assert isinstance(before, VotePartition)
        options = GraphOptions.of(self)
        rows = edges.rows if isinstance(edges, LazyEdges) else None
        with engine_for(rows, self.n_jobs, self._console()) as engine:
            R = model.index.representatives
            graph = attach_fragments(sums.graph(), R, options)
            n_vectors = before.spectrum.vectors.shape[1]
            spectrum = engine.apply(transfer_cut, graph, n_vectors, options.regularization, R)
            seed = model.choice.own.hierarchy.seed
            own = engine.apply(build_hierarchy, graph, spectrum, n_clusters, LABELINGS, seed)
            choice = replace(model.choice, own=replace(model.choice.own, hierarchy=own))
            division = self._divide(discretize, n_clusters, spectrum, choice, edges, state.labels_seed, engine)
            assert isinstance(division.partition, VotePartition)
            partition = division.partition.renumber(
                continued_numbers(before.groups, division.partition.groups, spectrum.degrees)
            )
            model = replace(model, partition=partition, choice=choice)
            labels = label_edges(edges, partition, engine)
        with ThreadEngine(self.n_jobs) as threads:
            scores = score_stored_rows(model, edges, distances, threads)
        del self._stale
        self._set_fitted(replace(state, model=model, agreements=division.agreements, outlier_scores=scores))
        if isinstance(rows, RowView) and rows.remote:
            self.labels_ = self._map_rows(rows.rows, model.label, np.int32)
        else:
            self.labels_ = spread(labels, state.missing)

    def _run_pilot(
        self,
        prepared: Rows,
        n_clusters: int,
        options: GraphOptions,
        seed: np.random.SeedSequence,
        panel: Panel | None,
        engine: ThreadEngine,
    ) -> Pilot:
        """Build the graphs of sampled rows that are needed, and return the number of representatives with them."""
        if self.discretize != "auto" and options.n_representatives != "auto":
            return Pilot(
                count_representatives(prepared.n_counted, options.n_representatives, n_clusters, options.n_neighbors)
            )
        n_judges = self.n_graphs - 1
        pool = sample_pool(prepared, seed)
        return engine.apply(run_pilot, pool, prepared.n_counted, n_clusters, n_judges, options, seed, panel)

    def _divide(
        self,
        discretize: str,
        n_clusters: int,
        spectrum: Spectrum,
        choice: Choice | None,
        edges: Edges | LazyEdges,
        seed: np.random.SeedSequence,
        engine: ThreadEngine,
    ) -> Division:
        """Divide the graph into clusters, as `discretize` says."""
        if discretize == "kmeans":
            kmeans = LabelOptions(int(self.n_init), int(self.max_iter), seed)
            return Division(*cluster_rows(spectrum, edges, n_clusters, kmeans, engine))
        assert choice is not None
        if discretize == "auto":
            chosen = engine.apply(choice.choose, n_clusters)
        else:
            groups = engine.apply(choice.own.hierarchy.cut, discretize, n_clusters)
            chosen = Chosen(groups, None, engine.apply(choice.trust, groups))
        partition = VotePartition(spectrum, chosen.groups, int(chosen.groups.max()) + 1, trust=chosen.trust)
        return Division(partition, 0, chosen.agreements)

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

    def cut(
        self,
        n_clusters: int | None = None,
        X: Any = None,
        *,
        nodes: Sequence[int] | None = None,
        discretize: str | None = None,
        sample_weight: Any = None,
    ) -> USPEC:
        """Cut the same graph into other clusters, without fitting again: into a number of them, or at nodes of a tree.

        Parameters
        ----------
        n_clusters : int, optional
            Number of clusters, up to the number of leaves of the trees; with discretize="kmeans", up to 60, or what was
            fitted, if more. If a tree is chosen for both k and k + 1 clusters, the latter split one of the former.
        X : array-like, optional
            The rows that were fitted. Needed only if the model was unpickled or loaded, because files do not store the
            edges of the rows (30 bytes per row).
        nodes : sequence of int, optional
            Nodes of one of the trees that become the clusters, instead of `n_clusters`: some branches may be cut higher
            than others. Leaves are 0 .. m - 1, and the t-th merge makes node m + t. Every leaf must be below exactly
            one of the nodes. `discretize` names the tree. The report finds such cuts by hand and writes this call.
        discretize : {"auto", "kmeans", "agreement", "linked", "border"}, optional
            Another way to find the clusters. By default that of this model; "auto" chooses again for this number of
            clusters. With `nodes`, the tree that has them: "agreement", "linked" or "border".
        sample_weight : array-like of shape (n_samples,) or row source of one column, optional
            Weights of the rows, if X is given and `fit` had some: clusters are numbered by weight.

        Returns
        -------
        USPEC
            A new fitted estimator with these clusters; this one does not change.

        Examples
        --------
        >>> from ultraspec import USPEC, datasets
        >>> from ultraspec._estimator import fitted
        >>> X, _ = datasets.generate("sf", 5_000, random_state=0)
        >>> model = USPEC(2, random_state=0).fit(X)
        >>> [len(set(model.cut(k).labels_)) for k in (2, 3, 4)]
        [2, 3, 4]
        >>> model.cut(4, discretize="kmeans")
        USPEC(discretize='kmeans', n_clusters=4, random_state=0)
        >>> tree = fitted(model).model.choice.own.hierarchy.trees["border"]
        >>> a, b = tree.merges[-1]  # the two branches below the root
        >>> model.cut(nodes=[a, b], discretize="border").n_clusters_
        2
        """
        check_is_fitted(self)
        if (n_clusters is None) == (nodes is None):
            raise ValueError("Pass either n_clusters or nodes.")
        other = copy.copy(self)
        if discretize is not None:
            check_choice("discretize", discretize, DISCRETIZATIONS)
            other.discretize = discretize
        state = self._fitted
        model = state.model
        assert isinstance(model, Model)
        other._check_discretize(model)
        node_groups = None
        if nodes is not None:
            node_groups = other._node_groups(model, nodes)
            n_clusters = int(node_groups.max()) + 1
        leaves = None if other.discretize == "kmeans" or model.choice is None else model.choice.own.hierarchy.n_nodes
        assert n_clusters is not None
        self._check_cut(n_clusters, leaves=leaves)
        other.n_clusters = int(n_clusters)
        edges = self._edges_of(X, sample_weight, model)
        rows = edges.rows if isinstance(edges, LazyEdges) else None
        reporter = self._console()
        with engine_for(rows, self.n_jobs, reporter) as engine, reporter.phase("labels"):
            if rows is not None and X is not None:
                edges = find_edges(rows, model.index, model.sigma, engine)
            sample = None
            if other.discretize == "kmeans":
                size = len(edges), self.n_features_in_
                sample = sample_graph_rows(*size, weights_of_edges(edges), self.graph_rows, state.labels_seed)
            if node_groups is not None:
                assert model.choice is not None
                trust = engine.apply(model.choice.trust, node_groups)
                spectrum = model.partition.spectrum
                division = Division(VotePartition(spectrum, node_groups, other.n_clusters, trust=trust), 0)
            else:
                division = self._divide(
                    other.discretize,
                    other.n_clusters,
                    model.partition.spectrum,
                    model.choice,
                    edges if sample is None else replace(edges[sample.indices], masses=sample.weights),
                    state.labels_seed,
                    engine,
                )
            partition, labels = label_rows(edges, division.partition, engine)
        model = replace(model, partition=partition)
        missing = state.missing if X is None else missing_of(rows)
        other._set_fitted(
            replace(
                state,
                model=model,
                n_iter=division.n_iter,
                edges=edges,
                agreements=division.agreements,
                missing=missing,
            )
        )
        if isinstance(rows, RowView) and rows.remote:
            labels = self._map_rows(rows.rows, other._fitted.model.label, np.int32)
        other.labels_ = labels if rows is not None and rows.remote else spread(labels, missing)
        return other

    def _node_groups(self, model: Model, nodes: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the cluster (p,) of each representative if nodes of the tree that `discretize` names are clusters."""
        assert model.choice is not None
        return model.choice.own.hierarchy.cut_at(self.discretize, nodes)

    def _check_discretize(self, model: Model) -> None:
        """Raise ValueError if a fitted model lacks what `discretize` needs."""
        missing = None
        if self.discretize != "kmeans" and model.choice is None:
            missing = "trees of its representatives"
        elif self.discretize == "auto" and model.choice is not None and not model.choice.judges:
            missing = "other graphs that judge its clusters"
        if missing:
            raise ValueError(f"This model has no {missing}. Fit again with discretize={self.discretize!r}.")

    def _check_parameters(self) -> None:
        self._check_graph_parameters()
        numbers = [each for each in (self.n_representatives, self.n_clusters) if each != "auto"]
        if len(numbers) == 2 and numbers[1] > numbers[0]:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than n_representatives={self.n_representatives}: clusters are "
                "groups of representatives. Ask for fewer clusters, or raise n_representatives if X has enough rows."
            )
        check_choice("discretize", self.discretize, DISCRETIZATIONS)
        check_integer("n_graphs", self.n_graphs, least=2)
        check_checkpoint(self.checkpoint)
        check_graph_rows(self.graph_rows, self.n_clusters)

    def _describe(self) -> dict[str, Any]:
        """Return the parameters that determine the labels, for a checkpoint."""
        parameters = {name: value for name, value in self.get_params().items() if name not in WITHOUT_EFFECT}
        return {"estimator": "USPEC", **{name: to_python(value) for name, value in parameters.items()}}

    def _set_fitted(self, state: Fitted) -> None:
        assert isinstance(state.model, Model)
        self._fitted = state
        self.n_clusters_ = state.partition.n_clusters
        self.n_iter_ = state.n_iter
        self.candidates_ = state.agreements
        self.layers_ = state.layers
        self.discretize_ = self.discretize if state.agreements is None else next(iter(state.agreements))
        if state.sums is not None:
            self.n_samples_seen_ = state.sums.n_rows
        self.sigma_ = state.model.sigma * state.preprocessor.scale
        self.eigenvalues_ = state.partition.spectrum.eigenvalues

    @property
    def confidence_(self) -> npt.NDArray[np.float32]:
        """How far other graphs keep each fitted row with its cluster, from 0 to 1."""
        self._check_has("confidence_")
        partition = self._judged_partition("confidence_")
        return self._of_edges("confidence_", "predict(X, return_confidence=True)", partition.confidence, row_confidence)

    @property
    def representatives_(self) -> npt.NDArray[np.float64]:
        """The representatives, in the coordinates of X."""
        self._check_has("representatives_")
        model = self._fitted.model
        assert isinstance(model, Model)
        return self._fitted.preprocessor.restore(model.index.representatives)

    def _edges_of(self, X: Any, sample_weight: Any, model: Model) -> Edges | LazyEdges:
        """Return the edges of the fitted rows, those of X if it is given."""
        if X is None:
            if self._fitted.edges is None:
                raise ValueError(
                    "This model does not hold its rows: it came from a file or is a copy. Call cut(n_clusters, X)."
                )
            return self._fitted.edges
        rows = self._unseen(self._open_fitted(X, sample_weight), self._fitted.preprocessor)
        return LazyEdges(rows, model.index, model.sigma)
