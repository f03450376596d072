"""Members of the ensemble: their numbers of clusters, seeds and labels, and how they come back from a checkpoint."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.common import blobs, same_partition
from ultraspec import USENC, datasets, metrics
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import members
from ultraspec.ensemble.members import (
    Member,
    MemberOptions,
    base_columns,
    base_labels,
    first_columns,
    generate_members,
    label_members,
    reduce_range,
    run_member,
)
from ultraspec.rows import ArrayRows
from ultraspec.spectral.model_checks import InvalidModel
from ultraspec.spectral.options import GraphOptions
from ultraspec.storage.checkpoint import NoCheckpoint


def fit(X, k=4, **options):
    return USENC(k, **{"n_estimators": 6, "random_state": 0, **options}).fit(X)


def member_options(low=5, high=9, n_representatives=60):
    graph = GraphOptions.of(USENC(n_representatives=n_representatives))
    return MemberOptions(graph, (low, high), (low, high), 5)


@pytest.fixture(scope="module")
def rows():
    return ArrayRows(blobs(600)[0].astype(np.float32))


@pytest.fixture(scope="module")
def made(rows, engine):
    """Three members, and their labels."""
    seeds = np.random.SeedSequence(0).spawn(3)
    return generate_members(rows, member_options(), seeds, NoCheckpoint(), engine)


# Numbers of clusters


@pytest.mark.parametrize(
    ("n_rows", "n_clusters", "wanted"),
    [
        (10_800, 4, (20, 60)),  # 180 rows per cluster
        (10_799, 4, (19, 59)),
        (1_800, 4, (4, 10)),  # no fewer than n_clusters
        (900, 4, (4, 8)),  # no less than twice n_clusters
        (60, 2, (2, 4)),
        (3, 1, (1, 1)),
    ],
)
def test_the_range_is_reduced_for_few_rows(n_rows, n_clusters, wanted):
    assert reduce_range((20, 60), n_rows, n_clusters, 1000, 5) == wanted


def test_the_range_is_at_most_the_number_of_representatives():
    assert reduce_range((20, 60), 10**6, 4, 60, 5) == (20, 60)
    assert reduce_range((20, 60), 10**6, 4, 30, 5) == (10, 30)


def test_options_describe_what_determines_the_members():
    described = member_options(5, 9).describe()
    assert described["base_clusters"] == [5, 9]
    assert described["members have"] == "5 to 9 clusters"
    assert described["n_representatives"] == 60
    assert member_options(5, 256).label_type == np.uint8
    assert member_options(5, 257).label_type == np.uint16


def test_members_differ_and_draw_from_the_whole_range():
    X, _ = blobs(3000)
    model = fit(X, n_estimators=40, base_clusters=(3, 5), n_representatives=40)
    sizes = model.base_labels_.max(axis=0) + 1
    assert set(sizes) == {3, 4, 5}  # both ends included
    assert len({column.tobytes() for column in model.base_labels_.T}) > 30


def test_many_base_clusters_need_two_bytes():
    X, _ = datasets.generate("cc", 60_000, random_state=0)
    model = fit(X, n_estimators=2, base_clusters=(257, 300))
    assert model.base_labels_.dtype == np.uint16
    assert model.base_labels_.max() > 255
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_base_clusters_above_what_few_rows_allow():
    X, y = blobs(60, k=2)
    with pytest.warns(UserWarning, match="reduced from .30, 50. to .2, 4. because X has only 60 rows"):
        model = fit(X, 2, base_clusters=(30, 50))
    assert same_partition(model.labels_, y)
    assert model.base_labels_.max() < 4


@pytest.mark.parametrize("seed", range(2))
def test_small_data_get_coarser_members(seed):
    """With 20 to 60 clusters each, members of two thousand rows differ by chance, and the bananas are torn."""
    X, y = datasets.generate("tb", 2000, random_state=seed)
    model = USENC(2, random_state=seed).fit(X)
    assert model.base_labels_.max() < 20
    assert metrics.nmi(y, model.labels_) > 0.9


def test_members_with_fewer_clusters_than_drawn():
    """Three distinct rows: members find three clusters, whatever they drew."""
    X = np.repeat(np.eye(3), 200, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(X, 3)
    assert (model.base_labels_.max(axis=0) <= 2).all()
    assert same_partition(model.labels_, np.repeat([0, 1, 2], 200))


def test_a_list_of_the_usual_base_clusters_gives_no_warning(recwarn):
    USENC(4, base_clusters=[20, 60], n_estimators=2, random_state=0).fit(blobs(600)[0])
    assert not recwarn.list


# Runs


def test_a_member_is_a_uspec_model_that_repeats_its_labels():
    """Its graph and eigenvectors come from the same phases: predicting by its model repeats its labels."""
    X = datasets.generate("cc", 4000, random_state=0)[0].astype(np.float32)
    options = MemberOptions(GraphOptions.of(USENC(n_representatives=200)), (20, 30), (20, 30), 5)
    with ThreadEngine(1) as engine:
        member = run_member(ArrayRows(X), options, np.random.SeedSequence(7), engine)
    assert 20 <= member.labels.max() + 1 <= 30
    np.testing.assert_array_equal(member.model.label(X), member.labels)


def test_more_members_begin_with_the_same_ones():
    X, _ = blobs(1500)
    few, more = fit(X, n_estimators=3), fit(X, n_estimators=5)
    np.testing.assert_array_equal(more.base_labels_[:, :3], few.base_labels_)


def test_members_are_the_same_on_any_schedule(rows, made, monkeypatch):
    """In parallel, one after another, and with a buffer of edges that all share."""
    for n_bytes in (2**28, 0):
        seeds = np.random.SeedSequence(0).spawn(3)  # members spawn from them, so each run needs new ones
        monkeypatch.setattr(members, "PARALLEL_BYTES", n_bytes)
        with ThreadEngine(2) as threads:
            models, labels = generate_members(rows, member_options(), seeds, NoCheckpoint(), threads)
        assert labels.tobytes() == made[1].tobytes()
        assert [model.sigma for model in models] == [model.sigma for model in made[0]]


def test_labels_of_members_are_numbered_through_all_of_them(rows, made, engine):
    models, labels = made
    X = rows.read(0, 600)
    sizes = [model.partition.n_clusters for model in models]
    assert first_columns(models).tolist() == [0, sizes[0], sizes[0] + sizes[1]]
    assert (label_members(models, X) == labels).all()
    assert (base_columns(models, X) == labels + first_columns(models)).all()
    again = base_labels(models, rows, labels.dtype, engine)
    assert again.dtype == labels.dtype
    assert (again == labels).all()


# Checkpoints


@pytest.fixture(scope="module")
def member(rows, engine):
    return run_member(rows, member_options(), np.random.SeedSequence(7), engine)


def test_members_come_back_from_arrays(rows, member):
    again = Member.from_arrays(rows, member.arrays())
    assert (again.labels == member.labels).all()
    X = rows.read(0, 600)
    assert again.model.label(X).tobytes() == member.model.label(X).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("labels"),
        lambda arrays: arrays.update(labels=arrays["labels"][:-1]),
        lambda arrays: arrays.update(labels=arrays["labels"].astype(np.int32)),
        lambda arrays: arrays.update(labels=arrays["labels"] + np.uint8(9)),
    ],
    ids=["none", "too few", "signed", "too large"],
)
def test_members_with_wrong_labels_are_refused(rows, member, change):
    arrays = member.arrays()
    change(arrays)
    with pytest.raises(InvalidModel, match="its labels do not assign 600 rows to"):
        Member.from_arrays(rows, arrays)


def test_members_of_other_rows_are_refused(member):
    with pytest.raises(InvalidModel, match="do not have 2 features"):
        Member.from_arrays(ArrayRows(np.ones((600, 2), dtype=np.float32)), member.arrays())
