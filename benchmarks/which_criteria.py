"""What might tell which of two clusterings is better, from the graph of the representatives alone; higher is better."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.linalg

from ultraspec.spectral.transfer_cut import Spectrum

Labels = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

FAINT = 0.03  # of the mean degree, spread over all pairs: pieces of few rows are then no cheap cut


def criteria(W: Floats, spectrum: Spectrum, places: Floats, labels: Labels) -> dict[str, float]:
    """All criteria of one clustering of representatives at `places` with graph `W`."""
    k = int(labels.max()) + 1
    S = np.eye(k)[labels]
    A = S.T @ W @ S
    volumes = np.maximum(A.sum(axis=1), 1e-12)
    shares = volumes / volumes.sum()
    leaving = 1 - A.diagonal() / volumes
    inner = np.array([connectivity(W, np.flatnonzero(labels == c)) for c in range(k)])
    weights = spectrum.degrees / spectrum.degrees.sum()
    return {
        "normalised cut": -float(leaving.sum()),
        "cut with faint edges": -faint_cut(spectrum, labels),
        "worst conductance": -float(leaving.max()),
        "modularity": float((A.diagonal() / volumes.sum() - shares**2).sum()),
        "inner over outer conductance": float(shares @ np.log(inner / np.maximum(leaving, 1e-6))),
        "silhouette, embedding": silhouette(spectrum.unit_rows(k).astype(np.float64), labels, weights),
        "silhouette, features": silhouette(places, labels, weights),
        "largest share": float(shares.max()),
        "even sizes": float(-(shares @ np.log(shares))),
    }


def faint_cut(spectrum: Spectrum, labels: Labels) -> float:
    """Normalised cut by the leading eigenvectors, with a faint edge between all pairs."""
    p, k = len(labels), int(labels.max()) + 1
    weights = spectrum.degrees * (p / spectrum.degrees.sum())
    units = spectrum.vectors / np.sqrt((weights[:, None] * spectrum.vectors**2).sum(axis=0))
    sums = np.zeros((k, units.shape[1]))
    np.add.at(sums, labels, weights[:, None] * units)
    counts = np.bincount(labels, minlength=k)
    volumes = np.bincount(labels, weights, k) + FAINT * counts
    inside = (spectrum.eigenvalues * sums**2).sum(axis=1) + FAINT * counts**2 / p
    return float((1 - inside / np.maximum(volumes, 1e-300)).sum())


def connectivity(W: Floats, members: npt.NDArray[np.intp]) -> float:
    """One minus the second eigenvalue of a cluster's own graph: small where it falls into parts."""
    if len(members) < 3:
        return 1.0
    B = W[np.ix_(members, members)] + 1e-9 * W.sum() / len(W) ** 2
    roots = np.sqrt(B.sum(axis=1))
    n = len(members)
    second = scipy.linalg.eigh(B / roots / roots[:, None], eigvals_only=True, subset_by_index=[n - 2, n - 2])[0]
    return max(1 - float(second), 1e-6)


def silhouette(X: Floats, labels: Labels, weights: Floats) -> float:
    """Simplified silhouette, by distances to centres."""
    S = np.eye(labels.max() + 1)[labels] * weights[:, None]
    centers = S.T @ X / np.maximum(S.sum(axis=0), 1e-12)[:, None]
    D = np.sqrt(np.maximum((X**2).sum(axis=1)[:, None] - 2 * X @ centers.T + (centers**2).sum(axis=1), 0.0))
    rows = np.arange(len(X))
    own = D[rows, labels]
    D[rows, labels] = np.inf
    other = np.minimum(D.min(axis=1), 1e300)
    return float(weights @ ((other - own) / np.maximum(np.maximum(own, other), 1e-12)))


def agreement(a: Labels, b: Labels, weights: Floats) -> float:
    """Return the adjusted Rand index of two clusterings of weighted points."""
    T = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(T, (a, b), weights / weights.sum())
    both, one, other = (T**2).sum(), (T.sum(axis=1) ** 2).sum(), (T.sum(axis=0) ** 2).sum()
    return float((both - one * other) / max(0.5 * (one + other) - one * other, 1e-12))
