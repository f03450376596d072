"""Other linkages of the co-association than the average over all pairs: tried in `which.py`, not part of the library.

Both look at the graph W of the representatives as well. "border": the mean of C over the edges that cross, sum W C /
sum W. "linked": the average over all pairs, times the square root of the share of the smaller cluster's weight that
goes to the other.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def link(C: Floats, W: Floats, masses: Floats, k: int, how: str, regularization: float = 1e-3) -> npt.NDArray[np.int32]:
    """Labels of `k` clusters; `how` is "border" or "linked"."""
    L = W + regularization * W.sum() / len(W) ** 2
    S = (C * L if how == "border" else C).astype(np.float64)
    labels = _merge(S, L, masses.copy(), L.sum(axis=1), k, how == "border")
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


@numba.njit(cache=True)
def _similarity(s, link, volume, other, border):
    return s / link if border else s * (link / min(volume, other)) ** 0.5


@numba.njit(cache=True)
def _merge(S, L, masses, volumes, k, border):
    """Merge the most similar two until `k` are left; every row knows its most similar other."""
    p = len(masses)
    alive, labels = np.ones(p, np.bool_), np.arange(p)
    E, best, value = np.full((p, p), -1.0), np.zeros(p, np.int64), np.full(p, -1.0)
    for a in range(p):
        for b in range(p):
            if a != b:
                E[a, b] = _similarity(S[a, b], L[a, b], volumes[a], volumes[b], border)
                if E[a, b] > value[a]:
                    value[a], best[a] = E[a, b], b
    for _ in range(p - k):
        a = np.argmax(np.where(alive, value, -2.0))
        b = best[a]
        alive[b], value[a] = False, -1.0
        labels[labels == b] = a
        for c in np.flatnonzero(alive):
            if c != a:
                mean = (masses[a] * S[a, c] + masses[b] * S[b, c]) / (masses[a] + masses[b])
                S[a, c] = S[c, a] = S[a, c] + S[b, c] if border else mean
                L[a, c] = L[c, a] = L[a, c] + L[b, c]
                E[a, c] = E[c, a] = _similarity(S[a, c], L[a, c], volumes[a] + volumes[b], volumes[c], border)
                if E[a, c] > value[a]:
                    value[a], best[a] = E[a, c], c
        masses[a] += masses[b]
        volumes[a] += volumes[b]
        for c in np.flatnonzero(alive):
            if c == a:
                continue
            if best[c] == a or best[c] == b:
                value[c] = -1.0
                for x in np.flatnonzero(alive):
                    if x != c and E[c, x] > value[c]:
                        value[c], best[c] = E[c, x], x
            elif E[c, a] > value[c]:
                value[c], best[c] = E[c, a], a
    return labels
