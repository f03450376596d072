"""Eigenvalues of a fitted model and the gap after its number of clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ultraspec.figures.labeled_rows import Floats

NEGLIGIBLE = 1e-4  # added to 1 - eigenvalue, so that rounding errors are no gaps
MOST_CLUSTERS = 50  # whose gaps are compared


@dataclass(frozen=True)
class Eigengap:
    """Distances of the leading eigenvalues from one, and the gaps between them.

    Attributes
    ----------
    distances : ndarray
        1 - eigenvalue, ascending, without the effect of regularisation; at least 1e-4.
    chosen : int
        Number of clusters of the model.
    largest : int
        Number of clusters, from two on, with the largest gap.
    ratios : ndarray
        For each number of clusters k, from one on: the ratio of the (k + 1)-th to the k-th distance. Large if k
        clusters are well separated.
    n_components : int
        Number of eigenvalues within 1e-4 of one: the graph has this many parts with hardly an edge between them.
    """

    distances: Floats
    chosen: int
    largest: int
    ratios: Floats
    n_components: int

    @property
    def leading(self) -> Floats:
        """Distances to show: somewhat more than there are clusters."""
        return self.distances[: max(20, self.chosen + 10)]


def eigengap(model: Any) -> Eigengap:
    """Return the eigenvalues of a fitted model and their gaps.

    Examples
    --------
    >>> from ultraspec import USPEC, datasets
    >>> X, _ = datasets.generate("cc", 5_000, random_state=0)
    >>> gap = eigengap(USPEC(3, random_state=0).fit(X))
    >>> gap.chosen, gap.largest
    (3, 3)
    """
    values = np.asarray(model.eigenvalues_, dtype=np.float64)
    distances = np.maximum(1.0 - values * (1.0 + model.regularization), 0.0) + NEGLIGIBLE
    distances[:1] = NEGLIGIBLE  # the first eigenvalue is one, with and without regularisation
    ratios = distances[1:] / distances[:-1]
    candidates = ratios[1:MOST_CLUSTERS]
    return Eigengap(
        distances=distances,
        chosen=int(model.n_clusters_),
        largest=2 + int(np.argmax(candidates)) if candidates.size else len(values),
        ratios=ratios,
        n_components=int((distances < 2 * NEGLIGIBLE).sum()),
    )
