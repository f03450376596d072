"""Descriptions of data, by which a checkpoint recognises it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from ultraspec.engines.fingerprint import describe_data
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, SparseRows

X = np.random.default_rng(0).standard_normal((3_000, 4))


def described(X, n_jobs=1):
    rows = SparseRows(X) if scipy.sparse.issparse(X) else ArrayRows(X)
    with ThreadEngine(n_jobs) as engine:
        return describe_data(rows, engine)


def test_shape_type_and_checksum_are_described():
    facts = described(X)
    assert facts.pop("content").isalnum()
    assert facts == {"rows": 3_000, "features": 4, "type": "float64"}
    assert described(scipy.sparse.csr_array(X))["type"] == "sparse float64"


def test_threads_and_memory_order_do_not_matter():
    assert described(X) == described(X, n_jobs=3) == described(np.asfortranarray(X))


@pytest.mark.parametrize("row", [0, 1_234, 2_999])
def test_every_value_matters(row):
    other = X.copy()
    other[row, 3] = np.nextafter(other[row, 3], np.inf)
    assert described(other)["content"] != described(X)["content"]


def test_the_order_of_rows_matters():
    assert described(X[::-1])["content"] != described(X)["content"]


def test_the_place_of_sparse_values_matters():
    one, other = np.zeros((600, 3)), np.zeros((600, 3))
    one[5, 1] = other[5, 2] = 1.0
    assert described(scipy.sparse.csr_array(one))["content"] != described(scipy.sparse.csr_array(other))["content"]
