"""Checks of the arrays of models: what a fit gives passes, and what kernels could not survive does not.

The checks of whole files, with hostile values of all kinds, are in tests/persistence/test_hostile_files.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.common import blobs
from ultraspec import USPEC
from ultraspec.spectral.model_checks import (
    InvalidModel,
    check_model_arrays,
    is_integer,
    key_rules,
    n_clusters,
    partition_arrays,
    require,
    shown,
)

N_ROWS, N_FEATURES = 300, 3


@pytest.fixture(scope="module")
def models():
    """Arrays of a model of each discretisation."""
    X, _ = blobs(N_ROWS, d=N_FEATURES)
    model = USPEC(4, n_representatives=30, random_state=0).fit(X)
    cuts = {name: model.cut(4, discretize=name) for name in ("kmeans", "representatives", "consensus")}
    return {name: cut._fitted.model.arrays() for name, cut in cuts.items()}


@pytest.mark.parametrize("name", ["kmeans", "representatives", "consensus"])
def test_arrays_of_a_fitted_model_are_valid(models, name):
    check_model_arrays(models[name], N_ROWS, N_FEATURES)
    assert n_clusters("", models[name]) == 4


def changed(array, index, value):
    copy = array.copy()
    copy[index] = value
    return copy


# name of the change: model, array, its new value (None removes it), and the message
CHANGES = {
    "no vectors": ("kmeans", "vectors", lambda a: None, "its array 'vectors' is missing"),
    "no sigma": ("kmeans", "sigma", lambda a: None, "its model lacks sigma"),
    "several sigmas": ("kmeans", "sigma", lambda a: np.ones(2), "its sigma is no number but has the shape"),
    "another type": ("kmeans", "vectors", lambda a: a.astype(np.float64), "vectors must be of type float32"),
    "another axis": ("kmeans", "degrees", lambda a: a[:, None], "degrees must have 1 axes"),
    "NaN": ("kmeans", "representatives", lambda a: changed(a, (0, 0), np.nan), "representatives holds NaN"),
    "sigma of zero": ("kmeans", "sigma", lambda a: np.asarray(0.0), "sigma must be a positive number"),
    "no neighbours": ("kmeans", "n_neighbors", lambda a: np.asarray(0), "n_neighbors must be 1 to"),
    "exact of two": ("kmeans", "exact", lambda a: np.asarray(2), "exact must be true or false"),
    "other features": ("kmeans", "centers", lambda a: a[:, :2].copy(), "do not have 3 features"),
    "huge representatives": ("kmeans", "representatives", lambda a: a * np.float32(1e30), "values that are too large"),
    "starts that fall": ("kmeans", "starts", lambda a: a[::-1].copy(), "starts does not divide"),
    "ids out of range": ("kmeans", "lists", lambda a: a + np.uint16(100), "lists has ids beyond"),
    "ids twice": (
        "kmeans",
        "lists",
        lambda a: np.repeat(a[:, :1], 6, axis=1),
        "representative once",
    ),
    "eigenvalues that rise": ("kmeans", "eigenvalues", lambda a: a[::-1].copy(), "does not fall from 1 to 0"),
    "no degree": ("kmeans", "degrees", lambda a: 0 * a, "degrees does not weigh"),
    "huge vectors": ("kmeans", "vectors", lambda a: a + np.float32(1e30), "vectors holds values that are too large"),
    "long centres": ("kmeans", "cluster_centers", lambda a: 2 * a, "too large for means of unit vectors"),
    "groups out of range": ("representatives", "groups", lambda a: a + np.int32(99), "give each of 30 representatives"),
    "an empty group": ("representatives", "groups", lambda a: a + np.int32(1), "leaves one of 5 clusters without"),
    "a short tree": ("consensus", "heights", lambda a: a[1:].copy(), "is not of a tree of 30 representatives"),
    "a node merged twice": ("consensus", "merges", lambda a: changed(a, 1, a[0]), "merges is no tree"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_invalid_arrays_are_refused(models, change):
    model, name, make, message = CHANGES[change]
    arrays = dict(models[model])
    value = make(arrays.pop(name))
    if value is not None:
        arrays[name] = value
    with pytest.raises(InvalidModel, match=message):
        check_model_arrays(arrays, N_ROWS, N_FEATURES)


def test_other_arrays_and_fewer_rows_than_clusters_are_refused(models):
    with pytest.raises(InvalidModel, match="it has an array 'more', which does not belong there"):
        check_model_arrays({**models["kmeans"], "more": np.ones(3)}, N_ROWS, N_FEATURES)
    with pytest.raises(InvalidModel, match="for 30 vectors and 3 rows"):
        check_model_arrays(models["kmeans"], 3, N_FEATURES)


def test_the_first_rule_that_does_not_hold_is_reported():
    require(iter([(True, "first"), (True, "second")]))
    with pytest.raises(InvalidModel, match=r"^second$"):
        require(iter([(True, "first"), (False, "second"), (False, "third")]))


def test_later_rules_may_rely_on_earlier_ones():
    """A value that is no mapping has no keys to compare: the rules after the first are never evaluated."""
    with pytest.raises(InvalidModel, match="its entry is no mapping but 5"):
        require(key_rules("entry", 5, {"a"}))
    with pytest.raises(InvalidModel, match="its entry lacks b"):
        require(key_rules("entry", {"a": 1}, {"a", "b"}))
    with pytest.raises(InvalidModel, match="its entry has 'c', which does not belong there"):
        require(key_rules("entry", {"a": 1, "c": 2}, {"a"}))


def test_shown_values_are_short_and_printable():
    assert shown("a") == "'a'"
    assert shown("\x1b[31mé\n") == r"'\x1b[31m\xe9\n'"
    assert len(shown("x" * 10_000)) == 60


@pytest.mark.parametrize(
    ("value", "valid"), [(3, True), (0, False), (6, False), (True, False), (3.0, False), ("3", False)]
)
def test_integers_are_python_integers_in_a_range(value, valid):
    assert is_integer(value, 1, 5) == valid


def test_tables_of_partitions(models):
    assert set(partition_arrays("", models["kmeans"])) == {"eigenvalues", "vectors", "degrees", "cluster_centers"}
    assert set(partition_arrays("a.", {"a.groups": 1})) == {"a.eigenvalues", "a.vectors", "a.degrees", "a.groups"}
    assert {"merges", "heights", "masses"} < set(partition_arrays("", models["consensus"]))
