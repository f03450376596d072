"""U-SPEC, ultra-scalable spectral clustering: the estimator, and the paper's phases in order."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ultraspec import bipartite, discretize, representatives
from ultraspec._callbacks import CallbackSupport, report_to_callbacks, with_callbacks
from ultraspec._validation import check_choice, check_integer, check_number, open_input, seed_sequence
from ultraspec.engines import ThreadEngine
from ultraspec.kmeans import Clustering
from ultraspec.neighbors import RepresentativeIndex
from ultraspec.progress import Console, Silent
from ultraspec.rows import Block, Rows
from ultraspec.space import PreparedRows, Space, check_finite, survey

KEPT_VECTORS = 60  # eigenvectors kept for `cut`
MOST_REPRESENTATIVES = 2**16 - 1  # ids are uint16; the p x p matrix would need 34 GB by then


@dataclass(frozen=True)
class Model:
    """All that labelling a point needs: a few MB, whatever the number of rows was."""

    space: Space
    index: RepresentativeIndex
    sigma: float
    spectrum: bipartite.Spectrum
    centers: npt.NDArray[np.float32]

    def embed(self, raw: Block, first_row: int = 0) -> npt.NDArray[np.float32]:
        """Embedding of raw rows."""
        edges = bipartite.new_edges(self.space.prepare(raw, first_row), self.index, self.sigma)
        return bipartite.lift(edges, self.spectrum.vectors[:, : self.centers.shape[1]])

    def label(self, raw: Block, first_row: int = 0) -> npt.NDArray[np.int32]:
        """Labels of raw rows."""
        return label_embedded(self.embed(raw, first_row), self.centers)


class USPEC(
    CallbackSupport, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """Ultra-scalable spectral clustering."""

    def __init__(
        self,
        n_clusters: int | str = 8,
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
    def fit(self, X, y=None):
        rows = open_input(self, X, reset=True)
        seeds = [np.random.default_rng(s) for s in seed_sequence(self.random_state).spawn(4)]
        reporter = report_to_callbacks(self, Console("USPEC") if self.verbose else Silent())
        names = getattr(self, "feature_names_in_", None)
        k = self.n_clusters
        with ThreadEngine(self.n_jobs, reporter) as engine:
            with reporter.phase("survey"):
                space = survey(rows, self.metric, seeds[0], engine, names)
                prepared = PreparedRows(rows, space)
            with reporter.phase("representatives"):
                p = representatives.count_representatives(rows.n_rows, self.n_representatives, k, self.n_neighbors)
                R = representatives.select(prepared, p, self.selection, self.candidate_factor, seeds[1], engine)
            with reporter.phase("index"):
                index = RepresentativeIndex.build(
                    R, self.n_neighbors, self.neighborhood_factor, self.neighbors == "exact", seeds[2], engine
                )
            with reporter.phase("neighbors"):
                edges, sigma = bipartite.connect(prepared, index, engine)
            with reporter.phase("graph"):
                graph = bipartite.reduce_graph(edges, sigma, len(R), rows.blocks(), engine)
            with reporter.phase("eigenvectors"):
                spectrum = bipartite.transfer_cut(graph, max(KEPT_VECTORS, k), self.regularization, index.representatives)
            with reporter.phase("labels"):
                pass
                found = discretize.kmeans(edges, spectrum.vectors[:, :k], k, self.n_init, self.max_iter, seeds[3], engine)
            reporter.close()
        self.labels_ = found.labels
        return self
