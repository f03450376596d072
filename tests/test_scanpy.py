"""`ultraspec.tl` with the real scanpy, in the environment of `make test-scanpy`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from tests.helpers.common import same_partition
from ultraspec import metrics, tl

scanpy = pytest.importorskip("scanpy")
anndata = pytest.importorskip("anndata")
pytest.importorskip("igraph")
COMPONENTS = pytest.mark.filterwarnings("ignore:The graph has")  # the test requests fewer clusters than there are


@pytest.fixture(autouse=True)
def without_windows():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def counts(n=500, k=3):
    """Return counts of 60 genes in cells of k types, the first of which are more frequent, and the types."""
    rng = np.random.default_rng(0)
    y = rng.choice(k, size=n, p=np.arange(k, 0, -1) / np.arange(1, k + 1).sum())
    rates = rng.gamma(0.3, 3.0, size=(k, 60))[y]
    return scipy.sparse.csr_matrix(rng.poisson(rates).astype(np.float32)), y


def prepared(n=500, k=3):
    """Return an AnnData after the usual first steps, and the types."""
    X, y = counts(n, k)
    adata = anndata.AnnData(X)
    scanpy.pp.normalize_total(adata)
    scanpy.pp.log1p(adata)
    scanpy.pp.pca(adata, n_comps=10)
    return adata, y


def cluster_by_leiden(adata, **options):
    scanpy.tl.leiden(adata, flavor="igraph", n_iterations=2, directed=False, **options)


@COMPONENTS
def test_plots_and_genes_of_clusters():
    adata, y = prepared()
    tl.uspec(adata, 3)
    assert same_partition(y, adata.obs["uspec"])
    scanpy.pl.pca(adata, color="uspec", show=False)
    assert len(adata.uns["uspec_colors"]) == 3
    scanpy.pl.embedding(adata, basis="uspec", color="uspec", show=False)
    scanpy.tl.rank_genes_groups(adata, "uspec")
    tl.uspec(adata, 2)
    assert "uspec_colors" not in adata.uns
    scanpy.pl.pca(adata, color="uspec", show=False)
    assert len(adata.uns["uspec_colors"]) == 2


def test_agrees_with_leiden_in_clusters_and_conventions():
    adata, y = prepared(1_000, 4)
    scanpy.pp.neighbors(adata)
    cluster_by_leiden(adata, resolution=0.2)
    tl.uspec(adata, 4)
    assert metrics.ari(adata.obs["leiden"], adata.obs["uspec"]) > 0.99
    for key in ("leiden", "uspec"):
        assert same_partition(y, adata.obs[key])
        assert adata.obs[key].cat.categories.tolist() == ["0", "1", "2", "3"]
    assert adata.obs["uspec"].value_counts(sort=False).is_monotonic_decreasing  # the largest cluster is "0"
    cluster_by_leiden(adata, restrict_to=("leiden", ["1"]), resolution=1.5)
    tl.uspec(adata, 2, restrict_to=("leiden", ["1"]))
    assert adata.obs["uspec_R"].cat.categories.tolist() == ["0", "1,0", "1,1", "2", "3"]
    theirs = adata.obs["leiden_R"].cat.categories
    assert [name for name in theirs if not name.startswith("1,")] == ["0", "2", "3"]
    assert {"1,0", "1,1"} <= set(theirs)
    rest = adata.obs["leiden"] != "1"
    assert (adata.obs["uspec_R"][rest].astype(str) == adata.obs["leiden_R"][rest].astype(str)).all()
    scanpy.pl.pca(adata, color=["uspec_R", "uspec_R_confidence"], show=False)
    scanpy.tl.rank_genes_groups(adata, "uspec_R", groups=["1,0"], reference="1,1")
    scanpy.tl.dendrogram(adata, "uspec_R", use_rep="X_pca")


def test_backed_file_and_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    adata, y = prepared()
    tl.uspec(adata, 3, use_rep="X")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = scanpy.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    tl.uspec(backed, 3, use_rep="X", key_added="file")
    assert backed.obs["file"].tolist() == adata.obs["uspec"].tolist()
    backed.file.close()

    X, _ = counts()
    lazy = anndata.AnnData(da.from_array(X, chunks=(200, -1), asarray=False))
    scanpy.pp.normalize_total(lazy)
    scanpy.pp.log1p(lazy)
    tl.uspec(lazy, 3, use_rep="X")
    assert isinstance(lazy.X, da.Array)
    assert same_partition(y, lazy.obs["uspec"])


def test_restricted_clusters_on_a_umap_of_the_embedding():
    adata, _ = prepared()
    tl.uspec(adata, 3)
    scanpy.pp.neighbors(adata, use_rep="X_uspec")
    scanpy.tl.umap(adata, maxiter=10)
    scanpy.pl.umap(adata, color=["uspec", "uspec_confidence"], show=False)
    assert adata.obsm["X_umap"].shape == (500, 2)
