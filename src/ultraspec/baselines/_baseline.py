"""What the baselines' estimators share: input, progress, seeds and labels, as `ultraspec.USPEC` has them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from ultraspec._checks import check_integer, check_jobs, seed_sequence
from ultraspec._estimator import RowClusterer, all_or_nothing
from ultraspec._input import open_input
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.callbacks import with_callbacks
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows
from ultraspec.spectral.discretize import renumber
from ultraspec.spectral.preprocess import PreparedRows, Preprocessor, survey


class Baseline(RowClusterer):
    """Base of the baselines that cluster rows: a method says how by `_cluster`."""

    _few_clusters = "X has only so many distinct rows."  # why there may be fewer clusters than asked for

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Cluster the rows of X.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or row source of shape (n_samples, n_features)
            Any numeric type and memory order; what `ultraspec.open_rows` gives, too.
        y : Ignored
            For the interface.

        Returns
        -------
        estimator
            The fitted estimator itself.
        """
        self._check_parameters()
        rows = open_input(self, X, reset=True)
        k = self._wanted_clusters(rows)
        seeds = seed_sequence(self.random_state).spawn(2)
        reporter = self._reporter()
        with ThreadEngine(self.n_jobs, reporter) as engine:
            with reporter.phase("survey"):
                names = getattr(self, "feature_names_in_", None)
                space = survey(rows, "euclidean", np.random.default_rng(seeds[0]), engine, names)
            found = self._cluster(PreparedRows(rows, space), space, k, np.random.default_rng(seeds[1]), engine)
            reporter.close()
        found = renumber(found, k, self._few_clusters)
        self.labels_, self.n_iter_ = found.labels, found.n_iter
        self.n_clusters_ = len(found.counts)
        self.fit_profile_ = reporter.profile
        return self

    @abstractmethod
    def _cluster(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        """Cluster prepared rows."""

    def _check_parameters(self) -> None:
        """Raise for parameters that no data could suit."""
        check_integer("n_clusters", self.n_clusters, least=1)
        check_jobs(self.n_jobs)
        for name in ("n_init", "max_iter", "n_neighbors", "n_landmarks"):
            if hasattr(self, name):
                check_integer(name, getattr(self, name), least=1)
