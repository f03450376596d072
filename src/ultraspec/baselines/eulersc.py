"""Euler spectral clustering (Wu et al., 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import warn_user
from ultraspec.baselines._baseline import SpectralBaseline, estimator
from ultraspec.baselines._kmeans import WeightedPoints, to_dense
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral.preprocess import Preprocessor

LEAST_DEGREE = 1e-12  # lower limit of degrees, as a fraction of the mean degree
ALWAYS_POSITIVE = 0.5  # up to this alpha, no affinity of values between 0 and 1 is negative

Values = npt.NDArray[np.float32]


@estimator
class EulerSC(SpectralBaseline):
    """Euler spectral clustering.

    The affinity of two rows is the sum over the features of the cosine of their difference. Its normalised cuts are a
    weighted k-means on the cosines and sines of the features, so time and memory are those of k-means in twice the
    dimensions. Use it instead of `ultraspec.USPEC` for compact clusters with outliers, whose influence the cosine
    limits. It does not find clusters of other shapes.

    Parameters
    ----------
    alpha : float, default=0.5
        Angle between the smallest and the largest value of X, in half turns. Up to 0.5 no affinity is negative. Values
        close to 0 give k-means.
    scaling : {"global", "columns", "none"}, default="global"
        How X is scaled to values between 0 and 1: by one factor, by one factor for each column, or not at all.

    Notes
    -----
    An iteration takes O(N d k) time. Memory is O(N), because cosines and sines are recomputed in each iteration.

    Neither code nor the full text of the paper was available: the map is that of Euler k-means, taken as a pair of
    conjugates, which the abstract describes ("a complex space of ... twice" the dimension, "non-negative"). It is not
    known which `alpha` and `scaling` the U-SPEC paper used, and no setting reproduces its scores, which are lower on
    images. The defaults make affinities non-negative, as the abstract of the method requires.

    References
    ----------
    J.-S. Wu, W.-S. Zheng, J.-H. Lai, C. Y. Suen. "Euler Clustering on Large-Scale Dataset". IEEE Transactions on Big
    Data 4 (4), 2018.

    Examples
    --------
    >>> from ultraspec import datasets, metrics
    >>> from ultraspec.baselines import EulerSC
    >>> X, y = datasets.generate("sf", 5_000, random_state=0)
    >>> labels = EulerSC(4, random_state=0).fit_predict(X)
    >>> metrics.nmi(y, labels) > 0.3
    True
    """

    alpha: float = 0.5
    scaling: str = "global"
    n_init: int = 1
    max_iter: int = 100

    def _cluster_prepared(
        self, rows: Rows, space: Preprocessor, k: int, random: np.random.Generator, engine: ThreadEngine
    ) -> Clustering:
        with engine.reporter.phase("degrees"):
            angles = np.pi * self.alpha * self._factors(rows, space, engine)
            points = EulerRows(rows, angles.astype(np.float32))
            blocks = rows.blocks()
            total = np.sum(engine.map(lambda span: points.features(rows.read(*span)).sum(axis=0), blocks), axis=0)
            degrees = np.empty(rows.n_rows)

            def measure(span: Span) -> None:
                degrees[slice(*span)] = points.features(rows.read(*span)) @ total

            engine.map(measure, blocks)
            mean = float(np.abs(degrees).mean())
            if (degrees <= 0).any():
                warn_user(
                    f"With alpha={self.alpha}, the affinities of {int((degrees <= 0).sum()):,} rows have a negative "
                    f"sum, for which normalised cuts are not defined. Lower alpha: up to {ALWAYS_POSITIVE} no affinity "
                    "is negative.",
                    UserWarning,
                )
            weights = np.maximum(degrees / mean, LEAST_DEGREE)
            points.divisors = weights.astype(np.float32)
            points.middle = (total / rows.n_rows).astype(np.float32)
        with engine.reporter.phase("k-means"):
            return self._kmeans(WeightedPoints(points, weights), k, random, engine)

    def _factors(self, rows: Rows, space: Preprocessor, engine: ThreadEngine) -> npt.NDArray[np.float64]:
        """Return the factor of each prepared feature. An offset is not needed, as it does not change differences."""
        if self.scaling == "none":
            return np.full(rows.n_features, space.scale)

        def extremes(span: Span) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
            block = to_dense(rows.read(*span)) + (space.offset / space.scale)
            return block.min(axis=0), block.max(axis=0)

        lows, highs = zip(*engine.map(extremes, rows.blocks()), strict=True)
        low = np.min(lows, axis=0)
        high = np.max(highs, axis=0)
        ranges = high - low if self.scaling == "columns" else np.full(rows.n_features, high.max() - low.min())
        return np.where(ranges > 0, 1.0 / np.where(ranges > 0, ranges, 1.0), 0.0)


class EulerRows(Rows):
    """Rows as the cosines and sines of their features, divided by their degrees.

    Their weighted mean, `middle`, is subtracted. This moves all points alike, and keeps small differences in float32.
    The factors `angles` (n_features,) turn prepared features into angles.
    """

    divisors: Values
    middle: Values

    def __init__(self, rows: Rows, angles: Values) -> None:
        self._rows = rows
        self._angles = angles
        self.n_rows = rows.n_rows
        self.n_features = 2 * rows.n_features
        self.in_memory = rows.in_memory

    @property
    def block_rows(self) -> int:
        """Number of rows of a block."""
        return self._rows.block_rows

    def features(self, block: Block) -> Values:
        """Return cosines and sines (n, 2 d). Products are affinities: cos a cos b + sin a sin b = cos(a - b)."""
        turned = to_dense(block) * self._angles
        features = np.concatenate([np.cos(turned), np.sin(turned)], axis=1)
        features *= np.float32(np.sqrt(0.5))
        return features

    def read(self, start: int, stop: int) -> Values:
        """Return the points of a range of rows."""
        return self.features(self._rows.read(start, stop)) / self.divisors[start:stop, None] - self.middle

    def take(self, indices: npt.NDArray[np.int64]) -> Values:
        """Return the points of rows at sorted `indices`."""
        return self.features(self._rows.take(indices)) / self.divisors[indices, None] - self.middle
