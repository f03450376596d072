"""Rows of AnnData: files, Zarr folders and objects, dense and sparse; damaged ones are refused."""

from __future__ import annotations

import pickle

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from tests.helpers.common import blobs, documents
from ultraspec import USENC, USPEC, open_rows
from ultraspec.rows import InvalidData

X = blobs(700, 3, 4, seed=2)[0].astype(np.float32)
SPARSE = scipy.sparse.csr_matrix(documents(700, 3, 60, 20, seed=1)[0].astype(np.float32))
GENES = [f"gene {i}" for i in range(60)]


def make(layout=scipy.sparse.csr_matrix):
    cells = anndata.AnnData(layout(SPARSE), var=pd.DataFrame(index=GENES))
    cells.obsm["X_pca"] = X
    cells.obsm["frame"] = pd.DataFrame({"a": X[:, 0]}, index=cells.obs_names)
    cells.layers["dense"] = SPARSE.toarray()
    cells.obs["kind"] = pd.Categorical(["a", "b"] * 350)
    cells.obsp["graph"] = scipy.sparse.eye_array(700, format="csr")
    return cells


@pytest.fixture(params=["x.h5ad", "x.zarr"])
def path(request, tmp_path):
    path = tmp_path / request.param
    make().write_h5ad(path) if path.suffix == ".h5ad" else make().write_zarr(path)
    return path


def test_matrices_are_listed_and_nothing_else(path):
    with pytest.raises(ValueError, match="more than one 2-d array of numbers") as caught:
        open_rows(path)
    message = str(caught.value)
    for text in ("'X' (700 x 60, float32, sparse CSR)", "'obsm/X_pca' (700 x 4, float32)", "'layers/dense' (700 x 60"):
        assert text in message
    assert all(text not in message for text in ("graph", "kind", "frame", "indptr"))
    with pytest.raises(ValueError, match=r"no array 'obsm/X_umap'.*'obsm/X_pca'"):
        open_rows(path, array="obsm/X_umap")
    with pytest.raises(TypeError, match="array must be the name of a matrix"):
        open_rows(path, array=3)


def test_dense_and_sparse_matrices(path):
    with open_rows(path, array="obsm/X_pca") as rows:
        assert rows.names is None
        np.testing.assert_array_equal(rows.read(0, 700), X)
    with open_rows(path, array="layers/dense") as rows:
        assert rows.names == GENES
        np.testing.assert_array_equal(rows.read(5, 99), SPARSE.toarray()[5:99])
    with open_rows(path, array="X") as rows:
        assert (rows.sparse, rows.in_memory, rows.names, rows.shape) == (True, False, GENES, (700, 60))
        np.testing.assert_array_equal(rows.read(5, 99).toarray(), SPARSE[5:99].toarray())
        indices = np.array([0, 1, 7, 400, 699])
        np.testing.assert_array_equal(rows.take(indices).toarray(), SPARSE[indices].toarray())
        few = rows.select(["gene 7", "gene 3"])
        np.testing.assert_array_equal(few.read(0, 700).toarray(), SPARSE[:, [7, 3]].toarray())
        again = pickle.loads(pickle.dumps(rows))
        np.testing.assert_array_equal(again.read(3, 4).toarray(), SPARSE[3:4].toarray())


@pytest.mark.parametrize("kind", [USPEC, USENC])
def test_labels_are_those_of_arrays(path, kind):
    options = {"random_state": 0, "metric": "cosine"} | ({"n_estimators": 4} if kind is USENC else {})
    expected = kind(3, **options).fit_predict(SPARSE)
    with open_rows(path, array="X") as rows:
        model = kind(3, **options).fit(rows)
        np.testing.assert_array_equal(model.labels_, expected)
        np.testing.assert_array_equal(model.predict(rows), model.labels_)


def test_columns_first_is_read_as_a_whole(tmp_path):
    make(scipy.sparse.csc_matrix).write_h5ad(tmp_path / "x.h5ad")
    rows = open_rows(tmp_path / "x.h5ad", array="X")
    np.testing.assert_array_equal(rows.read(0, 700).toarray(), SPARSE.toarray())
    rows = open_rows(tmp_path / "x.h5ad", ["gene 9"], array="X")
    np.testing.assert_array_equal(rows.read(0, 700).toarray(), SPARSE[:, [9]].toarray())


def test_names_that_are_repeated_are_no_names(tmp_path):
    cells = anndata.AnnData(X)
    cells.var_names = ["a", "a", "b", "c"]
    cells.write_h5ad(tmp_path / "x.h5ad")
    assert open_rows(tmp_path / "x.h5ad").names is None
    assert open_rows(cells).names is None


# Objects


def test_objects(tmp_path):
    cells = make()
    np.testing.assert_array_equal(open_rows(cells, array="obsm/X_pca").read(0, 700), X)
    assert open_rows(cells, array="X").names == GENES
    rows = open_rows(cells, ["gene 3"], array="layers/dense")
    np.testing.assert_array_equal(rows.read(0, 700), SPARSE.toarray()[:, [3]])
    with pytest.raises(ValueError, match=r"AnnData has more than one 2-d array.*'obsm/X_pca'"):
        open_rows(cells)
    with pytest.raises(TypeError, match=r"X is an AnnData.*open_rows\(X, array='obsm/X_pca'\)"):
        USPEC(3).fit(cells)


def test_backed_objects(tmp_path):
    make().write_h5ad(tmp_path / "x.h5ad")
    cells = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    rows = open_rows(cells, array="X")
    assert not rows.in_memory
    np.testing.assert_array_equal(rows.read(0, 9).toarray(), SPARSE[:9].toarray())
    np.testing.assert_array_equal(open_rows(cells, array="obsm/X_pca").read(0, 9), X[:9])
    with pytest.raises(ValueError, match=r"view of an AnnData in backed mode.*to_memory"):
        open_rows(cells[:9], array="X")


# Damaged and hostile files


def damage(path, change):
    with h5py.File(path, "r+") as file:
        change(file)


def replace(name, values):
    def change(file):
        del file[name]
        file[name] = values

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (replace("X/indptr", np.zeros(5, np.int64)), "rows that do not follow each other"),
        (replace("X/indptr", np.arange(701)[::-1]), "rows that do not follow each other"),
        (replace("X/indptr", np.full(701, 2**40)), "rows that do not follow each other"),
        (replace("X/data", np.zeros(3, np.float32)), "rows that do not follow each other"),
        (replace("X/indices", np.full(SPARSE.nnz, 10**6)), "indices outside of its shape"),
        (replace("X/indices", np.full(SPARSE.nnz, -1)), "indices outside of its shape"),
        (replace("X/indices", np.full(SPARSE.nnz, 0.5)), "indices outside of its shape"),
        (replace("X/data", np.array([b"x"] * SPARSE.nnz)), "no array 'X'"),
        (lambda file: file["X"].attrs.update(shape=[2**60, 2**60]), r"damaged|2\*\*60|columns and 60 names"),
        (lambda file: file["X"].attrs.update(shape=[700, 2]), "60 names"),
        (lambda file: file["X"].attrs.update(shape="many"), "cannot be read as an .h5ad file"),
        (lambda file: file["X"].attrs.update({"encoding-type": "dataframe"}), "no array 'X'"),
        (lambda file: file.__delitem__("X/indices"), "cannot be read as an .h5ad file"),
    ],
)
def test_damaged_matrices(tmp_path, change, match):
    path = tmp_path / "x.h5ad"
    make().write_h5ad(path)
    damage(path, change)
    with pytest.raises(InvalidData, match=match):
        open_rows(path, array="X").read(0, 700)


def test_files_without_matrices(tmp_path):
    anndata.AnnData(obs=pd.DataFrame({"a": [1, 2]}, index=["x", "y"])).write_h5ad(tmp_path / "x.h5ad")
    with pytest.raises(ValueError, match="no 2-d array of numbers"):
        open_rows(tmp_path / "x.h5ad")
    anndata.AnnData(np.zeros((0, 3), np.float32)).write_h5ad(tmp_path / "y.h5ad")
    with pytest.raises(ValueError, match="has no rows"):
        open_rows(tmp_path / "y.h5ad")


@pytest.mark.parametrize("file", ["X/data/0", "X/indices/0", "X/indptr/0", "var/_index/0", ".zmetadata"])
def test_damaged_zarr_folders(tmp_path, file):
    path = tmp_path / "x.zarr"
    make().write_zarr(path)
    data = (path / file).read_bytes()
    junk = [b"", data[:9], b"\x89PNG and no rows at all", b"[1, 2]", bytes(len(data))]
    for broken in junk:
        (path / file).write_bytes(broken)
        with pytest.raises(InvalidData, match=r"x\.zarr"), open_rows(path, array="X") as rows:
            rows.read(0, rows.n_rows)


@pytest.mark.parametrize("layout", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, np.asarray])
def test_files_that_were_cut_off(tmp_path, layout):
    path = tmp_path / "x.h5ad"
    anndata.AnnData(layout(SPARSE.toarray())).write_h5ad(path)
    data = path.read_bytes()
    for length in (len(data) - 1, len(data) // 2, 100, 8):
        path.write_bytes(data[:length])
        with pytest.raises(InvalidData, match=r"x\.h5ad cannot be read as an \.h5ad file"):
            open_rows(path)
    path.write_bytes(b"no HDF5")
    with pytest.raises(InvalidData, match="cannot be read"):
        open_rows(path)
