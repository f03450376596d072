"""Data that the tests share: random shapes of all the kinds that search and k-means meet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
from hypothesis import strategies as st

from ultraspec.spectral.neighbors import RepresentativeIndex

KINDS = ("normal", "grid", "twins", "outliers", "clumps")
FEW, MANY = st.integers(1, 8), st.integers(9, 40)  # features: the kernels change form at 8
SEEDS = st.integers(0, 2**31)


def points(kind, n, d, random):
    """Float32 rows: a cloud; integers with many ties; half of them repeated; some far out; a few groups apart."""
    X = random.standard_normal((n, d))
    if kind == "grid":
        X = random.integers(-3, 4, (n, d))
    elif kind == "twins":
        X[n // 2 :] = X[random.integers(0, max(n // 2, 1), n - n // 2)]
    elif kind == "outliers":
        X[random.random(n) < 0.1] *= 1e4
    elif kind == "clumps":
        X += 30 * random.standard_normal((4, d))[random.integers(4, size=n)]
    return X.astype(np.float32)


@dataclass(frozen=True)
class Case:
    """Rows X (n, d), of which some are representatives, and representatives R (p, d)."""

    kind: str
    n: int
    p: int
    d: int
    K: int
    factor: int
    seed: int

    @cached_property
    def _both(self):
        both = points(self.kind, self.n + self.p, self.d, self.random)
        X, R = both[: self.n], both[self.n :]
        X[: self.n // 8] = R[np.arange(self.n // 8) % self.p]
        return X, R

    @property
    def random(self):
        return np.random.default_rng(self.seed)

    @property
    def X(self):
        return self._both[0]

    @property
    def R(self):
        return self._both[1]

    def index(self, engine, *, exact=False):
        return RepresentativeIndex.build(self.R, self.K, self.factor, exact, self.random, engine)


@st.composite
def cases(draw, features=FEW | MANY, most_rows=100, most_representatives=200, kinds=KINDS):
    """Random shapes; K from one to all representatives, mostly few."""
    p = draw(st.integers(2, most_representatives))
    K = draw(st.integers(1, min(p, 8)) | st.integers(1, p) | st.just(p))
    return Case(
        kind=draw(st.sampled_from(kinds)),
        n=draw(st.integers(1, most_rows)),
        p=p,
        d=draw(features),
        K=K,
        factor=draw(st.sampled_from([1, 2, 10])),
        seed=draw(SEEDS),
    )


def sparse_points(X, random, density=0.4):
    """The rows with most values set to zero (some rows all of them), dense and CSR."""
    X = np.where(random.random(X.shape) < density, X, np.float32(0.0))
    X[random.random(len(X)) < 0.05] = 0
    return X, scipy.sparse.csr_array(X)


def uneven_groups(d, seed):
    """Give six groups, and centres: one for most of the groups, several for the last."""
    random = np.random.default_rng(seed)
    X = (10 * random.standard_normal((6, d)))[np.arange(300) % 6] + random.standard_normal((300, d))
    return X.astype(np.float32), X[[0, 1, 2, 3, 4, 5, 11, 17, 23]].astype(np.float32)
