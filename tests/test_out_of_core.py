"""Rows that are not in memory: the same labels, bit for bit, and nothing that grows with the rows is kept."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tests.helpers.common import python
from ultraspec import USENC, USPEC, datasets
from ultraspec.rows import ArrayRows
from ultraspec.spectral import embedding
from ultraspec.spectral.edges import LazyEdges
from ultraspec.spectral.neighbors import RepresentativeIndex


@pytest.fixture
def all_on_disk(monkeypatch):
    """Nothing is small enough to stay in memory, and k-means settles on a sample."""
    monkeypatch.setattr("ultraspec.rows.results.MOST_MEMORY_BYTES", 0)
    monkeypatch.setattr(embedding, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(embedding, "LARGE_SAMPLE", 2)
    monkeypatch.setattr(embedding, "_sample_size", lambda k: 300)


def on_disk(X):
    return ArrayRows(X, in_memory=False)


@pytest.mark.parametrize("neighbors", ["approx", "exact"])
@pytest.mark.parametrize("d", [2, 12])
def test_uspec_labels_are_those_of_rows_in_memory(d, neighbors, all_on_disk):
    X = np.random.default_rng(0).standard_normal((7000, d)) + 6 * np.random.default_rng(1).integers(0, 3, (7000, 1))
    options = {"n_representatives": 200, "neighbors": neighbors, "random_state": 0}
    there, here = USPEC(3, **options).fit(on_disk(X)), USPEC(3, **options).fit(X)
    assert isinstance(there._fitted.edges, LazyEdges)
    assert isinstance(there.labels_, np.memmap)
    assert not isinstance(here.labels_, np.memmap)
    assert there.labels_.dtype == np.int32
    assert there.labels_.tobytes() == here.labels_.tobytes()
    assert there.eigenvalues_.tobytes() == here.eigenvalues_.tobytes()
    assert there.predict(on_disk(X)).tobytes() == here.labels_.tobytes()
    assert there.cut(5).labels_.tobytes() == here.cut(5).labels_.tobytes()
    again = pickle.loads(pickle.dumps(there))
    assert again.cut(5, on_disk(X)).labels_.tobytes() == here.cut(5).labels_.tobytes()


@pytest.mark.parametrize("checkpoint", [False, True])
def test_usenc_labels_are_those_of_rows_in_memory(checkpoint, all_on_disk, tmp_path):
    X, _ = datasets.generate("cg", 6000, random_state=0)
    options = {"n_estimators": 4, "n_representatives": 200, "random_state": 0}
    here = USENC(5, **options).fit(X)
    model = USENC(5, checkpoint=tmp_path if checkpoint else None, **options)
    for _ in range(2 if checkpoint else 1):
        there = model.fit(on_disk(X))
        for name in ("labels_", "base_labels_", "confidence_"):
            one, other = getattr(there, name), getattr(here, name)
            assert isinstance(one, np.memmap), name
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert (one == other).all()
        assert there.cut(3).labels_.tobytes() == here.cut(3).labels_.tobytes()
        assert there.cut(3, on_disk(X)).labels_.tobytes() == here.cut(3).labels_.tobytes()
        assert there.predict(X).tobytes() == here.labels_.tobytes()


@pytest.mark.parametrize("free", [10**12, 7000 * 4 * 3])
def test_neighbours_are_kept_in_a_file_if_there_is_space(free, all_on_disk, monkeypatch):
    """Kept ids are measured again, others are searched again; the model lets go of them."""
    X = datasets.generate("cc", 7000, random_state=0)[0]
    usage = type("Usage", (), {"free": free})()
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    measured, measure = [], RepresentativeIndex.measure
    monkeypatch.setattr(RepresentativeIndex, "measure", lambda *args: measured.append(1) or measure(*args))
    model = USPEC(3, n_representatives=200, random_state=0).fit(on_disk(X))
    assert bool(measured) == (free == 10**12)
    assert model._fitted.edges.ids is None
    assert model.labels_.tobytes() == USPEC(3, n_representatives=200, random_state=0).fit(X).labels_.tobytes()


class Killed(BaseException):
    """Ends a fit at once, as a kill does."""


PASSES = ["space", "representatives", "sigma", "graph", "labels"]


@pytest.mark.parametrize("place", range(len(PASSES)))
def test_a_killed_fit_goes_on_after_its_last_finished_pass(place, all_on_disk, tmp_path, monkeypatch):
    X = datasets.generate("cc", 7000, random_state=0)[0]
    options = {"n_representatives": 200, "random_state": 0}
    wanted = USPEC(3, **options).fit(X).labels_
    at = {"representatives": "select_representatives", "sigma": "connect"}
    at |= {"graph": "reduce_graph", "labels": "label_rows"}
    at = {name: f"ultraspec.uspec.{function}" for name, function in at.items()}
    at["space"] = "ultraspec.spectral.graph_rows.Preprocessor.fit"

    def kill(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(at[PASSES[place]], kill)
        with pytest.raises(Killed):
            USPEC(3, checkpoint=tmp_path / "run", **options).fit(on_disk(X))
    finished = PASSES[:place]
    assert {path.stem for path in (tmp_path / "run").glob("*.npz")} == set(finished)
    for done in finished:  # and none of these is made again
        monkeypatch.setattr(at[done], kill)
    model = USPEC(3, checkpoint=tmp_path / "run", **options).fit(on_disk(X))
    assert model.labels_.tobytes() == wanted.tobytes()


def test_a_checkpoint_of_other_data_or_parameters_is_refused(all_on_disk, tmp_path):
    X = datasets.generate("cc", 3000, random_state=0)[0]
    USPEC(3, n_representatives=100, checkpoint=tmp_path / "run", random_state=0).fit(on_disk(X))
    with pytest.raises(ValueError, match="belongs to another run: n_clusters was 3 and is 4"):
        USPEC(4, n_representatives=100, checkpoint=tmp_path / "run", random_state=0).fit(on_disk(X))
    with pytest.raises(ValueError, match="the values of X differ"):
        USPEC(3, n_representatives=100, checkpoint=tmp_path / "run", random_state=0).fit(on_disk(X + 1))
    with pytest.raises(ValueError, match="belongs to another run"):
        USENC(3, n_representatives=100, checkpoint=tmp_path / "run", random_state=0).fit(on_disk(X))
    (tmp_path / "run" / "graph.npz").write_bytes(b"no longer")
    with pytest.warns(UserWarning, match="graph.npz' is damaged .*; its result is computed again"):
        USPEC(3, n_representatives=100, checkpoint=tmp_path / "run", random_state=0).fit(on_disk(X))


def test_a_checkpoint_behind_a_url(all_on_disk):
    fsspec = pytest.importorskip("fsspec")
    X = datasets.generate("cc", 3000, random_state=0)[0]
    system, folder = fsspec.filesystem("memory"), "memory://ultraspec-test/run"
    options = {"n_representatives": 100, "random_state": 0}
    wanted = USPEC(3, **options).fit(X).labels_
    for _ in range(2):
        assert (USPEC(3, checkpoint=folder, **options).fit(on_disk(X)).labels_ == wanted).all()
    assert len(system.ls("/ultraspec-test/run")) == 5
    system.rm("/ultraspec-test", recursive=True)
    wanted = USENC(3, n_estimators=3, **options).fit(X).labels_
    for _ in range(2):
        assert (USENC(3, n_estimators=3, checkpoint=folder, **options).fit(X).labels_ == wanted).all()
    system.rm("/ultraspec-test/run/member-0001.npz")
    assert (USENC(3, n_estimators=3, checkpoint=folder, **options).fit(X).labels_ == wanted).all()
    system.pipe_file("/ultraspec-test/run/member-0001.npz", b"torn")
    with pytest.warns(UserWarning, match="member-0001.npz' is damaged"):
        assert (USENC(3, n_estimators=3, checkpoint=folder, **options).fit(X).labels_ == wanted).all()
    system.rm("/ultraspec-test", recursive=True)


def test_labels_outlive_their_estimator(all_on_disk):
    X, _ = datasets.generate("cc", 3000, random_state=0)
    labels = USPEC(3, n_representatives=200, random_state=0).fit(on_disk(X)).labels_
    assert sorted(np.unique(labels)) == [0, 1, 2]


def test_memory_does_not_grow_with_rows_on_disk(tmp_path):
    """Ten million more rows: not two bytes for each, beside what one run differs from the next."""
    code = """
import json, os
from ultraspec import USPEC, datasets, open_rows
from ultraspec.rows import results
results.MOST_MEMORY_BYTES = 0

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

USPEC(11, random_state=0).fit(datasets.generate("cg", 30_000, random_state=0)[0])
model = USPEC(11, random_state=0, n_jobs=2).fit(open_rows(os.environ["FILE"]))
print(json.dumps([peak(), len(model.labels_)]))
"""
    peaks, X = {}, datasets.generate("cg", 13_000_000, random_state=0)[0]
    for n in (3_000_000, 13_000_000):  # both are sampled
        np.save(tmp_path / "rows.npy", X[:n])
        peaks[n], n_labels = python(code, FILE=str(tmp_path / "rows.npy"))
        assert n_labels == n
    assert peaks[13_000_000] - peaks[3_000_000] < 10_000_000 * 2 + 16_000_000
