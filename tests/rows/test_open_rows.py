"""Row sources of files: the same rows, and the same labels, in every format."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.common import blobs, documents
from tests.helpers.row_files import FORMATS, TABLES, frame, write
from ultraspec import USENC, USPEC, open_rows
from ultraspec.rows import ArrayRows, FileRows, parquet

X = blobs(1500, 4, 3, seed=1)[0]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows in every format."""
    folder = tmp_path_factory.mktemp("rows")
    return {name: write(folder, name, X) for name in FORMATS}


@pytest.fixture(scope="module")
def fitted():
    return USPEC(4, n_representatives=60, random_state=0).fit(X)


def gathered(rows):
    return np.concatenate([rows.read(*span) for span in rows.blocks()])


# Rows


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_rows(files, name):
    with open_rows(files[name]) as rows:
        assert isinstance(rows, FileRows)
        assert not rows.in_memory
        assert (rows.n_rows, rows.n_features) == X.shape
        assert rows.names == (["c0", "c1", "c2"] if name in TABLES else None)
        assert rows.blocks() == ArrayRows(X).blocks()
        assert np.array_equal(gathered(rows), X)
        some = np.flatnonzero(np.random.default_rng(0).random(len(X)) < 0.3)
        for indices in (some, some[:1], some[:0], np.arange(len(X)), np.array([0, len(X) - 1])):
            assert np.array_equal(rows.take(indices), X[indices])
        assert rows.read(3, 3).shape == (0, 3)
        assert rows.read(len(X) - 2, len(X) + 5).shape == (2, 3)
        with pytest.raises(IndexError, match="1,500 rows"):
            rows.take(np.array([0, len(X)]))


@pytest.mark.parametrize("name", FORMATS)
def test_labels_do_not_depend_on_the_format(files, fitted, name):
    with open_rows(str(files[name])) as rows:
        model = USPEC(4, n_representatives=60, random_state=0).fit(rows)
        assert (model.labels_ == fitted.labels_).all()
        assert (model.predict(rows) == fitted.labels_).all()
        assert np.array_equal(model.transform(rows), fitted.transform(X))
        assert model.n_features_in_ == 3


@pytest.mark.parametrize("name", ["c.npy", "groups.parquet", "chunked.hdf5", "three.zarr"])
def test_ensembles_do_not_depend_on_the_format(files, name):
    options = {"n_estimators": 3, "n_representatives": 60, "random_state": 0}
    expected = USENC(4, **options).fit(X).labels_
    assert (USENC(4, **options).fit(open_rows(files[name])).labels_ == expected).all()


@pytest.mark.parametrize("name", FORMATS)
def test_columns_are_chosen_in_any_order(files, name):
    rows = open_rows(files[name], [2, 0])
    if name == "index.csv.gz":  # number 0 is the index
        rows = open_rows(files[name], [3, 1])
    some = np.array([0, 5, 700, 1499])
    assert np.array_equal(gathered(rows), X[:, [2, 0]])
    assert np.array_equal(rows.take(some), X[some][:, [2, 0]])
    assert np.array_equal(gathered(rows.select([1])), X[:, [0]])
    if name in TABLES:
        assert rows.names == ["c2", "c0"]
        named = open_rows(files[name], np.array(["c1", "c2"]))
        assert np.array_equal(gathered(named), X[:, [1, 2]])
        swapped = named.select(["c2", "c1"])
        named.close()
        assert np.array_equal(gathered(swapped), X[:, [2, 1]])
        assert swapped.names == ["c2", "c1"]


@pytest.mark.parametrize("name", FORMATS)
def test_pickles_are_paths(files, name):
    columns = ["c2", "c0"] if name in TABLES else [2, 0]
    rows = open_rows(files[name], columns)
    data = pickle.dumps(rows)
    assert len(data) < 1000
    again = pickle.loads(data)
    assert np.array_equal(gathered(again), X[:, [2, 0]])
    assert again.names == rows.names
    assert repr(again) == repr(rows)


def test_a_pickle_notices_another_file(tmp_path):
    path = write(tmp_path, "plain.parquet", X)
    data = pickle.dumps(open_rows(path))
    frame(X).rename(columns={"c1": "other"}).to_parquet(path)
    with pytest.raises(OSError, match="other columns"):
        pickle.loads(data)
    frame(X[:7]).to_parquet(path)
    with pytest.raises(OSError, match="1,500 rows when its source was pickled and has 7 now"):
        pickle.loads(data)


@pytest.mark.parametrize("name", FORMATS)
def test_closed_rows_cannot_be_read(files, name):
    with open_rows(files[name]) as rows:
        rows.read(0, 2)
    for use in (lambda: rows.read(0, 2), lambda: rows.take(np.array([1])), lambda: rows.select([0])):
        with pytest.raises(ValueError, match="were closed"):
            use()


def test_what_is_shown(files):
    shown = repr(open_rows(files["names.csv"]))
    assert "names.csv" in shown
    assert "1,500 rows x 3 columns, float64: 'c0', 'c1', 'c2'" in shown


def test_paths(files, monkeypatch):
    path = files["c.npy"]
    monkeypatch.setenv("HOME", str(path.parent))
    monkeypatch.setenv("USERPROFILE", str(path.parent))
    monkeypatch.chdir(path.parent)
    for given_path in ("~/c.npy", Path("~/c.npy"), "c.npy", str(path)):
        rows = open_rows(given_path)
        assert rows.path == path
        assert rows.n_rows == len(X)


@settings(max_examples=40)
@given(
    n=st.integers(1, 400),
    d=st.integers(1, 6),
    dtype=st.sampled_from(["?", "i1", "u2", "<i4", ">i8", "f2", "<f4", ">f8"]),
    name=st.sampled_from(["c.npy", "fortran.npy", "fortran.npz", "chunked.hdf5", "three.zarr"]),
    run=st.sampled_from([16, 200, 2**22]),
    seed=st.integers(0, 100),
)
def test_any_shape_and_type_of_array(tmp_path_factory, n, d, dtype, name, run, seed):
    random = np.random.default_rng(seed)
    array = random.integers(0, 2 if dtype == "?" else 100, (n, d)).astype(dtype)
    path = write(tmp_path_factory.mktemp("any"), name, array)
    chosen = random.permutation(d)[: random.integers(1, d + 1)]
    some = np.flatnonzero(random.random(n) < random.random())
    with pytest.MonkeyPatch.context() as patch, open_rows(path, chosen) as rows:
        patch.setattr("ultraspec.rows.raw_matrix.RUN_BYTES", run)
        patch.setattr("ultraspec.rows.raw_matrix.GAP_BYTES", run // 4)
        low, high = sorted(random.integers(0, n + 1, 2))
        assert rows.read(low, high).dtype.kind in "iuf"
        assert np.array_equal(rows.read(low, high), array[low:high, chosen])
        assert np.array_equal(rows.take(some), array[some][:, chosen])


@settings(max_examples=30)
@given(
    n=st.integers(1, 400), group=st.integers(1, 150), piece=st.sampled_from([1, 500, 2**23]), seed=st.integers(0, 99)
)
def test_any_cut_of_a_table(tmp_path_factory, n, group, piece, seed):
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"f": random.random(n), "i": random.integers(0, 9, n), "b": random.random(n) < 0.5, "t": "x"})
    path = tmp_path_factory.mktemp("any") / "t.parquet"
    table.to_parquet(path, row_group_size=group)
    names = random.permutation(["f", "i", "b"])[: random.integers(1, 4)].tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "CHUNK_BYTES", piece)
        rows = open_rows(path, names)
    expected = table[names].to_numpy(dtype=float)
    some = np.flatnonzero(random.random(n) < random.random())
    low, high = sorted(random.integers(0, n + 1, 2))
    assert np.array_equal(rows.read(low, high), expected[low:high])
    assert np.array_equal(rows.take(some), expected[some])


def test_types_of_columns(tmp_path):
    columns = {
        "half": pa.array([1.5, 2], pa.float16()),
        "unsigned": pa.array([2**63, 1], pa.uint64()),
        "negative": pa.array([-1, 5], pa.int8()),
        "truth": pa.array([True, False]),
        "decimal": pa.array([Decimal("1.25"), Decimal("7.5")]),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    rows = open_rows(tmp_path / "t.parquet")
    assert rows.dtype == np.float64
    assert rows.read(0, 2).tolist() == [[1.5, 2.0**63, -1, 1, 1.25], [2, 1, 5, 0, 7.5]]
    small = open_rows(tmp_path / "t.parquet", ["negative", "truth"])
    assert small.dtype == np.int16  # the least type that holds both
    assert small.read(0, 2).tolist() == [[-1, 1], [5, 0]]


# Choices that formats leave

LEFT_OUT = "the first column has no name, so it was taken for the row numbers that pandas writes, and left out."
AS_ROW = "was taken for the first row. If that is wrong, pass header=True; if it is right, header=False silences this"
AS_NAMES = "was taken for names. If that is wrong, pass header=False; if it is right, header=True silences this"


def test_the_index_of_a_frame_is_no_feature(tmp_path):
    table = pd.DataFrame({"a": [1.0, 2, 5], "id": [9, 4, 8], "b": [3.0, 4, 6]}).set_index("id")
    table.to_parquet(tmp_path / "named.parquet")
    table.rename_axis(None).to_parquet(tmp_path / "unnamed.parquet")
    table.to_csv(tmp_path / "named.csv")
    assert open_rows(tmp_path / "named.parquet").names == ["a", "b"]
    assert open_rows(tmp_path / "named.parquet", ["id", "b"]).read(0, 2).tolist() == [[9, 3], [4, 4]]
    assert open_rows(tmp_path / "unnamed.parquet").names == ["a", "b"]
    assert open_rows(tmp_path / "unnamed.parquet", ["__index_level_0__"]).read(0, 2).tolist() == [[9], [4]]
    assert open_rows(tmp_path / "named.csv").names == ["id", "a", "b"]  # CSV does not tell


@pytest.mark.parametrize(
    ("text", "header", "names", "rows", "told"),
    [
        ("a,b\n1,2\n", None, ["a", "b"], [[1, 2]], []),
        ("1,2\n3,4\n", None, None, [[1, 2], [3, 4]], [AS_ROW]),
        ("1990,1991\n3,4\n", None, None, [[1990, 1991], [3, 4]], [AS_ROW]),
        ("1,2\n", None, None, [[1, 2]], [AS_ROW]),
        ("1.5,2\n", None, None, [[1.5, 2]], []),  # numbers that nobody calls columns by
        ("7,7\n", None, None, [[7, 7]], []),
        ("0,1\n3,4\n", None, ["0", "1"], [[3, 4]], [AS_NAMES]),  # what pandas writes without names
        (",0,1\n0,3,4\n", None, ["0", "1"], [[3, 4]], [LEFT_OUT, AS_NAMES]),
        (",a,b\n0,3,4\n", None, ["a", "b"], [[3, 4]], [LEFT_OUT]),
        ("0,1\n3,4\n", False, None, [[0, 1], [3, 4]], []),
        ("1990,1991\n3,4\n", True, ["1990", "1991"], [[3, 4]], []),
        ("\ufeffa,b\n1,2\n", None, ["a", "b"], [[1, 2]], []),
        ('"x, y","z\nw"\n1,2\n', None, ["x, y", "z\nw"], [[1, 2]], []),
        ("a,b\ntrue,1e3\nfalse,-2\n", None, ["a", "b"], [[1, 1000], [0, -2]], []),
    ],
)
def test_first_lines_of_csv_files(tmp_path, recwarn, text, header, names, rows, told):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    found = open_rows(tmp_path / "t.csv", header=header)
    assert found.names == names
    assert found.read(0, 9).tolist() == rows
    assert all(part in str(warning.message) for warning, part in zip(recwarn, told, strict=True))
    assert {warning.filename for warning in recwarn} <= {__file__}
    recwarn.clear()
    assert pickle.loads(pickle.dumps(found)).read(0, 9).tolist() == rows
    assert not recwarn.list


def test_a_nameless_first_column_that_is_chosen(tmp_path, recwarn):
    (tmp_path / "t.csv").write_text(",a,b\n7,3,4\n")
    assert open_rows(tmp_path / "t.csv", [0, 1, 2]).read(0, 9).tolist() == [[7, 3, 4]]
    assert not recwarn.list


def test_csv_types_may_widen_later(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;t\n" + "1;2;x\n" * 200_000 + "1.5;;y\n")
    rows = open_rows(tmp_path / "t.csv", ["a", "b"], delimiter=";")
    assert rows.n_rows == 200_001
    assert rows.read(200_000, 200_001)[0, 0] == 1.5
    assert np.isnan(rows.read(200_000, 200_001)[0, 1])


def test_csv_lines_may_be_long(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2," + "x" * 2**21 + "\n3,y\n")
    assert open_rows(tmp_path / "t.csv", ["a"]).read(0, 9).tolist() == [[1], [2], [3]]


def test_one_of_several_arrays(tmp_path):
    a, b = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(2, 4)
    np.savez(tmp_path / "t.npz", a=a, b=b)
    zarr.open_group(tmp_path / "t.zarr", mode="w").create_array("x/b", data=b)
    zarr.open_group(tmp_path / "t.zarr", mode="a").create_array("a", data=a)
    assert np.array_equal(open_rows(tmp_path / "t.npz", array="b").read(0, 9), b)
    for name in ("x/b", "/x/b"):
        assert np.array_equal(open_rows(tmp_path / "t.zarr", array=name).read(0, 9), b)
    again = pickle.loads(pickle.dumps(open_rows(tmp_path / "t.zarr", [1], array="a")))
    assert np.array_equal(again.read(0, 9), a[:, [1]])


def test_saved_sparse_matrices_stay_sparse(tmp_path):
    matrix, _ = documents(600, 3, 90)
    options = {"n_representatives": 50, "metric": "cosine", "random_state": 0}
    expected = USPEC(3, **options).fit_predict(matrix)
    for number, saved in enumerate((matrix, matrix.tocoo(), scipy.sparse.csc_matrix(matrix))):
        path = tmp_path / f"{number}.npz"
        scipy.sparse.save_npz(path, saved)
        rows = open_rows(path)
        assert rows.sparse
        assert (USPEC(3, **options).fit_predict(rows) == expected).all()
    assert np.array_equal(open_rows(path, [5, 2]).read(0, 600).toarray(), matrix.toarray()[:, [5, 2]])


def test_parts_come_in_the_order_of_other_readers(tmp_path):
    for number, name in enumerate(["b/part-10.parquet", "b/part-2.parquet", "a.parquet", "c=1/x.parquet", "B.parquet"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pd.DataFrame({"a": [number, number + 0.5]}).to_parquet(tmp_path / name)
    expected = pq.read_table(tmp_path, partitioning=None).column("a").to_pylist()
    assert open_rows(tmp_path).read(0, 99)[:, 0].tolist() == expected


def test_parts_may_differ_in_number_types_and_order(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"b": np.float32([2.5]), "a": [3.25]}).to_parquet(tmp_path / "2.parquet")
    assert open_rows(tmp_path).read(0, 3).tolist() == [[1, 0.5], [2, 1.5], [3.25, 2.5]]
