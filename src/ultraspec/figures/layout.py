"""Places for the representatives in the plane: takes their graph, gives a drawing of it.

Rows of many features are drawn on the graph that the model cuts: representatives that share rows attract each other,
all others repel (the forces of t-SNE, with the graph's own affinities), and a row lies at the weighted mean of the
representatives it is tied to. So one small drawing places any number of rows, at a few operations each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.spatial.distance

from ultraspec.spectral.edges import Edges

MOST_NODES = 1000  # that are laid out by forces; each step compares all pairs
STEPS, EARLY_STEPS = 300, 80
ROOM = 2**17  # values that are compared at a time
EXAGGERATION = 12.0  # of attraction in the early steps, so that clusters form before they spread

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]  # float32, but where said


def affinity(edges: Edges, q: int) -> scipy.sparse.csr_array:
    """The graph of `q` nodes that rows are tied to: how many rows each two share, by weight; nothing with itself."""
    n, K = edges.ids.shape
    ends = np.arange(n + 1) * K
    ties = scipy.sparse.csr_array((edges.weights.ravel().astype(np.float64), edges.ids.ravel(), ends), shape=(n, q))
    shared = scipy.sparse.coo_array(ties.T @ ties)
    apart = shared.row != shared.col
    return scipy.sparse.csr_array((shared.data[apart], (shared.row[apart], shared.col[apart])), shape=(q, q))


def place(edges: Edges, positions: Floats) -> Floats:
    """Positions (n, 2) of rows: the weighted mean of what they are tied to."""
    placed = np.zeros((len(edges), 2))
    for ids, weights in zip(edges.ids.T, edges.weights.T, strict=True):
        placed += positions[ids] * weights[:, None]
    return placed / np.maximum(edges.weights.sum(axis=1, dtype=np.float64), 1e-300)[:, None]


def lay_out(graph: scipy.sparse.csr_array, vectors: Array, features: Array) -> Floats:
    """Positions (q, 2) of all nodes of a graph.

    Parameters
    ----------
    graph : csr_array of shape (q, q)
        Affinities, as by `affinity`.
    vectors : ndarray of shape (q, k)
        Spectral vectors of the nodes, from which the drawing starts.
    features : ndarray of shape (q, d)
        The nodes themselves: those that share no row with others lie where the nearest other one lies.
    """
    degrees = graph.sum(axis=1)
    used = np.flatnonzero(degrees > 0)
    start = principal_plane(unit_length(vectors))
    if used.size < 4:
        return start
    main = np.sort(used[np.argsort(-degrees[used], kind="stable")[:MOST_NODES]])
    positions = np.full((len(vectors), 2), np.nan)
    positions[main] = spread(_inner(graph, main), start[main])
    for _ in range(2):  # nodes beyond the main ones lie among those they share rows with
        known = np.isfinite(positions[:, 0])
        rest = np.flatnonzero(~known & (degrees > 0))
        ties = graph[rest][:, np.flatnonzero(known)]
        total = ties.sum(axis=1)
        reached = total > 0
        positions[rest[reached]] = (ties @ positions[known])[reached] / total[reached, None]
    lost, known_at = np.flatnonzero(np.isnan(positions[:, 0])), np.flatnonzero(np.isfinite(positions[:, 0]))
    for low in range(0, lost.size, 1000):
        some = lost[low : low + 1000]
        near = scipy.spatial.distance.cdist(features[some], features[known_at]).argmin(axis=1)
        positions[some] = positions[known_at[near]]
    return positions


def _inner(graph: scipy.sparse.csr_array, main: npt.NDArray[np.intp]) -> scipy.sparse.csr_array:
    """The graph among some nodes, in which a shared neighbour outside of them counts as a tie."""
    inner = graph[main][:, main]
    if len(main) == graph.shape[0]:
        return inner
    outside = np.setdiff1d(np.arange(graph.shape[0]), main)
    across = graph[main][:, outside]
    total = np.maximum(across.sum(axis=0), 1e-300)
    return inner + across @ (across.T / total[:, None])


def spread(graph: scipy.sparse.csr_array, start: Floats) -> Floats:
    """Positions at which attraction along the graph and repulsion between all balance."""
    n = len(start)
    scaled = graph.multiply(1.0 / np.maximum(graph.sum(axis=1), 1e-300)[:, None])
    ties = scipy.sparse.csr_array(scaled + scaled.T, dtype=np.float32)
    ties.data /= ties.data.sum()
    jitter = np.random.default_rng(0).normal(scale=1e-4, size=start.shape)
    Y: Array = (start / max(float(start.std()), 1e-300) * 1e-2 + jitter).astype(np.float32)
    speed, gain = np.zeros_like(Y), np.ones_like(Y)
    rate = np.float32(max(n / (4 * EXAGGERATION), min(50.0, n / 4)))
    room = np.empty((max(1, min(n, ROOM // n)), n), dtype=np.float32)
    for step in range(STEPS):
        early = step < EARLY_STEPS
        pull = _attraction(Y, ties) * np.float32(EXAGGERATION if early else 1.0)
        force = 4 * (pull - _repulsion(Y, room))
        gain = np.where(np.sign(force) != np.sign(speed), gain + 0.2, gain * 0.8).clip(0.01).astype(np.float32)
        speed = np.float32(0.5 if early else 0.8) * speed - rate * gain * force
        Y = Y + speed
        Y -= Y.mean(axis=0)
    return Y.astype(np.float64)


def _attraction(Y: Array, ties: scipy.sparse.csr_array) -> Array:
    """The pull along the graph's ties."""
    away = np.repeat(Y, np.diff(ties.indptr), axis=0) - Y[ties.indices]
    pull = ties.data / (1 + np.einsum("ij,ij->i", away, away))
    pulls = scipy.sparse.csr_array((pull, ties.indices, ties.indptr), shape=ties.shape)
    sums = pulls @ np.hstack([Y, np.ones((len(Y), 1), dtype=np.float32)])
    return sums[:, 2:] * Y - sums[:, :2]


def _repulsion(Y: Array, room: Array) -> Array:
    """The push between all pairs, a few rows at a time: `room` for their distances stays in the cache."""
    n, some = len(Y), len(room)
    one = np.ones((n, 1), dtype=np.float32)
    squares = np.einsum("ij,ij->i", Y, Y)[:, None]
    left, right, sums = (
        np.hstack([-2 * Y, squares + 1, one]),
        np.hstack([Y, one, squares]).T.copy(),
        np.hstack([Y, one]),
    )
    push, total = np.empty_like(Y), -float(n)  # each point with itself does not count
    for low in range(0, n, some):
        part = slice(low, min(low + some, n))
        near = np.matmul(left[part], right, out=room[: part.stop - low])  # one and the squared distances
        np.maximum(near, 1, out=near)  # whatever was rounded
        np.reciprocal(near, out=near)
        total += float(near.sum())
        np.square(near, out=near)
        pulled = near @ sums
        push[part] = pulled[:, 2:] * Y[part] - pulled[:, :2]
    return push / np.float32(total)


def unit_length(vectors: Array) -> Floats:
    """Rows scaled to length one."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


def principal_plane(points: Floats) -> Floats:
    """Coordinates (n, 2) of points along their two main directions; zeros where they have fewer."""
    around = points - points.mean(axis=0)
    directions = np.linalg.svd(around, full_matrices=False)[2][:2]
    directions *= np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])[:, None]
    plane = around @ directions.T
    return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
