"""Data sets and members on disk, and what a run measures."""

from __future__ import annotations

import numpy as np
import pytest

from ultraspec import baselines, datasets
from ultraspec.reproduce import member_cache, worker
from ultraspec.reproduce.dataset_cache import CachedDataset, prepare
from ultraspec.reproduce.declarations import DATASETS, Method
from ultraspec.reproduce.worker import Task, measure


def test_data_sets_are_made_once(tmp_path, monkeypatch):
    flower = DATASETS[-1]
    first = prepare(flower, 0.0001, tmp_path)
    monkeypatch.setattr(datasets, "generate", None)
    assert prepare(flower, 0.0001, tmp_path) == first
    X, y = first.open()
    assert (first.rows, first.features, first.clusters) == (2000, 2, 13)
    assert type(X) is np.ndarray
    assert not X.flags.writeable
    assert len(X) == len(y) == 2000


def task(tmp_path, method, m, combines=True):
    X, y = datasets.generate("sf", 1500, random_state=0)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    return Task(
        data=CachedDataset("sf", str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), 1500, 2, 4),
        method=Method(method, f"ultraspec.baselines:{method}", combines=combines),
        parameters={"n_estimators": m} if combines else {},
        seed=3,
        threads=1,
        members_folder=str(tmp_path / "members"),
        module_folder="",
    )


@pytest.mark.parametrize("method", ["LWGP", "KCC"])
def test_shared_members_give_the_estimators_own_labels(tmp_path, method, monkeypatch):
    X, _ = datasets.generate("sf", 1500, random_state=0)
    for m in (5, 8, 6):  # more are added, fewer are the first of them
        found = worker._fit_shared(task(tmp_path, method, m), X)
        model = getattr(baselines, method)(4, n_estimators=m, random_state=3, n_jobs=1).fit(X)
        assert (found["labels"] == model.labels_).all()
        assert found["seconds"] > found["consensus_seconds"] > 0
    monkeypatch.setattr(member_cache, "generate_kmeans_members", None)  # no more are made
    again = worker._fit_shared(task(tmp_path, "SEC", 8), X)
    assert again["seconds"] > again["consensus_seconds"]


def test_a_run_measures_time_memory_and_scores(tmp_path):
    found = measure(task(tmp_path, "KMeansLite", 0, combines=False))
    assert 0 < found["nmi"] < 100
    assert 0 < found["ca"] <= 100
    assert found["seconds"] > 0
    assert found["peak_bytes"] >= found["base_bytes"] > 10**7
    assert found["found_clusters"] == 4
