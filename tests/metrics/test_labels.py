import subprocess
import sys
import tracemalloc
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score, normalized_mutual_info_score

from ultraspec import metrics
from ultraspec.metrics import ami, ari, contingency, hungarian_accuracy, majority_accuracy, nmi
from ultraspec.metrics import labels as labels_module

quick = settings(max_examples=60, deadline=None)  # a busy machine is no failure
SCORES = [nmi, majority_accuracy, hungarian_accuracy, ari]


@st.composite
def two_labelings(draw, top=5, longest=40):
    n = draw(st.integers(1, longest))
    one = st.lists(st.integers(0, top), min_size=n, max_size=n)
    return np.array(draw(one)), np.array(draw(one))


def best_permutation(truth, labels):
    """Try every one-to-one mapping of clusters to classes, surplus clusters to nothing."""
    classes, clusters = sorted(set(truth.tolist())), sorted(set(labels.tolist()))
    targets = classes + [None] * len(clusters)
    hits = 0
    for mapping in set(permutations(targets, len(clusters))):
        chosen = dict(zip(clusters, mapping, strict=True))
        hits = max(hits, sum(chosen[c] == t for t, c in zip(truth.tolist(), labels.tolist(), strict=True)))
    return hits / len(truth)


@quick
@given(two_labelings())
def test_nmi_and_ari_agree_with_scikit_learn(pair):
    assert ari(*pair) == pytest.approx(adjusted_rand_score(*pair), abs=1e-12)
    constant = [len(set(side.tolist())) == 1 for side in pair]
    expected = float(all(constant)) if any(constant) else normalized_mutual_info_score(*pair, average_method="max")
    assert nmi(*pair) == pytest.approx(expected, abs=1e-9)


@quick
@given(two_labelings(top=3, longest=12))
def test_accuracies_agree_with_brute_force(pair):
    truth, labels = pair
    purity = sum(np.bincount(truth[labels == c]).max() for c in set(labels.tolist())) / len(truth)
    assert majority_accuracy(truth, labels) == pytest.approx(purity, abs=1e-15)
    assert hungarian_accuracy(truth, labels) == pytest.approx(best_permutation(truth, labels), abs=1e-15)


@pytest.mark.parametrize("score", SCORES)
@quick
@given(pair=two_labelings(), shift=st.integers(-(10**12), 10**12), seed=st.integers(0, 2**32 - 1))
def test_names_and_order_of_rows_do_not_matter(score, pair, shift, seed):
    truth, labels = pair
    rng = np.random.default_rng(seed)
    expected = pytest.approx(score(truth, labels), abs=1e-12)
    order = rng.permutation(len(truth))
    assert score(truth[order], labels[order]) == expected
    new_names = rng.permutation(6) * 1_000_003 + shift
    assert score(truth, new_names[labels]) == expected
    assert score(truth.astype(str), [f"cluster {c}" for c in labels]) == expected
    assert score([frozenset([t]) if t else "none" for t in truth], labels.astype(float) / 7) == expected


@quick
@given(two_labelings())
def test_ranges_and_equal_partitions(pair):
    for score in SCORES:
        assert (-1 if score is ari else 0) <= score(*pair) <= 1
        assert score(pair[0], pair[0] * -3) == 1.0
        assert type(score(*pair)) is float
    assert hungarian_accuracy(*pair) <= majority_accuracy(*pair)
    assert nmi(*pair) == pytest.approx(nmi(*pair[::-1]), abs=1e-12)
    assert ari(*pair) == pytest.approx(ari(*pair[::-1]), abs=1e-12)
    assert hungarian_accuracy(*pair) == hungarian_accuracy(*pair[::-1])


def test_constant_labelings():
    varied, constant = [0, 0, 1, 2], [5, 5, 5, 5]
    assert nmi(constant, [1, 1, 1, 1]) == 1.0
    assert nmi(varied, constant) == nmi(constant, varied) == 0.0
    assert ari(constant, constant) == ari(range(4), list("dcba")) == 1.0
    assert ari(varied, constant) == 0.0
    assert majority_accuracy(varied, constant) == hungarian_accuracy(varied, constant) == 0.5
    for score in SCORES:
        assert score([3], ["x"]) == 1.0


def test_values_by_hand():
    truth, labels = [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]
    information = (2 * np.log(2) + np.log(1) + np.log(1) + 2 * np.log(2)) / 6
    assert nmi(truth, labels) == pytest.approx(information / np.log(3))
    assert majority_accuracy(truth, labels) == pytest.approx(5 / 6)
    assert hungarian_accuracy(truth, labels) == pytest.approx(4 / 6)
    # pairs: 2 in common, 6 in classes, 3 in clusters, 15 in all
    assert ari(truth, labels) == pytest.approx((2 - 6 * 3 / 15) / ((6 + 3) / 2 - 6 * 3 / 15))


@pytest.mark.parametrize(
    "convert",
    [
        list,
        tuple,
        pd.Series,
        pl.Series,
        np.int8,
        np.uint64,
        np.float32,
        lambda y: pd.Series(y).astype("category"),
        lambda y: pd.Series(y, dtype="Int64"),
        lambda y: pd.Series(y).map(str),
        lambda y: y.astype("S"),
        lambda y: y.astype(">i2"),
        lambda y: y.astype(np.uint64) + np.uint64(2**64 - 10),
        lambda y: y + np.iinfo(np.int64).min,
        lambda y: np.where(y == 0, np.inf, y),
        lambda y: np.repeat(y, 3)[::3],
    ],
)
def test_kinds_of_labels(convert):
    truth = np.array([0, 0, 1, 1, 2, 2, 3])
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    for score in SCORES:
        assert score(convert(truth), convert(labels)) == pytest.approx(score(truth, labels), abs=1e-12)


def test_extreme_integers_stay_distinct():
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0, 0])
    assert contingency(ends, ends).class_sizes.tolist() == [1, 2, 1]
    assert ari(np.array([-128, 127], np.int8), np.array([True, False])) == 1.0


@pytest.mark.parametrize("score", [*SCORES, contingency])
@pytest.mark.parametrize(
    ("truth", "labels", "message"),
    [
        ([0, 1], [0, 1, 2], "same length, got 2 and 3"),
        ([[0], [1]], [0, 1], r"truth must be one-dimensional, got shape \(2, 1\)"),
        ([0, 1], 3, r"labels must be one-dimensional, got shape \(\)"),
        ([], [], "truth is empty"),
        ([0.0, float("nan")], [0, 1], "truth has missing values"),
        ([0, 1], np.array(["a", None], object), "labels has missing values"),
        ([0, 1], pd.Series([1, None], dtype="Int64"), "labels has missing values"),
        ([0, 1], np.array(["a", np.nan], object), "labels has missing values"),
        ([0, 1], np.array(["2020-01-01", "NaT"], "M8[D]"), "labels has missing values"),
    ],
)
def test_errors(score, truth, labels, message):
    with pytest.raises(ValueError, match=message):
        score(truth, labels)


def test_contingency_by_all_routes(monkeypatch):
    rng = np.random.default_rng(0)
    truth, labels = rng.integers(0, 7, 5000) * 3, rng.integers(-4, 5, 5000) * 1000
    dense = contingency(truth, labels)
    assert dense.counts.sum() == len(truth)
    assert dense.class_sizes.tolist() == np.unique(truth, return_counts=True)[1].tolist()
    assert dense.cluster_sizes.tolist() == np.unique(labels, return_counts=True)[1].tolist()
    monkeypatch.setattr(labels_module, "_BLOCK_ROWS", 77)
    for cells in (100, 1):  # gaps removed first; sorted
        monkeypatch.setattr(labels_module, "_DENSE_CELLS", cells)
        for one, other in zip(dense, contingency(truth, labels), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype == np.int64


@settings(max_examples=200, deadline=None)
@given(two_labelings(top=7, longest=60))
def test_sparse_matching_equals_dense(pair):
    with pytest.MonkeyPatch.context() as patch:
        expected = hungarian_accuracy(*pair)
        patch.setattr(labels_module, "_DENSE_CELLS", 0)
        assert hungarian_accuracy(*pair) == expected


def test_very_many_clusters():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 100_000, 300_000)
    labels = np.where(rng.random(len(truth)) < 0.1, rng.integers(0, 100_000, len(truth)), truth)
    scores = [score(truth, labels * 10**9) for score in SCORES]
    assert scores[0] == pytest.approx(normalized_mutual_info_score(truth, labels, average_method="max"))
    assert scores[3] == pytest.approx(adjusted_rand_score(truth, labels))
    assert 0.89 < scores[2] <= scores[1] < 0.95


def test_two_million_rows():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 13, 2_000_000, dtype=np.int32)
    labels = np.where(rng.random(len(truth)) < 0.3, rng.integers(0, 20, len(truth)), truth).astype(np.int32)
    tracemalloc.start()
    try:
        score = nmi(truth, labels)
        assert tracemalloc.get_traced_memory()[1] < 64e6  # blocks, whatever the number of rows
    finally:
        tracemalloc.stop()
    assert score == pytest.approx(normalized_mutual_info_score(truth, labels, average_method="max"))
    assert ari(truth, labels) == pytest.approx(adjusted_rand_score(truth, labels), abs=1e-9)
    # 0.7 kept, 0.3 * 1 / 20 back by chance; each of seven surplus clusters has a small majority of its own
    assert hungarian_accuracy(truth, labels) == pytest.approx(0.715, abs=0.002)
    assert majority_accuracy(truth, labels) == pytest.approx(0.715 + 7 * 0.3 / 20 / 13, abs=0.002)


@pytest.mark.parametrize("scale", [10**5, 10**10])
def test_ari_needs_no_rows_to_be_exact(scale, monkeypatch):
    # the same table times a large number, as billions of rows would give: the index tends to a limit
    truth, labels = [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]
    table = metrics.Contingency(*(a * s for a, s in zip(contingency(truth, labels), (1, 1, scale, scale, scale))))  # noqa: B905
    monkeypatch.setattr(labels_module, "contingency", lambda truth, labels: table)
    both, classes, clusters = 10 / 36, 18 / 36, 12 / 36  # shares of pairs, as n grows
    limit = (both - classes * clusters) / ((classes + clusters) / 2 - classes * clusters)
    assert ari(truth, labels) == pytest.approx(limit, rel=1e-4)


def test_import_stays_light():
    code = "import sys, ultraspec.metrics, ultraspec.datasets; print([m for m in sys.modules if m in %r])"
    heavy = ("sklearn", "pandas", "numba")
    done = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=2, max_size=60))
def test_ami_equals_that_of_scikit_learn(pairs):
    truth, labels = np.array(pairs).T
    if len(set(truth)) == 1 or len(set(labels)) == 1:
        assert ami(truth, labels) == float(len(set(truth)) == len(set(labels)))
    else:
        assert ami(truth, labels) == pytest.approx(adjusted_mutual_info_score(truth, labels), abs=1e-9)


def test_ami_of_many_rows_takes_little_time():
    rng = np.random.default_rng(0)
    truth = rng.integers(12, size=300_000)
    labels = np.where(rng.random(300_000) < 0.6, truth, rng.integers(15, size=300_000))
    assert ami(truth, labels) == pytest.approx(adjusted_mutual_info_score(truth, labels), abs=1e-9)
    many = rng.integers(3_000, size=300_000)
    assert abs(ami(many, rng.permutation(many))) < 0.01
