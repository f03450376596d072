"""U-SENC, ultra-scalable ensemble clustering: the estimator, its members and their consensus in order."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ultraspec._checks import check_checkpoint, check_choice, check_integer, check_range
from ultraspec._estimator import RowEstimator, all_or_nothing
from ultraspec._input import open_input
from ultraspec.engines.callbacks import with_callbacks
from ultraspec.engines.threads import ThreadEngine, engine_for
from ultraspec.ensemble.combine import warn_if_alone
from ultraspec.ensemble.joint import JOINTS, Ensemble, Joined, Joint, Placement
from ultraspec.ensemble.members import (
    BASE_CLUSTERS,
    Recipe,
    base_labels,
    gather_members,
    label_members,
    prepare,
    small_labels,
)
from ultraspec.rows import Block, Rows, is_lazy
from ultraspec.spectral.partition import Partition, VotePartition
from ultraspec.storage.checkpoint import resume
from ultraspec.storage.spool import as_array

CLUSTERS_IF_AUTO = 10  # that members are to tell apart where the number is not known


class USENC(RowEstimator):
    """Ultra-scalable ensemble clustering (U-SENC).

    Clusters the rows many times by U-SPEC, each time with representatives and a number of clusters of its own, and
    then finds the clustering that agrees best with all of them. Usually better than one `USPEC`, for about
    `n_estimators` times its time.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters, or "auto" to choose it at the largest eigengap of the consensus (the largest ratio of
        neighbouring eigenvalues' distances from one), between 2 and 50.
    n_estimators : int, default=20
        Number of members of the ensemble, m.
    base_clusters : tuple of two int, default=(20, 60)
        Range from which the number of clusters of each member is drawn, both ends included. If there are fewer than 180
        rows per cluster (10,800 rows for 60 clusters), the range is reduced in proportion, to no less than twice
        `n_clusters`: with few rows, finer members would differ by chance, and so would their consensus.
    n_representatives : int, default=1000
        Number of representatives of each member, p. Small data uses at most a third of its rows.
    n_neighbors : int, default=5
        Number of nearest representatives that each row is connected to, K.
    selection : {"hybrid", "random", "kmeans"}, default="hybrid"
        How representatives are selected. "hybrid" takes the k-means centres of a random sample, "random" takes random
        rows, "kmeans" takes the k-means centres of all rows.
    candidate_factor : int, default=10
        Size of the random sample of the "hybrid" selection, as a multiple of `n_representatives`.
    neighbors : {"approx", "exact"}, default="approx"
        How nearest representatives are searched for. "approx" searches from coarse to fine, as the paper does; "exact"
        computes all distances.
    neighborhood_factor : int, default=10
        Size of the neighbourhood that the approximate search examines, as a multiple of `n_neighbors`.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance between rows. "cosine" scales rows to unit length first; rows of zeros raise an error.
    base_max_iter : int, default=5
        Maximum number of k-means iterations of each member. Few are enough, because rough and diverse members make a
        good ensemble.
    n_init : int, default=3
        Number of k-means runs on the consensus embedding; the best one gives the labels.
    max_iter : int, default=100
        Maximum number of k-means iterations.
    regularization : float, default=1e-3
        Weight of an edge that is added between all representatives, and between all base clusters, as a fraction of
        their mean degree. 0 follows the paper exactly.
    consensus : {"transfer_cut", "average"}, default="transfer_cut"
        How the members are combined. "transfer_cut", as in the paper, cuts the graph of rows and base clusters.
        "average" links the representatives of the first member by the number of members that put them into the same
        small cluster, and rows are labelled through their representatives: it varies less between seeds and follows
        elongated and uneven clusters better.
    checkpoint : str or path, default=None
        Folder for intermediate results, from which an interrupted fit is resumed. It is new, or belongs to an
        unfinished fit of the same data with the same parameters; URLs of fsspec are accepted. Finished members are
        stored there (a byte per row, and their model): a fit that was killed continues with them and gives the same
        labels. `n_estimators`, `n_init`, `max_iter`, `consensus`, `n_jobs`, `verbose` and, if `base_clusters` is not
        reduced, `n_clusters` may differ: the members of a folder can be combined in another way, or members can be
        added. With random_state=None the seed of the folder is used. The folder is not deleted.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random numbers. The same integer gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Number of threads. None and -1 use every core that is available to the process.
    verbose : int, default=0
        1 shows phases, members done and the time left on standard error.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of each row.
    base_labels_ : ndarray of shape (n_samples, n_estimators), uint8 (uint16 above 256 base clusters)
        Labels by each member.
    confidence_ : ndarray of shape (n_samples,), float32
        Share of the ensemble that backs each row's label. A member backs it if most rows of the member's cluster that
        the row is in have the same label: if the member alone were asked, this is the label it would give. 1 deep
        inside of a cluster, lower towards its border. It tells how far members agree, not how right they are.
    eigenvalues_ : ndarray, float64
        Largest eigenvalues of the base clusters' normalised affinity, descending from 1.
    n_iter_ : int
        Passes that the last k-means made over all microclusters (groups of rows with equal base labels).
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
    USPEC : One spectral clustering.
    consensus : The second half alone, for label matrices from any clusterers.

    Notes
    -----
    `labels_` equals ``predict(X)`` for the X that was fitted, bit for bit.

    Sizes: beside X and the labels a fit holds about 60 bytes per row at K = 5 and m = 20, of which `base_labels_` stay.

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
    >>> model.confidence_.max()
    np.float32(1.0)
    """

    _per_row = ("labels_", "base_labels_", "confidence_")
    _source: Rows | None = None  # rows on a cluster, which cost nothing to hold

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = 8,
        *,
        n_estimators: int = 20,
        base_clusters: tuple[int, int] = BASE_CLUSTERS,
        n_representatives: int = 1000,
        n_neighbors: int = 5,
        selection: str = "hybrid",
        candidate_factor: int = 10,
        neighbors: str = "approx",
        neighborhood_factor: int = 10,
        metric: str = "euclidean",
        base_max_iter: int = 5,
        n_init: int = 3,
        max_iter: int = 100,
        regularization: float = 1e-3,
        consensus: str = "transfer_cut",
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
        self.selection = selection
        self.candidate_factor = candidate_factor
        self.neighbors = neighbors
        self.neighborhood_factor = neighborhood_factor
        self.metric = metric
        self.base_max_iter = base_max_iter
        self.n_init = n_init
        self.max_iter = max_iter
        self.regularization = regularization
        self.consensus = consensus
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> USENC:  # noqa: ARG002
        """Cluster the rows of X.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Any numeric type and memory order; read-only and memory-mapped arrays are not copied.
        y : Ignored
            For the interface.

        Returns
        -------
        USENC
            The fitted estimator itself.
        """
        self._check_parameters()
        rows = open_input(self, X, reset=True)
        wanted = self._wanted_clusters(rows)
        recipe = Recipe.of(self, rows.n_rows, CLUSTERS_IF_AUTO if self.n_clusters == "auto" else wanted)
        reporter = self._reporter()
        with (
            engine_for(rows, self.n_jobs, reporter) as engine,
            resume(self.checkpoint, self.random_state, rows, recipe.describe(), engine) as (seed, checkpoint),
        ):
            seeds = seed.spawn(3)
            with reporter.phase("survey"):
                space = self._survey(rows, seeds[0], engine)
                prepared = prepare(rows, space, engine)
            with reporter.phase("members"):
                own_seeds = seeds[1].spawn(self.n_estimators)
                models, labels = gather_members(prepared, recipe, own_seeds, checkpoint, engine)
            with reporter.phase("consensus"):
                members = Ensemble(models, labels, prepared)
                warn_if_alone(members.sizes, self.n_clusters)
                joint = JOINTS[self.consensus].build(members, self.n_clusters, self.regularization, engine)
                joined = joint.cut(self.n_clusters, self.n_init, self.max_iter, seeds[2], engine)
            reporter.close()
        self._space, self._models, self._joint = space, models, joint
        self._labels_seed, self._n_rows = seeds[2], rows.n_rows
        self._label_type = np.dtype(recipe.label_type)
        self._source = rows if rows.remote else None
        self._set_base_labels(as_array(labels), rows)
        self._keep_joined(joined, rows)
        self.fit_profile_ = reporter.profile
        self._fingerprint = self._look_at(rows)
        return self

    def predict(self, X: Any, *, return_confidence: bool = False) -> Any:
        """Cluster of each row of X, also of rows that were not fitted: members label it, the consensus places it.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.
        return_confidence : bool, default=False
            Give the share of the ensemble that backs each label too, as `confidence_` does for fitted rows.

        Returns
        -------
        ndarray of shape (n_samples,), int32, or a pair of it and such an ndarray of float32
        """
        check_is_fitted(self)
        rows, place = open_input(self, X, reset=False), self._placement
        wanted = (place.label_backed, [np.int32, np.float32]) if return_confidence else (place.label, np.int32)
        return self._map_rows(rows, *wanted)

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Embedding of X by the consensus: rows of unit length, in which the clusters are compact.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters), float32
        """
        check_is_fitted(self)
        return self._map_rows(open_input(self, X, reset=False), self._placement.lift, np.float32, self._n_features_out)

    def cut(self, n_clusters: int, X: Any = None, *, consensus: str | None = None) -> USENC:
        """The same members joined to another number of clusters, without fitting again.

        Parameters
        ----------
        n_clusters : int
            Number of clusters, up to 60 (or what was fitted, if more); with consensus="average", where every number is
            a cut of one tree, up to the number of representatives.
        X : array-like, optional
            The rows that were fitted. Needed only where the model was loaded, as model files keep no base labels, or
            where "average" was unpickled or was not used before.
        consensus : {"transfer_cut", "average"}, optional
            Another way to join the members; by default that of this model.

        Returns
        -------
        USENC
            A new fitted estimator with these clusters; this one stays as it is.

        Examples
        --------
        >>> from ultraspec import USENC, datasets
        >>> X, _ = datasets.generate("sf", 3_000, random_state=0)
        >>> model = USENC(4, n_estimators=5, random_state=0).fit(X)
        >>> [len(set(model.cut(k).labels_)) for k in (2, 3, 4)]
        [2, 3, 4]
        >>> model.cut(4, X, consensus="average")
        USENC(consensus='average', n_clusters=4, n_estimators=5, random_state=0)
        """
        check_is_fitted(self)
        other = copy.copy(self)
        if consensus is not None:
            check_choice("consensus", consensus, tuple(JOINTS))
            other.consensus = consensus
        same = other.consensus == self.consensus
        if same:
            p, kept = self._consensus.spectrum.vectors.shape
            is_tree = isinstance(self._consensus, VotePartition)
            self._check_cut(n_clusters, *((p, "representatives") if is_tree else (kept,)))
        reporter, raw = self._console(), self._source if X is None else self._open_fitted(X)
        with engine_for(raw, self.n_jobs, reporter) as engine, reporter.phase("consensus"):
            rows = None if raw is None else self._new_rows(raw, self._space)
            if raw is not None and rows is not None and "base_labels_" not in vars(self):
                here = None if raw.remote else base_labels(self._models, rows, self._label_type, engine)
                other._set_base_labels(here, raw)
            if same and X is None:
                self._joint = other._joint = self._joint or self._join_again(rows, None, engine)
            else:
                other._joint = other._join_again(rows, None if same else n_clusters, engine)
            other.n_clusters, other._source = int(n_clusters), raw if raw is not None and raw.remote else None
            joined = other._joint.cut(int(n_clusters), self.n_init, self.max_iter, self._labels_seed, engine)
        other._keep_joined(joined, raw)
        return other

    def _join_again(self, rows: Rows | None, n_clusters: int | None, engine: ThreadEngine) -> Joint:
        """The members joined anew to `n_clusters`, or if that is None, as they were before."""
        if "base_labels_" not in vars(self):
            raise ValueError("This model holds no rows: it came from a file. Call cut(n_clusters, X).")
        labels = None if is_lazy(self.base_labels_) else self.base_labels_
        if labels is None and rows is None:
            raise ValueError("The rows are on a cluster, and this model does not hold them. Call cut(n_clusters, X).")
        members, kind = Ensemble(self._models, labels, rows), JOINTS[self.consensus]
        if n_clusters is None:
            return kind.restore(members, self._consensus, self.regularization, engine)
        return kind.build(members, int(n_clusters), self.regularization, engine)

    def _set_base_labels(self, labels: Any, rows: Rows) -> None:
        """Keep the members' labels, or where rows are on a cluster, what gives them when they are asked for."""
        if rows.remote:
            label = partial(small_labels, self._models, self._label_type)
            labels = self._map_rows(rows, label, self._label_type, len(self._models))
        self.base_labels_ = labels

    def _check_parameters(self) -> None:
        check_integer("n_estimators", self.n_estimators, least=1)
        check_integer("base_max_iter", self.base_max_iter, least=1)
        check_choice("consensus", self.consensus, tuple(JOINTS))
        check_checkpoint(self.checkpoint)
        self._check_graph_parameters()
        high = check_range("base_clusters", self.base_clusters)[1]
        if high > self.n_representatives:
            raise ValueError(
                f"base_clusters={self.base_clusters!r} asks for more clusters than n_representatives="
                f"{self.n_representatives}: clusters are groups of representatives. Lower base_clusters or raise "
                "n_representatives."
            )
        if self.n_clusters != "auto" and self.n_clusters > self.n_estimators * high:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than the {self.n_estimators} members with at most {high} "
                "clusters each can have together. Raise n_estimators or base_clusters."
            )

    @property
    def _placement(self) -> Placement:
        """What places further rows."""
        return Placement(self._models, self._consensus, self._majority)

    def _label(self, block: Block) -> npt.NDArray[np.int32]:
        """Clusters of prepared rows."""
        return self._placement.label(block)

    def _keep_joined(self, joined: Joined, rows: Rows | None) -> None:
        """Set what a fitted estimator has."""
        self._majority = joined.majority
        self._keep(joined.partition, joined.n_iter)
        self.labels_, self.confidence_, place = joined.labels, joined.confidence, self._placement
        if rows is not None and rows.remote:
            self.labels_, self.confidence_ = self._map_rows(rows, place.label_backed, [np.int32, np.float32])

    def _marks(self, block: Block) -> npt.NDArray[np.int32]:
        """Base labels of prepared rows."""
        return label_members(self._models, block)

    def _keep(self, partition: Partition, n_iter: int) -> None:
        """Set what a fitted estimator has beside attributes of its rows, which a loaded one has not."""
        self._consensus = partition
        self.n_clusters_ = partition.n_clusters
        self.n_iter_ = n_iter
        self.eigenvalues_ = partition.spectrum.eigenvalues
        self._n_features_out = partition.n_vectors

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what `cut` can make again from the base labels or the rows."""
        state = dict(super().__getstate__())
        state.pop("_source", None)
        if "_joint" in state:
            state["_joint"] = None
        return state
