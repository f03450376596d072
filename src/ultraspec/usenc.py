"""U-SENC, ultra-scalable ensemble clustering: the estimator, which calls the phases of the paper in order."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ultraspec._checks import check_checkpoint, check_choice, check_integer, check_range, to_python
from ultraspec._estimator import Fitted, RowEstimator, all_or_nothing
from ultraspec._input import open_input, open_weighted
from ultraspec.engines.callbacks import with_callbacks
from ultraspec.engines.finite import counting_not_finite
from ultraspec.engines.threads import ThreadEngine, engine_for
from ultraspec.ensemble.consensus import Consensus, ConsensusMethod, Ensemble, warn_if_single
from ultraspec.ensemble.members import BASE_CLUSTERS, MemberOptions, base_labels, label_members
from ultraspec.ensemble.methods import CONSENSUS_METHODS
from ultraspec.ensemble.predict import EnsembleModel
from ultraspec.rows import Rows, is_lazy, missing_of, spread
from ultraspec.spectral.choice import COARSE, sample_pool
from ultraspec.spectral.graph_rows import check_graph_rows, sample_graph_rows, survey
from ultraspec.spectral.layers import find_layers, warn_of_no_structure
from ultraspec.spectral.options import PAPER_GRAPH, LabelOptions
from ultraspec.spectral.outliers import score_quantiles
from ultraspec.storage.cached import cached_attribute
from ultraspec.storage.checkpoint import NoCheckpoint
from ultraspec.storage.spool import as_array


class USENC(RowEstimator):
    """Ultra-scalable ensemble clustering (U-SENC).

    Builds several graphs with different representatives, the members. The first one is the finest; of the
    clusterings of it, the one is taken that the other members agree with most. Each member also has a rough clustering
    of its own: for each row, the share of the members that support its label is known.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" takes the number, from 1 to some hundreds, at which graphs of disjoint halves of the
        rows agree most, see `layers_`. One cluster means that no structure was found.
    n_estimators : int, default=20
        Number of members of the ensemble, m.
    base_clusters : tuple of two int, default=(20, 60)
        Range from which the number of clusters of each member is drawn, both ends included. If there are fewer than 180
        rows per cluster (10,800 rows for 60 clusters), the range is reduced in proportion, to no less than twice
        `n_clusters`: with few rows, finer members would differ by chance, and so would their consensus.
    n_representatives : int or "auto", default="auto"
        Number of representatives of the first member, p. "auto" chooses it as `USPEC` does. The other members have at
        most 1,000, unless there are very many clusters. With consensus="transfer_cut", of each member, and "auto" is
        1,000. Small data uses at most a third of its rows.
    n_neighbors : int, default=5
        Number of nearest representatives that each row is connected to, K.
    n_components : int, "auto" or None, default="auto"
        Number of principal components on which rows are projected before distances are computed. "auto" takes 50 if
        there are more features, and does not project otherwise. None never projects.
    selection : {"hybrid", "random", "kmeans"}, default="hybrid"
        How representatives are selected. "hybrid" takes the k-means centres of a random sample, "random" takes random
        rows, "kmeans" takes the k-means centres of all rows.
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
    base_max_iter : int, default=5
        Maximum number of k-means iterations of each member. Few are enough, because rough and diverse members make a
        good ensemble.
    n_init : int, default=3
        Number of k-means runs on the consensus embedding, for consensus="transfer_cut"; the best one gives the labels.
    max_iter : int, default=100
        Maximum number of k-means iterations, for consensus="transfer_cut".
    regularization : float, default=1e-3
        Weight of an edge that is added between all representatives, and between all base clusters, as a fraction of
        their mean degree. 0 follows the paper exactly.
    consensus : {"auto", "transfer_cut"}, default="auto"
        How the members are combined. "auto" divides the first member into clusters in four ways, as `USPEC` does, and
        takes the clusters that agree most with those of the other members, which are coarse graphs of sampled rows.
        "transfer_cut", as in the paper, cuts the graph of rows and base clusters; its members are graphs of all rows.
    graph_rows : int, "auto" or None, default="auto"
        Number of rows to sample for the graph of the first member; all rows are then labelled in one pass. "auto" takes
        two million rows, fewer of more than 33 features, or all if there are no more: more rows hardly change the
        graph. None always uses all rows, and so does consensus="transfer_cut".
    checkpoint : str or path, default=None
        Folder for intermediate results, from which an interrupted fit is resumed. It is new, or belongs to an
        unfinished fit of the same data with the same parameters; URLs of fsspec are accepted. Finished members are
        stored there (their model, and with consensus="transfer_cut" a byte per row): a fit that was killed continues
        with them and gives the same labels. `n_estimators`, `n_init`, `max_iter`, `n_jobs` and `verbose` may differ:
        members can be added. With consensus="transfer_cut", `n_clusters` may differ, too, if `base_clusters` is not
        reduced. With random_state=None the seed of the folder is used. The folder is not deleted.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random numbers. The same integer gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Number of threads. None and -1 use every core that is available to the process.
    verbose : int, default=0
        1 shows phases, members done and the time left on standard error.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of each row; the largest cluster is 0.
    base_labels_ : ndarray of shape (n_samples, n_estimators), uint8 (uint16 above 256 base clusters)
        Base labels: the label of each row by each member. With consensus="auto", they are computed when they are first
        used.
    confidence_ : ndarray of shape (n_samples,), float32, or None
        How far the clusterings of other members keep each row with its cluster: 1 deep inside of a cluster that all of
        them find, lower near its border, and low for a cluster that others divide in another way. None for a single
        member. With consensus="transfer_cut", the share of the members that support the label.
    layers_ : list of Layer, or None
        With n_clusters="auto", the numbers of clusters that the data supports, each with its ``n_clusters`` and
        ``strength`` (0: no more than data without structure; 1: perfect agreement), the best first. Else None.
    cluster_confidence_ : ndarray of shape (n_clusters,), float64
        Mean confidence of each cluster.
    probabilities_ : ndarray of shape (n_samples,), float32
        Membership of each row in its cluster, see `predict_proba`.
    outlier_scores_ : ndarray of shape (n_samples,), float32
        Outlier score of each row, see `outlier_score`.
    eigenvalues_ : ndarray, float64
        Largest eigenvalues of the normalised affinity of the first member's representatives, in descending order from
        1; with consensus="transfer_cut", those of the base clusters.
    candidates_ : dict of str to float, or None
        With consensus="auto", the agreement of the clusters of each candidate with those of the other members (mean
        adjusted Rand index), the largest first: that one was taken. Else None.
    n_iter_ : int
        With consensus="transfer_cut", number of k-means iterations over all microclusters (groups of rows with equal
        base labels); else 0.
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
    USPEC : A single spectral clustering.
    consensus : Consensus of base clusterings from any clusterers.

    Notes
    -----
    For the rows that were fitted, ``predict(X)`` returns exactly `labels_`.

    Memory: in addition to X and the labels, a fit needs about 42 bytes per row of the first graph for K = 5. The fitted
    model keeps a reference to X, and `base_labels_` if they were used, one byte per row and member.

    References
    ----------
    D. Huang, C.-D. Wang, J.-S. Wu, J.-H. Lai, C.-K. Kwoh. "Ultra-Scalable Spectral Clustering and Ensemble
    Clustering". IEEE Transactions on Knowledge and Data Engineering 32 (6), 2020.

    Examples
    --------
    >>> from ultraspec import USENC, datasets, metrics
    >>> X, y = datasets.generate("tb", 5_000, random_state=0)  # two bananas
    >>> model = USENC(n_clusters=2, random_state=0).fit(X)
    >>> metrics.nmi(y, model.labels_) > 0.9
    True
    >>> model.base_labels_.shape
    (5000, 20)
    >>> model.confidence_.mean() > 0.9
    np.True_
    """

    _per_row = ("labels_", "base_labels_", "confidence_")

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = 8,
        *,
        n_estimators: int = 20,
        base_clusters: tuple[int, int] = BASE_CLUSTERS,
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
        base_max_iter: int = 5,
        n_init: int = 3,
        max_iter: int = 100,
        regularization: float = 1e-3,
        consensus: str = "auto",
        graph_rows: int | Literal["auto"] | None = "auto",
        checkpoint: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_estimators = n_estimators
        self.base_clusters = base_clusters
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
        self.base_max_iter = base_max_iter
        self.n_init = n_init
        self.max_iter = max_iter
        self.regularization = regularization
        self.consensus = consensus
        self.graph_rows = graph_rows
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper(cls, n_clusters: int | Literal["auto"] = 8, **changes: Any) -> USENC:
        """Return the estimator with the parameters of the paper.

        These are 20 members with 20 to 60 clusters, each a U-SPEC model of the paper, and the transfer cut of their
        base clusters.

        Parameters
        ----------
        n_clusters : int or "auto", default=8
            Number of clusters.
        **changes : any
            Parameters that differ from the paper, as those of `USENC`.

        Examples
        --------
        >>> from ultraspec import USENC
        >>> USENC.paper(3).consensus
        'transfer_cut'
        """
        return cls(n_clusters, **{**PAPER_GRAPH, "consensus": "transfer_cut", **changes})

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> USENC:  # noqa: ARG002
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
        USENC
            The fitted estimator itself.
        """
        self._check_parameters()
        rows, _ = open_weighted(self, X, sample_weight)
        n_clusters = self._least_clusters(rows)
        method = CONSENSUS_METHODS[self.consensus]
        options = MemberOptions.of(self, rows.n_counted, n_clusters, depend_on_it=method.needs_n_clusters)
        parameters = options.describe() | ({"n_clusters": "auto"} if self.n_clusters == "auto" else {})
        if method.samples:
            parameters |= {"graph_rows": to_python(self.graph_rows)}
        names = getattr(self, "feature_names_in_", None)
        opened = self._open_run(rows, parameters)
        with counting_not_finite(rows, self.n_jobs, names), opened as (engine, checkpoint, seed):
            phase = engine.reporter.phase
            seeds = seed.spawn(4)

            with phase("survey"):  # check the rows and choose the scale of float32
                sample = None
                if method.samples:
                    sample = sample_graph_rows(rows.n_rows, rows.n_features, rows.weights, self.graph_rows, seeds[0])
                rng = np.random.default_rng(seeds[0])
                args = self.metric, self.n_components, rng, names, NoCheckpoint(), engine
                preprocessor, graph_rows = survey(rows, sample, *args, prepare=True)
                prepared = graph_rows if sample is None else self._unseen(rows, preprocessor)

            layers = None
            if self.n_clusters == "auto":
                with phase("layers"):  # how many clusters: graphs of disjoint halves of sampled rows
                    pool_seed, layers_seed = seeds[3].spawn(2)
                    pool = sample_pool(graph_rows, pool_seed)
                    layers, _ = engine.apply(find_layers, pool, options.graph, layers_seed)
                    n_clusters = layers[0].n_clusters
                    warn_of_no_structure(layers)
                    options = MemberOptions.of(self, rows.n_counted, n_clusters, depend_on_it=method.needs_n_clusters)

            with phase("members"):  # section 3.2.1, ensemble generation
                members = method.generate(
                    prepared, graph_rows, options, self.n_estimators, seeds[1], checkpoint, engine
                )

            with phase("consensus"):  # section 3.2.2, consensus function
                warn_if_single(members.sizes, n_clusters)
                consensus = method.build(members, n_clusters, self.regularization, engine)
                result = consensus.cut(n_clusters, LabelOptions(self.n_init, self.max_iter, seeds[2]), engine)
                model = EnsembleModel(members.models, result.partition, result.majority, options.label_type)
                quantiles = score_quantiles(graph_rows, model.outlier_scores, None, engine)
        state = Fitted(
            model,
            preprocessor,
            rows.n_rows,
            result.n_iter,
            seeds[2],
            consensus=consensus,
            source=rows,
            agreements=result.agreements,
            layers=layers,
            outlier_quantiles=quantiles,
        )
        self._finish_fit(state, rows, engine.reporter)
        self.__dict__.pop("base_labels_", None)  # of a fit before
        if members.base_labels is not None:
            self.base_labels_ = as_array(members.base_labels)
        self._set_labels(result, rows)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Compute the embedding of X by the consensus: rows of unit length, in which the clusters are compact.

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
        return self._map_rows(open_input(self, X, reset=False), self._model.embed, np.float32, self._n_features_out)

    def cut(
        self,
        n_clusters: int | None = None,
        X: Any = None,
        *,
        nodes: Sequence[int] | None = None,
        discretize: str | None = None,
        consensus: str | None = None,
        sample_weight: Any = None,
    ) -> USENC:
        """Combine the same members into other clusters, without fitting again: a number of them, or nodes of the tree.

        Parameters
        ----------
        n_clusters : int, optional
            Number of clusters, up to the number of leaves of the trees; with consensus="transfer_cut", up to 60, or
            what was fitted, if more. "auto" chooses again for each number.
        X : array-like, optional
            The rows that were fitted. Needed only if the model was unpickled or loaded: files do not store the edges of
            the rows, nor base labels that were not used before.
        nodes : sequence of int, optional
            Nodes of a tree of the first member that become the clusters, instead of `n_clusters`, see `USPEC.cut`.
        discretize : {"agreement", "linked", "border"}, optional
            The tree that has the nodes.
        consensus : {"auto", "transfer_cut"}, optional
            Another way to combine the members. By default that of this model. Members of "transfer_cut" cannot be
            combined by "auto", because they have no trees.
        sample_weight : array-like of shape (n_samples,) or row source of one column, optional
            Weights of the rows, if X is given and `fit` had some: clusters are numbered by weight.

        Returns
        -------
        USENC
            A new fitted estimator with these clusters; this one does not change.

        Examples
        --------
        >>> from ultraspec import USENC, datasets
        >>> X, _ = datasets.generate("sf", 3_000, random_state=0)
        >>> model = USENC(4, n_estimators=5, random_state=0).fit(X)
        >>> [len(set(model.cut(k).labels_)) for k in (2, 3, 4)]
        [2, 3, 4]
        >>> model.cut(4, X, consensus="transfer_cut")
        USENC(consensus='transfer_cut', n_clusters=4, n_estimators=5, random_state=0)
        """
        check_is_fitted(self)
        if (n_clusters is None) == (nodes is None):
            raise ValueError("Pass either n_clusters or nodes.")
        other = copy.copy(self)
        if nodes is not None:
            n_clusters = len(nodes)
        assert n_clusters is not None
        if consensus is not None:
            check_choice("consensus", consensus, tuple(CONSENSUS_METHODS))
            other.consensus = consensus
        same_method = other.consensus == self.consensus
        check_integer("n_clusters", n_clusters, least=1)
        if same_method:
            self._check_cut(n_clusters, leaves=self._n_leaves)
        state = self._fitted
        source = state.source if X is None else self._open_fitted(X, sample_weight)
        reporter = self._console()
        with engine_for(source, self.n_jobs, reporter) as engine, reporter.phase("consensus"):
            rows = None if source is None else self._unseen(source, state.preprocessor)
            if same_method and X is None:
                method = state.consensus or self._combine(source, rows, None, engine)
                self._fitted = replace(state, consensus=method)
            else:
                method = other._combine(source, rows, None if same_method else int(n_clusters), engine)
            options = LabelOptions(self.n_init, self.max_iter, state.labels_seed)
            if nodes is None:
                result = method.cut(int(n_clusters), options, engine)
            else:
                result = method.cut_at(nodes, str(discretize), engine)
        other.n_clusters = int(n_clusters)
        model = replace(self._model, partition=result.partition, majority=result.majority)
        missing = state.missing if X is None else missing_of(source)
        other._set_fitted(
            replace(
                state,
                model=model,
                n_iter=result.n_iter,
                consensus=method,
                source=source,
                agreements=result.agreements,
                missing=missing,
            )
        )
        other._set_labels(result, source)
        return other

    def _combine(
        self, source: Rows | None, rows: Rows | None, n_clusters: int | None, engine: ThreadEngine
    ) -> ConsensusMethod:
        """Combine the members for `n_clusters`, or if that is None, restore how they were combined before.

        `source` and `rows` are the fitted rows, raw and preprocessed, if they are at hand.
        """
        method = CONSENSUS_METHODS[self.consensus]
        labels = None
        if not method.votes and (source is None or not source.remote):
            labels = self._base_labels(source, rows, engine)
        weights = self._fitted.weights if rows is None else rows.weights
        members = Ensemble(self._model.models, labels, rows, weights=weights)
        if n_clusters is None:
            return method.restore(members, self._model.partition, self.regularization, engine)
        return method.build(members, n_clusters, self.regularization, engine)

    def _base_labels(self, source: Rows | None, rows: Rows | None, engine: ThreadEngine) -> npt.NDArray[Any]:
        """Return the labels of the fitted rows by all members, and keep them."""
        if "base_labels_" not in vars(self):
            if source is None or rows is None:
                raise ValueError(
                    "This model does not hold its rows: it came from a file or is a copy. Call cut(n_clusters, X)."
                )
            self.base_labels_ = base_labels(self._model.models, rows, self._model.label_type, engine)
        if is_lazy(self.base_labels_):
            raise ValueError("The rows are on a cluster, and this model does not hold them. Call cut(n_clusters, X).")
        return self.base_labels_

    @cached_attribute
    def base_labels_(self) -> Any:
        """Labels of the fitted rows by all members; a Dask array if rows are on a cluster."""
        source = self._fitted.source if "_fitted" in vars(self) else None
        if source is None:
            raise AttributeError("base_labels_")  # `__getattr__` says what to do
        model = self._model
        if source.remote:
            label = partial(label_members, model.models, dtype=model.label_type)
            return self._map_rows(source, label, model.label_type, len(model.models), every=False)
        self._check_fitted_rows(source)  # an array may have been changed in the meantime
        with ThreadEngine(self.n_jobs) as engine:
            return base_labels(model.models, self._unseen(source, self._fitted.preprocessor), model.label_type, engine)

    @property
    def _model(self) -> EnsembleModel:
        model = self._fitted.model
        assert isinstance(model, EnsembleModel)
        return model

    @property
    def _n_leaves(self) -> int | None:
        """Largest number of clusters that the trees allow; None without trees."""
        choice = self._model.models[0].choice
        return None if choice is None or self.consensus != "auto" else choice.own.hierarchy.n_nodes

    def _set_fitted(self, state: Fitted) -> None:
        self._fitted = state
        self.candidates_ = state.agreements
        self.n_clusters_ = state.partition.n_clusters
        self.layers_ = state.layers
        self.n_iter_ = state.n_iter
        self.eigenvalues_ = state.partition.spectrum.eigenvalues

    def _set_labels(self, result: Consensus, rows: Rows | None) -> None:
        """Set labels and confidence of the fitted rows, or if these are on a cluster, Dask arrays of them."""
        self.labels_ = spread(result.labels, self._fitted.missing)
        self.confidence_ = spread(result.confidence, self._fitted.missing)
        if rows is not None and rows.remote:
            self.labels_ = self._map_rows(rows, self._model.label, np.int32)
            if self._model.has_confidence:
                types = [np.int32, np.float32]
                self.labels_, self.confidence_ = self._map_rows(rows, self._model.label_with_confidence, types)

    def _check_parameters(self) -> None:
        check_integer("n_estimators", self.n_estimators, least=1)
        check_integer("base_max_iter", self.base_max_iter, least=1)
        check_choice("consensus", self.consensus, tuple(CONSENSUS_METHODS))
        check_checkpoint(self.checkpoint)
        self._check_graph_parameters()
        check_graph_rows(self.graph_rows, self.n_clusters)
        high = check_range("base_clusters", self.base_clusters)[1]
        most = COARSE if self.n_representatives == "auto" else self.n_representatives
        if high > most:
            raise ValueError(
                f"base_clusters={self.base_clusters!r} asks for more clusters than n_representatives="
                f"{most}: clusters are groups of representatives. Lower base_clusters or raise "
                "n_representatives."
            )
        if self.n_clusters != "auto" and self.n_clusters > self.n_estimators * high:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than the {self.n_estimators} members with at most {high} "
                "clusters each can have together. Raise n_estimators or base_clusters."
            )
