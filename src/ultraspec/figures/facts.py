"""Facts that need no pass over all rows: eigenvalues and their gap, what phases took, how wide features spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ultraspec.figures.source import Floats, Source
from ultraspec.spectral.n_clusters import NEGLIGIBLE, largest_eigengap


@dataclass(frozen=True)
class Eigengap:
    """Leading eigenvalues and the gap that the number of clusters rests on.

    Attributes
    ----------
    distances : ndarray
        How far each eigenvalue is from one, the nearest first, without what regularisation takes off; 1e-4 at least.
    chosen : int
        The model's number of clusters.
    largest : int
        The number, from two on, at the largest gap.
    growth : ndarray
        Of each number of clusters k, from one on: how many times as far from one the eigenvalue after the k-th is.
        Large where k clusters are well apart.
    pieces : int
        Eigenvalues within 1e-4 of one: the graph is in so many parts that share hardly a tie.
    """

    distances: Floats
    chosen: int
    largest: int
    growth: Floats
    pieces: int

    @property
    def leading(self) -> Floats:
        """The distances worth a look: somewhat more than there are clusters."""
        return self.distances[: max(20, self.chosen + 10)]


def eigengap(model: Any) -> Eigengap:
    """The eigenvalues of a fitted model.

    Examples
    --------
    >>> from ultraspec import USPEC, datasets
    >>> X, _ = datasets.generate("cc", 5_000, random_state=0)
    >>> found = eigengap(USPEC(3, random_state=0).fit(X))
    >>> found.chosen, found.largest
    (3, 3)
    """
    values = np.asarray(model.eigenvalues_, dtype=np.float64)
    away = np.maximum(1.0 - values * (1.0 + model.regularization), 0.0) + NEGLIGIBLE
    # the first eigenvalue is one, whatever is regularised
    away[:1] = NEGLIGIBLE
    pieces = int((away < 2 * NEGLIGIBLE).sum())
    largest = largest_eigengap(values, model.regularization)
    return Eigengap(away, int(model.n_clusters_), largest, away[1:] / away[:-1], pieces)


@dataclass(frozen=True)
class Phase:
    """What one phase of a fit took; `resident` is the memory of the process at its end, in bytes, if it is known."""

    name: str
    seconds: float
    resident: int | None


def phases(model: Any) -> list[Phase]:
    """The phases of the model's fit in order; none where the model does not tell."""
    profile = getattr(model, "fit_profile_", None) or {}
    return [Phase(str(name), float(took["seconds"]), took.get("resident_bytes")) for name, took in profile.items()]


SPREAD_ROWS = 2000


def feature_spread(source: Source) -> Floats:
    """Standard deviation of each feature, from some rows."""
    rows = source.take(source.sample[:: -(-len(source.sample) // SPREAD_ROWS)])
    if scipy.sparse.issparse(rows):
        mean = np.asarray(rows.mean(axis=0)).ravel()
        return np.sqrt(np.maximum(np.asarray(rows.multiply(rows).mean(axis=0)).ravel() - mean**2, 0.0))
    return np.asarray(rows, dtype=np.float64).std(axis=0)
