"""Euler spectral clustering."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_choice, check_number, warn_user
from ultraspec.baselines._baseline import Baseline
from ultraspec.baselines._kmeans import WeightedPoints, lite_kmeans, to_dense
from ultraspec.cluster.kmeans import Clustering
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral.preprocess import Preprocessor

LEAST_DEGREE = 1e-12  # share of the mean degree that a row has at least
ALWAYS_POSITIVE = 0.5  # up to this alpha no affinity of values between 0 and 1 is negative

Values = npt.NDArray[np.float32]


class EulerSC(Baseline):
    """Euler spectral clustering.

    The affinity of two rows is the sum over features of the cosine of their difference. Normalised cuts of it are a
    weighted k-means on cosines and sines of the features, so time and memory are those of k-means in twice the
    dimensions. Use it rather than `ultraspec.USPEC` for compact clusters with outliers, whose pull the cosine limits;
    it cannot follow clusters of other shapes.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    alpha : float, default=0.5
        Half turns between the smallest and the largest value of X. Up to 0.5 no affinity is negative. Near zero it is
        k-means.
    scaling : {"global", "columns", "none"}, default="global"
        X is brought to values between 0 and 1 by one factor, by one for each column, or taken as it is.
    n_init : int, default=1
        Random starts; the one with the smallest weighted sum of squares is kept.
    max_iter : int, default=100
        Passes over the rows, at most.
    random_state : int, RandomState, Generator or None, default=None
        The same number gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Threads. None and -1 mean every core the process may use.
    verbose : int, default=0
        1 shows phases, a progress bar and times on standard error.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,), int32
        Cluster of each row.
    n_clusters_ : int
        Number of clusters found.
    n_iter_ : int
        Iterations of the k-means that gave the labels.
    fit_profile_ : dict
        For each phase of the fit, its ``seconds`` and the most resident memory seen, ``resident_bytes``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X had them.

    Notes
    -----
    Time O(N d k) per pass, memory O(N): cosines and sines are taken anew in each pass.

    Neither code nor full text of the paper was at hand: the map is the one of Euler k-means, taken as a pair of
    conjugates, which the abstract describes ("a complex space of ... twice" the dimension, "non-negative"). Which
    `alpha` and `scaling` U-SPEC's paper used is not known, and no setting tried reproduces its scores, which are lower
    on images. The defaults keep affinities non-negative, as the method's own abstract asks.

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        alpha: float = 0.5,
        scaling: str = "global",
        n_init: int = 1,
        max_iter: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.scaling = scaling
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, least=0.0)
        check_choice("scaling", self.scaling, ("global", "columns", "none"))
        if self.alpha == 0:
            raise ValueError("alpha must be larger than 0: at 0 all rows are alike.")

    def _cluster(
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
                    f"alpha={self.alpha} makes the affinities of {int((degrees <= 0).sum()):,} rows negative in sum, "
                    f"and no graph can be cut there. Lower alpha (up to {ALWAYS_POSITIVE} none is negative).",
                    UserWarning,
                )
            weights = np.maximum(degrees / mean, LEAST_DEGREE)
            points.divisors = weights.astype(np.float32)
            points.middle = (total / rows.n_rows).astype(np.float32)
        with engine.reporter.phase("k-means"):
            options = {"max_iter": self.max_iter, "n_init": self.n_init}
            return lite_kmeans(WeightedPoints(points, weights), k, **options, random=random, engine=engine)

    def _factors(self, rows: Rows, space: Preprocessor, engine: ThreadEngine) -> npt.NDArray[np.float64]:
        """What multiplies each prepared feature. Offsets change no difference, so there are none."""
        if self.scaling == "none":
            return np.full(rows.n_features, space.scale)

        def ends(span: Span) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
            block = to_dense(rows.read(*span)) + (space.offset / space.scale)
            return block.min(axis=0), block.max(axis=0)

        found = engine.map(ends, rows.blocks())
        low, high = np.min([f[0] for f in found], axis=0), np.max([f[1] for f in found], axis=0)
        ranges = high - low if self.scaling == "columns" else np.full(rows.n_features, high.max() - low.min())
        return np.where(ranges > 0, 1.0 / np.where(ranges > 0, ranges, 1.0), 0.0)


class EulerRows(Rows):
    """Rows as cosines and sines of their features, divided by their degrees.

    `middle`, their weighted mean, is subtracted: it moves all points alike, and float32 keeps small differences then.

    Parameters
    ----------
    rows : Rows
        Prepared rows.
    angles : ndarray of shape (n_features,), float32
        What turns features into angles.
    """

    divisors: Values
    middle: Values

    def __init__(self, rows: Rows, angles: Values) -> None:
        self._rows, self._angles = rows, angles
        self.n_rows, self.n_features = rows.n_rows, 2 * rows.n_features
        self.in_memory = rows.in_memory

    @property
    def block_rows(self) -> int:
        """Rows of one block."""
        return self._rows.block_rows

    def features(self, block: Block) -> Values:
        """Cosines and sines, (n, 2 d), whose products are the affinities."""
        turned = to_dense(block) * self._angles
        features = np.concatenate([np.cos(turned), np.sin(turned)], axis=1)
        features *= np.float32(np.sqrt(0.5))
        return features

    def read(self, start: int, stop: int) -> Values:
        """Points of a range of rows."""
        return self.features(self._rows.read(start, stop)) / self.divisors[start:stop, None] - self.middle

    def take(self, indices: npt.NDArray[np.int64]) -> Values:
        """Points of rows at sorted `indices`."""
        return self.features(self._rows.take(indices)) / self.divisors[indices, None] - self.middle
