"""The ways to find clusters beyond the paper's, as users meet them: each keeps every promise of the estimators."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from tests.helpers.common import blobs, documents, same_partition
from tests.helpers.model_files import same
from ultraspec import USENC, USPEC, consensus, datasets, load, metrics, open_rows, save

pytestmark = pytest.mark.usefixtures("few_halves")

WAYS = ("auto", "kmeans", "agreement", "linked", "border")
TREES = ("agreement", "linked", "border")


BASE = {"n_representatives": 120, "random_state": 0}


def uspec(**options):
    return lambda k=4, **more: USPEC(k, **{**BASE, **options, **more})


VARIANTS = {
    **{way: uspec(discretize=way) for way in WAYS},
    "sampled": uspec(graph_rows=800),
    "sampled kmeans": uspec(graph_rows=800, discretize="kmeans"),
    "sampled agreement": uspec(graph_rows=800, discretize="agreement"),
    "paper": lambda k=4, **o: USPEC.paper(k, regularization=1e-3, **{**BASE, **o}),
    "ensemble": lambda k=4, **o: USENC(k, n_estimators=6, **{**BASE, **o}),
    "sampled ensemble": lambda k=4, **o: USENC(k, n_estimators=6, graph_rows=800, **{**BASE, **o}),
    "transfer_cut": lambda k=4, **o: USENC(k, n_estimators=6, consensus="transfer_cut", **{**BASE, **o}),
}


@pytest.fixture(params=VARIANTS)
def name(request):
    return request.param


@pytest.fixture
def make(name):
    return VARIANTS[name]


@functools.cache
def pieces_of_a_face():
    """Four pieces, the mouth longer than the rest: k-means of the embedding cuts it."""
    return datasets.generate("sf", 4_000, random_state=0)


@pytest.fixture
def face():
    return pieces_of_a_face()


@functools.cache
def fitted(name):
    """A model of the face, which is only read."""
    return VARIANTS[name](n_jobs=1).fit(pieces_of_a_face()[0])


def test_fitted_and_predicted_labels_are_the_same_on_any_number_of_threads(name, face):
    X, _ = face
    models = [fitted(name), *(VARIANTS[name](n_jobs=n_jobs).fit(X) for n_jobs in (2, 3))]
    for model in models:
        assert model.labels_.dtype == np.int32
        assert model.labels_.tobytes() == models[0].labels_.tobytes()
        assert model.predict(X).tobytes() == model.labels_.tobytes()
    assert set(models[0].labels_) == set(range(4))
    assert models[0].n_clusters_ == 4
    assert models[0].transform(X[:7]).shape == (7, 4)
    assert models[0].predict(X[5:6])[0] == models[0].labels_[5]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_long_clusters_are_not_cut(seed):
    X, y = datasets.generate("sf", 20_000, random_state=seed)
    model = USPEC(4, random_state=seed).fit(X)
    ensemble = USENC(4, n_estimators=6, random_state=seed).fit(X)
    trees = [metrics.nmi(y, model.cut(4, discretize=tree).labels_) for tree in TREES]
    assert min(metrics.nmi(y, found.labels_) for found in (model, ensemble)) > 0.92
    assert max(trees) > 0.92  # one tree of a graph may fail: that is what the other graphs are for
    assert metrics.nmi(y, model.cut(4, discretize="kmeans").labels_) < 0.85


def test_blobs_are_found_by_all(make):
    X, y = blobs(1_500)
    assert same_partition(y, make().fit_predict(X))


def test_sparse_rows_and_directions(make):
    X, y = documents(1_500)
    model = make(metric="cosine").fit(X)
    assert metrics.nmi(y, model.labels_) > 0.9
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    dense = make(metric="cosine").fit(X.toarray())
    np.testing.assert_array_equal(model.predict(scipy.sparse.csr_array(X[:50])), model.labels_[:50])
    assert metrics.nmi(dense.labels_, model.labels_) > 0.9


def test_other_cuts_are_those_of_another_fit(name, make, face):
    X, _ = face
    model = fitted(name)
    for k in (1, 2, 6):  # up to 20, trees do not depend on the number; judges do
        other = model.cut(k)
        assert other.n_clusters == other.n_clusters_ == k
        wanted = make(k).fit(X)
        if getattr(wanted, "discretize_", "") == getattr(other, "discretize_", ""):
            assert other.labels_.tobytes() == wanted.labels_.tobytes()
        else:
            assert wanted.discretize == "auto"
            assert other.discretize_ == next(iter(other.candidates_))
        assert other.predict(X).tobytes() == other.labels_.tobytes()
    assert model.n_clusters_ == 4


@pytest.mark.parametrize("discretize", WAYS)
@pytest.mark.parametrize("graph_rows", [None, 800])
def test_one_fit_gives_every_discretisation(discretize, graph_rows, face):
    X, _ = face
    model = USPEC(4, graph_rows=graph_rows, **BASE).fit(X)
    other = model.cut(5, discretize=discretize)
    assert other.discretize == discretize
    wanted = USPEC(5, discretize=discretize, graph_rows=graph_rows, **BASE).fit(X)
    assert other.labels_.tobytes() == wanted.labels_.tobytes()
    assert other.n_iter_ == wanted.n_iter_
    again = other.cut(4, discretize="auto")
    assert again.labels_.tobytes() == model.labels_.tobytes()
    assert again.candidates_ == model.candidates_


def test_members_of_the_default_can_be_cut_as_in_the_paper():
    X, _ = datasets.generate("sf", 6_000, random_state=0)
    model = USENC(4, n_estimators=5, random_state=0).fit(X)
    other = model.cut(5, consensus="transfer_cut")
    assert other.consensus == "transfer_cut"
    assert other.candidates_ is None
    assert same_partition(other.labels_, consensus(model.base_labels_, 5, random_state=0))
    assert other.labels_.tobytes() == model.cut(5, X, consensus="transfer_cut").labels_.tobytes()
    assert other.predict(X).tobytes() == other.labels_.tobytes()
    assert other.cut(4, X, consensus="auto").labels_.tobytes() == model.labels_.tobytes()
    assert other.cut(4, consensus="auto").labels_.tobytes() == model.labels_.tobytes()
    with pytest.raises(ValueError, match=r"does not hold the rows.*Call cut\(n_clusters, X\)"):
        pickle.loads(pickle.dumps(other)).cut(4, consensus="auto")


def test_members_of_the_paper_have_no_trees(face):
    X, _ = face
    model = USENC.paper(4, n_estimators=3, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"have no trees\. Fit again with consensus='auto'"):
        model.cut(5, X, consensus="auto")


def test_models_come_back_from_files_and_pickles(name, face, tmp_path):
    X, _ = face
    model = fitted(name)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    same(model, loaded, X)
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        cut = other.cut(3, X)
        assert cut.labels_.tobytes() == model.cut(3).labels_.tobytes()
    with pytest.raises(ValueError, match=r"Call cut\(n_clusters, X\)"):
        loaded.cut(3)


def test_rows_from_a_file_are_clustered_alike(name, make, face, tmp_path, monkeypatch):
    X, _ = face
    wanted = fitted(name)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr("ultraspec.rows.results.MOST_MEMORY_BYTES", 0)  # results per row go to files
    model = make().fit(open_rows(tmp_path / "X.npy"))
    assert model.labels_.tobytes() == wanted.labels_.tobytes()
    assert model.cut(3).labels_.tobytes() == wanted.cut(3).labels_.tobytes()
    if hasattr(wanted, "confidence_"):
        assert model.confidence_.tobytes() == wanted.confidence_.tobytes()


def test_the_number_of_clusters_can_be_found(make):
    X, y = blobs(1_500)
    model = make("auto").fit(X)
    assert model.n_clusters_ == 4
    assert same_partition(y, model.labels_)


def test_parameters_are_those_of_scikit_learn(make):
    model = make()
    assert clone(model).get_params() == model.get_params()


@pytest.mark.filterwarnings("ignore:.*clusters instead of:UserWarning")  # votes may leave one without rows
def test_a_tree_can_be_cut_into_any_number(face):
    X, _ = face
    model = USPEC(4, n_representatives=100, random_state=0).fit(X)
    for tree in TREES:
        assert 56 <= model.cut(62, discretize=tree).n_clusters_ <= 62  # more than there are eigenvectors
        with pytest.raises(ValueError, match=r"has \d\d leaves of its trees, too few for n_clusters=101\."):
            model.cut(101, discretize=tree)
    with pytest.raises(ValueError, match=r"has 60 eigenvectors, too few for n_clusters=61\."):
        model.cut(61, discretize="kmeans")


def test_many_clusters_take_more_vectors():
    X, y = blobs(6_000, k=40)
    model = USPEC(40, random_state=0).fit(X)
    assert len(model.eigenvalues_) == 80
    assert metrics.nmi(y, model.labels_) > 0.97


@pytest.mark.parametrize("discretize", WAYS)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 30])
def test_tiny_data(discretize, n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    for k in {1, min(n, 2), min(n, 3)}:
        model = USPEC(k, discretize=discretize, random_state=0).fit(X)
        assert model.labels_.max() < k
        np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.filterwarnings("ignore:.*clusters instead of:UserWarning")
def test_equal_rows(make):
    X = np.ones((1_500, 2))
    model = make(2).fit(X)
    assert (model.labels_ == 0).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)


# The graph from a sample


def test_a_sample_as_large_as_the_data_is_the_data(face):
    X, _ = face
    assert USPEC(4, graph_rows=len(X), **BASE).fit(X).labels_.tobytes() == USPEC(4, **BASE).fit(X).labels_.tobytes()


def test_the_graph_of_a_sample_is_nearly_that_of_all_rows():
    X, y = datasets.generate("cg", 60_000, random_state=0)
    whole, sampled = (
        metrics.nmi(y, USPEC(11, graph_rows=rows, random_state=0).fit_predict(X)) for rows in (None, 20_000)
    )
    assert whole > 0.92
    assert sampled > whole - 0.015


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_values_outside_of_the_sample_are_found_and_named(bad, face):
    X = face[0].copy()
    X[3_321, 1] = bad
    for seed in range(4):  # in the sample or not
        with pytest.raises(ValueError, match="in column 1, row 3321"):
            USPEC(4, graph_rows=800, n_representatives=120, random_state=seed).fit(X)


def test_rows_far_outside_of_the_sample_get_a_label(face):
    X = face[0].copy()
    X[17] = 1e30, -1e30
    model = USPEC(4, graph_rows=800, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discretize": "magic"}, "discretize must be one of 'auto', 'agreement', 'linked', 'border', 'kmeans'"),
        ({"graph_rows": 0}, "graph_rows"),
        ({"graph_rows": 2.5}, "graph_rows"),
        ({"graph_rows": 3}, "graph_rows=3 rows cannot form n_clusters=4 clusters"),
    ],
)
def test_wrong_options_are_refused(options, message, face):
    with pytest.raises((TypeError, ValueError), match=message):
        USPEC(4, **options).fit(face[0])
    with pytest.raises(ValueError, match="consensus must be one of 'auto', 'transfer_cut'"):
        USENC(4, n_estimators=2, **BASE).fit(face[0]).cut(
            3, consensus="magic"
        ) if "graph_rows" not in options else USENC(4, consensus="magic").fit(face[0])


# Checkpoints


def test_a_checkpoint_of_an_ensemble_serves_more_members(face, tmp_path):
    X, _ = face
    few = USENC(4, n_estimators=3, checkpoint=tmp_path / "run", **BASE).fit(X)
    more = USENC(4, n_estimators=5, checkpoint=tmp_path / "run", **BASE).fit(X)
    plain = USENC(4, n_estimators=5, **BASE).fit(X)
    for name in ("labels_", "base_labels_", "confidence_"):
        assert getattr(more, name).tobytes() == getattr(plain, name).tobytes()
    assert (more.base_labels_[:, :3] == few.base_labels_).all()
    assert more.candidates_ == plain.candidates_
    with pytest.raises(ValueError, match="n_clusters was 4 and is 5"):
        USENC(5, n_estimators=3, checkpoint=tmp_path / "run", **BASE).fit(X)
