"""The consensus of label matrices: the graph of microclusters against that of all rows, and what users pass and get."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from tests.helpers import oracle
from tests.helpers.cases import SEEDS
from tests.helpers.common import same_partition
from tests.helpers.label_matrices import label_matrices, planted
from ultraspec import USENC, consensus, metrics
from ultraspec.cluster.kmeans import lloyd, spread_centers
from ultraspec.ensemble import microclusters
from ultraspec.ensemble import transfer_cut as consensus_cut
from ultraspec.ensemble.consensus import support
from ultraspec.ensemble.label_matrix import read_label_matrix
from ultraspec.ensemble.transfer_cut import ConsensusGraph, MicroclusterCut, edges_of_columns
from ultraspec.spectral import transfer_cut
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.embedding import EmbeddedPoints
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import CenterPartition
from ultraspec.spectral.transfer_cut import ONE, Spectrum, lift

TAUS = st.sampled_from([0.0, 1e-3, 1e-1])


def memberships(labels):
    """B (N x k_c): 1 where a row is in a base cluster, which are numbered through all columns."""
    columns = [labels[:, j] == name for j in range(labels.shape[1]) for name in np.unique(labels[:, j]) if name != -1]
    return np.stack(columns, axis=1).astype(np.float64)


def dense(edges, p):
    T = np.zeros((len(edges), p))
    for i, (ids, weights) in enumerate(zip(edges.ids, edges.weights, strict=True)):
        np.add.at(T[i], ids, weights)
    return T


def built(labels, engine, tau=1e-3, n_clusters=1):
    """Microclusters, their graph, and the place of every row's microcluster in that graph (-1 for none)."""
    micro = microclusters.find(labels, engine)
    graph = ConsensusGraph.build(micro, n_clusters, tau, engine)
    places = np.full(len(micro.columns), -1)
    places[graph.assigned] = np.arange(len(graph.assigned))
    return micro, graph, micro.spread(places, engine)


# The graph


@settings(max_examples=100)
@given(labels=label_matrices())
def test_edges_share_a_row_among_its_base_clusters(labels, engine):
    """The expanded T = D_x^-1 B, with no edge for a missing label."""
    _, graph, places = built(labels, engine)
    B = memberships(labels)
    assigned = B.any(axis=1)
    assert ((places >= 0) == assigned).all()
    assert (graph.weights == np.bincount(places[assigned])).all()
    T = dense(graph.edges, B.shape[1])[places[assigned]]
    np.testing.assert_allclose(T, oracle.transition(B[assigned]), rtol=1e-6)
    assert ((T > 0) == (B[assigned] > 0)).all()


@settings(max_examples=120)
@given(labels=label_matrices(), tau=TAUS, block_rows=st.sampled_from([1, 7, 8192]))
def test_spectrum_and_embedding_are_those_of_all_rows(labels, tau, block_rows, engine):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consensus_cut, "BLOCK_ROWS", block_rows)
        _, graph, places = built(labels, engine, tau)
    B = memberships(labels)
    assigned = B.any(axis=1)
    B = B[assigned]
    eigenvalues, vectors = oracle.transfer_cut(oracle.reduced_affinity(B), transfer_cut.KEPT_VECTORS, tau)
    np.testing.assert_allclose(graph.spectrum.eigenvalues, np.clip(eigenvalues, 0, 1), atol=1e-6)
    ends = oracle.eigengroups(eigenvalues, gap=1e-2)
    if len(eigenvalues) == B.shape[1]:
        ends.append(len(eigenvalues))
    for m in ends:
        ours = lift(graph.edges, graph.spectrum.vectors[:, :m])[places[assigned]]
        theirs = oracle.embedding(B, vectors[:, :m])
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-4)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_spectrum_of_many_base_clusters(seed, missing, engine):
    """Enough of them that eigenvectors come from the float32 route."""
    _, labels = planted(k=6, n=800, m=40, noise=0.3, seed=seed, missing=missing)
    _, graph, places = built(labels, engine)
    B = memberships(labels)
    assert B.shape[1] > 4 * transfer_cut.KEPT_VECTORS
    eigenvalues, vectors = oracle.transfer_cut(oracle.reduced_affinity(B), transfer_cut.KEPT_VECTORS, 1e-3)
    np.testing.assert_allclose(graph.spectrum.eigenvalues, eigenvalues, atol=1e-6)
    ours = lift(graph.edges, graph.spectrum.vectors[:, :6])[places]
    theirs = oracle.embedding(B, vectors[:, :6])
    assert eigenvalues[5] - eigenvalues[6] > 0.05
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-4)


def test_more_clusters_than_kept_vectors(engine):
    """One eigenvector more than clusters, for any number of them."""
    _, labels = planted(k=6, n=800, m=40, noise=0.3)
    _, graph, _ = built(labels, engine, n_clusters=90)
    assert len(graph.spectrum.eigenvalues) == 91


def test_edges_of_all_and_of_some():
    whole = edges_of_columns(np.array([[0, 2, 4], [1, 3, 4]], dtype=np.int32))
    assert whole.ids.tolist() == [[0, 2, 4], [1, 3, 4]]
    np.testing.assert_allclose(whole.weights, 1 / 3, rtol=1e-7)
    gaps = edges_of_columns(np.array([[-1, 2, 4], [1, -1, -1], [0, 3, 4]], dtype=np.int32))
    np.testing.assert_allclose(
        dense(gaps, 5), [[0, 0, 0.5, 0, 0.5], [0, 1, 0, 0, 0], [1 / 3, 0, 0, 1 / 3, 1 / 3]], rtol=1e-6
    )


# Weighted k-means


@settings(max_examples=100)
@given(labels=label_matrices(), k=st.integers(1, 6), d=st.integers(1, 12), max_iter=st.integers(1, 15), seed=SEEDS)
def test_weighted_kmeans_is_kmeans_on_all_rows(labels, k, d, max_iter, seed, engine):
    """From the same centres, with vectors at random: ties would let the two part."""
    micro, graph, places = built(labels, engine)
    places = places[places >= 0]
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((micro.n_columns, d)).astype(np.float32)
    vectors[:, 0] = 1.0
    start = lift(graph.edges, vectors)[random.integers(len(graph.edges), size=k)]
    start = start + 0.1 * random.standard_normal(start.shape).astype(np.float32)
    results = []
    for points in (EmbeddedPoints(graph.edges, vectors, graph.weights), EmbeddedPoints(graph.edges[places], vectors)):
        points.measure(engine)
        results.append(lloyd(points, start, engine, max_iter=max_iter))
    weighted, plain = results
    assert (weighted.labels[places] == plain.labels).all()
    assert (weighted.counts == plain.counts).all()
    assert (weighted.counts == np.bincount(plain.labels, minlength=k)).all()
    assert weighted.n_iter == plain.n_iter
    assert weighted.inertia == pytest.approx(plain.inertia, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(weighted.centers, plain.centers, atol=1e-6)
    np.testing.assert_allclose(weighted.means, plain.means, atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_weighted_kmeans_in_the_embedding(seed, missing, engine):
    """The oracle's k-means on the expanded embedding, from the same centres."""
    k = 4
    truth, labels = planted(k=k, m=8, noise=0.1, seed=seed, missing=missing)
    _, graph, places = built(labels, engine)
    vectors = graph.spectrum.vectors[:, :k]
    start = np.array([lift(graph.edges, vectors)[places[truth == c]].mean(axis=0) for c in range(k)])
    start += 0.2 * np.random.default_rng(seed).standard_normal(start.shape).astype(np.float32)
    points = EmbeddedPoints(graph.edges, vectors, graph.weights)
    points.measure(engine)
    found = lloyd(points, start, engine, max_iter=100)
    X = oracle.embedding(dense(graph.edges[places], len(vectors)), vectors.astype(np.float64))
    wanted, path = oracle.kmeans(X, start, 100)
    assert (found.labels[places] == wanted).all()
    np.testing.assert_allclose(found.centers, path[-1], atol=1e-5)
    assert found.n_iter == len(path)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_centers_of_a_cut_are_means_of_all_rows(seed, missing, engine):
    """Each row counts, however many share its microcluster."""
    _, labels = planted(3, m=6, noise=0.3, seed=seed, missing=missing)
    labels = np.repeat(labels, np.random.default_rng(seed).integers(1, 20, len(labels)), axis=0)
    micro, graph, places = built(labels, engine)
    cut = graph.cut(3, LabelOptions(3, 100, np.random.SeedSequence(seed)), engine)
    found, X = micro.spread(cut.labels, engine), lift(graph.edges, graph.spectrum.vectors[:, :3])
    assert cut.n_iter < 100
    np.testing.assert_allclose(
        cut.partition.centers, oracle.cluster_means(X[places], found, np.zeros((3, 3))), atol=1e-5
    )
    plain = oracle.cluster_means(X, cut.labels[graph.assigned], np.zeros((3, 3)))
    assert np.abs(cut.partition.centers - plain).max() > 1e-3


@settings(max_examples=60)
@given(n=st.integers(1, 40), d=st.integers(1, 10), k=st.integers(1, 8), seed=SEEDS)
def test_weighted_seeds_are_seeds_among_repeated_rows(n, d, k, seed):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)).astype(np.float32)
    weights = random.integers(1, 9, n)
    owners = np.repeat(np.arange(n), weights)
    some = spread_centers(X, weights.astype(np.float64), k, np.random.default_rng(seed))
    assert (some == spread_centers(X[owners], ONE, k, np.random.default_rng(seed))).all()
    assert len(some) == min(k, n)


def test_sample_of_weighted_rows_is_the_heaviest():
    random = np.random.default_rng(0)
    weights = random.permutation(100).astype(np.float64)
    edges = Edges(np.arange(100, dtype=np.uint16)[:, None], np.ones((100, 1), dtype=np.float32))
    some = EmbeddedPoints(edges, np.ones((100, 2), dtype=np.float32), weights).sample(10, random)
    assert sorted(some.weights) == list(range(90, 100))
    assert (weights[some._edges.ids[:, 0]] == some.weights).all()


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
    """Every row with a label gets one, all numbers are in use, and what fell short is told."""
    n_base = memberships(labels).shape[1]
    k = data.draw(st.integers(1, n_base) | st.just("auto"))
    assigned = (labels >= 0).any(axis=1)
    distinct = len(np.unique(labels[assigned], axis=0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = consensus(labels, k, random_state=0, n_jobs=1)
    assert (found[~assigned] == -1).all()
    assert np.unique(found[assigned]).tolist() == list(range(found.max() + 1))
    groups = np.unique(np.column_stack([labels, found])[assigned], axis=0)
    assert len(groups) == distinct  # equal rows have equal labels
    alone = labels.shape[1] == 1 and 1 < (2 if k == "auto" else k) < n_base
    wanted = {UserWarning} if alone or not assigned.all() else set()
    if distinct < (min(2, n_base) if k == "auto" else k):  # "auto" wants two clusters where there may be two
        wanted.add(ConvergenceWarning)
    assert {w.category for w in caught} == wanted
    if k != "auto":
        assert found.max() + 1 == min(k, distinct)


@pytest.mark.parametrize("n_clusters", [2, "auto"])
def test_a_single_clustering_is_no_ensemble(n_clusters):
    labels = np.random.default_rng(0).integers(0, 6, size=(200, 1))
    with pytest.warns(UserWarning, match="no ensemble: which of its 6 clusters are merged is arbitrary"):
        consensus(labels, n_clusters, random_state=0)


@pytest.mark.parametrize("n_clusters", [1, 6])
def test_a_single_clustering_may_be_kept_as_it_is(n_clusters):
    labels = np.random.default_rng(0).integers(0, 6, size=(200, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = consensus(labels, n_clusters, random_state=0)
    assert len(np.unique(found)) == n_clusters


def test_short_of_clusters_is_told():
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


# What users pass


def as_objects(base, name, none):
    """Labels through `name`, and `none` for missing ones."""
    out = np.empty(base.shape, dtype=object)
    for at, label in np.ndenumerate(base):
        out[at] = none if label == -1 else name(int(label))
    return out


def mixed(base):
    """Integers, strings, bytes and None in one column."""
    return as_objects(base, lambda v: (v, f"s{v}", b"%d" % v)[v % 3], None)


def frame_of_kinds(base):
    """A pandas frame with another type for each column."""
    objects, strings = as_objects(base, int, None), as_objects(base, "c{}".format, None)
    kinds = [
        lambda j: base[:, j],
        lambda j: np.where(base[:, j] < 0, np.nan, base[:, j]),
        lambda j: pd.array(objects[:, j], dtype="Int64"),
        lambda j: pd.Categorical(strings[:, j]),
        lambda j: pd.Series(strings[:, j], dtype=object),
        lambda j: list(strings[:, j]),
    ]
    return pd.DataFrame({f"run {j}": kinds[j % len(kinds)](j) for j in range(base.shape[1])})


def polars_frame_of_kinds(base):
    integers, strings = as_objects(base, int, None), as_objects(base, "c{}".format, None)
    kinds = [(integers, pl.Int64), (integers, pl.UInt8), (strings, pl.String), (strings, pl.Categorical)]
    kinds.append((as_objects(base, float, None), pl.Float64))
    return pl.DataFrame(
        [
            pl.Series(f"run {j}", kinds[j % len(kinds)][0][:, j].tolist(), dtype=kinds[j % len(kinds)][1])
            for j in range(base.shape[1])
        ]
    )


FORMS = {
    "int8": lambda base: base.astype(np.int8),
    "big endian": lambda base: base.astype(">i4"),
    "float32 with NaN": lambda base: np.where(base < 0, np.nan, base).astype(np.float32),
    "nested lists": lambda base: base.tolist(),
    "tuples": lambda base: tuple(map(tuple, base.tolist())),
    "list of arrays": list,
    "generator of rows": lambda base: (row for row in base.tolist()),
    "lists with None": lambda base: as_objects(base, int, None).tolist(),
    "lists with NaN": lambda base: as_objects(base, int, float("nan")).tolist(),
    "lists of strings with None": lambda base: as_objects(base, str, None).tolist(),
    "lists of strings with -1": lambda base: as_objects(base, "c{}".format, -1).tolist(),
    "objects": mixed,
    "lists of objects": lambda base: mixed(base).tolist(),
    "pandas of integers": pd.DataFrame,
    "pandas with names twice": lambda base: pd.DataFrame(base, columns=["run"] * base.shape[1]),
    "pandas of all kinds": frame_of_kinds,
    "polars of integers": lambda base: pl.DataFrame(base, schema=[f"run {j}" for j in range(base.shape[1])]),
    "polars of all kinds": polars_frame_of_kinds,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_labels(form):
    """Whatever they come in, labels mean the same; -1, None and NaN are no label."""
    truth, base = planted(4, m=12, missing=0.15)
    labels = consensus(FORMS[form](base), 4, random_state=0)
    assert same_partition(labels, truth)
    assert (labels == consensus(base, 4, random_state=0)).all()


@pytest.mark.parametrize("form", FORMS)
def test_forms_read_the_same_clusters(form):
    """Column by column the partition is the same, and so are the rows left out."""
    _, base = planted(4, n=60, m=12, noise=0.5, missing=0.3)
    read = read_label_matrix(FORMS[form](base))
    columns = list(read.T) if isinstance(read, np.ndarray) else read
    assert len(columns) == base.shape[1]
    for column, wanted in zip(columns, base.T, strict=True):
        assert column.dtype.kind in "iu"
        assert ((column == -1) == (wanted == -1)).all()
        assert same_partition(column, wanted)


def test_booleans():
    truth, base = planted(2, m=9, finest=1)
    wanted = consensus(base, 2, random_state=0)
    assert metrics.nmi(truth, wanted) > 0.9
    flags = base.astype(bool)
    objects = np.array(flags.tolist(), dtype=object)
    for form in (flags, np.asfortranarray(flags), flags.tolist(), pd.DataFrame(flags), pl.DataFrame(flags), objects):
        assert (consensus(form, 2, random_state=0) == wanted).all()


def test_bytes():
    truth, base = planted(3)
    assert same_partition(consensus(base.astype("S"), 3, random_state=0), truth)


def test_minus_one_as_a_string_is_a_label():
    for read in (read_label_matrix(np.array([["-1"], ["0"]])), read_label_matrix([["-1"], ["0"]])):
        assert sorted(read[0].tolist()) == [0, 1]


def test_integer_matrices_are_not_copied():
    base = planted()[1]
    assert read_label_matrix(base) is base


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
    """A row that but one clustering assigns goes where that one says."""
    truth, base = planted(3, finest=1, noise=0.0)
    random = np.random.default_rng(0)
    for i in range(0, len(base), 3):
        kept = random.integers(base.shape[1])
        base[i] = np.where(np.arange(base.shape[1]) == kept, base[i], -1)
    assert same_partition(consensus(base, 3, random_state=0), truth)


# Refusals

BASE = [[0, 0], [0, 0], [1, 1], [1, 1]]
DIMENSIONS = (
    r"base_labels must be a matrix with a row per object and a column per clustering, got {} dimension\(s\)\. One "
    r"clustering alone needs no consensus; several are stacked with numpy\.column_stack\."
)
EMPTY = r"base_labels is empty: it needs a row per object and a column per clustering\."
RAGGED = r"base_labels has rows of different lengths; every row needs a label per clustering\."
NOT_INTEGERS = (
    r"Column {} of base_labels has numbers that are not integers\. Labels are integers or strings; is this a matrix of "
    r"data instead of labels\?"
)


@pytest.mark.parametrize(
    ("base", "error", "message"),
    [
        ([0, 1, 2], ValueError, DIMENSIONS.format(1)),
        (np.arange(4), ValueError, DIMENSIONS.format(1)),
        (["ab", "cd"], ValueError, DIMENSIONS.format(1)),
        (pd.Series([0, 1]), ValueError, DIMENSIONS.format(1)),
        (pl.Series([0, 1]), ValueError, DIMENSIONS.format(1)),
        (np.array(1), ValueError, DIMENSIONS.format(0)),
        (np.zeros((2, 2, 2), dtype=int), ValueError, DIMENSIONS.format(3)),
        ([[]], ValueError, EMPTY),
        (np.empty((0, 3), dtype=int), ValueError, EMPTY),
        (np.empty((3, 0), dtype=int), ValueError, EMPTY),
        (pd.DataFrame(), ValueError, EMPTY),
        (pd.DataFrame({"a": []}), ValueError, EMPTY),
        (pl.DataFrame(), ValueError, EMPTY),
        ([[0, 1], [0]], ValueError, RAGGED),
        ([["a", "b"], ["a"], ["b", "c"]], ValueError, RAGGED),
        ([[0, 1], 0], ValueError, RAGGED),
        (np.array([[0.0, 1.0], [1.0, 0.5]]), ValueError, NOT_INTEGERS.format(1)),
        (np.array([[np.inf, 1.0], [1.0, 0.0]]), ValueError, NOT_INTEGERS.format(0)),
        (pd.DataFrame({"a": [0, 1], "b": [0.1, 0.2]}), ValueError, NOT_INTEGERS.format(1)),
        (
            np.array(BASE, dtype=complex),
            TypeError,
            r"Column 0 of base_labels has type complex128\. Labels are integers",
        ),
        (np.array(BASE, dtype="M8[s]"), TypeError, r"Column 0 of base_labels has type datetime64\[s\]\. Labels are"),
        (
            [[1, 1j], [1, 2]],
            TypeError,
            r"Column 1 of base_labels has 1j \(complex\)\. Labels are integers or strings",
        ),
        ([[0, (1,)], [1, "a"]], TypeError, r"Column 1 of base_labels has \(1,\) \(tuple\)\. Labels are integers"),
    ],
)
def test_refused_labels(base, error, message):
    with pytest.raises(error, match=message):
        consensus(base, 2)


def test_more_clusters_than_base_clusters():
    wanted = (
        r"The base clusterings have 4 clusters in all, too few for n_clusters=5\. Add base clusterings, or "
        r"finer ones, or ask for fewer clusters\."
    )
    with pytest.raises(ValueError, match=wanted):
        consensus(BASE, 5)


def test_more_base_clusters_than_can_be_compared(monkeypatch):
    monkeypatch.setattr(consensus_cut, "MOST_COLUMNS", 1999)
    base = np.tile(np.arange(1000)[:, None], (1, 2))
    wanted = (
        r"The base clusterings have 2,000 clusters in all; the consensus compares each with each and takes at most "
        r"1,999\. Use coarser clusterings, or mark tiny clusters as not assigned \(-1\)\."
    )
    with pytest.raises(ValueError, match=wanted):
        consensus(base, 2)
    monkeypatch.setattr(consensus_cut, "MOST_COLUMNS", 4)
    assert same_partition(consensus(BASE, 2), [0, 0, 1, 1])


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


# Confidence


def backing_of(cut, micro):
    return support(micro.columns, cut.labels, cut.majority(micro))


def literal_backing(labels, found):
    """For each row, over the clusterings that assign it: is its label the most frequent one in its base cluster?"""
    out = []
    for i in range(len(labels)):
        backed = []
        for j in range(labels.shape[1]):
            if labels[i, j] != -1:
                together = found[labels[:, j] == labels[i, j]]
                names, counts = np.unique(together, return_counts=True)
                backed.append(names[counts.argmax()] == found[i])
        out.append(np.mean(backed) if backed else 0.0)
    return np.array(out)


@settings(max_examples=120)
@given(labels=label_matrices(), k=st.integers(1, 6), seed=SEEDS)
def test_backing(labels, k, seed, engine):
    """Of any labels of the microclusters, in ties and with missing labels too."""
    micro, graph, _ = built(labels, engine)
    found = np.full(len(micro.columns), -1, dtype=np.int32)
    found[graph.assigned] = np.random.default_rng(seed).integers(k, size=len(graph.assigned))
    spectrum = Spectrum(np.ones(k), np.ones((1, k), np.float32), np.ones(1))
    cut = MicroclusterCut(found, CenterPartition(spectrum, np.zeros((k, k), np.float32)), 1)
    backing = backing_of(cut, micro)
    assert backing.dtype == np.float32
    wanted = literal_backing(labels, micro.spread(found, engine))
    np.testing.assert_allclose(micro.spread(backing, engine), wanted, rtol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_backing_of_a_cut(seed, missing, engine):
    truth, labels = planted(4, seed=seed, missing=missing)
    micro, graph, _ = built(labels, engine)
    cut = graph.cut(4, LabelOptions(3, 100, np.random.SeedSequence(seed)), engine)
    found = micro.spread(cut.labels, engine)
    assert metrics.nmi(truth, found) > 0.9
    assert (found == consensus(labels, 4, random_state=seed)).all()
    np.testing.assert_allclose(micro.spread(backing_of(cut, micro), engine), literal_backing(labels, found), rtol=1e-6)


def test_backing_of_rows_that_members_disagree_on(engine):
    truth = np.repeat([0, 1], 20)
    labels = np.tile(truth[:, None], (1, 5))
    labels[0, :2] = 1
    labels[1, 4] = 1
    labels[2, 1:] = -1
    micro, graph, _ = built(labels, engine)
    cut = graph.cut(2, LabelOptions(3, 100, np.random.SeedSequence(0)), engine)
    assert same_partition(micro.spread(cut.labels, engine), truth)
    backing = micro.spread(backing_of(cut, micro), engine)
    np.testing.assert_allclose(backing[:3], [0.6, 0.8, 1.0], rtol=1e-6)
    assert (backing[3:] == 1).all()


@pytest.mark.parametrize("n_clusters", [1, 2, "auto"])
@pytest.mark.parametrize("none", [-1, None, float("nan")])
def test_all_labels_missing(none, n_clusters):
    with pytest.raises(ValueError, match=r"No row of base_labels has a label: every entry is -1, None or NaN\."):
        consensus([[none, none]] * 3, n_clusters)


def test_empty_list():
    with pytest.raises(ValueError, match=EMPTY):
        consensus([], 2)


@pytest.mark.parametrize("dtype", ["string", "boolean"])
def test_pandas_missing_values_of_nullable_types(dtype):
    values = {"string": ["a", "b", None], "boolean": [True, False, None]}[dtype]
    frame = pd.DataFrame({"a": pd.array(values, dtype=dtype), "b": [0, 1, 1]})
    column = read_label_matrix(frame)[0]
    assert column[0] != column[1]
    assert column[2] == -1


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="new in NumPy 2")
@pytest.mark.parametrize("none", [None, np.nan])
def test_numpy_strings_with_missing_values(none):
    column = read_label_matrix(np.array([["a"], [none], ["b"]], dtype=np.dtypes.StringDType(na_object=none)))[0]
    assert column[1] == -1
    assert column[0] != column[2]


@pytest.mark.parametrize("dtype", [int, float])
def test_masked_labels(dtype):
    """Refused, as USPEC refuses them."""
    with pytest.raises((TypeError, ValueError), match="mask"):
        consensus(np.ma.array(BASE, mask=[[0, 0], [1, 1], [0, 0], [0, 0]], dtype=dtype), 2)


def test_numpy_matrix():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = consensus(np.asmatrix(BASE), 2, random_state=0)
    assert same_partition(labels, [0, 0, 1, 1])


def test_floats_beyond_int64_stay_apart_or_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            column = read_label_matrix(np.array([[1e19], [2e19]]))[0]
        except ValueError:
            return
    assert column[0] != column[1]


def test_lists_of_integers_that_share_no_type():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        column = read_label_matrix([[2**63, -5], [2**63 + 1, -5]])[0]
    assert column[0] != column[1]


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_large_integers_in_frames_with_missing_values(frame):
    values = [2**60, 2**60 + 1, None]
    data = pd.DataFrame({"a": pd.array(values, dtype="Int64")}) if frame == "pandas" else pl.DataFrame({"a": values})
    column = read_label_matrix(data)[0]
    assert column[2] == -1
    assert column[0] != column[1]


def test_numpy_booleans_in_lists():
    column = read_label_matrix([[np.True_, "a"], [np.False_, "b"]])[0]
    assert column[0] != column[1]


def test_fractions_in_lists():
    with pytest.raises(ValueError, match=NOT_INTEGERS.format(0)):
        consensus([[0.5, 1], [0.25, 2]], 2)


@pytest.mark.parametrize("wrong", [None, 5, "labels", {"a": [1, 2]}])
def test_things_that_are_no_matrix(wrong):
    with pytest.raises(TypeError, match="base_labels must be an array, a frame or nested lists"):
        consensus(wrong, 2)


def test_sparse_matrices():
    with pytest.raises(TypeError, match="base_labels is a sparse matrix"):
        consensus(scipy.sparse.csr_array(np.eye(3, dtype=int)), 2)


def test_a_transposed_matrix_is_suspected():
    labels = np.random.default_rng(0).integers(3, size=(4, 100))
    with pytest.warns(UserWarning, match=r"has 4 rows and 100 columns.*numpy.column_stack"):
        consensus(labels, 2, random_state=0)


@pytest.mark.parametrize("word", ["-1", "nan", "None"])
@pytest.mark.parametrize("kind", [str, bytes, object])
def test_words_that_look_missing_are_labels_and_warned_of(word, kind):
    labels = np.array([["a", "x"], ["a", "x"], ["b", "y"], [word, word]], dtype=object)
    matrix = labels if kind is object else labels.astype(str).astype(kind)
    with pytest.warns(UserWarning, match=f"has the string '{word}', which counts as a label"):
        assert (consensus(matrix, 2, random_state=0) >= 0).all()


def test_more_clusters_apart_than_auto_looks_at():
    for k in (49, 50):
        labels = np.repeat(np.arange(k), 20)
        assert len(np.unique(consensus(np.column_stack([labels] * 3), "auto", random_state=0))) == k
    labels = np.repeat(np.arange(60), 20)
    with pytest.warns(UserWarning, match="looks at 2 to 50 clusters"):
        consensus(np.column_stack([labels] * 3), "auto", random_state=0)


@pytest.mark.parametrize("wrong", [np.array([2, 3]), np.zeros((4, 2), dtype=int), [2]])
def test_a_number_of_clusters_that_is_an_array(wrong):
    labels = np.zeros((4, 2), dtype=int)
    with pytest.raises(TypeError, match="n_clusters must be an integer >= 1 or 'auto'"):
        consensus(labels, wrong)
    with pytest.raises(TypeError, match="n_clusters must be an integer >= 1 or 'auto'"):
        USENC(wrong).fit(labels)
