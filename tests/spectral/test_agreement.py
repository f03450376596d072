"""Clusters of representatives, against their definitions."""

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
from ultraspec.spectral import agreement
from ultraspec.spectral.transfer_cut import Spectrum


@settings(max_examples=60)
@given(seed=SEEDS, p=st.integers(1, 25), n_labelings=st.integers(1, 6))
def test_co_association_is_its_definition(seed, p, n_labelings):
    random = np.random.default_rng(seed)
    masses = random.random(p) + 0.01
    labelings = [random.integers(random.integers(1, p + 1), size=p).astype(np.int32) for _ in range(n_labelings)]
    found = agreement.co_association(labelings, masses)
    np.testing.assert_allclose(found, oracle.co_association(labelings, masses), rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_is_average_linkage_of_all_the_objects(seed):
    """A representative of size n stands for n equal objects of SciPy's linkage."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 5, size=12)
    labelings = [random.integers(4, size=12).astype(np.int32) for _ in range(7)]
    C = agreement.co_association(labelings, sizes.astype(float)) + 1e-3 * random.random((12, 12))
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


def test_rough_clusterings_draw_their_size_from_the_range():
    assert agreement.rough_range(5, 60, 1000) == (20, 60)
    assert agreement.rough_range(25, 60, 1000) == (25, 60)
    assert agreement.rough_range(40, 80, 1000) == (40, 80)
    assert agreement.rough_range(5, 60, 100) == (12, 12)  # few representatives
    assert agreement.rough_range(5, 4, 4) == (4, 4)
    assert agreement.rough_range(1, 1, 1) == (1, 1)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_both_ways_find_bundles_of_directions(n_jobs):
    spectrum, y = clumps()
    with ThreadEngine(n_jobs) as engine:
        found, n_iter = agreement.cluster_representatives(spectrum, 4, 3, 100, np.random.default_rng(0), engine)
        tree = agreement.agreement_tree(spectrum, 4, np.random.default_rng(0), engine)
    assert len(set(zip(y, found, strict=True))) == 4
    assert n_iter >= 1
    assert len(set(zip(y, tree.cut(4), strict=True))) == 4
    assert tree.sizes[-1] == pytest.approx(1.0)


def test_the_tree_does_not_depend_on_threads():
    spectrum, _ = clumps(p=300, spread=0.3)
    trees = []
    for n_jobs in (1, 2, 5):
        with ThreadEngine(n_jobs) as engine:
            trees.append(agreement.agreement_tree(spectrum, 4, np.random.default_rng(3), engine))
    for tree in trees[1:]:
        assert tree.merges.tobytes() == trees[0].merges.tobytes()
        assert tree.heights.tobytes() == trees[0].heights.tobytes()


def test_heavier_representatives_draw_the_centres():
    """k-means of weighted points: with k = 1 the inertia's centre is the weighted mean, so weights are in use."""
    spectrum, y = clumps(k=2, spread=0.02)
    heavy = Spectrum(spectrum.eigenvalues, spectrum.vectors, np.where(y == 0, 1e6, 1.0) * spectrum.degrees)
    with ThreadEngine(1) as engine:
        labels = [
            agreement.cluster_representatives(s, 2, 1, 50, np.random.default_rng(0), engine)[0]
            for s in (spectrum, heavy)
        ]
    assert len(set(zip(y, labels[0], strict=True))) == 2
    assert len(set(labels[1][y == 0])) == 2  # splitting the heavy bundle now lowers the sum of squares more


def test_representatives_without_rows_follow_their_twin():
    spectrum, _ = clumps()
    vectors, degrees = spectrum.vectors.copy(), spectrum.degrees.copy()
    vectors[7], degrees[7] = vectors[100], 0.0
    bare = Spectrum(spectrum.eigenvalues, vectors, degrees)
    with ThreadEngine(1) as engine:
        tree = agreement.agreement_tree(bare, 4, np.random.default_rng(0), engine)
    for k in range(1, 30):
        cut = tree.cut(k)
        assert cut[7] == cut[100]
