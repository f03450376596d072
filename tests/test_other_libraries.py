"""Blocks of the tutorials that need BERTopic, FlowIO or scanpy, with the real libraries: `make test-scanpy`."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest

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
