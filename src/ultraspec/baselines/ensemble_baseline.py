"""What the ensemble baselines share: the label matrix as they see it, the way there and back, the estimators' base."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import check_integer, check_jobs, check_range, seed_sequence, warn_user
from ultraspec._estimator import RowClusterer, all_or_nothing
from ultraspec._input import open_input
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._kmeans_members import kmeans_members, limit_base_clusters
from ultraspec.engines.callbacks import with_callbacks
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import microclusters
from ultraspec.ensemble.combine import warn_if_alone
from ultraspec.ensemble.label_matrix import read_labels, warn_if_transposed
from ultraspec.ensemble.members import prepare
from ultraspec.rows import Rows
from ultraspec.spectral.preprocess import survey
from ultraspec.storage.spool import as_array

BASE_CLUSTERS = (20, 60)

# Takes the ensemble, the number of clusters, a seed and an engine.
Method = Callable[[BaseClusterings, int, np.random.SeedSequence, ThreadEngine], ConsensusLabels]


def combine(base_labels: Any, n_clusters: int, method: Method, *, random_state: Any, n_jobs: int | None) -> Labels:
    """Combine a label matrix as users give it."""
    check_integer("n_clusters", n_clusters, least=1)
    check_jobs(n_jobs)
    labels = read_labels(base_labels)
    warn_if_transposed(labels)
    seed = seed_sequence(random_state)
    with ThreadEngine(n_jobs) as engine:
        return combine_integers(labels, int(n_clusters), method, seed, engine).labels


def combine_integers(
    base_labels: Any, n_clusters: int, method: Method, seed: np.random.SeedSequence, engine: ThreadEngine
) -> ConsensusLabels:
    """Labels of all rows, -1 for rows that no clustering assigns; warns of these, and where there are too few others.

    Rows with equal base labels get equal labels: methods see each kind of row once, with its number.
    """
    micro = microclusters.find(base_labels, engine)
    assigned = micro.assigned
    if not assigned.size:
        raise ValueError("No row of base_labels has a label: every entry is -1, None or NaN.")
    n_rows, n_assigned = int(micro.weights.sum()), int(micro.weights[assigned].sum())
    if n_rows < n_clusters:
        raise ValueError(f"{n_rows} rows cannot make n_clusters={n_clusters} clusters. Ask for fewer clusters.")
    if len(assigned) < n_clusters:
        warn_user(
            f"Found {len(assigned)} clusters instead of {n_clusters}: only so many groups of rows differ in their base "
            "labels. Add base clusterings, or finer ones.",
            ConvergenceWarning,
        )
    if n_assigned < n_rows:
        warn_user(f"{n_rows - n_assigned:,} rows have no label in any base clustering; they get -1.", UserWarning)
    warn_if_alone([len(values) for values in micro.values], n_clusters)
    labels, n_iter = np.full(len(micro.columns), -1, dtype=np.int32), 0
    if len(assigned) <= n_clusters:
        labels[assigned] = np.arange(len(assigned))
    else:
        some = slice(None) if len(assigned) == len(labels) else assigned  # a slice copies nothing
        counts = tuple(len(values) for values in micro.values)
        found = method(BaseClusterings(micro.columns[some], micro.weights[some], counts), n_clusters, seed, engine)
        labels[some], n_iter = found.labels, found.n_iter
    return ConsensusLabels(micro.spread(labels, engine), n_iter)


class EnsembleBaseline(RowClusterer):
    """Base of the estimators: makes members by k-means, as the paper does, and combines them."""

    @abstractmethod
    def _method(self) -> Method:
        """The method with this estimator's parameters, which are checked here."""

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Cluster the rows of X.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Any numeric type and memory order; also what `ultraspec.open_rows` returns.
        y : Ignored
            For the interface.

        Returns
        -------
        estimator
            The fitted estimator itself.
        """
        low, high = self._check_members()
        method = self._method()
        rows = open_input(self, X, reset=True)
        k = self._wanted_clusters(rows)
        base_range = self._base_range((low, high), rows.n_rows)
        reporter = self._reporter()
        with ThreadEngine(self.n_jobs, reporter) as engine:
            seeds = seed_sequence(self.random_state).spawn(3)
            with reporter.phase("survey"):
                names = getattr(self, "feature_names_in_", None)
                space = survey(rows, "euclidean", np.random.default_rng(seeds[0]), engine, names)
                prepared = prepare(rows, space, engine)
            with reporter.phase("members"):
                members = seeds[1].spawn(self.n_estimators)
                base_labels = kmeans_members(prepared, base_range, int(self.base_max_iter), members, engine)
            del prepared
            with reporter.phase("consensus"):
                found = combine_integers(base_labels, k, method, seeds[2], engine)
            reporter.close()
        self.labels_, self.base_labels_ = found.labels, as_array(base_labels)
        self.n_clusters_ = int(found.labels.max()) + 1
        if hasattr(self, "max_iter"):
            self.n_iter_ = found.n_iter
        self.fit_profile_ = reporter.profile
        return self

    def _check_members(self) -> tuple[int, int]:
        check_integer("n_clusters", self.n_clusters, least=1)
        check_integer("n_estimators", self.n_estimators, least=1)
        check_integer("base_max_iter", self.base_max_iter, least=1)
        check_jobs(self.n_jobs)
        return check_range("base_clusters", self.base_clusters)

    def _base_range(self, asked: tuple[int, int], n_rows: int) -> tuple[int, int]:
        found = limit_base_clusters(asked, n_rows, int(self.n_clusters))
        if found != asked and asked != BASE_CLUSTERS:
            warn_user(
                f"Members have {found[0]} to {found[1]} clusters instead of {asked[0]} to {asked[1]}: {n_rows:,} "
                "rows are too few for finer ones.",
                UserWarning,
            )
        return found


def generate_members(
    model: EnsembleBaseline, rows: Rows, seeds: Sequence[np.random.SeedSequence], engine: ThreadEngine
) -> Any:
    """Cluster prepared rows by k-means, once per seed, with the parameters of an ensemble estimator.

    Returns
    -------
    ndarray or SpooledMatrix of shape (n_rows, n_seeds)
        Labels, as in `ultraspec.storage.spool.matrix_for`.
    """
    base_range = model._base_range(model._check_members(), rows.n_rows)
    return kmeans_members(rows, base_range, int(model.base_max_iter), seeds, engine)


def combine_labels(
    model: EnsembleBaseline, base_labels: Any, seed: np.random.SeedSequence, engine: ThreadEngine
) -> ConsensusLabels:
    """Combine a label matrix of integers by the method and the parameters of an ensemble estimator."""
    return combine_integers(base_labels, int(model.n_clusters), model._method(), seed, engine)
