"""The ways to divide the representatives, and the choice between them, as users meet them."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from tests.helpers.common import blobs, documents, same_partition
from ultraspec import USENC, USPEC, baselines, consensus, datasets, load, metrics, save

TREES = ("agreement", "linked", "border")
NAMES = (*TREES, "kmeans")
WAYS = ("auto", *NAMES)
INPUTS = {
    "2 features": lambda: datasets.generate("cg", 1_500, random_state=0)[0],
    "20 features": lambda: blobs(d=20)[0],
    "projected": lambda: blobs(d=120)[0],
    "sparse": lambda: documents(d=40)[0],
    "projected sparse": lambda: documents()[0],
}


@pytest.fixture(scope="module")
def face():
    return datasets.generate("sf", 3_000, random_state=0)[0]


@pytest.fixture(scope="module")
def large_face():
    return datasets.generate("sf", 6_000, random_state=0)[0]


@pytest.fixture(scope="module")
def model(face):
    return USPEC(4, random_state=0).fit(face)


# Promises of every way


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("way", WAYS)
def test_labels_are_the_same_on_any_number_of_threads_and_predicted(way, kind):
    X = INPUTS[kind]()
    one, two = (
        USPEC(6, discretize=way, n_representatives=250, random_state=0, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2)
    )
    assert one.labels_.tobytes() == two.labels_.tobytes()
    assert one.candidates_ == two.candidates_
    assert one.predict(X).tobytes() == two.predict(X).tobytes() == one.labels_.tobytes()
    np.testing.assert_array_equal(one.predict(X[40:70]), one.labels_[40:70])


@pytest.mark.parametrize("fitted", ["auto", "kmeans"])
def test_labels_of_a_sparse_graph_are_predicted(fitted, large_face):
    face = large_face
    one, two = (
        USPEC(4, n_representatives=1_800, discretize=fitted, random_state=0, n_jobs=j).fit(face) for j in (1, 2)
    )
    assert len(one.representatives_) > 1_500  # more than a dense matrix is used for
    assert one.labels_.tobytes() == two.labels_.tobytes() == one.predict(face).tobytes()
    for way in TREES if fitted == "auto" else ():
        cuts = [model.cut(4, discretize=way) for model in (one, two)]
        assert cuts[0].labels_.tobytes() == cuts[1].labels_.tobytes() == cuts[0].predict(face).tobytes(), way


@pytest.mark.parametrize("way", WAYS)
def test_two_blobs_of_few_rows(way):
    for n, seed in itertools.product((6, 7, 8, 11, 16, 25, 40, 60), range(2)):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(n) % 2)
        X = rng.normal(size=(n, 2)) + 100 * y[:, None]
        model = USPEC(2, discretize=way, random_state=seed).fit(X)
        assert same_partition(y, model.labels_), (n, seed)
        np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize("way", WAYS)
def test_clusters_are_numbered_by_size(way, face):
    for k in (3, 9):
        model = USPEC(k, discretize=way, n_representatives=300, random_state=0).fit(face)
        for labels in (model.labels_, model.cut(k + 2).labels_):
            sizes = np.bincount(labels)
            assert (np.diff(sizes) <= 0).all()
            assert sizes.min() > 0


def test_clusters_of_ensembles_and_baselines_are_numbered_by_size(face):
    X = face[:1_500]
    base = np.random.default_rng(0).integers(6, size=(1_500, 3))
    base[:, 1:] = base[:, :1] // 2  # uneven, in agreement
    found = [USENC(5, n_estimators=4, consensus=way, random_state=0).fit(X) for way in ("auto", "transfer_cut")]
    labelings = [model.labels_ for model in found] + [model.cut(3).labels_ for model in found]
    labelings += [kind(5, random_state=0).fit(X).labels_ for kind in (baselines.KMeansLite, baselines.EAC)]
    labelings += [consensus(base, 3, random_state=0), baselines.eac(base, 3, random_state=0)]
    for labels in labelings:
        assert (np.diff(np.bincount(labels)) <= 0).all()


@pytest.mark.parametrize(("name", "k"), [("sf", 4), ("cg", 11)])
def test_a_single_far_row_changes_a_trace(name, k):
    X, _ = datasets.generate(name, 20_000, random_state=0)
    plain = USPEC(k, random_state=0).fit(X)
    X[7] = 1e4
    disturbed = USPEC(k, random_state=0).fit(X)
    for way in ("auto", *TREES):
        labels = [model.cut(k, discretize=way).labels_ for model in (disturbed, plain)]
        assert metrics.ari(*(np.delete(each, 7) for each in labels)) > 0.99, way


# The choice


def test_candidates(model, face):
    assert set(model.candidates_) == set(NAMES)
    values = list(model.candidates_.values())
    assert all(type(value) is float and -1 <= value <= 1 for value in values)
    assert values == sorted(values, reverse=True)
    assert model.discretize == "auto"
    assert model.discretize_ == next(iter(model.candidates_))
    assert model.n_iter_ == 0
    for tree in set(TREES) & {model.discretize_}:
        assert model.cut(4, discretize=tree).labels_.tobytes() == model.labels_.tobytes()
    for copied in (pickle.loads(pickle.dumps(model)), model.cut(4, face)):
        assert list(copied.candidates_.items()) == list(model.candidates_.items())


@pytest.mark.parametrize(("name", "k"), [("cc", 3), ("cg", 11)])
def test_the_tree_that_agrees_most_gives_the_labels(name, k):
    X, _ = datasets.generate(name, 3_000, random_state=0)
    model = USPEC(k, random_state=0).fit(X)
    assert model.discretize_ in TREES
    other = USPEC(k, discretize=model.discretize_, random_state=0).fit(X)
    assert other.labels_.tobytes() == model.labels_.tobytes()
    assert other.candidates_ is None
    assert other.discretize_ == other.discretize == model.discretize_


def test_candidates_come_back_from_a_file(model, face, tmp_path):
    save(model, tmp_path / "model")
    other = load(tmp_path / "model")
    assert list(other.candidates_.items()) == list(model.candidates_.items())
    assert other.discretize_ == model.discretize_
    assert list(other.cut(6, face).candidates_.items()) == list(model.cut(6).candidates_.items())


def test_more_graphs_judge(face):
    models = [USPEC(4, n_graphs=n, random_state=0).fit(face) for n in (2, 5)]
    for model in models:
        assert set(model.candidates_) == set(NAMES)
    assert models[0].candidates_ != models[1].candidates_


@pytest.mark.parametrize("n_graphs", [1, 0, -3])
def test_one_graph_is_refused(n_graphs, face):
    with pytest.raises(ValueError, match=f"n_graphs must be an integer >= 2, got {n_graphs}"):
        USPEC(4, n_graphs=n_graphs).fit(face)


# Cuts


@pytest.mark.parametrize("tree", TREES)
def test_cuts_of_a_tree_are_nested(tree, face):
    model = USPEC(4, discretize=tree, n_representatives=300, random_state=0).fit(face)
    cuts = [model.cut(k)._fitted.partition.groups for k in range(1, 30)]  # of representatives: rows vote
    for coarse, fine in itertools.pairwise(cuts):
        pairs = np.unique(np.stack([coarse, fine]), axis=1)
        assert pairs.shape[1] == fine.max() + 1 == coarse.max() + 2


@pytest.mark.parametrize("tree", TREES)
def test_rows_of_nested_cuts_change_at_the_borders_only(tree, large_face):
    face = large_face
    model = USPEC(4, discretize=tree, random_state=0).fit(face)
    for k in (2, 4, 8):
        coarse, fine = model.cut(k).labels_, model.cut(k + 1).labels_
        table = np.zeros((k, k + 1))
        np.add.at(table, (coarse, fine), 1)
        assert table.max(axis=0).sum() > 0.99 * len(face)


@pytest.mark.parametrize("way", ["auto", *TREES])
def test_a_model_without_trees_refuses_their_cut(way, face):
    model = USPEC(4, discretize="kmeans", n_representatives=100, random_state=0).fit(face)
    message = f"This model has no trees of its representatives. Fit again with discretize='{way}'."
    with pytest.raises(ValueError, match=f"^{message}$"):
        model.cut(3, discretize=way)


def test_a_model_without_judges_refuses_to_choose(face):
    model = USPEC(4, discretize="linked", n_representatives=100, random_state=0).fit(face)
    message = "This model has no other graphs that judge its clusters. Fit again with discretize='auto'."
    with pytest.raises(ValueError, match=f"^{message}$"):
        model.cut(3, discretize="auto")
    assert model.cut(3, discretize="border").n_clusters_ == 3


def test_cut_refuses_other_ways(model):
    with pytest.raises(ValueError, match=r"discretize must be one of 'auto', 'agreement', .*, got 'consensus'"):
        model.cut(3, discretize="consensus")


# The paper


def test_the_parameters_of_the_paper():
    model = USPEC.paper(5)
    wanted = {
        "n_clusters": 5,
        "n_representatives": 1000,
        "n_neighbors": 5,
        "n_components": None,
        "selection": "hybrid",
        "candidate_factor": 10,
        "neighbors": "approx",
        "neighborhood_factor": 10,
        "affinity": "paper",
        "regularization": 0,
        "discretize": "kmeans",
    }
    assert {name: model.get_params()[name] for name in wanted} == wanted
    others = set(wanted) - {"discretize"}
    ensemble = USENC.paper(5).get_params()
    assert {name: ensemble[name] for name in others} == {name: wanted[name] for name in others}
    rest = {"consensus": "transfer_cut", "n_estimators": 20, "base_clusters": (20, 60)}
    assert {name: ensemble[name] for name in rest} == rest
    assert type(model) is USPEC
    assert USPEC.paper().n_clusters == USPEC().n_clusters


def test_parameters_of_the_paper_can_be_changed():
    model = USPEC.paper(3, regularization=1e-3, discretize="linked", random_state=4)
    assert (model.regularization, model.discretize, model.random_state) == (1e-3, "linked", 4)
    assert model.affinity == "paper"
    with pytest.raises(TypeError, match="n_trees"):
        USPEC.paper(3, n_trees=5)


def test_the_paper_has_no_candidates(face):
    model = USPEC.paper(4, random_state=0).fit(face)
    assert model.candidates_ is None
    assert model.discretize_ == "kmeans"
    assert model.n_iter_ >= 1


def test_the_first_member_is_as_fine_as_one_graph():
    """Many features, overlapping classes: both rules say that a finer graph pays."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(8, 12)) * 0.9)[rng.integers(8, size=6_000)] + rng.normal(size=(6_000, 12))
    model = USENC(8, n_estimators=4, random_state=0).fit(X)
    sizes = [len(member.index.representatives) for member in model._fitted.members]
    assert sizes[0] == len(USPEC(8, random_state=0).fit(X).representatives_) > 1000
    assert sizes[1:] == [1000] * 3


def test_paper_members_have_a_thousand_representatives(face):
    model = USENC(4, n_estimators=2, consensus="transfer_cut", random_state=0).fit(face)
    assert [len(member.index.representatives) for member in model._fitted.members] == [1000, 1000]
    assert model.candidates_ is None
