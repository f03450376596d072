"""Labels beside the columns of the input, other cuts, AnnData, standard input, and the table of results."""

from __future__ import annotations

import io
import json
import re

import anndata
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from tests.helpers.cli_tools import Shell, circles, write_data
from tests.helpers.common import ROOT
from tests.helpers.standard_input import piped
from ultraspec import USENC, USPEC, load, save

pytestmark = pytest.mark.usefixtures("few_halves")

X, Y = circles(600)


@pytest.fixture
def shell(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path, X)
    np.save(tmp_path / "y.npy", Y)
    return Shell(capsys, tmp_path)


@pytest.fixture(scope="module")
def model():
    return USPEC(3, random_state=0).fit(pd.DataFrame(X, columns=["x0", "x1"]))


def table():
    return pd.DataFrame(
        {"name": [f"n, {i}" for i in range(len(X))], "x0": X[:, 0], "x1": X[:, 1], "id": range(len(X))}
    ).assign(kind=pd.Categorical(["a", "b"] * (len(X) // 2)))


# With the columns of the input


@pytest.mark.parametrize("data", ["t.parquet", "t.csv", "t.feather", "t.jsonl"])
@pytest.mark.parametrize("output", ["l.parquet", "l.csv"])
def test_labels_beside_the_input(shell, model, data, output):
    frame = table()
    {
        "t.parquet": lambda: frame.to_parquet(data, row_group_size=100),
        "t.csv": lambda: frame.to_csv(data, index=False),
        "t.feather": lambda: frame.to_feather(data),
        "t.jsonl": lambda: frame.to_json(data, orient="records", lines=True),
    }[data]()
    save(model, "m.u")
    for words in (["fit", data, "-k", 3, "--columns", "x0,x1", "--seed", 0], ["predict", "m.u", data]):
        shell.fine(*words, "--with-input", "-o", output, "--force")
        found = pd.read_parquet(output) if output == "l.parquet" else pd.read_csv(output)
        assert list(found) == ["name", "x0", "x1", "id", "kind", "label", "confidence"]
        assert found["name"].tolist() == frame["name"].tolist()
        assert found["kind"].tolist() == frame["kind"].tolist()
        np.testing.assert_array_equal(found["id"], frame["id"])
        if data != "t.jsonl":  # pandas writes ten digits
            np.testing.assert_array_equal(found["label"], model.labels_)


def test_labels_beside_an_array_have_numbered_columns(shell):
    shell.fine("fit", "x.npy", "-k", 3, "--with-input", "-o", "l.parquet")
    found = pd.read_parquet("l.parquet")
    assert list(found) == ["x0", "x1", "label", "confidence"]
    np.testing.assert_array_equal(found[["x0", "x1"]], X)


def test_input_that_cannot_be_joined(shell, monkeypatch):
    monkeypatch.setattr(USPEC, "fit", lambda *_: pytest.fail("the fit was started"))
    table().assign(label=1).to_parquet("t.parquet")
    words = ["fit", "t.parquet", "-k", 3, "--columns", "x0,x1", "--with-input"]
    assert "the input has a column 'label' itself" in shell.refused(*words, "-o", "l.parquet")
    assert "--with-input is for the file of labels: pass -o too" in shell.refused(*words)
    assert "--with-input needs a table: write -o l.parquet or .csv" in shell.refused(*words, "-o", "l.npy")
    pyarrow.parquet.write_table(pyarrow.table({"x0": X[:, 0], "more": [[1, 2]] * len(X)}), "n.parquet")
    words = ["fit", "n.parquet", "-k", 3, "--columns", "x0", "--with-input", "-o", "l.csv"]
    assert "column 'more' (list<" in shell.refused(*words)


# Weights


def test_weights_are_a_column(shell, monkeypatch):
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    frame = pd.DataFrame({"x0": X[:, 0], "n": weights, "x1": X[:, 1]})
    frame.to_parquet("w.parquet")
    expected = USPEC(4, random_state=0).fit(X, sample_weight=weights)
    words = ["fit", "w.parquet", "-k", 4, "--seed", 0, "--weight", "n", "--with-input", "-o", "l.parquet"]
    shell.fine(*words, "--model", "m.u", "--report", "r.html")
    found = pd.read_parquet("l.parquet")
    assert list(found) == ["x0", "n", "x1", "label", "confidence"]
    np.testing.assert_array_equal(found["label"], expected.labels_)
    assert "--weight n" in (shell.folder / "r.html").read_text()
    shell.fine("predict", "m.u", "w.parquet", "-o", "p.npy")
    np.testing.assert_array_equal(np.load("p.npy"), expected.labels_)
    shell.fine("cut", "m.u", "w.parquet", "-k", 3, "--weight", "n", "-o", "c.npy")
    np.testing.assert_array_equal(np.load("c.npy"), expected.cut(3).labels_)
    piped(monkeypatch, frame.to_csv(index=False).encode())
    shell.fine("fit", "-", "-k", 4, "--seed", 0, "--weight", "n", "--columns", "x0,x1", "-o", "s.npy")
    np.testing.assert_array_equal(np.load("s.npy"), expected.labels_)


def test_weights_that_are_none(shell):
    pd.DataFrame({"x0": X[:, 0], "n": -np.ones(len(X)), "x1": X[:, 1]}).to_parquet("w.parquet")
    assert "--weight has 600 invalid weights, the first in row 0: -1" in shell.refused(
        "fit", "w.parquet", "-k", 3, "--weight", "n"
    )
    assert "no column named 'm'" in shell.refused("fit", "w.parquet", "-k", 3, "--weight", "m")
    assert "has no column names" in shell.refused("fit", "x.npy", "-k", 3, "--weight", "n")


# Standard input


def test_rows_from_standard_input(shell, model, monkeypatch):
    text = (shell.folder / "x.csv").read_bytes()
    piped(monkeypatch, text)
    shell.fine("fit", "-", "-k", 3, "--seed", 0, "-o", "l.npy", "--model", "m.u")
    np.testing.assert_array_equal(np.load("l.npy"), model.labels_)
    piped(monkeypatch, text)
    shell.fine("predict", "m.u", "-", "--with-input", "-o", "p.csv")
    np.testing.assert_array_equal(pd.read_csv("p.csv")["label"], model.labels_)
    assert list(pd.read_csv("p.csv")) == ["x0", "x1", "label", "confidence"]
    sink = io.BytesIO()
    arrow = pyarrow.csv.read_csv("x.csv")
    with pyarrow.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow)
    piped(monkeypatch, sink.getvalue())
    shell.fine("predict", "m.u", "-", "-o", "a.npy")
    np.testing.assert_array_equal(np.load("a.npy"), model.labels_)
    piped(monkeypatch, text.replace(b"\n", b"\n,\n", 1))
    assert shell.refused("predict", "m.u", "-", "-o", "q.csv").startswith("standard input contains NaN in column 'x0'")
    piped(monkeypatch, b"")
    assert shell.refused("fit", "-", "-k", 3) == "standard input is empty."


# Other cuts


@pytest.mark.parametrize("kind", [USPEC, USENC])
def test_cut(shell, kind):
    fitted = kind(3, random_state=0, **({"n_estimators": 4} if kind is USENC else {})).fit(X)
    save(fitted, "m.u")
    facts = shell.facts("cut", "m.u", "x.npy", "-k", 5, "-o", "l.parquet", "--model", "five.u")
    expected = fitted.cut(5)
    np.testing.assert_array_equal(pd.read_parquet("l.parquet")["label"], expected.labels_)
    np.testing.assert_array_equal(pd.read_parquet("l.parquet")["confidence"], expected.confidence_)
    np.testing.assert_array_equal(load("five.u").predict(X), expected.labels_)
    assert facts["sizes"] == np.bincount(expected.labels_).tolist()
    assert "does not hold the rows that were fitted" in _other_rows(shell)
    assert "too few for n_clusters=100000" in shell.refused("cut", "m.u", "x.npy", "-k", "1e5", "-o", "z.npy")
    assert "-k must be at least 1" in shell.refused("cut", "m.u", "x.npy", "-k", 0, "-o", "z.npy")
    assert "nothing to write" in shell.refused("cut", "m.u", "x.npy", "-k", 4)


def _other_rows(shell):
    np.save("other.npy", X[::-1].copy())
    return shell.refused("cut", "m.u", "other.npy", "-k", 4, "-o", "z.npy")


# Missing values


def test_missing_values_are_counted_or_dropped(shell):
    bad = X.copy()
    bad[[3, 9], 1] = np.nan
    np.save("gaps.npy", bad)
    line = shell.refused("fit", "gaps.npy", "-k", 3, "-o", "l.npy")
    assert "In all, 2 of 600 rows have such values, in columns 1 (2)." in line
    assert "--missing drop" in line
    for scale in ("none", "standard"):
        words = ["--scale", scale, "--missing", "drop", "--seed", 0, "-o", "l.npy", "--model", "m.u", "--force"]
        facts = shell.facts("fit", "gaps.npy", "-k", 3, *words)
        assert (facts["missing"], sum(facts["sizes"])) == (2, 598)
        assert np.flatnonzero(np.load("l.npy") == -1).tolist() == [3, 9]
        assert "2 rows with missing values, labelled -1" in shell.fine(
            "predict", "m.u", "gaps.npy", "-o", "p.npy", "--force"
        )
        np.testing.assert_array_equal(np.load("p.npy"), np.load("l.npy"))
    save(USPEC(3, random_state=0).fit(X), "n.u")
    assert "gaps.npy contains NaN" in shell.refused("predict", "n.u", "gaps.npy", "-o", "q.npy")
    assert shell.facts("predict", "n.u", "gaps.npy", "-o", "q.npy", "--missing", "drop")["missing"] == 2


# AnnData


@pytest.mark.parametrize("name", ["a.h5ad", "a.zarr"])
def test_labels_in_obs(shell, model, name):
    cells = anndata.AnnData(np.zeros((len(X), 5), np.float32), obsm={"X_pca": X}, obs={"batch": ["x"] * len(X)})
    cells.write_h5ad(name) if name == "a.h5ad" else cells.write_zarr(name)
    read = anndata.read_h5ad if name == "a.h5ad" else anndata.read_zarr
    line = shell.refused("fit", name, "-k", 3)
    assert "'X' (600 x 5, float32); 'obsm/X_pca' (600 x 2, float32). Choose one: --array X" in line
    words = ["fit", name, "--array", "obsm/X_pca", "-k", 3, "--seed", 0, "--obs", "found"]
    facts = shell.facts(*words)
    assert facts["outputs"] == {"obs": f"{name}: obs['found']"}
    obs = read(name).obs
    assert list(obs) == ["batch", "found", "found_confidence"]
    assert obs["found"].astype(int).tolist() == model.labels_.tolist()
    assert "has a column 'found' in obs already" in shell.refused(*words)
    save(model, "m.u")
    shell.fine("cut", "m.u", name, "--array", "obsm/X_pca", "-k", 4, "--obs", "found", "--force")
    assert len(read(name).obs["found"].cat.categories) == 4
    assert not list(shell.folder.glob(".ultraspec*"))


def test_obs_is_for_anndata(shell):
    assert "x.npy is no AnnData" in shell.refused("fit", "x.npy", "-k", 3, "--obs", "found")
    (shell.folder / "bad.h5ad").write_bytes(b"no HDF5")
    assert "cannot be read as an .h5ad file" in shell.refused("fit", "bad.h5ad", "-k", 3, "--obs", "found")


# The table of the documentation


def test_every_result_is_in_the_table_of_the_documentation(shell):
    page = (ROOT / "docs" / "guides" / "command-line.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (`command`.*?) \|", page, re.MULTILINE))
    documented = {name: re.findall(r"`(\w+)`", keys) for name, keys in rows.items()}
    commands = {
        "fit": ["fit", "x.npy", "-k", "auto", "--model", "m.u", "-o", "l.npy"],
        "predict": ["predict", "m.u", "x.npy", "-o", "p.npy"],
        "cut": ["cut", "m.u", "x.npy", "-k", 2, "-o", "c.npy"],
        "report": ["report", "m.u", "x.npy", "-o", "r.html"],
        "evaluate": ["evaluate", "l.npy", "y.npy"],
        "generate": ["generate", "cc", "--rows", 50, "-o", "g.npy"],
        "demo": ["demo", "--rows", 3000, "--no-report"],
        "bench": ["bench", "--rows", 2000, "--repeats", 1],
    }
    for name, words in commands.items():
        assert list(json.loads(shell.fine(*words, "--json"))) == documented[name], name


# Places


def test_places_in_another_order_or_scaled(shell):
    places = pd.DataFrame({"lon": np.abs(X[:, 0]), "lat": np.abs(X[:, 1])})
    places.to_csv("places.csv", index=False)
    line = shell.refused("fit", "places.csv", "-k", 2, "--metric", "haversine")
    assert "the first is called 'lon', and the second 'lat'. Pass the latitude first: --columns lat,lon." in line
    options = ["--columns", "lat,lon", "-k", 2, "--metric", "haversine", "--seed", 0]
    line = shell.refused("fit", "places.csv", *options, "--scale", "standard")
    assert "--metric haversine needs degrees, and --scale standard changes them. Leave --scale out." in line
    assert shell.facts("fit", "places.csv", *options)["clusters"] == 2
