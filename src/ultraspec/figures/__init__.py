"""What figures show, as small arrays: takes a fitted model and rows, gives what the report and the plots draw.

`survey` finds everything at once, in one pass over a sample and, where the data is large, one over all rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.figures.ensemble import Agreement, Backing, agreement, needs_columns
from ultraspec.figures.facts import Eigengap, Phase, eigengap, feature_spread, phases
from ultraspec.figures.graphs import NodeGraph, node_graph
from ultraspec.figures.maps import ClusterMap, Frame, Tally, cluster_map, count_rows
from ultraspec.figures.source import Floats, Part, open_source

__all__ = [
    "Agreement",
    "ClusterMap",
    "Eigengap",
    "Frame",
    "NodeGraph",
    "Phase",
    "Survey",
    "Tally",
    "eigengap",
    "phases",
    "survey",
]

ALL = ("map", "graph", "confidence", "agreement", "spread")


@dataclass(frozen=True)
class Survey:
    """What is known of a model and its rows; None for what was not asked for or does not apply.

    Attributes
    ----------
    n_rows, n_features : int
        Shape of the data.
    names : list of str
        What clusters are called.
    feature_names : list of str
        What features are called.
    fitted : bool
        Whether the rows are those that the model was fitted on.
    own : bool
        Whether the clusters are the model's, not labels that the user gave.
    tally : Tally
        Rows by cluster, and by confidence of an ensemble.
    map : ClusterMap or None
        The data by cluster.
    graph : NodeGraph or None
        The representatives' graph.
    agreement : Agreement or None
        Of an ensemble's members.
    spread : ndarray of shape (n_features,) or None
        Standard deviation of each feature.
    """

    n_rows: int
    n_features: int
    names: list[str]
    feature_names: list[str]
    fitted: bool
    own: bool
    tally: Tally
    map: ClusterMap | None
    graph: NodeGraph | None
    agreement: Agreement | None
    spread: Floats | None

    @property
    def nodes(self) -> npt.NDArray[np.intp]:
        """The representatives to draw: those inside the map's frame, if there is a map of two axes."""
        assert self.graph is not None
        nodes = self.graph.drawn
        if self.map is None or self.n_features == 1:
            return nodes
        return nodes[self.map.frame.holds(self.graph.positions[nodes])]


def survey(model: Any, X: Any = None, labels: Any = None, want: Collection[str] = ALL) -> Survey:
    """Look at a fitted model and its rows.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows, optional
        The rows. May be left out if `want` has none of "map", "graph" and "spread" and the model holds its labels.
    labels : array-like of shape (n_samples,), optional
        Clusters to show instead of the model's.
    want : collection of str
        What to find: "map", "graph", "confidence", "agreement", "spread". Sizes are always found.

    Returns
    -------
    Survey

    Examples
    --------
    >>> from ultraspec import USPEC, datasets
    >>> X, _ = datasets.generate("cc", 3_000, random_state=0)
    >>> found = survey(USPEC(3, random_state=0).fit(X), X)
    >>> found.map.kind, found.tally.sizes.sum()
    ('points', np.int64(3000))
    """
    with open_source(model, X, labels) as source:
        few, drawn = source.n_features <= 2, "map" in want or "graph" in want
        confident = source.is_ensemble and "confidence" in want
        needs = {
            "points": few and drawn,
            "edges": "graph" in want or ("map" in want and not few),
            "columns": source.is_ensemble and ("agreement" in want or (confident and needs_columns(source))),
        }
        sample: Part | None = source.sampled(**needs) if any(needs.values()) else None
        backing = Backing(source, sample) if confident else None
        graph = node_graph(source, sample) if sample is not None and needs["edges"] else None
        mapped = cluster_map(source, sample, graph, backing) if sample is not None and "map" in want else None
        return Survey(
            source.n_rows,
            source.n_features,
            source.names,
            source.feature_names,
            source.fitted,
            source.own,
            mapped.tally if mapped is not None else count_rows(source, backing),
            mapped,
            graph,
            agreement(source, sample) if sample is not None and source.is_ensemble and "agreement" in want else None,
            feature_spread(source) if "spread" in want else None,
        )
