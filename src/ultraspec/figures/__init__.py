"""Data of the figures: small arrays that the report and the plots draw.

=======================  ================================================================
module                   what it has
=======================  ================================================================
labeled_rows             a model, rows, and the cluster of each row
cluster_map              the rows by cluster: points, or counts on a grid
frame                    the part of the plane that is drawn, and its grid
representative_graph     the graph of the representatives
graph_layout             positions of graphs in the plane, for rows of many features
agreement                confidence in labels, and agreement of the members of an ensemble
eigenvalues              eigenvalues and the gap after the chosen number of clusters
profile                  time and memory of the phases of a fit
palette                  colours and markers of clusters
cuts                     all cuts into 2 to 60 clusters, and the top of their tree
trust                    stability of clusters, and that of rows without structure
columns                  columns that describe rows but were not clustered
survey                   one pass: sizes of all cuts, a raster, profiles, rows that stand out
explore                  all of these, for the page
means                    means of the features of each cluster
=======================  ================================================================

`compute_figures` takes a fitted model and rows. It reads a sample of the rows and, if there are many, makes one pass
over all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.figures.agreement import (
    Agreement,
    RowConfidence,
    compute_agreement,
    has_confidence,
    judged_partition,
    stored_confidence,
)
from ultraspec.figures.cluster_map import ClusterMap, RowCounts, count_rows, map_clusters
from ultraspec.figures.eigenvalues import Eigengap, eigengap
from ultraspec.figures.frame import Frame
from ultraspec.figures.labeled_rows import Floats, open_labeled_rows
from ultraspec.figures.profile import Phase, phases
from ultraspec.figures.representative_graph import RepresentativeGraph, build_graph

__all__ = [
    "Agreement",
    "ClusterMap",
    "Eigengap",
    "FigureData",
    "Frame",
    "Phase",
    "RepresentativeGraph",
    "RowCounts",
    "compute_figures",
    "eigengap",
    "phases",
]

PARTS = ("map", "graph", "confidence", "agreement", "spread")


@dataclass(frozen=True)
class FigureData:
    """Data of the figures of a model and rows; None for parts that were not requested or do not apply.

    Attributes
    ----------
    n_rows, n_features : int
        Shape of the data.
    cluster_names, feature_names : list of str
        Names of the clusters and of the features.
    is_training_data : bool
        Whether the rows are those that the model was fitted on.
    has_model_labels : bool
        Whether the clusters are those of the model, not labels that the user passed.
    counts : RowCounts
        Number of rows by cluster, and by confidence.
    map : ClusterMap or None
        The rows by cluster.
    graph : RepresentativeGraph or None
        The graph of the representatives.
    agreement : Agreement or None
        Agreement of the members of an ensemble.
    feature_spread : ndarray of shape (n_features,) or None
        Standard deviation of each feature.
    """

    n_rows: int
    n_features: int
    cluster_names: list[str]
    feature_names: list[str]
    is_training_data: bool
    has_model_labels: bool
    counts: RowCounts
    map: ClusterMap | None
    graph: RepresentativeGraph | None
    agreement: Agreement | None
    feature_spread: Floats | None

    @property
    def drawn_representatives(self) -> npt.NDArray[np.intp]:
        """Representatives to draw: those inside the frame of the map, unless there is one feature only."""
        assert self.graph is not None
        drawn = self.graph.drawn
        if self.map is None or self.n_features == 1:
            return drawn
        return drawn[self.map.frame.contains(self.graph.positions[drawn])]


def compute_figures(model: Any, X: Any = None, labels: Any = None, parts: Collection[str] = PARTS) -> FigureData:
    """Compute the data of figures.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows, optional
        The rows. Not needed if `parts` has none of "map", "graph" and "spread" and the model holds its labels.
    labels : array-like of shape (n_samples,), optional
        Clusters to show instead of those of the model.
    parts : collection of str
        What to compute: "map", "graph", "confidence", "agreement", "spread". Cluster sizes are always computed.

    Returns
    -------
    FigureData

    Examples
    --------
    >>> from ultraspec import USPEC, datasets
    >>> X, _ = datasets.generate("cc", 3_000, random_state=0)
    >>> data = compute_figures(USPEC(3, random_state=0).fit(X), X)
    >>> data.map.kind, data.counts.sizes.sum()
    ('points', np.int64(3000))
    """
    with open_labeled_rows(model, X, labels) as rows:
        is_plane = rows.n_features <= 2
        shows_confidence = "confidence" in parts and has_confidence(rows)
        has_agreement = rows.is_ensemble and "agreement" in parts
        has_graph = "graph" in parts or ("map" in parts and not is_plane)
        unknown = shows_confidence and stored_confidence(rows) is None
        is_judged = judged_partition(rows) is not None
        needs = {
            "points": is_plane and ("map" in parts or "graph" in parts),
            "edges": has_graph or (unknown and is_judged),
            "base_clusters": has_agreement or (unknown and not is_judged),
        }
        sample = rows.read_sample(**needs) if any(needs.values()) else None
        confidence = RowConfidence(rows, sample) if shows_confidence else None
        graph = build_graph(rows, sample) if sample is not None and has_graph else None
        cluster_map = map_clusters(rows, sample, graph, confidence) if sample is not None and "map" in parts else None
        return FigureData(
            n_rows=rows.n_rows,
            n_features=rows.n_features,
            cluster_names=rows.cluster_names,
            feature_names=rows.feature_names,
            is_training_data=rows.is_training_data,
            has_model_labels=rows.has_model_labels,
            counts=cluster_map.counts if cluster_map is not None else count_rows(rows, confidence),
            map=cluster_map,
            graph=graph,
            agreement=compute_agreement(rows, sample) if sample is not None and has_agreement else None,
            feature_spread=rows.feature_spread() if "spread" in parts else None,
        )
