"""What the page collects: cuts, columns, examples, and what is stable."""

from __future__ import annotations

import datetime

import numpy as np
import pandas
import polars
import pytest

from tests.helpers.common import blobs, documents
from ultraspec import USENC, USPEC, datasets, open_rows
from ultraspec._estimator import fitted
from ultraspec.figures.columns import TextTerms, read_columns
from ultraspec.figures.cuts import Cut, Judged
from ultraspec.figures.explore import explore, telling_features
from ultraspec.figures.labeled_rows import open_labeled_rows
from ultraspec.figures.trust import Null, has_structure, refine
from ultraspec.spectral.layers import Layer
from ultraspec.spectral.stability import best_match, correct_for_size


@pytest.fixture(scope="module")
def found():
    X, _ = datasets.generate("cg", 4000, random_state=0)
    model = USPEC(8, n_representatives=300, random_state=0, n_jobs=1).fit(X)
    return model, X, explore(model, X)


def test_cuts_are_those_of_the_model(found):
    model, _, found = found
    assert [cut.k for cut in found.cuts] == list(range(2, 61))
    for k in (2, 8, 23, 60):
        cut = model.cut(k)
        mine = found.cuts[k - 2]
        assert np.array_equal(mine.sizes, np.bincount(cut.labels_))
        assert np.array_equal(mine.groups, fitted(cut).partition.groups)
        assert mine.judged.candidate == cut.discretize_
        assert mine.judged.agreement == pytest.approx(max(cut.candidates_.values()))


@pytest.mark.filterwarnings("ignore:Found")
@pytest.mark.parametrize(
    "estimator", [USPEC(3, n_representatives=30), USENC(3, n_estimators=3, n_representatives=30, base_clusters=(5, 9))]
)
def test_clusters_of_few_distinct_rows_are_those_of_the_model(estimator):
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 3, axis=0)
    model = estimator.set_params(random_state=0).fit(X)
    found = explore(model, X)
    assert len(found.cuts) > 5
    for cut in found.cuts:
        assert np.array_equal(cut.sizes, np.bincount(model.cut(cut.k).labels_)), cut.k


def test_sums_of_units_are_sums_of_all_rows(found):
    _, X, found = found
    survey = found.survey
    assert survey.units.sum() == len(X)
    assert survey.leaves.sum() + sum(survey.patterns.values()) == len(X)
    columns = [int(name.split()[1]) for name in found.profile.names]
    assert np.allclose(survey.sums.sum(axis=0), X[:, columns].sum(axis=0), rtol=1e-4, atol=1e-2)
    assert np.allclose(survey.squares.sum(axis=0), np.square(X[:, columns]).sum(axis=0), rtol=1e-4)
    assert (survey.bins.sum(axis=(0, 2)) == len(X)).all()
    assert np.ptp(survey.bins.sum(axis=0), axis=1).max() <= 2  # bounds are quantiles


def test_the_same_is_collected_in_blocks_of_any_number(found, monkeypatch):
    model, X, before = found
    monkeypatch.setattr("ultraspec.rows.interface.BLOCKS_OF_SMALL_DATA", 3)
    again = explore(model, X)
    assert np.array_equal(again.survey.units, before.survey.units)
    assert np.array_equal(again.survey.oddest.rows, before.survey.oddest.rows)
    assert np.array_equal(again.survey.least_rows, before.survey.least_rows)
    assert again.survey.patterns == before.survey.patterns


def test_structure_is_found_where_it_is(found):
    _, _, found = found
    assert has_structure(found.layers)
    assert any(9 <= layer.n_clusters <= 15 for layer in found.layers)  # eleven classes, of which some touch
    X = np.random.default_rng(1).normal(size=(2000, 2))
    model = USPEC(4, n_representatives=200, random_state=0, n_jobs=1).fit(X)
    noise = explore(model, X)
    assert [layer.n_clusters for layer in noise.layers] == [1]
    assert not has_structure(noise.layers)
    at_four = noise.cuts[2]
    assert at_four.judged.agreement < np.interp(4, noise.null.ks, noise.null.agreement) + 0.3


def test_stability_is_the_jaccard_index_of_the_best_match():
    labels = np.array([0, 0, 0, 1, 1, 2], dtype=np.int32)
    others = np.array([1, 1, 0, 0, 0, 2], dtype=np.int32)
    assert best_match(labels, 3, others) == pytest.approx([2 / 3, 2 / 3, 1])
    assert correct_for_size(np.array([1.0, 0.5, 0.2]), np.array([0.5, 0.5, 0.5])) == pytest.approx([1, 0, 0])


def test_sparse_rows_and_many_features_have_the_most_telling_ones():
    X, y = documents(300)
    model = USPEC(4, metric="cosine", n_representatives=60, random_state=0, n_jobs=1).fit(X)
    found = explore(model, X)
    assert found.profile.n_features == 60
    assert found.profile.n_left_out == X.shape[1] - 60
    assert found.scores.shape == (300,)
    X, y = blobs(600, k=3, d=12)
    X = np.column_stack([np.random.default_rng(0).normal(size=(600, 5)), X])
    with open_labeled_rows(USPEC(3, n_representatives=60, random_state=0).fit(X), X, y) as rows:
        assert set(telling_features(rows, 12)) == set(range(5, 17))


def test_scaled_columns_are_shown_as_they_were(tmp_path):
    X = blobs(400, k=3, d=2)[0] * [1, 500] + [0, 1e4]
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a,b", comments="")
    rows = open_rows(tmp_path / "x.csv", scale="standard")
    found = explore(USPEC(3, n_representatives=60, random_state=0).fit(rows), rows)
    means = dict(zip(found.profile.names, found.survey.sums.sum(axis=0) / len(X), strict=True))
    assert means == pytest.approx({"a": X[:, 0].mean(), "b": X[:, 1].mean()}, rel=1e-4)


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame, dict])
def test_columns_are_numbers_categories_or_texts(frame):
    n = 60
    columns = read_columns(
        frame(
            {
                "age": list(range(n)),
                "share": [None if i % 7 == 0 else i / 2 for i in range(n)],
                "country": ["NL" if i % 3 else "FR" for i in range(n)],
                "yes": [i % 2 == 0 for i in range(n)],
                "note": [f"text number{i} here" for i in range(n)],
                "day": [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=i) for i in range(n)],
            }
        )
        if frame is not dict
        else {"age": np.arange(n), "country": np.array(["NL"] * n), "note": [f"a b{i}" for i in range(n)]},
        n,
    )
    kinds = {column.name: column.kind for column in columns}
    assert kinds["age"] == "number"
    assert kinds["country"] == "category"
    assert kinds["note"] == "text"
    if frame is not dict:
        assert kinds["share"] == "number"
        assert kinds["yes"] == "category"
        by_name = {column.name: column for column in columns}
        assert np.isnan(by_name["share"].values[::7]).all()
        assert by_name["day (year)"].values[31] == pytest.approx(2020 + 31 / 365.2425, abs=0.01)
        assert by_name["country"].categories == ["NL", "FR"]
        assert by_name["share"].show(0) == ""
        assert TextTerms.of(by_name["note"]).terms == []  # each is in all texts, or in one


def test_rare_categories_are_counted_together():
    values = np.array([f"c{i % 50}" for i in range(1000)])
    (column,) = read_columns({"c": values}, 1000)
    assert column.categories[-1] == "other"
    assert len(column.categories) == 41
    assert (column.codes == 40).sum() == 200


def test_a_finer_number_comes_first_if_its_clusters_are_as_real():
    null = Null([2, 20], [0.5, 0.5], [0.4, 0.4])

    def cut(k, agreement, stability, sizes=None):
        sizes = np.full(k, 100) if sizes is None else np.array(sizes)
        groups = np.arange(k, dtype=np.int32)
        return Cut(k, groups, sizes, Judged(groups, "agreement", agreement, np.full(k, stability)), np.arange(k))

    layers = [Layer(4, 0.9), Layer(6, 0.5)]

    def first(*cuts, layers=layers):
        return [layer.n_clusters for layer in refine(layers, cuts, null)]

    real, finer = cut(4, 0.95, 0.97), cut(5, 0.95, 0.96)
    assert first(real, finer) == [5, 4, 6]
    assert first(real, finer, cut(6, 0.94, 0.95), cut(7, 0.5, 0.95)) == [6, 4]
    assert first(real, cut(5, 0.92, 0.96)) == [4, 6]  # the graphs agree on it less
    assert first(real, cut(5, 0.99, 0.84)) == [4, 6]  # its clusters are not stable
    assert first(real, cut(5, 0.99, 0.96, [396, 100, 100, 100, 4])) == [4, 6]  # one is tiny
    assert first(real, cut(6, 0.99, 0.99)) == [4, 6]
    assert first(cut(2, 0.99, 0.99), layers=[Layer(1, 0.0)]) == [1]
    assert refine([], [real, finer], null) == []
    assert refine(layers, [real, finer], None) == layers
