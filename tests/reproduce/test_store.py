"""The store, which runs are repeated, and estimates of the time that is left."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from tests.helpers.reproduce_records import record
from ultraspec.reproduce import store
from ultraspec.reproduce.runner import Limits, settled
from ultraspec.reproduce.store import Store
from ultraspec.reproduce.time_estimate import TimeEstimate


def test_a_store_that_is_cut_anywhere_loses_one_run_at_most(tmp_path):
    path = tmp_path / "runs.jsonl"
    lines = [json.dumps(record(seed=seed)) + "\n" for seed in range(3)]
    whole = "".join(lines).encode()
    ends = np.cumsum([len(line) for line in lines])
    for cut in [*range(0, len(whole), 37), *(ends - 1), *ends]:
        path.write_bytes(whole[:cut])
        kept = int((ends <= cut).sum())
        assert len(store.read(path)) == kept
        with Store(path) as opened:
            assert len(opened.records) == kept
            opened.append(record(seed=7))
        assert [r["seed"] for r in store.read(path)] == [*range(kept), 7]
        assert path.read_bytes().count(b"\n") == kept + 1


def test_the_last_line_of_a_run_counts(tmp_path):
    path = tmp_path / "runs.jsonl"
    with Store(path) as opened:
        opened.append(record(na="error"))
        opened.append(record(seed=1))
        opened.append(record(nmi=1.0))
    assert [(r["seed"], r["na"], r["nmi"]) for r in store.read(path)] == [(1, None, 80.0), (0, None, 1.0)]


def test_another_file_is_no_store(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(record()) + "\nnonsense\n" + json.dumps(record(seed=1)) + "\n")
    with pytest.raises(ValueError, match="line 2, is not the result"):
        store.read(path)
    with pytest.raises(ValueError, match="line 2, is not the result"):
        Store(path)
    assert path.read_text().count("nonsense") == 1


def test_two_cannot_write_one_store(tmp_path):
    with (
        Store(tmp_path / "runs.jsonl"),
        pytest.raises(ValueError, match="in use by another"),
        Store(tmp_path / "runs.jsonl"),
    ):
        pass


def test_what_is_run_again():
    rows = [record(seed=0), record(seed=1, na="error"), record("USPS", na="memory"), record("MNIST", na="time")]
    runs = [store.run_of(r) for r in rows]
    same = Limits(9 * 10**9, 600.0)
    done, beyond = settled(rows, same)
    assert done == {runs[0], runs[2], runs[3]}
    assert beyond == {runs[2][:-1], runs[3][:-1]}
    assert settled(rows, Limits(20 * 10**9, 600.0))[0] == {runs[0], runs[3]}
    assert settled(rows, Limits(9 * 10**9, 900.0))[0] == {runs[0], runs[2]}
    assert settled(rows, Limits(None, None))[0] == {runs[0]}
    assert settled(rows, Limits(10**9, 60.0)) == (done, beyond)


def test_time_left_is_learnt():
    run = store.run_of(record())
    fresh = TimeEstimate([])
    assert math.isfinite(fresh.of(run))
    known = TimeEstimate([record(seed=1, run_seconds=3.0), record("USPS", run_seconds=7.0)])
    assert known.of(run) == 3.0
    assert known.of_all([run, store.run_of(record("USPS", seed=3))]) == 10.0
    quick = TimeEstimate([record(scale=0.01, run_seconds=1.0), record("USPS", scale=0.01, run_seconds=2.0)])
    assert quick.of(store.run_of(record("Flower-20M", scale=0.01))) == 1.5
    assert known.of(store.run_of(record("Flower-20M"))) > known.of(store.run_of(record("TB-1M"))) > 3.0
