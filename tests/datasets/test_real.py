"""The real sets: files, cache, downloads, and what is refused."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets

from ultraspec import datasets
from ultraspec.datasets import real

DATA = os.environ.get("ULTRASPEC_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="ULTRASPEC_DATA does not name a folder with the real sets")


def forbidden(**kwargs):
    raise AssertionError("a test reached for the network")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", forbidden)
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", forbidden)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Give an empty data folder and the path of a cache that does not exist yet."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("ULTRASPEC_DATA", str(data))
    monkeypatch.setenv("ULTRASPEC_CACHE", str(cache))
    return data, cache


def put(folder, name, value, n=3):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", X=np.full((n, 2), value, np.uint8), y=np.arange(n, dtype=np.uint8))


def serve(monkeypatch, name, X, y, names=str, wrong=False):
    """Let the fetcher of a set give this content, with the class names of its public twin."""
    calls = []

    def fetch(**kwargs):
        calls.append(kwargs)
        assert Path(kwargs["data_home"]).is_dir()
        return X.astype(float), np.array([names(c) for c in y], object if names(0) != 1 else np.int32)

    monkeypatch.setattr(sklearn.datasets, "fetch_covtype" if name == "covertype" else "fetch_openml", fetch)
    source = real._SOURCES[name]
    checksum = "0" * 64 if wrong else real._checksum(X, y)
    monkeypatch.setitem(real._SOURCES, name, source._replace(sha256=checksum))
    return calls


SMALL = np.arange(24, dtype=np.uint8).reshape(8, 3), np.arange(8) % 7


@needs_data
@pytest.mark.parametrize(
    ("name", "shape", "classes", "dtype"),
    [
        ("pendigits", (10_992, 16), 10, np.uint8),
        ("usps", (11_000, 256), 10, np.uint8),
        ("letters", (20_000, 16), 26, np.uint8),
        ("mnist", (70_000, 784), 10, np.uint8),
        ("covertype", (581_012, 54), 7, np.int16),
    ],
)
def test_real_sets(name, shape, classes, dtype):
    X, y = datasets.load(name)
    assert X.shape == shape
    assert X.dtype == dtype
    assert X.flags.c_contiguous
    assert y.shape == shape[:1]
    assert y.dtype == np.int32
    assert np.unique(y).tolist() == list(range(classes))
    assert (datasets.N_ROWS[name], datasets.N_CLASSES[name]) == (shape[0], classes)
    if name == "usps":
        assert np.bincount(y).tolist() == [1100] * 10
    else:
        assert real._checksum(X, y) == real._SOURCES[name].sha256


@needs_data
@pytest.mark.parametrize(("name", "names"), [("pendigits", str), ("letters", lambda c: chr(ord("A") + c))])
def test_download_with_rows_in_another_order(name, names, places, monkeypatch):
    with np.load(Path(DATA) / f"{name}.npz") as file:
        X, y = file["X"], file["y"].astype(int)
    order = np.random.default_rng(0).permutation(len(y))
    expected = real._SOURCES[name].sha256
    serve(monkeypatch, name, X[order], y[order], names)
    assert real._SOURCES[name].sha256 == expected  # of the shuffled content, so order does not count
    got_X, got_y = datasets.load(name)
    np.testing.assert_array_equal(got_X, X[order])
    np.testing.assert_array_equal(got_y, y[order])
    assert got_X.dtype == X.dtype


def test_data_folder_before_cache_before_download(places, monkeypatch):
    data, cache = places
    calls = serve(monkeypatch, "pendigits", *SMALL)
    X, y = datasets.load("pendigits")
    assert len(calls) == 1
    assert calls[0]["data_id"] == 32
    np.testing.assert_array_equal(X, SMALL[0])
    again, _ = datasets.load("pendigits")  # from the cache now
    assert len(calls) == 1
    np.testing.assert_array_equal(again, X)
    put(cache, "pendigits", 2)
    assert datasets.load("pendigits")[0][0, 0] == 2
    put(data, "pendigits", 1)
    X, y = datasets.load("pendigits")
    assert X[0, 0] == 1
    assert X.dtype == np.uint8
    assert y.dtype == np.int32
    monkeypatch.delenv("ULTRASPEC_DATA")
    assert datasets.load("pendigits")[0][0, 0] == 2


def test_where_the_cache_is(tmp_path, monkeypatch):
    monkeypatch.delenv("ULTRASPEC_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ULTRASPEC_CACHE", raising=False)
    put(tmp_path / "home" / ".cache" / "ultraspec", "usps", 1)
    assert datasets.load("usps")[0][0, 0] == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    put(tmp_path / "xdg" / "ultraspec", "usps", 2)
    assert datasets.load("usps")[0][0, 0] == 2
    monkeypatch.setenv("ULTRASPEC_CACHE", str(tmp_path / "own"))
    put(tmp_path / "own", "usps", 3)
    assert datasets.load("usps")[0][0, 0] == 3


@pytest.mark.parametrize(
    ("name", "names"),
    [("pendigits", str), ("mnist", str), ("letters", lambda c: "ABCDEFG"[c]), ("covertype", lambda c: int(c) + 1)],
)
def test_downloads(name, names, places, monkeypatch, capsys):
    calls = serve(monkeypatch, name, *SMALL, names=names)
    X, y = datasets.load(name)
    assert X.dtype == (np.int16 if name == "covertype" else np.uint8)
    assert y.tolist() == SMALL[1].tolist()
    assert y.dtype == np.int32
    assert capsys.readouterr().err.splitlines() == [f"ultraspec: downloading {name} ({datasets.N_ROWS[name]:,} rows)"]
    assert [path.name for path in places[1].iterdir()] == [f"{name}.npz"]
    assert not Path(calls[0]["data_home"]).exists()  # no second copy in a cache of scikit-learn's
    cached_X, cached_y = datasets.load(name)
    assert (cached_X.dtype, cached_y.dtype) == (X.dtype, y.dtype)
    np.testing.assert_array_equal(cached_X, X)


def test_a_terminal_gets_a_status_line_that_goes_away(monkeypatch):
    pytest.importorskip("rich")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with real._status("fetching"):
        pass
    assert "fetching" in sys.stderr.getvalue()
    assert "\x1b[" in sys.stderr.getvalue() or os.environ.get("TERM") == "dumb"


@pytest.mark.parametrize("damage", ["checksum", "fractions", "missing values", "class names"])
def test_unexpected_content_is_refused(damage, places, monkeypatch):
    X, y = SMALL
    serve(monkeypatch, "pendigits", X, y, wrong=damage == "checksum")
    if damage != "checksum":
        fetched, classes = X.astype(float), y.astype(str)
        if damage == "class names":
            classes = np.char.add(classes, "?")
        else:
            fetched[0, 0] = 0.5 if damage == "fractions" else np.nan
        monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **kwargs: (fetched, classes))
    with pytest.raises(
        ValueError, match=r"pendigits does not have the expected content.*nothing was cached.*ULTRASPEC_DATA"
    ):
        datasets.load("pendigits")
    assert not places[1].exists()


@pytest.mark.parametrize("error", [ConnectionError("no route"), ValueError("md5 differs")])
def test_failed_download(error, places, monkeypatch):
    def fail(**kwargs):
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
    with pytest.raises(
        OSError, match=rf"download of mnist failed \({error}\)\. Put a file mnist\.npz .*ULTRASPEC_DATA"
    ):
        datasets.load("mnist")
    assert not places[1].exists()


def test_parser_without_pandas(places, monkeypatch):
    calls = serve(monkeypatch, "letters", *SMALL, names=lambda c: "ABCDEFG"[c])
    monkeypatch.setattr(real, "find_spec", lambda module: None)
    datasets.load("letters")
    assert calls[0]["parser"] == "liac-arff"


def test_usps_must_be_provided(places):
    with pytest.raises(
        FileNotFoundError, match=r"'usps' has no public copy.*usps\.npz with arrays X .* and y .*ULTRASPEC_DATA"
    ):
        datasets.load("usps")


def test_unknown_real_sets():
    with pytest.raises(ValueError, match="unknown real set 'tb'; known are 'pendigits', 'usps', 'letters', 'mnist'"):
        datasets.load("tb")
    with pytest.raises(TypeError, match="name must be a str, not NoneType"):
        datasets.load(None)


X3, Y3 = np.zeros((3, 2), np.uint8), np.arange(3)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X3}, "it has no array y"),
        ({"data": X3}, "it has no array X and no array y"),
        ({"X": X3, "y": Y3[:2]}, r"shapes are \(3, 2\), \(2,\)"),
        ({"X": Y3, "y": Y3}, r"shapes are \(3,\), \(3,\)"),
        ({"X": X3, "y": Y3[:, None]}, r"shapes are \(3, 2\), \(3, 1\)"),
        ({"X": X3, "y": Y3 / 2}, "y integers, but types are uint8, float64"),
        ({"X": X3.astype(str), "y": Y3}, "X must be numbers"),
        ({"X": X3.astype(object), "y": Y3}, "allow_pickle=False"),
    ],
)
def test_wrong_files(arrays, message, places):
    path = places[0] / "usps.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        datasets.load("usps")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "altered", "npy"])
def test_damaged_files(damage, places):
    path = places[0] / "usps.npz"
    rng = np.random.default_rng(0)
    np.savez_compressed(path, X=rng.integers(0, 255, (500, 20), np.uint8), y=np.zeros(500, int))
    whole = path.read_bytes()
    middle = len(whole) // 2
    if damage == "npy":
        with open(path, "wb") as file:
            np.save(file, X3)
    else:
        path.write_bytes(
            {
                "empty": b"",
                "text": b"404: not found",
                "cut": whole[:middle],
                "altered": whole[:middle] + bytes(255 - b for b in whole[middle : middle + 40]) + whole[middle + 40 :],
            }[damage]
        )
    with pytest.raises(ValueError, match="cannot use") as caught:
        datasets.load("usps")
    assert str(path) in str(caught.value)


def test_cache_appears_whole_or_not_at_all(places, monkeypatch):
    cache = places[1]
    serve(monkeypatch, "pendigits", *SMALL)
    save = np.savez_compressed

    def stop_halfway(file, **arrays):
        file.write(b"half")
        assert not (cache / "pendigits.npz").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", stop_halfway)
    with pytest.raises(KeyboardInterrupt):
        datasets.load("pendigits")
    assert list(cache.iterdir()) == []

    renamed = []
    rename = os.replace
    monkeypatch.setattr(np, "savez_compressed", save)
    monkeypatch.setattr(
        os, "replace", lambda source, target: (renamed.append((source, target)), rename(source, target))
    )
    datasets.load("pendigits")
    [(source, target)] = renamed
    assert (Path(source).parent, Path(target)) == (cache, cache / "pendigits.npz")
    assert list(cache.iterdir()) == [cache / "pendigits.npz"]


def test_a_cache_that_cannot_be_written_is_only_a_warning(places, monkeypatch):
    places[1].write_text("a file where the folder should be")
    serve(monkeypatch, "pendigits", *SMALL)
    with pytest.warns(UserWarning, match="pendigits was downloaded but not cached"):
        X, _ = datasets.load("pendigits")
    np.testing.assert_array_equal(X, SMALL[0])
