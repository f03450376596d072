"""Members that are graphs: how fine they are, which of them judge, and how they come back from a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.common import blobs
from ultraspec import USENC
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import graphs
from ultraspec.ensemble.graphs import Pool, generate_graphs, judges_of, run_coarse_member, run_first_member
from ultraspec.ensemble.members import MemberOptions, base_labels
from ultraspec.rows import ArrayRows
from ultraspec.spectral.options import GraphOptions
from ultraspec.storage.checkpoint import NoCheckpoint


@pytest.fixture(scope="module")
def rows():
    return ArrayRows(blobs(900)[0].astype(np.float32))


def member_options(low=5, high=9, n_representatives=60, n_clusters=4):
    graph = GraphOptions.of(USENC(n_representatives=n_representatives))
    return MemberOptions(graph, (low, high), (low, high), 5, n_clusters)


def generate(rows, n_members, engine, **options):
    seed = np.random.SeedSequence(0)
    return generate_graphs(rows, rows, member_options(**options), n_members, seed, NoCheckpoint(), engine)


def test_members_label_the_rows_as_their_models_do(rows, engine):
    members = generate(rows, 4, engine)
    X = rows.read(0, 900)
    labels = base_labels(members.models, rows, np.uint8, engine)
    for model, column in zip(members.models, labels.T, strict=True):
        assert (model.label(X) == column).all()
        assert np.unique(column).tolist() == list(range(model.partition.n_clusters))
        assert 1 <= model.partition.n_clusters <= 9
    assert members.base_labels is None  # the consensus does without
    assert len(members.edges) == 900


def test_members_are_independent_of_their_number_and_of_threads(rows, engine):
    few = generate(rows, 3, engine)
    with ThreadEngine(3) as threads:
        more = generate(rows, 5, threads)
    a, b = (base_labels(members.models[:3], rows, np.uint8, engine) for members in (few, more))
    assert (a == b).all()
    assert len({model.index.representatives.tobytes() for model in more.models}) == 5


def test_the_first_ones_judge(rows, engine, monkeypatch):
    monkeypatch.setattr(graphs, "MOST_JUDGES", 2)
    members = generate(rows, 5, engine)
    assert [model.choice is not None for model in members.models] == [True, True, True, False, False]
    assert len(judges_of(members.models)) == 3
    assert all(len(judge.edges) == 900 for judge in judges_of(members.models))  # few rows: all are common


def test_coarse_members_are_built_from_sampled_rows(rows, engine, monkeypatch):
    monkeypatch.setattr(graphs, "POOL_ROWS", 300)
    members = generate(rows, 3, engine, n_representatives="auto")
    sizes = [len(model.index.representatives) for model in members.models]
    assert sizes == [100, 100, 100]  # few features: the first graph is as coarse


def test_a_graph_has_enough_representatives_for_its_base_clusters(rows, engine):
    options = member_options(low=80, high=80, n_representatives=90)
    pool = Pool.sample(rows, np.random.SeedSequence(1))
    member = run_coarse_member(pool, options, np.random.SeedSequence(0), True, engine)
    assert 40 < member.partition.n_clusters <= 80
    first = run_first_member(rows, pool, 90, options, np.random.SeedSequence(0), engine)
    assert len(first.model.index.representatives) == 90
    assert first.edges is not None


def test_a_member_comes_back_from_its_arrays(rows, engine):
    pool = Pool.sample(rows, np.random.SeedSequence(1))
    member = run_coarse_member(pool, member_options(), np.random.SeedSequence(0), True, engine)
    again = graphs._restore(rows, member.arrays())
    X = rows.read(0, 900)
    assert again.label(X).tobytes() == member.label(X).tobytes()
    labels = [each.choice.own.label_all(4, engine) for each in (member, again)]
    assert all((a == b).all() for a, b in zip(*labels, strict=True))
