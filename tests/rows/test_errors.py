"""Errors and warnings about files and rows: they keep their data, build messages from it, and can be pickled."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ultraspec import rows
from ultraspec._checks import Diagnostic, InvalidParameter, InvalidParameterType, Notation
from ultraspec._input import FeatureCountMismatch, FeatureNamesIgnored, FeatureNamesMismatch
from ultraspec.spectral.outliers import DistantRows

PATH = Path("data.csv")
EVERY = [
    InvalidParameter("n_init", 0, "an integer >= 1"),
    InvalidParameterType("n_clusters", "many", "an integer >= 1", ("auto",)),
    rows.AmbiguousArray(PATH, {"a": "3 x 2, float64", "b": "3 x 2, float64"}),
    rows.AmbiguousColumn("a", PATH, ["a", "a"]),
    rows.ArrayNotFound("c", PATH, {"a": "3 x 2, float64"}),
    rows.ColumnNotFound("c", PATH, ["a", "b"], 2),
    rows.HeaderGuessed(PATH, "1, 2", header=False),
    rows.InconsistentFiles((PATH, PATH), ["a"], "one has 'a'"),
    rows.IdColumn(["id"], ["a", "b"]),
    rows.IndexGuessed(PATH),
    rows.InvalidFile(PATH, "is empty"),
    rows.InvalidFile(PATH, "has columns without numbers", "", {"delimiter": ";"}),
    rows.NotFinite(float("inf"), "a", 7),
    rows.NotFinite(float("inf"), "a", 7, {"a": 3, "b": 1}, 4, 100),
    rows.NotNumeric({"name": "string"}, ["a", "b"], PATH),
    rows.OptionNotApplicable("array", "points", PATH),
    rows.UnknownFormat(PATH, [".npy", ".csv"]),
    rows.UnreadableFile(PATH, "a CSV file", "Invalid."),
    rows.ValuesTooLarge(1e306),
    rows.ZeroRow(3),
    rows.InvalidPlaces([120.0, 80.0], 2),
    rows.InvalidPlaces([], 2, ["lon", "lat"]),
    rows.ScaledPlaces(),
    rows.RadiansGuessed([1.5, 3.1]),
    FeatureCountMismatch(2, 3, "USPEC"),
    FeatureNamesIgnored("USPEC", fitted_with_names=True),
    FeatureNamesMismatch(["a"], ["b"]),
    rows.InvalidWeight("has a negative weight in row 3: -1"),
    DistantRows(0.4, 100, 3.0, 1.5),
]


class Shell(Notation):
    data = "the table"

    def parameter(self, name):
        return f"--{name}"

    def argument(self, name, value):
        return f"--{name} {value}"

    def estimator(self, name):
        return "the model"

    def python(self, text):
        return ""


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
def test_every_class(error):
    assert isinstance(error, (ValueError, TypeError, UserWarning))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error) == error.message()
    assert hash(error) is not None
    assert repr(error).startswith(type(error).__name__)
    for word in ("X ", "X:", "USPEC", "columns=", "array=", "sklearn", "open_rows"):
        assert word not in error.message(Shell())


def test_every_class_is_here():
    def below(kind):
        return {kind, *(leaf for child in kind.__subclasses__() for leaf in below(child))}

    concrete = {kind for kind in below(Diagnostic) if kind._problem is not Diagnostic._problem}
    assert {kind.__name__ for kind in concrete} - {"ParameterError"} == {type(error).__name__ for error in EVERY}


def test_messages_in_other_notations():
    error = rows.NotNumeric({"name": "string"}, ["a", "b"], PATH)
    assert str(error) == (
        "data.csv: column 'name' (string) must hold numbers. Choose columns=['a', 'b'], which do, or convert these to "
        "numbers first."
    )
    assert "Choose --columns ['a', 'b'], which do" in error.message(Shell())
    assert rows.NotFinite(float("nan"), 3, 7).message(Shell()).startswith("the table contains NaN in column 3, row 7.")
    assert str(EVERY[1]) == "n_clusters must be an integer >= 1 or 'auto', got 'many' (str)."
    assert EVERY[0].message(Shell()) == "--n_init must be an integer >= 1, got 0."


def test_reports_of_libraries_become_one_line():
    error = rows.UnreadableFile(PATH, "a Parquet file", "Bad type: \x0f\nPage header failed.\n")
    assert str(error).endswith("of another format. Bad type: Page header failed.")
