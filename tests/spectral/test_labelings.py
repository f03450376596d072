"""Rough clusterings of representatives and their co-association, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import squareform

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.helpers.edges import clumps
from ultraspec.cluster.linkage import agglomerate
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import labelings
from ultraspec.spectral.transfer_cut import Spectrum


def random_labelings(p, n, k, seed):
    random = np.random.default_rng(seed)
    return [random.integers(k, size=p).astype(np.int32) for _ in range(n)]


# Weights and numbers of clusters


def test_shares_of_degrees_are_positive_and_add_up_to_one():
    spectrum, _ = clumps(p=5)
    spectrum.degrees[:] = [0, 1, 2, 3, 4]
    shares = labelings.degree_shares(spectrum)
    assert shares.tolist() == [labelings.LEAST_WEIGHT, 0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    ("k", "p", "wanted"),
    [
        (5, 1000, (20, 60)),
        (25, 1000, (25, 60)),
        (40, 1000, (40, 80)),
        (90, 10_000, (90, 180)),
        (150, 10_000, (100, 200)),  # coarser than the clusters that are asked for
        (5, 100, (12, 12)),  # eight representatives for each
        (20, 100, (20, 20)),
        (5, 4, (4, 4)),
        (1, 1, (1, 1)),
    ],
)
def test_rough_clusterings_draw_their_size_from_the_range(k, p, wanted):
    assert labelings.rough_range(k, p) == wanted


@given(k=st.integers(1, 500), p=st.integers(1, 20_000))
def test_the_range_is_never_empty(k, p):
    low, high = labelings.rough_range(k, p)
    assert 1 <= low <= high <= min(p, 200)


def test_rough_clusterings_have_sizes_of_the_range(engine):
    spectrum, _ = clumps(p=600, spread=0.5)
    weights = labelings.degree_shares(spectrum)
    rough = labelings.rough_labelings(spectrum, weights, 4, 40, np.random.default_rng(0), engine)
    assert len(rough) == 40
    assert all(labels.shape == (600,) and labels.min() >= 0 for labels in rough)
    sizes = [len(np.unique(labels)) for labels in rough]
    assert max(sizes) <= 60
    assert len(set(sizes)) > 10
    assert len({labels.tobytes() for labels in rough}) == 40


def test_rough_clusterings_do_not_depend_on_threads():
    spectrum, _ = clumps(p=300, spread=0.3)
    weights = labelings.degree_shares(spectrum)
    found = []
    for n_jobs in (1, 2, 5):
        with ThreadEngine(n_jobs) as engine:
            rough = labelings.rough_labelings(spectrum, weights, 4, 10, np.random.default_rng(3), engine)
            found.append(np.stack(rough).tobytes())
    assert found[0] == found[1] == found[2]


# k-means of representatives


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_kmeans_finds_bundles_of_directions(n_jobs):
    spectrum, y = clumps()
    with ThreadEngine(n_jobs) as engine:
        found = labelings.cluster_representatives(spectrum, 4, 100, np.random.default_rng(0), engine)
    assert found.dtype == np.int32
    assert sorted(set(found)) == [0, 1, 2, 3]
    assert len(set(zip(y, found, strict=True))) == 4


def test_kmeans_does_not_depend_on_threads():
    spectrum, _ = clumps(p=300, spread=0.5)
    found = []
    for n_jobs in (1, 2, 5):
        with ThreadEngine(n_jobs) as engine:
            labels = labelings.cluster_representatives(spectrum, 7, 100, np.random.default_rng(3), engine)
            found.append(labels.tobytes())
    assert found[0] == found[1] == found[2]


def test_kmeans_ends_at_weighted_means(engine):
    """No representative is nearer to the weighted mean of another cluster than to that of its own."""
    spectrum, _ = clumps(p=300, spread=0.6)
    labels = labelings.cluster_representatives(spectrum, 6, 100, np.random.default_rng(1), engine)
    X = spectrum.unit_rows(6).astype(np.float64)
    weights = labelings.degree_shares(spectrum)
    means = np.array([np.average(X[labels == c], axis=0, weights=weights[labels == c]) for c in range(6)])
    sq = oracle.squared_distances(X, means)
    np.testing.assert_allclose(sq[np.arange(300), labels], sq.min(axis=1), atol=1e-5)


def test_heavier_representatives_draw_the_centres(engine):
    spectrum, y = clumps(k=2, spread=0.02)
    heavy = Spectrum(spectrum.eigenvalues, spectrum.vectors, np.where(y == 0, 1e6, 1.0) * spectrum.degrees)
    labels = [labelings.cluster_representatives(s, 2, 50, np.random.default_rng(0), engine) for s in (spectrum, heavy)]
    assert len(set(zip(y, labels[0], strict=True))) == 2
    assert len(set(labels[1][y == 0])) == 2  # splitting the heavy bundle now lowers the sum of squares more


def test_fewer_distinct_embeddings_than_clusters(engine):
    spectrum, y = clumps(spread=0.0, n_vectors=6)
    labels = labelings.cluster_representatives(spectrum, 6, 50, np.random.default_rng(0), engine)
    assert sorted(set(labels)) == [0, 1, 2, 3]  # numbered without gaps
    assert len(set(zip(y, labels, strict=True))) == 4


# Patterns of labels


@settings(max_examples=60)
@given(seed=SEEDS, p=st.integers(1, 60), n=st.integers(1, 4), k=st.integers(1, 4))
def test_representatives_of_one_group_have_the_same_labels(seed, p, n, k):
    rough = random_labelings(p, n, k, seed)
    groups, first = labelings.distinct_patterns(rough, np.ones(p) / p, 1000)
    patterns = [tuple(int(labels[i]) for labels in rough) for i in range(p)]
    assert len(first) == len(set(patterns)) == groups.max() + 1
    for i in range(p):
        assert patterns[first[groups[i]]] == patterns[i]
        assert [j for j in range(p) if groups[j] == groups[i]] == [j for j in range(p) if patterns[j] == patterns[i]]
    assert (groups[first] == np.arange(len(first))).all()


@settings(max_examples=60)
@given(seed=SEEDS, p=st.integers(2, 60), n=st.integers(1, 5), data=st.data())
def test_beyond_the_limit_patterns_join_the_most_similar_of_the_heaviest(seed, p, n, data):
    rough = random_labelings(p, n, 4, seed)
    weights = np.random.default_rng(seed).random(p)
    all_groups, all_first = labelings.distinct_patterns(rough, weights, 1000)
    most = data.draw(st.integers(1, len(all_first)))
    groups, first = labelings.distinct_patterns(rough, weights, most)
    assert len(first) == most
    assert sorted(set(groups)) == list(range(most))
    masses = np.bincount(all_groups, weights)
    kept = {int(i) for i in first}
    assert kept <= {int(i) for i in all_first}
    lightest_kept = min(masses[all_groups[i]] for i in kept)
    for i in all_first:
        if int(i) not in kept:
            assert masses[all_groups[i]] <= lightest_kept
    patterns = np.stack(rough, axis=1)
    for i in range(p):
        common = (patterns[first] == patterns[i]).sum(axis=1)
        assert groups[i] == common.argmax()  # the first of equal ones


def test_labels_beyond_a_byte_are_told_apart():
    rough = [np.array([0, 256, 0, 512], dtype=np.int32)]
    groups, first = labelings.distinct_patterns(rough, np.ones(4), 100)
    assert len(first) == 3
    assert groups[0] == groups[2]


# Co-association


@settings(max_examples=60)
@given(seed=SEEDS, p=st.integers(1, 25), n_labelings=st.integers(1, 6))
def test_co_association_is_its_definition(seed, p, n_labelings):
    random = np.random.default_rng(seed)
    masses = random.random(p) + 0.01
    rough = [random.integers(random.integers(1, p + 1), size=p).astype(np.int32) for _ in range(n_labelings)]
    found = labelings.co_association(rough, masses)
    np.testing.assert_allclose(found, oracle.co_association(rough, masses), rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_is_average_linkage_of_all_the_objects(seed):
    """A representative of size n stands for n equal objects of SciPy's linkage."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 5, size=12)
    rough = [random.integers(4, size=12).astype(np.int32) for _ in range(7)]
    C = labelings.co_association(rough, sizes.astype(float)) + 1e-3 * random.random((12, 12))
    C = ((C + C.T) / 2).astype(np.float64)
    tree = agglomerate(C, sizes, similarity=True)
    owner = np.repeat(np.arange(12), sizes)
    far = C.max() + 1 - C[np.ix_(owner, owner)]
    far[owner[:, None] == owner] = 0  # objects of one representative come first
    np.fill_diagonal(far, 0)
    expanded = scipy.cluster.hierarchy.linkage(squareform(far, checks=False), "average")
    for k in range(1, 12):
        wanted = scipy.cluster.hierarchy.fcluster(expanded, k, "maxclust")
        first = wanted[np.concatenate([[0], np.cumsum(sizes)[:-1]])]
        assert len(set(zip(first, tree.cut(k), strict=True))) == k
