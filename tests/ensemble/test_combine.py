"""The public function `consensus`: labels, options and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.common import same_partition
from tests.helpers.ensembles import base_clusters
from tests.helpers.label_matrices import as_objects, label_matrices, planted
from ultraspec import USENC, consensus, metrics
from ultraspec.ensemble import microclusters
from ultraspec.ensemble import transfer_cut as consensus_cut

BASE = [[0, 0], [0, 0], [1, 1], [1, 1]]


# Labels


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("k", [2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_planted_clusters_are_recovered(seed, k, missing):
    """Each member alone is far off; all together are right."""
    truth, base = planted(k, n=500, m=20, noise=0.2, seed=seed, missing=missing)
    before = base.copy()
    labels = consensus(base, k, random_state=seed)
    assert labels.shape == truth.shape
    assert labels.dtype == np.int32
    assert np.unique(labels).tolist() == list(range(k))
    assert max(metrics.nmi(truth, column) for column in base.T) < 0.9
    assert metrics.nmi(truth, labels) > 0.95
    assert (base == before).all()


@pytest.mark.parametrize("k", [2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_auto_finds_the_planted_number(seed, k):
    truth, base = planted(k, n=500, m=15, noise=0.1, seed=seed)
    labels = consensus(base, "auto", random_state=seed)
    assert same_partition(truth, labels)


@pytest.mark.parametrize("n_clusters", [1, 2, np.int64(3), 7])
def test_as_many_clusters_as_asked(n_clusters):
    labels = consensus(planted()[1], n_clusters, random_state=0)
    assert np.unique(labels).tolist() == list(range(n_clusters))


@settings(max_examples=100)
@given(labels=label_matrices(), data=st.data())
def test_any_matrix(labels, data):
    """Every row with a label gets one, all numbers are in use, and warnings say what is missing."""
    n_base = base_clusters(labels)[0].shape[1]
    k = data.draw(st.integers(1, n_base) | (st.just("auto") if labels.shape[1] >= 4 else st.nothing()))
    assigned = (labels >= 0).any(axis=1)
    distinct = len(np.unique(labels[assigned], axis=0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = consensus(labels, k, random_state=0, n_jobs=1)
    assert (found[~assigned] == -1).all()
    assert np.unique(found[assigned]).tolist() == list(range(found.max() + 1))
    groups = np.unique(np.column_stack([labels, found])[assigned], axis=0)
    assert len(groups) == distinct  # equal rows have equal labels
    messages = {str(w.message)[:18] for w in caught}
    assert ("No structure found" in messages) == (k == "auto" and found.max() < 1)
    if k == "auto":
        assert found.max() + 1 <= distinct
        return
    alone = labels.shape[1] == 1 and 1 < k < n_base
    wanted = {UserWarning} if alone or not assigned.all() else set()
    if distinct < k:
        wanted.add(ConvergenceWarning)
    assert {w.category for w in caught} == wanted
    assert found.max() + 1 == min(k, distinct)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_auto_needs_four_clusterings(m):
    _, base = planted(3, m=m)
    message = rf'n_clusters="auto" compares halves .* base_labels has only {m}\. Pass n_clusters, or at least 4'
    with pytest.raises(ValueError, match=message):
        consensus(base, "auto", random_state=0)


def test_fewer_clusters_than_asked_for_are_warned_of():
    base = [[0, 0], [0, 0], [1, 1], [1, 1]]
    with pytest.warns(ConvergenceWarning, match=r"Found 2 clusters instead of 4: too few groups of rows differ"):
        labels = consensus(base, 4, random_state=0)
    assert same_partition(labels, [0, 0, 1, 1])


@pytest.mark.parametrize("regularization", [0.0, 1e-3, 1])
def test_regularization(regularization):
    truth, base = planted(4)
    labels = consensus(base, 4, regularization=regularization, random_state=0)
    assert same_partition(truth, labels)


def renamings(base):
    """The same clusterings with other labels; some renamings change the order of the base clusters, too."""
    random = np.random.default_rng(1)
    names = np.array([f"{'xyz'[i % 3]}{i}" for i in range(base.max() + 1)])
    anything = random.choice(10**6, (base.max() + 1, base.shape[1]), replace=False) * 10**12 - 5 * 10**17
    yield "shifted", base + 1000
    yield "negative", base - 10**15
    yield "anything", np.take_along_axis(anything, base, axis=0)
    yield "backwards", base.max() - base
    yield "strings", names[base]
    yield "objects", names[base].astype(object)
    yield "floats", 0.0 - 2 * base - 2
    yield "uint8", base.astype(np.uint8)
    yield "Fortran order", np.asfortranarray(base.astype(np.int16))
    yield "column by column", np.stack([(j + 2) * column for j, column in enumerate(base.T)], axis=1)


@pytest.mark.parametrize("seed", range(3))
def test_names_of_labels_do_not_matter(seed):
    _, base = planted(4, noise=0.15, seed=seed)
    labels = consensus(base, 4, random_state=seed)
    for how, renamed in renamings(base):
        assert (consensus(renamed, 4, random_state=seed) == labels).all(), how


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_order_of_rows_and_columns_does_not_matter(seed, missing):
    _, base = planted(4, seed=seed, missing=missing)
    labels = consensus(base, 4, random_state=0)
    random = np.random.default_rng(seed)
    order = random.permutation(len(base))
    moved = np.empty_like(labels)
    moved[order] = consensus(base[order], 4, random_state=0)
    assert same_partition(moved, labels)
    columns = random.permutation(base.shape[1])
    assert same_partition(consensus(base[:, columns], 4, random_state=0), labels)


@pytest.mark.parametrize("seed", range(3))
def test_repeated_rows_and_columns(seed):
    truth, base = planted(4, seed=seed)
    thrice = base[:, [0, 0, *range(base.shape[1])]]
    for repeated in (np.repeat(base, 2, axis=1), thrice, np.repeat(base, 3, axis=0)):
        labels = consensus(repeated, 4, random_state=0)
        assert same_partition(np.repeat(truth, len(labels) // len(truth)), labels)


def test_one_clustering_gives_itself():
    truth = np.random.default_rng(0).integers(5, size=200)
    assert same_partition(consensus(truth[:, None], 5, random_state=0), truth)
    assert same_partition(consensus(np.stack([truth] * 4, axis=1), 5, random_state=0), truth)


@pytest.mark.parametrize("n_clusters", [5, "auto"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_threads_do_not_matter(missing, n_clusters, monkeypatch):
    """Bit for bit, with many parts and blocks in every pass."""
    monkeypatch.setattr(microclusters, "LEAST_PART_ROWS", 64)
    monkeypatch.setattr(consensus_cut, "BLOCK_ROWS", 50)
    monkeypatch.setattr("ultraspec.spectral.edges.SMALL_BLOCK_EDGES", 2**10)
    for seed in range(3):
        _, base = planted(5, n=2000, m=12, noise=0.4, seed=seed, missing=missing)
        one, four = (consensus(base, n_clusters, random_state=seed, n_jobs=n_jobs) for n_jobs in (1, 4))
        assert one.tobytes() == four.tobytes()


def test_parts_do_not_matter(monkeypatch):
    _, base = planted(5, n=2000, m=12, noise=0.4)
    labels = consensus(base, 5, random_state=0)
    monkeypatch.setattr(microclusters, "LEAST_PART_ROWS", 64)
    assert (consensus(base, 5, random_state=0) == labels).all()


def test_random_state():
    """A number decides all, generators are drawn from, and NumPy's own state is neither read nor changed."""
    _, base = planted(6, noise=0.6, m=5)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (consensus(base, 6, random_state=3) for _ in range(2))
    consensus(base, 6)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert (first == again).all()
    for kind in (np.random.default_rng, np.random.RandomState):
        random, same = kind(0), kind(0)
        labels = consensus(base, 6, random_state=random)
        assert (labels == consensus(base, 6, random_state=same)).all()
        assert random.random() != kind(0).random()


# Rows without labels


@pytest.mark.parametrize("none", [-1, None, float("nan")])
def test_rows_without_labels(none):
    """They get -1, the warning counts them and names the line, and all other rows are as without them."""
    truth, base = planted(3)
    padded = np.insert(base, [0, 100, 100, len(base)], -1, axis=0)
    given = padded if none == -1 else as_objects(padded, int, none)
    with pytest.warns(
        UserWarning, match=r"^4 rows have no label in any column of base_labels; they get -1\.$"
    ) as record:
        labels = consensus(given, 3, random_state=0)
    assert record[0].filename == __file__
    empty = (padded == -1).all(axis=1)
    assert empty.sum() == 4
    assert ((labels == -1) == empty).all()
    assert same_partition(labels[~empty], truth)


def test_missing_labels_leave_a_row_to_the_others():
    """A row that only one clustering assigns follows that one."""
    truth, base = planted(3, finest=1, noise=0.0)
    random = np.random.default_rng(0)
    for i in range(0, len(base), 3):
        kept = random.integers(base.shape[1])
        base[i] = np.where(np.arange(base.shape[1]) == kept, base[i], -1)
    assert same_partition(consensus(base, 3, random_state=0), truth)


# Refusals


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("n_clusters", 0, ValueError, r"n_clusters must be an integer >= 1 or 'auto', got 0\."),
        ("n_clusters", -1, ValueError, r"n_clusters must be an integer >= 1 or 'auto', got -1\."),
        ("n_clusters", 2.0, TypeError, r"n_clusters must be an integer >= 1 or 'auto', got 2\.0 \(float\)\."),
        ("n_clusters", "2", TypeError, r"n_clusters must be an integer >= 1 or 'auto', got '2' \(str\)\."),
        ("n_clusters", None, TypeError, r"n_clusters must be an integer >= 1 or 'auto', got None \(NoneType\)\."),
        ("n_clusters", True, TypeError, r"n_clusters must be .* got True \(bool\)"),
        ("n_init", 0, ValueError, r"n_init must be an integer >= 1, got 0\."),
        ("n_init", 1.5, TypeError, r"n_init must be an integer >= 1, got 1\.5 \(float\)\."),
        ("n_init", "auto", TypeError, r"n_init must be an integer >= 1, got 'auto' \(str\)\."),
        ("max_iter", 0, ValueError, r"max_iter must be an integer >= 1, got 0\."),
        ("max_iter", None, TypeError, r"max_iter must be an integer >= 1, got None \(NoneType\)\."),
        ("n_jobs", 0, ValueError, r"n_jobs must be a non-zero integer .* or None, got 0\."),
        ("n_jobs", 1.0, TypeError, r"n_jobs must be a non-zero integer .* or None, got 1\.0 \(float\)\."),
        ("regularization", -1e-3, ValueError, r"regularization must be a finite number >= 0, got -0\.001\."),
        ("regularization", np.nan, ValueError, r"regularization must be a finite number >= 0, got nan\."),
        ("regularization", "no", TypeError, r"regularization must be a finite number >= 0, got 'no' \(str\)\."),
        ("random_state", -1, ValueError, r"random_state must be a non-negative integer, .* or None, got -1\."),
        ("random_state", "seed", TypeError, r"random_state must be a non-negative integer, .* got 'seed' \(str\)\."),
    ],
)
def test_refused_parameters(name, value, error, message):
    with pytest.raises(error, match=message):
        consensus(BASE, **{"n_clusters": 2, name: value})


@pytest.mark.parametrize("k", [2, 3, 49, 60, 150])
def test_many_clusters_are_found_by_auto(k):
    truth, base = planted(k, n=40 * k, m=12, noise=0.05)
    assert same_partition(consensus(base, "auto", random_state=0), truth)


@pytest.mark.parametrize("k", [2, 3, 50])
def test_equal_clusterings_are_the_consensus(k):
    truth = np.repeat(np.arange(k), 20)
    labels = consensus(np.column_stack([truth] * 4), "auto", random_state=0)
    assert same_partition(labels, truth)


@pytest.mark.parametrize("wrong", [np.array([2, 3]), np.zeros((4, 2), dtype=int), [2]])
def test_a_number_of_clusters_that_is_an_array(wrong):
    labels = np.zeros((4, 2), dtype=int)
    with pytest.raises(TypeError, match="n_clusters must be an integer >= 1 or 'auto'"):
        consensus(labels, wrong)
    with pytest.raises(TypeError, match="n_clusters must be an integer >= 1 or 'auto'"):
        USENC(wrong).fit(labels)
