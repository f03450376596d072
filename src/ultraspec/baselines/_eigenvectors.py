"""Leading eigenvectors of a sparse graph: the spectral embedding of normalised cuts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

from ultraspec._kernels.lapack import largest_eigenpairs

DENSE_ROWS = 600  # connected components up to this size are solved by LAPACK
TINY_DEGREE = 1e-10

Floats = npt.NDArray[np.float64]


def leading_eigenvectors(W: Any, k: int, random: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return `k` leading eigenvectors of D^-1/2 W D^-1/2, and the sizes of the connected components, largest first.

    Every connected component has the eigenvalue 1, with the eigenvector D^1/2 1 on its nodes. An iterative solver finds
    such repeated eigenvalues badly, so it is used only for the other eigenvalues, component by component. If there are
    more than `k` components, the largest are used, and the rows of the others are zero.
    """
    roots = np.sqrt(np.asarray(W.sum(axis=1)).ravel() + TINY_DEGREE)
    S = scipy.sparse.diags_array(1.0 / roots) @ W @ scipy.sparse.diags_array(1.0 / roots)
    n_components, component = scipy.sparse.csgraph.connected_components(W, directed=False)
    sizes = np.bincount(component)
    order = np.argsort(-sizes, kind="stable")
    V = np.zeros((len(roots), k))
    for column, c in enumerate(order[:k]):
        inside = component == c
        V[inside, column] = roots[inside] / np.linalg.norm(roots[inside])
    pairs: list[tuple[float, npt.NDArray[np.intp], Floats]] = []
    missing = k - n_components
    if missing > 0:
        for column, c in enumerate(order):
            if sizes[c] == 1:
                continue
            inside = np.flatnonzero(component == c)
            part = S if n_components == 1 else S[inside][:, inside]
            values, vectors = _eigenpairs_below_one(part.tocsr(), V[inside, column], missing, random)
            pairs += [(value, inside, vectors[:, j]) for j, value in enumerate(values)]
        pairs.sort(key=lambda pair: -pair[0])
    for column, (_, inside, vector) in enumerate(pairs[:missing], start=n_components):
        V[inside, column] = vector * np.sign(vector[np.abs(vector).argmax()])
    return V, sizes[order]


def _eigenpairs_below_one(S: Any, first: Floats, m: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the `m` largest eigenvalues of a connected component below 1, descending, and their eigenvectors.

    There are fewer if the component is small. The eigenvector `first` of the eigenvalue 1 is deflated: subtracting
    2 f f' makes its eigenvalue -1, the smallest possible.
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
    descending = np.argsort(-values, kind="stable")
    return values[descending], vectors[:, descending]
