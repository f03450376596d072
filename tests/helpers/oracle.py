"""U-SPEC slowly and to the letter: what every fast path is compared with.

Each function is one sentence of the paper (section 3.1), in float64 NumPy and in the paper's words. Where the paper is
silent the authors' code decides: rows of the embedding get unit length, the factor 1 / (1 - gamma) is left out, and an
object whose affinities all vanish keeps a degree of eps. Nothing here is shared with the library.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

EPS = np.finfo(np.float64).eps


def squared_distances(X, Y):
    """||x - y||^2 of every pair, by subtraction."""
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    return np.array([((x - Y) ** 2).sum(axis=1) for x in X]).reshape(len(X), len(Y))


# Phase 2: K-nearest representatives


def rep_cluster_centers(R, starts):
    """y_j, the mean of the representatives in rep-cluster j."""
    R = np.asarray(R, dtype=np.float64)
    return np.array([R[low:high].mean(axis=0) for low, high in pairwise(starts)])


def neighborhoods(R, length):
    """Each representative, then its nearest neighbours: `length` ids in all."""
    sq = squared_distances(R, R)
    np.fill_diagonal(sq, -1.0)
    return np.argsort(sq, axis=1, kind="stable")[:, :length]


def nearest_of(X, R, candidates, K):
    """For each object the K nearest of its row of candidate representatives: ids and distances."""
    sq = np.array([squared_distances(x[None], R[c])[0] for x, c in zip(X, candidates, strict=True)])
    order = np.argsort(sq, axis=1, kind="stable")[:, :K]
    return np.take_along_axis(candidates, order, axis=1), np.sqrt(np.take_along_axis(sq, order, axis=1))


def approx_neighbors(X, R, centers, starts, lists, K):
    """Steps 1 to 3; rep-cluster j holds the representatives ``starts[j] .. starts[j + 1]``."""
    nearest_cluster = squared_distances(X, centers).argmin(axis=1)
    owners = []
    for x, j in zip(X, nearest_cluster, strict=True):
        members = np.arange(starts[j], starts[j + 1])
        owners.append(members[squared_distances(x[None], R[members])[0].argmin()])
    return nearest_of(X, R, np.asarray(lists, dtype=np.int64)[owners], K)


def exact_neighbors(X, R, K):
    """The K nearest of all representatives."""
    return nearest_of(X, R, np.tile(np.arange(len(R)), (len(X), 1)), K)


# The affinity sub-matrix


def sigma(distances):
    """The average distance between the objects and their K-nearest representatives; 1 if all are zero."""
    return distances.mean() or 1.0


def affinity(ids, distances, sigma, p):
    """B (N x p): exp(-d^2 / (2 sigma^2)) at the K-nearest representatives, zero elsewhere."""
    exponents = -(distances**2) / (2 * sigma**2)
    values = np.exp(exponents)
    faint = values.sum(axis=1) < EPS  # would divide by zero: keep the proportions, at a degree of eps
    shifted = np.exp(exponents[faint] - exponents[faint].max(axis=1, keepdims=True))
    values[faint] = EPS * shifted / shifted.sum(axis=1, keepdims=True)
    B = np.zeros((len(ids), p))
    np.put_along_axis(B, np.asarray(ids, dtype=np.int64), values, axis=1)
    return B


# Phase 3: bipartite graph partitioning


def transition(B):
    """T = D_X^-1 B."""
    return B / B.sum(axis=1, keepdims=True)


def reduced_affinity(B):
    """W = B' D_X^-1 B."""
    return B.T @ transition(B)


def regularized(W, tau):
    """W + tau * mean(d) / p between all pairs (architecture.md, 4.4)."""
    return W + tau * W.sum(axis=1).mean() / len(W)


def transfer_cut(W, k, regularization=0.0):
    """Leading eigenvalues of D^-1/2 W D^-1/2 and D^-1/2 V, with NaN for representatives that no object uses."""
    used = np.flatnonzero(W.diagonal() > 0)
    W_used = regularized(W[np.ix_(used, used)], regularization)
    roots = np.sqrt(W_used.sum(axis=1))
    eigenvalues, V = np.linalg.eigh(W_used / np.outer(roots, roots))
    k = min(k, len(used))
    vectors = np.full((len(W), k), np.nan)
    vectors[used] = V[:, ::-1][:, :k] / roots[:, None]
    return eigenvalues[::-1][:k], vectors


def embedding(B, vectors):
    """Rows of T D^-1/2 V, each of unit length."""
    rows = transition(B) @ np.nan_to_num(vectors)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def eigengroups(eigenvalues, gap=1e-4):
    """Ends m such that the first m eigenvectors span a space that rounding cannot mix with the rest."""
    return [m for m in range(1, len(eigenvalues)) if eigenvalues[m - 1] - eigenvalues[m] > gap]


# k-means


def assign(X, centers):
    """The nearest centre of each row."""
    return squared_distances(X, centers).argmin(axis=1)


def cluster_means(X, labels, centers):
    """Mean row of each cluster; a cluster without rows keeps its centre."""
    X = np.asarray(X, dtype=np.float64)
    return np.array([X[labels == c].mean(axis=0) if (labels == c).any() else y for c, y in enumerate(centers)])


def kmeans(X, centers, max_iter):
    """Lloyd's k-means: every set of centres on the way, and the labels that the last one gives."""
    path = [np.asarray(centers, dtype=np.float64)]
    labels = assign(X, path[-1])
    while len(path) < max_iter:
        centers = cluster_means(X, labels, path[-1])
        before, labels = labels, assign(X, centers)
        path.append(centers)
        if (labels == before).all():
            break
    return labels, path


def spread_seeds(X, weights, uniforms):
    """k-means++: each further row is drawn with probability proportional to its weighted squared distance to those
    chosen; the first by its weight alone."""
    chosen = []
    for u in uniforms:
        masses = weights * squared_distances(X, X[chosen]).min(axis=1) if chosen else weights
        if not masses.any():
            break
        chosen.append(int(np.searchsorted(np.cumsum(masses), u * masses.sum(), side="right")))
    return chosen


# Beyond the paper: groups of representatives


def vote(B, groups):
    """The group that most of each object's transition probability goes to."""
    members = np.eye(max(groups) + 1)[groups]
    return transition(B) @ members


def co_association(labelings, masses):
    """C_ij: mean over labelings of [same group] / (mass of that group)."""
    p = len(masses)
    C = np.zeros((p, p))
    for labels in labelings:
        for i in range(p):
            for j in range(p):
                if labels[i] == labels[j]:
                    C[i, j] += 1.0 / masses[labels == labels[i]].sum() / len(labelings)
    return C


def moved_labels(T, labels, k):
    """g_j = argmax_c sum_i T_ij [l_i = c]."""
    return (T.T @ np.eye(k)[labels]).argmax(axis=1)


def similarities(means, links, masses, method):
    """S_ab (L_ab / min vol)^0.5 ("linked"), or S_ab max(m_a, m_b)^0.25 L_ab / min vol ("border")."""
    volumes = links.sum(axis=1)
    shares = links / np.minimum.outer(volumes, volumes)
    weights = np.sqrt(shares) if method == "linked" else np.maximum.outer(masses, masses) ** 0.25 * shares
    S = means * weights
    np.fill_diagonal(S, -np.inf)
    return S


def linked_merges(C, W, masses, groups, method):
    """Merge the two most similar groups until one is left, each time from the sums over their members.

    C : co-association, W : affinity (self-loops count to volumes), masses : sizes of the members. Gives the groups as
    sets of members after each merge, and the similarities.
    """
    clusters = [np.flatnonzero(groups == g) for g in range(max(groups) + 1)]
    steps = []
    while len(clusters) > 1:
        totals = np.array([masses[a].sum() for a in clusters])
        means = np.array(
            [
                [masses[a] @ C[np.ix_(a, b)] @ masses[b] / masses[a].sum() / masses[b].sum() for b in clusters]
                for a in clusters
            ]
        )
        links = np.array([[W[np.ix_(a, b)].sum() for b in clusters] for a in clusters])
        S = similarities(means, links, totals, method)
        a, b = sorted(np.unravel_index(S.argmax(), S.shape))
        merged = np.concatenate([clusters[a], clusters[b]])
        clusters = [c for i, c in enumerate(clusters) if i not in (a, b)] + [merged]
        steps.append(({frozenset(c.tolist()) for c in clusters}, S[a, b]))
    return steps
