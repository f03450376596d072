"""Checks of the arrays of models: what a fit gives passes, and what kernels could not survive does not.

The checks of whole files, with hostile values of all kinds, are in tests/persistence/test_hostile_files.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.common import blobs
from ultraspec import USPEC
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral.discretize import DISCRETIZATIONS
from ultraspec.spectral.model_checks import (
    InvalidModel,
    check_model_arrays,
    choice_prefixes,
    is_integer,
    key_rules,
    n_clusters,
    partition_arrays,
    require,
    shown,
)
from ultraspec.spectral.neighbors import ProbeIndex

N_ROWS, N_FEATURES = 300, 3


@pytest.fixture(scope="module")
def models():
    """Arrays of models of all kinds."""
    X, _ = blobs(N_ROWS, d=N_FEATURES)
    model = USPEC(4, n_representatives=30, random_state=0).fit(X)
    made = {name: model.cut(4, discretize=name) for name in DISCRETIZATIONS}
    made["kmeans"] = USPEC.paper(4, n_representatives=30, random_state=0, regularization=1e-3).fit(X)
    made["without judges"] = USPEC(4, n_representatives=30, discretize="linked", random_state=0).fit(X)
    arrays = {name: each._fitted.model.arrays() for name, each in made.items()}
    index = arrays["auto"]
    with ThreadEngine(1) as engine:
        probe = ProbeIndex.probe(index["representatives"], 3, np.random.default_rng(0), engine)
    # another index of as many representatives: what else the model holds need not know
    arrays["probing"] = {**index, **probe.arrays()}
    return arrays


NAMES = [*DISCRETIZATIONS, "without judges", "probing"]


@pytest.mark.parametrize("name", NAMES)
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
        "each of 30 representatives once",
    ),
    "eigenvalues that rise": ("kmeans", "eigenvalues", lambda a: a[::-1].copy(), "does not fall from 1 to 0"),
    "no degree": ("kmeans", "degrees", lambda a: 0 * a, "degrees does not weigh"),
    "huge vectors": ("kmeans", "vectors", lambda a: a + np.float32(1e30), "vectors holds values that are too large"),
    "long centres": ("kmeans", "cluster_centers", lambda a: 2 * a, "too large for means of unit vectors"),
    "numbers twice": ("numbered", "cluster_numbers", lambda a: 0 * a, "cluster_numbers does not number 4 clusters"),
    "fewer numbers": ("numbered", "cluster_numbers", lambda a: a[1:].copy(), "does not number 4 clusters"),
    "groups out of range": ("linked", "groups", lambda a: a + np.int32(99), "give each of 30 representatives"),
    "an empty group": ("linked", "groups", lambda a: a + np.int32(1), "leaves one of 5 clusters without"),
    # the choice
    "no nodes": ("auto", "own.nodes", lambda a: None, "it has an array 'judge0.|it has an array 'own."),
    "fewer nodes": ("auto", "own.nodes", lambda a: a[1:].copy(), "own.nodes does not give each of 30"),
    "nodes out of range": ("auto", "own.nodes", lambda a: changed(a, 0, 30), "own.nodes does not give each of 30"),
    "negative nodes": ("auto", "judge1.nodes", lambda a: changed(a, 0, -1), "judge1.nodes does not give each of"),
    "a skipped node": ("auto", "own.nodes", lambda a: np.where(a == 1, 2, a).astype(np.int32), "own.nodes does not"),
    "one leaf and trees": ("auto", "own.nodes", lambda a: 0 * a, "it has an array 'own.agreement"),
    "no seed": ("auto", "own.seed", lambda a: None, "'own.seed' is missing"),
    "negative seed": ("auto", "judge0.seed", lambda a: -a - 1, "judge0.seed is no seed"),
    "two seeds": ("auto", "own.seed", lambda a: np.repeat(a, 2), "own.seed is no seed"),
    "seeds of another type": ("auto", "own.seed", lambda a: a.astype(np.int32), "own.seed must be of type int64"),
    "no tree": ("auto", "own.linked.merges", lambda a: None, "'own.linked.merges' is missing"),
    "a node merged twice": ("auto", "own.linked.merges", lambda a: changed(a, 1, a[0]), "merges is no tree"),
    "a short tree of a candidate": ("auto", "judge0.border.masses", lambda a: a[1:].copy(), "is not of a tree of"),
    "a cycle of a candidate": ("auto", "own.border.merges", lambda a: changed(a, (0, 0), 10**6), "merges is no tree"),
    "NaN heights": ("auto", "own.agreement.heights", lambda a: changed(a, 0, np.nan), "heights holds NaN"),
    "infinite masses": ("auto", "judge0.linked.masses", lambda a: changed(a, 0, np.inf), "masses holds NaN or"),
    "common rows without edges": ("auto", "own.ids", lambda a: None, "'own.ids' is missing"),
    "edges without weights": ("auto", "judge1.weights", lambda a: None, "'judge1.weights' is missing"),
    "fewer edges": ("auto", "judge0.ids", lambda a: a[1:].copy(), "are not the edges of 300 rows"),
    "narrow weights": ("auto", "own.weights", lambda a: a[:, 1:].copy(), "are not the edges of 300 rows"),
    "edges out of range": ("auto", "own.ids", lambda a: changed(a, (0, 0), 30), "no edges to 30 representatives"),
    "edges far out of range": ("auto", "judge0.ids", lambda a: changed(a, (9, 1), 65535), "no edges to"),
    "negative weights": ("auto", "own.weights", lambda a: changed(a, (0, 0), -0.5), "no edges to"),
    "huge weights": ("auto", "judge1.weights", lambda a: changed(a, (0, 0), 1e30), "no edges to"),
    "NaN weights": ("auto", "judge1.weights", lambda a: changed(a, (0, 0), np.nan), "weights holds NaN"),
    "no vectors of a judge": ("auto", "judge0.vectors", lambda a: None, "'judge0.vectors' is missing"),
    "fewer vectors of a judge": ("auto", "judge0.vectors", lambda a: a[:, 1:].copy(), "judge0.vectors has shape"),
    "huge vectors of a judge": ("auto", "judge0.vectors", lambda a: a + np.float32(1e30), "values that are too large"),
    "degrees of a judge": ("auto", "judge0.degrees", lambda a: 0 * a, "judge0.degrees does not weigh"),
    "eigenvalues of a judge": ("auto", "judge1.eigenvalues", lambda a: a + 1, "does not fall from 1 to 0"),
    "a judge that is skipped": ("auto", "judge0.nodes", lambda a: None, "it has an array 'judge0."),
    # lists of groups
    "groups out of the list": ("probing", "lists", lambda a: a + np.uint16(5), "ids beyond the 5 groups"),
    "groups twice": ("probing", "lists", lambda a: np.repeat(a[:, :1], 2, axis=1), "each of 5 groups once"),
    "another number of lists": ("probing", "lists", lambda a: a[1:].copy(), "ids beyond the 5 groups, or another len"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_invalid_arrays_are_refused(models, change):
    model, name, make, message = CHANGES[change]
    arrays = dict(models["kmeans" if model == "numbered" else model])
    if model == "numbered":
        arrays["cluster_numbers"] = np.arange(4, dtype=np.int32)
        check_model_arrays(arrays, N_ROWS, N_FEATURES)
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


@pytest.mark.parametrize("exact", [False, True])
def test_rows_are_compared_with_at_least_as_many_as_they_have_neighbours(models, exact):
    """Lists of groups: the kernel would read beyond the candidates of a row, whatever `exact` says."""
    arrays = {**models["probing"], "lists": np.arange(5, dtype=np.uint16)[:, None], "exact": np.asarray(exact)}
    fewest = int(np.diff(arrays["starts"]).min())
    check_model_arrays({**arrays, "n_neighbors": np.asarray(fewest)}, N_ROWS, N_FEATURES)
    with pytest.raises(InvalidModel, match=f"n_neighbors must be 1 to {fewest}, got {fewest + 1}"):
        check_model_arrays({**arrays, "n_neighbors": np.asarray(fewest + 1)}, N_ROWS, N_FEATURES)


def test_any_number_of_judges_is_checked(models):
    arrays = dict(models["auto"])
    judge = {name.removeprefix("judge0."): array for name, array in arrays.items() if name.startswith("judge0.")}
    for number in range(2, 90):
        arrays |= {f"judge{number}.{name}": array for name, array in judge.items()}
    prefixes = choice_prefixes("", arrays)
    assert len(prefixes) == len(set(prefixes)) == 91
    check_model_arrays(arrays, N_ROWS, N_FEATURES)
    arrays["judge80.seed"] = np.array([-1])
    with pytest.raises(InvalidModel, match=r"judge80\.seed is no seed"):
        check_model_arrays(arrays, N_ROWS, N_FEATURES)


def test_models_without_judges_need_no_common_rows(models):
    arrays = models["without judges"]
    assert choice_prefixes("", arrays) == ["own."]
    assert "own.ids" not in arrays
    assert choice_prefixes("", models["kmeans"]) == []


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


def test_tables_of_partitions():
    centers = {"eigenvalues", "vectors", "degrees", "cluster_centers"}
    assert set(partition_arrays("", {"cluster_centers": 1})) == centers
    assert set(partition_arrays("", {"cluster_centers": 1, "cluster_numbers": 1})) == {*centers, "cluster_numbers"}
    assert set(partition_arrays("a.", {"a.groups": 1})) == {"a.eigenvalues", "a.vectors", "a.degrees", "a.groups"}
    assert "merges" not in partition_arrays("", {"groups": 1, "merges": 1})
