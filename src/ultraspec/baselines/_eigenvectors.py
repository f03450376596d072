"""Leading eigenvectors of a sparse graph: takes its affinity, gives the spectral embedding of normalised cuts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

from ultraspec._kernels.lapack import largest_eigenpairs

DENSE_ROWS = 600  # pieces up to here are solved by LAPACK
TINY_DEGREE = 1e-10

Floats = npt.NDArray[np.float64]


def leading_eigenvectors(W: Any, k: int, random: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
    """`k` leading eigenvectors of D^-1/2 W D^-1/2, and the sizes of the graph's pieces, largest first.

    Every connected piece has the eigenvalue one, with a vector that is known. An iterative solver finds such repeated
    eigenvalues badly, so it looks for the others only, piece by piece. Of more than `k` pieces the largest are taken;
    rows of the others are zero.
    """
    roots = np.sqrt(np.asarray(W.sum(axis=1)).ravel() + TINY_DEGREE)
    S = scipy.sparse.diags_array(1.0 / roots) @ W @ scipy.sparse.diags_array(1.0 / roots)
    n_pieces, piece = scipy.sparse.csgraph.connected_components(W, directed=False)
    sizes = np.bincount(piece)
    order = np.argsort(-sizes, kind="stable")
    V = np.zeros((len(roots), k))
    for column, c in enumerate(order[:k]):
        inside = piece == c
        V[inside, column] = roots[inside] / np.linalg.norm(roots[inside])
    found: list[tuple[float, npt.NDArray[np.intp], Floats]] = []
    missing = k - n_pieces
    if missing > 0:
        for c in order[sizes[order] > 1]:
            inside = np.flatnonzero(piece == c)
            part = S if n_pieces == 1 else S[inside][:, inside]
            values, vectors = _eigenpairs_below_one(
                part.tocsr(), V[inside, np.flatnonzero(order == c)[0]], missing, random
            )
            found += [(value, inside, vectors[:, j]) for j, value in enumerate(values)]
        found.sort(key=lambda pair: -pair[0])
    for column, (_, inside, vector) in enumerate(found[:missing], start=n_pieces):
        V[inside, column] = vector * np.sign(vector[np.abs(vector).argmax()])
    return V, sizes[order]


def _eigenpairs_below_one(S: Any, first: Floats, m: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """The `m` largest eigenvalues of a connected piece below one, descending, and their vectors; fewer if it is small.

    The vector `first` of the eigenvalue one is deflated: its eigenvalue becomes minus one, the least there can be.
    """
    n = S.shape[0]
    m = min(m, n - 1)
    if n <= max(DENSE_ROWS, 4 * m):
        values, vectors = largest_eigenpairs(S.toarray() - 2.0 * np.outer(first, first), m)
        return values[::-1], vectors[:, ::-1]
    deflated = scipy.sparse.linalg.LinearOperator(
        S.shape, matvec=lambda x: S @ x.ravel() - first * (2.0 * (first @ x.ravel())), dtype=np.float64
    )
    start = random.standard_normal(n)
    start -= first * (first @ start)
    options = {"ncv": min(n - 1, max(4 * m, 40)), "tol": 1e-8, "maxiter": 100 * n}
    values, vectors = scipy.sparse.linalg.eigsh(deflated, m, which="LA", v0=start, **options)
    down = np.argsort(-values, kind="stable")
    return values[down], vectors[:, down]
