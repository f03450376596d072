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

from ultraspec._kernels import layout as kernels
from ultraspec.spectral.edges import Edges

MOST_NODES = 1000  # that forces move: each step compares all pairs
STEPS = 300
EARLY_STEPS = 80
EXAGGERATION = 12.0  # of attraction in the early steps, so that clusters form before they spread
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
    Y: Array = np.ascontiguousarray((start / max(float(start.std()), 1e-300) * 1e-2 + jitter).T, dtype=np.float32)
    speed = np.zeros_like(Y)
    gain = np.ones_like(Y)
    pull = np.empty_like(Y)
    push = np.empty_like(Y)
    rate = np.float32(max(n / (4 * EXAGGERATION), min(50.0, n / 4)))
    for step in range(STEPS):
        early = step < EARLY_STEPS
        kernels.attract(edges.indptr, edges.indices, edges.data, Y[0], Y[1], pull[0], pull[1])
        total = kernels.repel(Y[0], Y[1], push[0], push[1]) - n  # the q of a node and itself, 1, does not count
        gradient = 4 * (np.float32(EXAGGERATION if early else 1.0) * pull - push / np.float32(total))
        # each coordinate has its own rate, which grows while the gradient keeps its direction
        gain = np.where(np.sign(gradient) != np.sign(speed), gain + 0.2, gain * 0.8).clip(0.01).astype(np.float32)
        speed = np.float32(0.5 if early else 0.8) * speed - rate * gain * gradient
        Y = Y + speed
        Y -= Y.mean(axis=1, keepdims=True)
    return Y.T.astype(np.float64)


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
