"""Label matrices as users pass them: what is read, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from tests.helpers.common import same_partition
from tests.helpers.label_matrices import as_objects, planted
from ultraspec import consensus, metrics
from ultraspec.ensemble.label_matrix import read_label_matrix, warn_if_transposed

BASE = [[0, 0], [0, 0], [1, 1], [1, 1]]


def mixed(base):
    """Integers, strings, bytes and None in one column."""
    return as_objects(base, lambda v: (v, f"s{v}", b"%d" % v)[v % 3], None)


def frame_of_kinds(base):
    """A pandas frame with another type for each column."""
    objects, strings = as_objects(base, int, None), as_objects(base, "c{}".format, None)
    kinds = [
        lambda j: base[:, j],
        lambda j: np.where(base[:, j] < 0, np.nan, base[:, j]),
        lambda j: pd.array(objects[:, j], dtype="Int64"),
        lambda j: pd.Categorical(strings[:, j]),
        lambda j: pd.Series(strings[:, j], dtype=object),
        lambda j: list(strings[:, j]),
    ]
    return pd.DataFrame({f"run {j}": kinds[j % len(kinds)](j) for j in range(base.shape[1])})


def polars_frame_of_kinds(base):
    integers, strings = as_objects(base, int, None), as_objects(base, "c{}".format, None)
    kinds = [(integers, pl.Int64), (integers, pl.UInt8), (strings, pl.String), (strings, pl.Categorical)]
    kinds.append((as_objects(base, float, None), pl.Float64))
    return pl.DataFrame(
        [
            pl.Series(f"run {j}", kinds[j % len(kinds)][0][:, j].tolist(), dtype=kinds[j % len(kinds)][1])
            for j in range(base.shape[1])
        ]
    )


FORMS = {
    "int8": lambda base: base.astype(np.int8),
    "big endian": lambda base: base.astype(">i4"),
    "float32 with NaN": lambda base: np.where(base < 0, np.nan, base).astype(np.float32),
    "nested lists": lambda base: base.tolist(),
    "tuples": lambda base: tuple(map(tuple, base.tolist())),
    "list of arrays": list,
    "generator of rows": lambda base: (row for row in base.tolist()),
    "lists with None": lambda base: as_objects(base, int, None).tolist(),
    "lists with NaN": lambda base: as_objects(base, int, float("nan")).tolist(),
    "lists of strings with None": lambda base: as_objects(base, str, None).tolist(),
    "lists of strings with -1": lambda base: as_objects(base, "c{}".format, -1).tolist(),
    "objects": mixed,
    "lists of objects": lambda base: mixed(base).tolist(),
    "pandas of integers": pd.DataFrame,
    "pandas with names twice": lambda base: pd.DataFrame(base, columns=["run"] * base.shape[1]),
    "pandas of all kinds": frame_of_kinds,
    "polars of integers": lambda base: pl.DataFrame(base, schema=[f"run {j}" for j in range(base.shape[1])]),
    "polars of all kinds": polars_frame_of_kinds,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_labels(form):
    """Whatever they come in, labels mean the same; -1, None and NaN are no label."""
    truth, base = planted(4, m=12, missing=0.15)
    labels = consensus(FORMS[form](base), 4, random_state=0)
    assert same_partition(labels, truth)
    assert (labels == consensus(base, 4, random_state=0)).all()


@pytest.mark.parametrize("form", FORMS)
def test_forms_read_the_same_clusters(form):
    """Column by column the partition is the same, and so are the rows left out."""
    _, base = planted(4, n=60, m=12, noise=0.5, missing=0.3)
    read = read_label_matrix(FORMS[form](base))
    columns = list(read.T) if isinstance(read, np.ndarray) else read
    assert len(columns) == base.shape[1]
    for column, wanted in zip(columns, base.T, strict=True):
        assert column.dtype.kind in "iu"
        assert ((column == -1) == (wanted == -1)).all()
        assert same_partition(column, wanted)


def test_booleans():
    truth, base = planted(2, m=9, finest=1)
    wanted = consensus(base, 2, random_state=0)
    assert metrics.nmi(truth, wanted) > 0.9
    flags = base.astype(bool)
    objects = np.array(flags.tolist(), dtype=object)
    for form in (flags, np.asfortranarray(flags), flags.tolist(), pd.DataFrame(flags), pl.DataFrame(flags), objects):
        assert (consensus(form, 2, random_state=0) == wanted).all()


def test_bytes():
    truth, base = planted(3)
    assert same_partition(consensus(base.astype("S"), 3, random_state=0), truth)


def test_minus_one_as_a_string_is_a_label():
    for read in (read_label_matrix(np.array([["-1"], ["0"]])), read_label_matrix([["-1"], ["0"]])):
        assert sorted(read[0].tolist()) == [0, 1]


def test_integer_matrices_are_not_copied():
    base = planted()[1]
    assert read_label_matrix(base) is base


@pytest.mark.parametrize("dtype", ["string", "boolean"])
def test_pandas_missing_values_of_nullable_types(dtype):
    values = {"string": ["a", "b", None], "boolean": [True, False, None]}[dtype]
    frame = pd.DataFrame({"a": pd.array(values, dtype=dtype), "b": [0, 1, 1]})
    column = read_label_matrix(frame)[0]
    assert column[0] != column[1]
    assert column[2] == -1


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="new in NumPy 2")
@pytest.mark.parametrize("none", [None, np.nan])
def test_numpy_strings_with_missing_values(none):
    column = read_label_matrix(np.array([["a"], [none], ["b"]], dtype=np.dtypes.StringDType(na_object=none)))[0]
    assert column[1] == -1
    assert column[0] != column[2]


def test_floats_beyond_int64_stay_distinct_or_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            column = read_label_matrix(np.array([[1e19], [2e19]]))[0]
        except ValueError:
            return
    assert column[0] != column[1]


def test_lists_of_integers_that_share_no_type():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        column = read_label_matrix([[2**63, -5], [2**63 + 1, -5]])[0]
    assert column[0] != column[1]


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_large_integers_in_frames_with_missing_values(frame):
    values = [2**60, 2**60 + 1, None]
    data = pd.DataFrame({"a": pd.array(values, dtype="Int64")}) if frame == "pandas" else pl.DataFrame({"a": values})
    column = read_label_matrix(data)[0]
    assert column[2] == -1
    assert column[0] != column[1]


def test_numpy_booleans_in_lists():
    column = read_label_matrix([[np.True_, "a"], [np.False_, "b"]])[0]
    assert column[0] != column[1]


def test_numpy_matrix():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = consensus(np.asmatrix(BASE), 2, random_state=0)
    assert same_partition(labels, [0, 0, 1, 1])


# Refusals

DIMENSIONS = (
    r"base_labels must be a matrix with a row per object and a column per clustering, got {} dimension\(s\)\. One "
    r"clustering alone needs no consensus; several are stacked with numpy\.column_stack\."
)
EMPTY = r"base_labels is empty: it needs a row per object and a column per clustering\."
RAGGED = r"base_labels has rows of different lengths; every row needs a label per clustering\."
NOT_INTEGERS = (
    r"Column {} of base_labels has numbers that are not integers\. Labels are integers or strings; is this a matrix of "
    r"data instead of labels\?"
)


@pytest.mark.parametrize(
    ("base", "error", "message"),
    [
        ([0, 1, 2], ValueError, DIMENSIONS.format(1)),
        (np.arange(4), ValueError, DIMENSIONS.format(1)),
        (["ab", "cd"], ValueError, DIMENSIONS.format(1)),
        (pd.Series([0, 1]), ValueError, DIMENSIONS.format(1)),
        (pl.Series([0, 1]), ValueError, DIMENSIONS.format(1)),
        (np.array(1), ValueError, DIMENSIONS.format(0)),
        (np.zeros((2, 2, 2), dtype=int), ValueError, DIMENSIONS.format(3)),
        ([[]], ValueError, EMPTY),
        (np.empty((0, 3), dtype=int), ValueError, EMPTY),
        (np.empty((3, 0), dtype=int), ValueError, EMPTY),
        (pd.DataFrame(), ValueError, EMPTY),
        (pd.DataFrame({"a": []}), ValueError, EMPTY),
        (pl.DataFrame(), ValueError, EMPTY),
        ([[0, 1], [0]], ValueError, RAGGED),
        ([["a", "b"], ["a"], ["b", "c"]], ValueError, RAGGED),
        ([[0, 1], 0], ValueError, RAGGED),
        (np.array([[0.0, 1.0], [1.0, 0.5]]), ValueError, NOT_INTEGERS.format(1)),
        (np.array([[np.inf, 1.0], [1.0, 0.0]]), ValueError, NOT_INTEGERS.format(0)),
        (pd.DataFrame({"a": [0, 1], "b": [0.1, 0.2]}), ValueError, NOT_INTEGERS.format(1)),
        (
            np.array(BASE, dtype=complex),
            TypeError,
            r"Column 0 of base_labels has type complex128\. Labels are integers",
        ),
        (np.array(BASE, dtype="M8[s]"), TypeError, r"Column 0 of base_labels has type datetime64\[s\]\. Labels are"),
        (
            [[1, 1j], [1, 2]],
            TypeError,
            r"Column 1 of base_labels has 1j \(complex\)\. Labels are integers or strings",
        ),
        ([[0, (1,)], [1, "a"]], TypeError, r"Column 1 of base_labels has \(1,\) \(tuple\)\. Labels are integers"),
    ],
)
def test_refused_labels(base, error, message):
    with pytest.raises(error, match=message):
        consensus(base, 2)


def test_empty_list():
    with pytest.raises(ValueError, match=EMPTY):
        consensus([], 2)


@pytest.mark.parametrize("dtype", [int, float])
def test_masked_labels(dtype):
    """Refused, as USPEC refuses them."""
    with pytest.raises((TypeError, ValueError), match="mask"):
        consensus(np.ma.array(BASE, mask=[[0, 0], [1, 1], [0, 0], [0, 0]], dtype=dtype), 2)


def test_fractions_in_lists():
    with pytest.raises(ValueError, match=NOT_INTEGERS.format(0)):
        consensus([[0.5, 1], [0.25, 2]], 2)


@pytest.mark.parametrize("wrong", [None, 5, "labels", {"a": [1, 2]}])
def test_things_that_are_no_matrix(wrong):
    with pytest.raises(TypeError, match="base_labels must be an array, a frame or nested lists"):
        consensus(wrong, 2)


def test_sparse_matrices():
    with pytest.raises(TypeError, match="base_labels is a sparse matrix"):
        consensus(scipy.sparse.csr_array(np.eye(3, dtype=int)), 2)


def test_a_transposed_matrix_is_suspected():
    labels = np.random.default_rng(0).integers(3, size=(4, 100))
    with pytest.warns(UserWarning, match=r"has 4 rows and 100 columns.*numpy.column_stack"):
        consensus(labels, 2, random_state=0)


@pytest.mark.parametrize("text", ["-1", "nan", "None"])
@pytest.mark.parametrize("kind", [str, bytes, object])
def test_strings_that_look_missing_are_labels_and_warned_of(text, kind):
    labels = np.array([["a", "x"], ["a", "x"], ["b", "y"], [text, text]], dtype=object)
    matrix = labels if kind is object else labels.astype(str).astype(kind)
    with pytest.warns(UserWarning, match=f"has the string '{text}', which counts as a label"):
        assert (consensus(matrix, 2, random_state=0) >= 0).all()


@pytest.mark.parametrize("n", [1, 5])
def test_matrices_with_few_more_columns_than_rows_are_not_suspected(n, recwarn):
    warn_if_transposed(np.zeros((n, 10 * n), dtype=int))
    warn_if_transposed([np.zeros(n, dtype=int)] * (10 * n))
    assert not recwarn.list
