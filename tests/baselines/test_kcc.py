"""KCC and ECC against dense algebra: the distances, what their sum means, and k-means on all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.helpers.common import same_partition
from tests.helpers.ensembles import base_clusters, clusterings_of
from tests.helpers.label_matrices import label_matrices, planted
from ultraspec.baselines import ECC, KCC, ecc, kcc
from ultraspec.baselines.kcc import COSTS, UtilityPoints
from ultraspec.cluster.kmeans import lloyd

EPS = np.finfo(float).eps
UTILITIES = st.sampled_from(list(COSTS))


def norm(v, p):
    return (v**p).sum() ** (1 / p)


# phi of a distribution, and the distance of a row in cluster l from a centre with shares v, as the paper has them
PHI = {
    "category": lambda v: norm(v, 2) ** 2,
    "entropy": lambda v: sum(x * np.log2(x) for x in v if x > 0),
    "cosine": lambda v: norm(v, 2),
    "l5": lambda v: norm(v, 5),
    "l8": lambda v: norm(v, 8),
}
DISTANCE = {
    "category": lambda v, at: 1 - 2 * v[at] + (v**2).sum(),
    "entropy": lambda v, at: -np.log2(v[at] + EPS),
    "cosine": lambda v, at: 1 - v[at] / norm(v, 2),
    "l5": lambda v, at: 1 - (v[at] / norm(v, 5)) ** 4,
    "l8": lambda v, at: 1 - (v[at] / norm(v, 8)) ** 7,
}


def blocks(labels):
    """Memberships (N, k_i) of each clustering that assigns some row."""
    B, owners = base_clusters(labels)
    return [B[:, np.array(owners) == j] for j in sorted(set(owners))]


def shares(B, rows):
    """Distribution of some rows over the clusters of one clustering; zeros where it assigns none of them."""
    totals = B[rows].sum(axis=0)
    return totals / max(totals.sum(), 1)


def factors(labels, utility, normalized):
    """What clusterings count for: one over the size of their own utility, if that is asked for."""
    if not normalized:
        return [1.0] * len(blocks(labels))
    sizes = [abs(PHI[utility](shares(B, slice(None)))) for B in blocks(labels)]
    return [1 / size if size > 0 else 0.0 for size in sizes]


def costs(labels, centers, utility, normalized):
    """Cost (N, k) of every row at every centre, which is given as shares (k, k_i) for each clustering."""
    total = np.zeros((len(labels), len(centers[0])))
    parts = zip(blocks(labels), centers, factors(labels, utility, normalized), strict=True)
    for B, M, factor in parts:
        for x, row in enumerate(B):
            if row.any():
                for j, v in enumerate(M):
                    total[x, j] += factor * (DISTANCE[utility](v, int(row.argmax())) if v.any() else empty(utility))
    return total


def empty(utility):
    """Cost of a clustering that assigns no row of the centre."""
    return 52.0 if utility == "entropy" else 1.0


def start(labels, k, seed, engine):
    clusterings, places = clusterings_of(labels, engine)
    k = min(k, len(clusterings))
    return clusterings, places, np.sort(np.random.default_rng(seed).choice(len(clusterings), k, replace=False))


@settings(max_examples=60)
@given(
    labels=label_matrices(most_rows=30),
    k=st.integers(1, 5),
    utility=UTILITIES,
    normalized=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_pass_is_that_of_the_definition(labels, k, utility, normalized, seed, engine):
    """Labels, objective and new centres after one pass over microclusters, from costs of all rows."""
    assume((labels >= 0).any(axis=1).all())
    clusterings, places, chosen = start(labels, k, seed, engine)
    points = UtilityPoints(clusterings, utility, normalized)
    found = lloyd(points, points.take(chosen), engine, max_iter=1)
    firsts = [int(np.flatnonzero(places == at)[0]) for at in chosen]
    D = costs(labels, [B[firsts] for B in blocks(labels)], utility, normalized)
    best = D.min(axis=1)
    assert D[np.arange(len(D)), found.labels[places]] == pytest.approx(best, abs=1e-3)
    assert found.inertia == pytest.approx(best.sum(), rel=1e-5, abs=1e-3)
    ours = found.labels[places]
    for j in range(len(chosen)):
        if (ours == j).any():
            theirs = np.concatenate([shares(B, ours == j) for B in blocks(labels)])
            np.testing.assert_allclose(found.means[j], theirs, atol=1e-6)


@settings(max_examples=40)
@given(labels=label_matrices(most_rows=40), k=st.integers(1, 5), utility=UTILITIES, seed=st.integers(0, 99))
def test_costs_at_the_means_add_up_to_the_utility(labels, k, utility, seed, engine):
    """Of complete clusterings: less cost is more utility, sum_j p_j phi(m_j), whatever the labels."""
    assume((labels >= 0).all())
    clusterings, places, chosen = start(labels, k, seed, engine)
    points = UtilityPoints(clusterings, utility, normalized=False)
    means = lloyd(points, points.take(chosen), engine, max_iter=1)
    ours = means.labels[places]
    table, whole = points.costs(means.means)
    B, _ = base_clusters(labels)
    total = (B @ table + whole)[np.arange(len(labels)), ours].sum()
    gained = sum((ours == j).sum() * PHI[utility](shares(B, ours == j)) for B in blocks(labels) for j in set(ours))
    constant = 0 if utility == "entropy" else len(labels) * labels.shape[1]
    assert total == pytest.approx(constant - gained, rel=1e-5, abs=1e-3)


@settings(max_examples=30)
@given(labels=label_matrices(most_rows=40), k=st.integers(1, 4), utility=UTILITIES)
def test_labels_settle(labels, k, utility):
    """No row would rather be in another of the clusters that are found."""
    labels = labels[(labels >= 0).any(axis=1)]
    k = min(k, len(np.unique(labels, axis=0)))
    found = kcc(labels, k, utility=utility, max_iter=1000, random_state=0)
    assert set(found) <= set(range(k))
    centers = [np.stack([shares(B, found == j) for j in sorted(set(found))]) for B in blocks(labels)]
    D = costs(labels, centers, utility, normalized=False)
    assert D[np.arange(len(D)), found] == pytest.approx(D.min(axis=1), abs=1e-3)


@pytest.mark.parametrize("utility", list(COSTS))
@pytest.mark.parametrize("normalized", [False, True])
def test_planted_clusters_are_found(utility, normalized):
    truth, labels = planted(k=4, n=300, m=20, noise=0.05, finest=1)
    assert same_partition(kcc(labels, 4, utility=utility, normalized=normalized, n_init=30, random_state=0), truth)


def test_the_best_start_is_kept():
    _, labels = planted(k=6, n=300, m=10, noise=0.4)

    def objective(n_init, seed):
        found = kcc(labels, 6, utility="category", n_init=n_init, max_iter=1000, random_state=seed)
        centers = [np.stack([shares(B, found == j) for j in range(6)]) for B in blocks(labels)]
        return costs(labels, centers, "category", normalized=False).min(axis=1).sum()

    one, ten = (np.array([objective(n_init, seed) for seed in range(3)]) for n_init in (1, 10))
    assert (ten <= one + 1e-6).all()
    assert ten.sum() < one.sum()


def test_ecc_is_kcc_with_entropy():
    _, labels = planted(k=5, noise=0.3)
    same = {"utility": "entropy", "n_init": 10, "max_iter": 40}
    assert (ecc(labels, 5, random_state=1) == kcc(labels, 5, **same, random_state=1)).all()
    X = np.random.default_rng(0).normal(size=(400, 3))
    theirs = KCC(4, **same, random_state=0).fit_predict(X)
    assert (ECC(4, random_state=0).fit_predict(X) == theirs).all()


def test_bad_parameters():
    labels = [[0], [1]]
    with pytest.raises(ValueError, match="utility must be one of 'category', 'entropy'"):
        kcc(labels, 2, utility="shannon")
    with pytest.raises(TypeError, match="normalized must be True or False"):
        kcc(labels, 2, normalized="yes")
    for function in (kcc, ecc):
        with pytest.raises(ValueError, match="n_init"):
            function(labels, 2, n_init=0)
        with pytest.raises(TypeError, match="max_iter"):
            function(labels, 2, max_iter=1.5)
