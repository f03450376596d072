"""Base classes of the baselines: input, checks, progress, seeds and labels are handled as by `ultraspec.USPEC`."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Self, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

from ultraspec._checks import InvalidParameter, check_choice, check_integer, check_jobs, check_number, seed_sequence
from ultraspec._estimator import RowClusterer, all_or_nothing
from ultraspec._input import open_input
from ultraspec.baselines._base_clusterings import ConsensusLabels
from ultraspec.baselines._docs import document
from ultraspec.baselines._kmeans import lite_kmeans, orthogonal_kmeans
from ultraspec.cluster.kmeans import Clustering
from ultraspec.cluster.linkage import METHODS
from ultraspec.cluster.numbering import number_by_size
from ultraspec.cluster.points import Points
from ultraspec.engines.callbacks import with_callbacks
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Rows
from ultraspec.spectral.embedding import drop_empty_clusters
from ultraspec.spectral.preprocess import PreparedRows, Preprocessor

T = TypeVar("T")

# Checks of parameters by their names. None is allowed where it is the default.
INTEGERS = (  # of at least 1
    "n_clusters",
    "n_estimators",
    "base_max_iter",
    "n_init",
    "max_iter",
    "n_neighbors",
    "n_landmarks",
    "n_frequencies",
    "n_supernodes",
    "n_steps",
    "max_pairs_bytes",
)
POSITIVE = {  # and finite, with a hint for zero
    "alpha": "At 0 all rows have the same affinity.",
    "sigma": "It is the width of the affinity.",
    "theta": "Values from 0.2 to 1 work best, large values weight all clusters equally.",
}
CHOICES = {
    "assign_labels": ("orthogonal", "kmeans"),
    "bandwidth": ("code", "distance"),
    "linkage": tuple(METHODS),
    "scaling": ("global", "columns", "none"),
    "selection": ("kmeans", "random"),
}

LAST = ("random_state", "n_jobs", "verbose")  # in signatures, after the parameters of a method


@dataclass_transform(eq_default=False, kw_only_default=True)
def estimator(kind: type[T]) -> type[T]:
    """Make the fields of a class, and of its bases, the parameters of an estimator; complete its docstring."""
    has_docstring = kind.__doc__ is not None  # not under ``python -OO``, where dataclasses get one of their own
    dataclass(eq=False, repr=False, kw_only=True)(kind)
    init: Any = kind.__init__
    signature = inspect.signature(init)
    ordered = sorted(signature.parameters.values(), key=lambda parameter: parameter.name in LAST)
    init.__signature__ = signature.replace(parameters=ordered)
    return document()(kind) if has_docstring else kind


@dataclass(eq=False, repr=False)
class Baseline(RowClusterer):
    """Base of all baselines: `fit` surveys the rows, and `_cluster` clusters them.

    Fields are the parameters of the estimator, with the defaults.
    """

    n_clusters: int = 8
    _: KW_ONLY
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    @with_callbacks
    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or row source of shape (n_samples, n_features)
            Rows of any numeric type and memory order. Row sources are what `ultraspec.open_rows` returns.
        y : Ignored
            Not used. Present for the scikit-learn interface.

        Returns
        -------
        estimator
            The fitted estimator itself.
        """
        self._check_parameters()
        rows = open_input(self, X, reset=True, predicts=False)
        k = self._least_clusters(rows)
        seeds = seed_sequence(self.random_state).spawn(3)
        reporter = self._reporter()
        with ThreadEngine(self.n_jobs, reporter) as engine:
            with reporter.phase("survey"):
                names = getattr(self, "feature_names_in_", None)
                space = Preprocessor.fit(rows, "euclidean", np.random.default_rng(seeds[0]), engine, names)
            result = self._cluster(rows, space, k, seeds[1:], engine)
            reporter.close()
        self.labels_ = number_by_size(result.labels)
        self.n_clusters_ = int(result.labels.max()) + 1
        if hasattr(self, "max_iter"):  # other methods do not iterate
            self.n_iter_ = result.n_iter
        self.fit_profile_ = reporter.profile
        return self

    @abstractmethod
    def _cluster(
        self, rows: Rows, space: Preprocessor, k: int, seeds: Sequence[np.random.SeedSequence], engine: ThreadEngine
    ) -> Clustering | ConsensusLabels:
        """Cluster rows, which `space` prepares; every label from 0 to the largest occurs."""

    def _check_parameters(self) -> None:
        """Raise an error for parameters that are invalid for any data."""
        check_jobs(self.n_jobs)
        for parameter in fields(self):
            name, value = parameter.name, getattr(self, parameter.name)
            optional = parameter.default is None
            if optional and value is None:
                continue
            if name in INTEGERS:
                check_integer(name, value, least=1, alternatives=(None,) if optional else ())
            elif name in POSITIVE:
                check_number(name, value, least=0.0)
                if value == 0:
                    raise InvalidParameter(name, value, "a finite number > 0", hint=POSITIVE[name])
            elif name in CHOICES:
                check_choice(name, value, CHOICES[name])


class SpectralBaseline(Baseline):
    """Base of the baselines that cluster the rows once."""

    _few_clusters = "X has no more distinct rows."  # why there may be fewer clusters than `n_clusters`

    def _cluster(
        self, rows: Rows, space: Preprocessor, k: int, seeds: Sequence[np.random.SeedSequence], engine: ThreadEngine
    ) -> Clustering:
        prepared = PreparedRows(rows, space)
        clustering = self._cluster_prepared(prepared, space, k, np.random.default_rng(seeds[0]), engine)
        return drop_empty_clusters(clustering, k, self._few_clusters)

    @abstractmethod
    def _cluster_prepared(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        """Cluster prepared rows and set the fitted attributes of the method."""

    def _kmeans(self, points: Rows | Points, k: int, random: np.random.Generator, engine: ThreadEngine) -> Clustering:
        """Run k-means with the parameters `n_init` and `max_iter`."""
        return lite_kmeans(points, k, max_iter=self.max_iter, n_init=self.n_init, random=random, engine=engine)

    def _label_embedding(
        self, V: npt.NDArray[np.float32], k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        """Cluster the rows of an embedding, of unit length, as the parameter `assign_labels` says."""
        if self.assign_labels == "orthogonal":
            return orthogonal_kmeans(V, k, max_iter=self.max_iter, random=random, engine=engine)
        return self._kmeans(ArrayRows(V), k, random, engine)
