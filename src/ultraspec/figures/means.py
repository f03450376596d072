"""Means of the features of each cluster, from one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ultraspec.figures.explore import telling_features
from ultraspec.figures.labeled_rows import Floats, open_labeled_rows
from ultraspec.rows import Span


@dataclass(frozen=True)
class ClusterMeans:
    """Standardised means: of each cluster (rows) and feature (columns), in standard deviations from the mean of all.

    Attributes
    ----------
    cluster_names, feature_names : list of str
        Names of the clusters and of the features, the most telling first.
    means : ndarray of shape (k, d)
        Standardised means; NaN for clusters without rows.
    """

    cluster_names: list[str]
    feature_names: list[str]
    means: Floats


def cluster_means(model: Any, X: Any, labels: Any = None, most: int = 16) -> ClusterMeans:
    """Return the means of the `most` features that differ most between clusters."""
    with open_labeled_rows(model, X, labels) as rows:
        columns = telling_features(rows, most)
        k, d = len(rows.cluster_names), len(columns)

        def add(sums: Floats, span: Span) -> None:
            block = rows.read(slice(*span), columns=columns)
            assert block.values is not None
            sums[:, 0] += np.bincount(block.codes, minlength=k)
            for j, values in enumerate(block.values.T):
                sums[:, 1 + j] += np.bincount(block.codes, values, minlength=k)
                sums[:, 1 + d + j] += np.bincount(block.codes, values * values, minlength=k)

        sums = rows.engine.fold(rows.blocks(), lambda: np.zeros((k, 1 + 2 * d)), add, np.add)
        n = sums[:, 0].sum()
        mean = sums[:, 1 : 1 + d].sum(axis=0) / n
        spread = np.sqrt(np.maximum(sums[:, 1 + d :].sum(axis=0) / n - mean**2, 0.0))
        with np.errstate(invalid="ignore"):
            means = (sums[:, 1 : 1 + d] / sums[:, :1] - mean) / np.where(spread > 0, spread, 1.0)
        return ClusterMeans(rows.cluster_names, [rows.column_names[j] for j in columns], means)
