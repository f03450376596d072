"""Microclusters: hashing rows of labels against sorting them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.cases import SEEDS
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import microclusters

DTYPES = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
}


def draw_column(dtype, n, n_values, near, random):
    """Labels of one clustering, near zero or anywhere in the type's range; the extremes and -1 come up often."""
    info = np.iinfo(dtype)
    low, high = (max(info.min, -3), 5) if near else (info.min, info.max)
    values = random.integers(low, high, n_values, dtype=dtype, endpoint=True)
    corners = np.array([low, high] + [-1] * (low < 0), dtype=dtype)
    some = random.random(n_values) < 0.3
    values[some] = random.choice(corners, some.sum())
    return values[random.integers(n_values, size=n)]


@st.composite
def matrices(draw):
    dtype = draw(st.sampled_from(DTYPES))
    n, m = draw(st.integers(1, 90)), draw(st.integers(1, 20))
    n_values, near = draw(st.integers(1, 6)), draw(st.booleans())
    random = np.random.default_rng(draw(SEEDS))
    labels = np.stack([draw_column(dtype, n, n_values, near, random) for _ in range(m)], axis=1)
    return LAYOUTS[draw(st.sampled_from(list(LAYOUTS)))](labels)


@st.composite
def lists_of_columns(draw):
    dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=12))
    n, n_values, near = draw(st.integers(1, 90)), draw(st.integers(1, 6)), draw(st.booleans())
    random = np.random.default_rng(draw(SEEDS))
    columns = [draw_column(dtype, n, n_values, near, random) for dtype in dtypes]
    return [np.repeat(column, 2)[::2] if random.random() < 0.3 else column for column in columns]


def numbered(labels):
    """Base clusters of every row (n, m), numbered through all clusterings in order of their labels, and the labels."""
    rows, values, offset = [], [], 0
    for column in labels.T if isinstance(labels, np.ndarray) else labels:
        names = sorted(set(column.tolist()) - {-1})
        number = {name: offset + i for i, name in enumerate(names)} | {-1: -1}
        rows.append([number[label] for label in column.tolist()])
        values.append(names)
        offset += len(names)
    return np.array(rows).T, values


def check(found, labels, engine):
    rows, values = numbered(labels)
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    assert found.columns.dtype == np.int32
    assert found.columns.shape == distinct.shape
    order = np.lexsort(found.columns.T[::-1])
    assert (found.columns[order] == distinct).all()
    assert (found.weights[order] == counts).all()
    ids = found.spread(np.arange(len(found.weights)), engine)
    assert (found.columns[ids] == rows).all()
    assert (found.spread(found.weights, engine) == found.weights[ids]).all()
    assert [len(v) for v in found.values] == [len(v) for v in values]
    assert found.n_columns == sum(map(len, values))


def facts(found):
    """All that was found, as bytes."""
    arrays = [found.columns, found.weights, found.places, *found.lists, *found.values]
    return [array.tobytes() for array in arrays]


# Distinct rows


@settings(max_examples=200)
@given(
    labels=matrices() | lists_of_columns(),
    part_rows=st.sampled_from([1, 7, 65536]),
    capacity=st.sampled_from([1, 16, 4096]),
)
def test_microclusters_are_the_distinct_rows(labels, part_rows, capacity, engine):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(microclusters, "LEAST_PART_ROWS", part_rows)
        patch.setattr(microclusters, "FIRST_CAPACITY", capacity)
        found = microclusters.find(labels, engine)
        check(found, labels, engine)


@settings(max_examples=80)
@given(labels=matrices() | lists_of_columns())
def test_values_are_the_labels(labels, engine):
    columns = labels.T if isinstance(labels, np.ndarray) else labels
    found = microclusters.find(labels, engine)
    for column, values in zip(columns, found.values, strict=True):
        if column.dtype != np.uint64:  # see test_values_of_huge_unsigned_labels
            assert values.tolist() == sorted(set(column.tolist()) - {-1})


@pytest.mark.parametrize("dtype", DTYPES)
def test_decoded_microclusters_are_the_unique_rows(dtype, engine):
    """Straight from the definition, with no numbering of the test's own: labels back from numbers and values."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, (300, 3)).astype(dtype)
    found = microclusters.find(labels, engine)
    all_values = np.concatenate(found.values)
    distinct, counts = np.unique(labels, axis=0, return_counts=True)
    decoded = all_values[found.columns]
    order = np.lexsort(decoded.T[::-1])
    assert (decoded[order] == distinct).all()
    assert (found.weights[order] == counts).all()
    assert (decoded[found.spread(np.arange(len(decoded)), engine)] == labels).all()


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_read_only_labels(dtype, layout, engine):
    labels = LAYOUTS[layout](np.random.default_rng(0).integers(0, 3, (200, 4)).astype(dtype))
    labels.flags.writeable = False
    check(microclusters.find(labels, engine), labels, engine)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_labels_are_left_as_they_are(dtype, layout, engine):
    labels = LAYOUTS[layout](np.random.default_rng(0).integers(0, 3, (200, 4)).astype(dtype))
    before = labels.copy()
    found = microclusters.find(labels, engine)
    found.columns[:] = 0
    found.weights[:] = 0
    assert (labels == before).all()


def test_extreme_labels_stay_apart(engine):
    """Differences of signed labels overflow, and -1 of int64 has the bits of the highest uint64."""
    int64, uint64 = np.iinfo(np.int64), np.iinfo(np.uint64)
    signed = np.array([int64.min, int64.max, -1, 0, int64.min, -2, 1])
    unsigned = np.array([0, uint64.max, uint64.max - 1, 2**63, 0, uint64.max, 0], dtype=np.uint64)
    found = microclusters.find([signed, unsigned], engine)
    check(found, [signed, unsigned], engine)
    assert [len(v) for v in found.values] == [5, 4]
    assert found.columns[2].tolist() == [-1, 7]


def test_highest_label_of_an_unsigned_type_is_a_label(engine):
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        top = np.iinfo(dtype).max
        found = microclusters.find(np.array([[top], [top - 1]], dtype=dtype), engine)
        assert found.columns.tolist() == [[1], [0]]


def test_values_of_huge_unsigned_labels(engine):
    labels = np.array([[5], [2**64 - 1], [2**64 - 2]], dtype=np.uint64)
    assert [int(v) for v in microclusters.find(labels, engine).values[0]] == [5, 2**64 - 2, 2**64 - 1]


def test_values_of_a_column_without_labels_are_integers(engine):
    values = microclusters.find(np.array([[-1, 3], [-1, 4]]), engine).values
    assert [v.tolist() for v in values] == [[], [3, 4]]
    assert all(v.dtype == np.int64 for v in values)


def test_numbers_run_through_all_clusterings(engine):
    labels = np.array([[7, -1, 0], [7, 2, -1], [-5, 2, -1], [-1, -1, -1], [7, -1, 0]])
    found = microclusters.find(labels, engine)
    assert found.columns.tolist() == [[1, -1, 3], [1, 2, -1], [0, 2, -1], [-1, -1, -1]]
    assert found.weights.tolist() == [2, 1, 1, 1]
    assert [v.tolist() for v in found.values] == [[-5, 7], [2], [0]]
    assert found.n_columns == 4
    assert found.spread(np.array(["a", "b", "c", "d"]), engine).tolist() == ["a", "b", "c", "d", "a"]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
def test_rows_that_differ_in_one_place(dtype, engine):
    """Every column is compared, wherever its bytes are in the key."""
    for m in range(1, 20):
        labels = np.concatenate([np.zeros((1, m)), np.eye(m), 2 * np.eye(m), np.eye(m)]).astype(dtype)
        found = microclusters.find(labels, engine)
        check(found, labels, engine)
        assert found.weights.tolist() == [1] + [2] * m + [1] * m


def test_wide_rows(engine):
    labels = np.random.default_rng(0).integers(-1, 2, (500, 300)) * np.array([1, 1000, 10**6] * 100)
    labels[250:] = labels[:250]
    found = microclusters.find(labels, engine)
    check(found, labels, engine)
    assert (found.weights == 2).all()


# Large tables and several parts


@pytest.mark.parametrize("kind", ["columns", "bytes"])
def test_table_grows(kind, engine):
    """More distinct rows than the first and the second table have space for."""
    n = 5 * microclusters.FIRST_CAPACITY
    numbers = np.random.default_rng(0).permutation(np.repeat(np.arange(n), 2))
    if kind == "columns":
        labels = np.stack([numbers // 200, numbers % 200], axis=1)
    else:
        labels = np.ascontiguousarray(numbers.astype("<u4")[:, None].view(np.uint8))
    found = microclusters.find(labels, engine)
    assert len(found.weights) == n
    assert (found.weights == 2).all()
    check(found, labels, engine)


def test_all_rows_of_a_grid(engine):
    """Keys that differ in a few low bits of several bytes are all distinguished."""
    labels = np.indices((4,) * 7).reshape(7, -1).T.astype(np.uint8)
    found = microclusters.find(labels, engine)
    assert (found.weights == 1).all()
    assert (found.columns == labels + 4 * np.arange(7)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_parts_and_threads_do_not_matter(dtype, engine, monkeypatch):
    """Microclusters come in order of appearance, so that even their numbers stay the same."""
    labels = np.random.default_rng(0).integers(0, 9, (3000, 4)).astype(dtype)
    whole = microclusters.find(labels, engine)
    first = np.sort(np.unique(labels, axis=0, return_index=True)[1])
    assert (whole.columns == numbered(labels)[0][first]).all()
    monkeypatch.setattr(microclusters, "LEAST_PART_ROWS", 100)
    assert len(microclusters.parts(3000)) == 30
    results = []
    for n_jobs in (1, 4):
        with ThreadEngine(n_jobs) as threads:
            found = microclusters.find(labels, threads)
            results.append(facts(found))
            assert (found.columns == whole.columns).all()
            assert (found.weights == whole.weights).all()
            check(found, labels, threads)
    assert results[0] == results[1]


@given(n=st.integers(1, 10**9), part_rows=st.integers(1, 10**6))
@example(n=32 * 65536 + 1, part_rows=65536)
def test_parts_cover_all_rows_and_are_few(n, part_rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(microclusters, "LEAST_PART_ROWS", part_rows)
        parts = microclusters.parts(n)
    assert parts[0][0] == 0
    assert parts[-1][1] == n
    assert all(a[1] == b[0] for a, b in pairwise(parts))
    assert all(low < high for low, high in parts)
    assert len(parts) <= max(microclusters.PARTS, 1 + n // microclusters.MOST_PART_ROWS)
    assert max(high - low for low, high in parts) <= microclusters.MOST_PART_ROWS


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32, "U3"])
def test_spread_keeps_the_type(dtype, engine, monkeypatch):
    monkeypatch.setattr(microclusters, "LEAST_PART_ROWS", 10)
    labels = np.random.default_rng(0).integers(0, 3, (100, 2))
    found = microclusters.find(labels, engine)
    values = (np.arange(len(found.weights)) % 2).astype(dtype)
    rows = found.spread(values, engine)
    assert rows.dtype == values.dtype
    assert (rows == values[found.spread(np.arange(len(values)), engine)]).all()
