"""Positions of a graph in the plane, for rows of many features.

Nodes with an edge attract each other, all nodes repel each other: the forces of t-SNE, with the affinities of the
graph. A row lies at the weighted mean of the representatives it has edges to. So a layout of a few hundred nodes
places any number of rows, at a few operations each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.spatial.distance

from ultraspec.spectral.edges import Edges

MOST_NODES = 1000  # that forces move: each step compares all pairs
STEPS = 300
EARLY_STEPS = 80
EXAGGERATION = 12.0  # of attraction in the early steps, so that clusters form before they spread
BUFFER_VALUES = 2**17  # distances that are computed at a time, so that they stay in the cache
BLOCK_NODES = 1000

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]  # float32 unless stated otherwise


def place_rows(edges: Edges, positions: Floats) -> Floats:
    """Return the positions (n, 2) of rows: the weighted means of the nodes they have edges to."""
    placed = np.zeros((len(edges), 2))
    for ids, weights in zip(edges.ids.T, edges.weights.T, strict=True):
        placed += positions[ids] * weights[:, None]
    return placed / np.maximum(edges.weights.sum(axis=1, dtype=np.float64), 1e-300)[:, None]


def lay_out(graph: scipy.sparse.csr_array, vectors: Array, features: Array, most_nodes: int = MOST_NODES) -> Floats:
    """Return the positions (p, 2) of all nodes of a graph.

    Parameters
    ----------
    graph : csr_array of shape (p, p)
        Affinities, zero on the diagonal.
    vectors : ndarray of shape (p, k)
        Eigenvectors of the graph, which give the first positions.
    features : ndarray of shape (p, d)
        Coordinates of the nodes: a node without edges gets the position of its nearest neighbour.
    most_nodes : int
        Number of nodes that forces move; the others lie among these.
    """
    degrees = graph.sum(axis=1)
    connected = np.flatnonzero(degrees > 0)
    start = principal_plane(unit_length(vectors))
    if connected.size < 4:
        return start
    main = np.sort(connected[np.argsort(-degrees[connected], kind="stable")[:most_nodes]])
    positions = np.full((len(vectors), 2), np.nan)
    positions[main] = balance_forces(_graph_among(graph, main), start[main])
    for _ in range(2):  # the others lie at the mean of their neighbours, or of their neighbours' neighbours
        known = np.isfinite(positions[:, 0])
        rest = np.flatnonzero(~known & (degrees > 0))
        edges = graph[rest][:, np.flatnonzero(known)]
        total = edges.sum(axis=1)
        reached = total > 0
        positions[rest[reached]] = (edges @ positions[known])[reached] / total[reached, None]
    known_at = np.flatnonzero(np.isfinite(positions[:, 0]))
    unknown_at = np.flatnonzero(np.isnan(positions[:, 0]))
    for low in range(0, unknown_at.size, BLOCK_NODES):
        block = unknown_at[low : low + BLOCK_NODES]
        nearest = scipy.spatial.distance.cdist(features[block], features[known_at]).argmin(axis=1)
        positions[block] = positions[known_at[nearest]]
    return positions


def _graph_among(graph: scipy.sparse.csr_array, main: npt.NDArray[np.intp]) -> scipy.sparse.csr_array:
    """Return the graph among some nodes; two that share a neighbour outside of these get an edge, too."""
    inner = graph[main][:, main]
    if len(main) == graph.shape[0]:
        return inner
    outside = np.setdiff1d(np.arange(graph.shape[0]), main)
    across = graph[main][:, outside]
    total = np.maximum(across.sum(axis=0), 1e-300)
    return inner + across @ (across.T / total[:, None])


def balance_forces(graph: scipy.sparse.csr_array, start: Floats) -> Floats:
    """Return positions at which attraction and repulsion are in balance: gradient descent as in t-SNE."""
    n = len(start)
    scaled = graph.multiply(1.0 / np.maximum(graph.sum(axis=1), 1e-300)[:, None])
    edges = scipy.sparse.csr_array(scaled + scaled.T, dtype=np.float32)
    edges.data /= edges.data.sum()
    jitter = np.random.default_rng(0).normal(scale=1e-4, size=start.shape)
    Y: Array = (start / max(float(start.std()), 1e-300) * 1e-2 + jitter).astype(np.float32)
    speed = np.zeros_like(Y)
    gain = np.ones_like(Y)
    rate = np.float32(max(n / (4 * EXAGGERATION), min(50.0, n / 4)))
    buffer = np.empty((max(1, min(n, BUFFER_VALUES // n)), n), dtype=np.float32)
    for step in range(STEPS):
        early = step < EARLY_STEPS
        pull = _attraction(Y, edges) * np.float32(EXAGGERATION if early else 1.0)
        gradient = 4 * (pull - _repulsion(Y, buffer))
        # each coordinate has its own rate, which grows while the gradient keeps its direction
        gain = np.where(np.sign(gradient) != np.sign(speed), gain + 0.2, gain * 0.8).clip(0.01).astype(np.float32)
        speed = np.float32(0.5 if early else 0.8) * speed - rate * gain * gradient
        Y = Y + speed
        Y -= Y.mean(axis=0)
    return Y.astype(np.float64)


def _attraction(Y: Array, edges: scipy.sparse.csr_array) -> Array:
    """Return the attraction of each node: the sum over its edges of w_ij (y_i - y_j) / (1 + |y_i - y_j|^2)."""
    away = np.repeat(Y, np.diff(edges.indptr), axis=0) - Y[edges.indices]
    weights = edges.data / (1 + np.einsum("ij,ij->i", away, away))
    pull = scipy.sparse.csr_array((weights, edges.indices, edges.indptr), shape=edges.shape)
    sums = pull @ np.hstack([Y, np.ones((len(Y), 1), dtype=np.float32)])
    return sums[:, 2:] * Y - sums[:, :2]


def _repulsion(Y: Array, buffer: Array) -> Array:
    """Return the repulsion of each node: the sum over all others of (y_i - y_j) q_ij^2 / sum(q).

    q_ij = 1 / (1 + |y_i - y_j|^2) is computed for as many nodes at a time as `buffer` has rows.
    """
    n = len(Y)
    one = np.ones((n, 1), dtype=np.float32)
    squares = np.einsum("ij,ij->i", Y, Y)[:, None]
    # 1 + |y_i - y_j|^2 = -2 y_i y_j + (|y_i|^2 + 1) + |y_j|^2 as one product of matrices
    left = np.hstack([-2 * Y, squares + 1, one])
    right = np.hstack([Y, one, squares]).T.copy()
    Y_and_one = np.hstack([Y, one])
    push = np.empty_like(Y)
    total = -float(n)  # q_ii = 1 does not count
    for low in range(0, n, len(buffer)):
        part = slice(low, min(low + len(buffer), n))
        q = np.matmul(left[part], right, out=buffer[: part.stop - low])
        np.maximum(q, 1, out=q)  # rounding errors may make it smaller
        np.reciprocal(q, out=q)
        total += float(q.sum())
        np.square(q, out=q)
        sums = q @ Y_and_one
        push[part] = sums[:, 2:] * Y[part] - sums[:, :2]
    return push / np.float32(total)


def unit_length(vectors: Array) -> Floats:
    """Return rows scaled to length one."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


def principal_plane(points: Floats) -> Floats:
    """Return the first two principal components (n, 2) of points, zeros if they have fewer."""
    centered = points - points.mean(axis=0)
    directions = np.linalg.svd(centered, full_matrices=False)[2][:2]
    # the largest entry is positive, so that signs do not depend on the LAPACK in use
    directions *= np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])[:, None]
    plane = centered @ directions.T
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
