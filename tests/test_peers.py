"""The comparison with other libraries: what a run measures, what is run next, and what the page says."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from tests.helpers.common import ROOT
from tests.helpers.reproduce_records import record
from ultraspec.reproduce.declarations import Method
from ultraspec.reproduce.worker import Task


@pytest.fixture
def peers(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = importlib.import_module("peers")
    monkeypatch.setattr(module, "STORE", tmp_path / "peers.jsonl")
    return module


@pytest.fixture
def report(peers):
    return importlib.import_module("peers_report")


def run(dataset, method, ami, na=None, seconds=1.0, **more):
    scores = dict.fromkeys(("ami", "ari", "hungarian", "nmi"), ami)
    facts = {"features": 2, "clusters": 2, "found_clusters": 2, "noise": 0.0, "peak_bytes": 10**9, "load": 0.1}
    parameters = {"package": "a", "version": "1.0"}
    return record(dataset, method, na=na, parameters=parameters, seconds=seconds, **{**facts, **scores, **more})


def test_noise_gets_the_cluster_of_its_nearest_row(peers):
    X = np.array([[0.0], [1.0], [1.4], [8.0], [9.0]], np.float32)
    assert peers.assign_noise(X, np.array([0, 0, -1, -1, 1])).tolist() == [0, 0, 0, 1, 1]


def test_rows_without_a_class_are_not_scored(peers):
    found = peers.scores(np.array([0, 0, 1, 1, -1, -1]), np.array([3, 3, 5, 5, 3, 5]))
    assert set(found) == {"nmi", "ca", "ami", "ari", "hungarian"}
    assert all(value == pytest.approx(100) for value in found.values())


def test_a_run_is_measured(peers, tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "SETTING_ROWS", 300)
    data = peers.prepare("blob-apart", tmp_path)
    assert (data.rows, data.features, data.clusters) == (300, 4, 6)
    folder = str(ROOT / "benchmarks")
    task = Task(data, Method("KMeans", "peer_methods:KMeans", custom=True), {}, 0, 1, "", folder)
    found = peers.measure(task)
    assert found["found_clusters"] == 6
    assert found["noise"] == 0
    assert found["ami"] > 50
    assert found["seconds"] > 0


def test_the_rows_of_timing_runs(peers, tmp_path):
    files = tmp_path / "x.npy", tmp_path / "y.npy"
    peers.write_blobs(*files, 250, 3, block=100)
    X, y = map(np.load, files)
    assert X.shape == (250, 3)
    assert X.dtype == np.float32
    assert y.max() < peers.TIME_CLASSES
    assert (np.abs(X).sum(axis=1) > 0).all()  # the last block is written, too


def test_who_gave_up_is_not_tried_with_more_rows(peers):
    some = [peer for peer in peers.PEERS if peer.title in ("KMeans", "Genie")]
    with peers.Store(peers.STORE) as store:
        store.append(run("100 x 2", "Genie", 0.0, na="time", rows=100))
    planned = [[(r.dataset, r.method) for r in batch] for batch in peers.time_plan(some, [100, 1000], [2, 16])]
    assert planned[2] == [("1000 x 2", "KMeans")]
    assert planned[3] == [("1000 x 16", "KMeans"), ("1000 x 16", "Genie")]


def test_rows_that_fit_nowhere_are_left_out(peers, capsys):
    assert list(peers.time_plan(list(peers.PEERS), [10**8], [128])) == []
    assert "left out" in capsys.readouterr().out


def test_the_page_says_where_a_peer_is_better(report):
    results = report.Results(
        [
            run("PenDigits", "USPEC", 80.0, seconds=3.0),
            run("PenDigits", "USENC", 82.0, seconds=9.0),
            run("PenDigits", "KMeans", 60.0, seconds=1.0),
            run("PenDigits", "Genie", 90.0, seconds=3.0),
            run("PenDigits", "MiniBatchKMeans", 82.5, seconds=3.0),  # less than a point
            run("PenDigits", 'USPEC("auto")', 70.0, seconds=3.0),
            run("PenDigits", "HDBSCAN", 40.0, seconds=3.0, noise=0.3, **{"assigned_ami": 75.0, "assigned_ari": 1.0}),
            run("PenDigits", "EVoC", 0.0, na="memory"),
        ]
    )
    table = report.better_table(results)
    assert "| KMeans | – | PenDigits (3 ×) |" in table
    assert "| Genie | PenDigits (90.0, ours 82.0) | – |" in table
    assert "| HDBSCAN | PenDigits (75.0, ours 70.0) | – |" in table
    assert "MiniBatchKMeans" not in table
    lines = report.quality_table(results, "PenDigits", "seconds").splitlines()[2:]
    assert [line.split(" | ")[0].strip("| *") for line in lines[:3]] == ["Genie", "MiniBatchKMeans", "USENC"]
    assert "40.0 / 75.0" in "".join(lines)
    assert "30% noise" in "".join(lines)
    assert "more than 16 GB" in lines[7]
    assert "not run yet" in lines[-1]


def test_times_of_a_busy_machine_are_cpu_times(report):
    quiet, busy = run("USPS", "USPEC", 1.0), run("MNIST", "USPEC", 1.0, load=9.0)
    results = report.Results([quiet, busy])
    assert results.clock(["USPS"]) == "seconds"
    assert results.clock(["USPS", "MNIST"]) == "cpu_seconds"
