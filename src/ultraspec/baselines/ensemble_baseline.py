"""Base of the ensemble baselines: k-means generates the base clusterings, and a consensus method combines them.

`generate_kmeans_members` and `combine_labels` are the two halves of a fit, for programs that run them separately.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ultraspec._checks import check_range, seed_sequence, warn_user
from ultraspec.baselines._base_clusterings import BaseClusterings, ConsensusLabels, Labels
from ultraspec.baselines._baseline import Baseline
from ultraspec.baselines._kmeans_members import kmeans_members, limit_base_clusters
from ultraspec.cluster.numbering import number_by_size
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import microclusters
from ultraspec.ensemble.consensus import warn_if_single
from ultraspec.ensemble.label_matrix import read_label_matrix, warn_if_transposed
from ultraspec.rows import Rows
from ultraspec.spectral.preprocess import Preprocessor, prepare_rows
from ultraspec.storage.spool import as_array

BASE_CLUSTERS = (20, 60)


@dataclass(eq=False, repr=False, kw_only=True)
class EnsembleBaseline(Baseline):
    """Base of the ensemble estimators: the members are k-means clusterings, as in the paper."""

    n_estimators: int = 20
    base_clusters: tuple[int, int] = BASE_CLUSTERS
    base_max_iter: int = 100

    @abstractmethod
    def _combine(
        self, clusterings: BaseClusterings, k: int, seed: np.random.SeedSequence, engine: ThreadEngine
    ) -> ConsensusLabels:
        """Combine base clusterings of more than `k` microclusters; return labels of the microclusters."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_range("base_clusters", self.base_clusters)

    def _cluster(
        self, rows: Rows, space: Preprocessor, k: int, seeds: Sequence[np.random.SeedSequence], engine: ThreadEngine
    ) -> ConsensusLabels:
        with engine.reporter.phase("members"):
            prepared = prepare_rows(rows, space, engine)
            base_labels = generate_kmeans_members(self, prepared, seeds[0].spawn(self.n_estimators), engine)
            del prepared  # the consensus may need the memory
        with engine.reporter.phase("consensus"):
            consensus = combine_labels(self, base_labels, seeds[1], engine)
        self.base_labels_ = as_array(base_labels)
        return consensus


def generate_kmeans_members(
    model: EnsembleBaseline, rows: Rows, seeds: Sequence[np.random.SeedSequence], engine: ThreadEngine
) -> Any:
    """Cluster prepared rows by k-means, once per seed, with the parameters of an ensemble estimator.

    Returns
    -------
    ndarray or SpooledMatrix of shape (n_rows, n_seeds)
        Labels, as in `ultraspec.storage.spool.allocate_matrix`.
    """
    requested = check_range("base_clusters", model.base_clusters)
    base_clusters = limit_base_clusters(requested, rows.n_rows, int(model.n_clusters))
    if base_clusters != requested and requested != BASE_CLUSTERS:
        warn_user(
            f"base_clusters was reduced from {requested} to {base_clusters} because X has only {rows.n_rows:,} rows.",
            UserWarning,
        )
    return kmeans_members(rows, base_clusters, int(model.base_max_iter), seeds, engine)


def combine(kind: type[EnsembleBaseline], base_labels: Any, **parameters: Any) -> Labels:
    """Combine a label matrix of any kind by the method of an ensemble estimator, with some of its parameters."""
    model = kind(**parameters)
    model._check_parameters()
    labels = read_label_matrix(base_labels)
    warn_if_transposed(labels)
    seed = seed_sequence(model.random_state)
    with ThreadEngine(model.n_jobs) as engine:
        return combine_labels(model, labels, seed, engine).labels


def combine_labels(
    model: EnsembleBaseline, base_labels: Any, seed: np.random.SeedSequence, engine: ThreadEngine
) -> ConsensusLabels:
    """Combine a label matrix of integers by the method and the parameters of an ensemble estimator.

    Rows with equal base labels form a microcluster and get equal labels, so the method sees every microcluster only
    once, with its number of rows. Rows that no clustering assigns are labelled -1, with a warning.
    """
    k = int(model.n_clusters)
    micro = microclusters.find(base_labels, engine)
    assigned = micro.assigned
    if not assigned.size:
        raise ValueError("No row of base_labels has a label: every entry is -1, None or NaN.")
    n_rows = int(micro.weights.sum())
    n_unassigned = n_rows - int(micro.weights[assigned].sum())
    if n_rows < k:
        raise ValueError(f"{n_rows} rows cannot form n_clusters={k} clusters. Ask for fewer clusters.")
    if len(assigned) < k:
        warn_user(
            f"Found {len(assigned)} clusters instead of {k}: no more groups of rows differ in their base labels. "
            "Add base clusterings, or finer ones.",
            ConvergenceWarning,
        )
    if n_unassigned:
        warn_user(f"{n_unassigned:,} rows have no label in any base clustering; they get -1.", UserWarning)
    counts = tuple(len(values) for values in micro.values)
    warn_if_single(list(counts), k)
    labels = np.full(len(micro.columns), -1, dtype=np.int32)
    n_iter = 0
    if len(assigned) <= k:  # every microcluster is a cluster
        labels[assigned] = np.arange(len(assigned))
    else:
        selected = slice(None) if len(assigned) == len(labels) else assigned  # a slice copies nothing
        clusterings = BaseClusterings(micro.columns[selected], micro.weights[selected], counts)
        consensus = model._combine(clusterings, k, seed, engine)
        labels[selected] = consensus.labels
        n_iter = consensus.n_iter
    return ConsensusLabels(number_by_size(micro.spread(labels, engine)), n_iter)
