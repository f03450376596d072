"""Real libraries that few of our users have, in tutorials and as tables (Ibis, Hugging Face): `make test-scanpy`."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
from sklearn.base import clone

from tests.helpers.common import ROOT, blobs
from ultraspec import metrics


def blocks(page, needle):
    """Return the blocks of a tutorial that the other tests do not run, from the first one that has a string."""
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    first = next(number for number, block in enumerate(found) if needle in block)
    return found[first:]


def test_topics_of_bertopic():
    pytest.importorskip("bertopic")
    from bertopic.backend import BaseEmbedder

    X, y = blobs(630, 5, 32, 0)
    X = X.astype(np.float32)
    X[:6] = -X.mean(axis=0)  # near no topic
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice([f"word{topic}{letter}" for letter in "abcdefgh"], 12)) for topic in y]
    names = {
        "embedding_model": BaseEmbedder(),
        "texts": texts[:600],
        "embeddings": X[:600],
        "new_texts": texts[600:],
        "new_embeddings": X[600:],
    }
    first, second = blocks("documents", "from bertopic")
    exec(first, names)
    assert metrics.ari(y[6:600], names["found"][6:]) == 1
    assert names["probabilities"].shape == (600,)
    assert metrics.ari(y[600:], names["new_topics"]) == 1
    info = names["topic_model"].get_topic_info()
    assert info["Topic"].tolist() == [0, 1, 2, 3, 4]
    assert info["Count"].is_monotonic_decreasing
    exec(second, names)
    assert names["marked"][:6] == [-1] * 6
    assert np.mean(np.array(names["marked"]) == -1) < 0.06
    assert names["with_outliers"].get_topic_info()["Topic"].tolist() == [-1, 0, 1, 2, 3, 4]


def test_fcs_files_by_flowio(tmp_path):
    flowio = pytest.importorskip("flowio")
    pytest.importorskip("pyarrow")
    from ultraspec import USPEC, open_rows

    X, y = blobs(2_000, 4, 6, 0)
    (tmp_path / "fcs").mkdir()
    for number, part in enumerate(np.split(5 * np.sinh(X / 2), 2)):
        with (tmp_path / "fcs" / f"sample{number}.fcs").open("wb") as file:
            flowio.create_fcs(file, part.ravel().tolist(), [f"CD{j}" for j in range(6)])
    (block,) = blocks("cytometry", "import flowio")
    with contextlib.chdir(tmp_path):
        exec(block, {})
        with open_rows("cells") as rows:
            assert rows.names == [f"CD{j}" for j in range(6)]
            np.testing.assert_allclose(rows.read(0, 2_000), X / 2, atol=1e-4)
            assert metrics.ari(y, USPEC(4, random_state=0).fit_predict(rows)) == 1


@pytest.mark.filterwarnings("ignore:The graph has")
def test_the_workflow_beside_leiden(monkeypatch):
    scanpy = pytest.importorskip("scanpy")
    pytest.importorskip("igraph")
    anndata = pytest.importorskip("anndata")
    from ultraspec import tl

    pytest.importorskip("matplotlib.pyplot").switch_backend("agg")
    rng = np.random.default_rng(0)
    profiles = rng.gamma(0.3, 3.0, size=(25, 80))
    adata = anndata.AnnData(rng.poisson(profiles[rng.integers(25, size=1_500)]).astype(np.float32))
    preprocessing, workflow = blocks("single-cells", "normalize_total")
    exec(preprocessing, {"sc": scanpy, "adata": adata})
    exec(workflow, {"sc": scanpy, "tl": tl, "adata": adata})
    assert metrics.ari(adata.obs["leiden"], adata.obs["uspec"]) > 0.8


# Tables


@pytest.fixture
def table(tmp_path):
    """Return a frame, the Parquet file that has it, and the labels of its rows."""
    from ultraspec import USPEC

    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    X, _ = blobs(1_200, 3, 3, 0)
    rows = arrow.table({name: X[:, j] for j, name in enumerate("abc")})
    parquet.write_table(rows, tmp_path / "x.parquet", row_group_size=200)
    return rows, tmp_path / "x.parquet", USPEC(3, random_state=0).fit(rows)


def test_tables_of_ibis(table):
    ibis = pytest.importorskip("ibis")
    _, path, model = table
    rows = ibis.polars.connect().read_parquet(path)
    for same in (rows, rows.mutate(d=rows.a).select("c", "b", "a"), rows.filter(rows.a < 1e9)):
        np.testing.assert_array_equal(model.predict(same), model.labels_)
    weighted = clone(model).fit(rows.mutate(n=ibis.literal(2)), sample_weight="n")
    np.testing.assert_array_equal(weighted.labels_, model.labels_)
    with pytest.raises(ValueError, match="X has no rows"):
        model.predict(rows.filter(rows.a > 1e9))
    with pytest.raises(ValueError, match=r"column 'a' \(string\) must hold numbers"):
        model.predict(rows.mutate(a=rows.a.cast("string")))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(rows.rename(z="a"))
    with pytest.raises(Exception, match="unbound"):
        model.predict(ibis.table(rows.schema(), name="nowhere"))


def test_datasets_of_hugging_face(table, tmp_path):
    datasets = pytest.importorskip("datasets")
    rows, path, model = table
    data = datasets.Dataset(rows)
    stream = datasets.load_dataset("parquet", data_files=str(path), split="train", streaming=True)
    for same in (
        data,
        data.with_format("numpy"),
        data.select(range(1_200)),
        data.to_iterable_dataset(num_shards=3),
        stream,
        stream.map(lambda row: {"a": row["a"]}),
    ):
        np.testing.assert_array_equal(model.predict(same), model.labels_)
    weighted = clone(model).fit(data.add_column("n", [2] * 1_200), sample_weight="n")
    np.testing.assert_array_equal(weighted.labels_, model.labels_)
    for splits in (datasets.DatasetDict(train=data), datasets.IterableDatasetDict(train=stream)):
        with pytest.raises(TypeError, match=r"Dict of the splits 'train'. Pass one of them, as in X\['train'\]"):
            model.predict(splits)
    with pytest.raises(ValueError, match="X has no rows"):
        model.predict(data.select([]))
    with pytest.raises(ValueError, match=r"column 'embedding' \(list<.*must hold numbers"):
        clone(model).fit(datasets.Dataset.from_dict({"embedding": [[1.0, 2.0]] * 9}))
    with pytest.raises(ValueError, match="X contains NaN in column 'b', row 1"):
        model.predict(datasets.Dataset.from_dict({"a": [1.0, 2.0], "b": [1.0, None], "c": [1.0, 2.0]}))
    with pytest.raises(ZeroDivisionError):
        model.predict(stream.map(lambda row: {"a": 1 / 0}))
