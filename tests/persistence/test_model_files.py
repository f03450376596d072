"""Model files: what is saved comes back the same, and nothing else is ever taken for a model."""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import os
import pickle
import stat
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
import scipy.sparse
import sklearn
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

import ultraspec
from tests.helpers.common import ROOT, blobs, documents, python, same_partition
from tests.helpers.model_files import MODELS, SMALL, X, fitted, parts, refused, rewrite, same
from ultraspec import USENC, USPEC, datasets, load, save
from ultraspec.persistence import container
from ultraspec.spectral import neighbors, transfer_cut
from ultraspec.spectral.discretize import DISCRETIZATIONS
from ultraspec.storage import atomic

pytestmark = pytest.mark.usefixtures("few_halves")

PARAMETERS = USENC().get_params()
KINDS = ("USPEC", "USENC")


@pytest.fixture(params=["USPEC", "USENC"])
def model(request):
    return fitted(request.param)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def saved(model, path):
    save(model, path)
    return path


def again(model, path):
    save(model, path)
    return load(path)


# Round trips


def wide():
    random = np.random.default_rng(0)
    return blobs(600, d=8)[0] @ random.normal(size=(8, 120)) + 0.01 * random.normal(size=(600, 120))


CASES = {
    "few features": (lambda: X, {}),
    "many features": (lambda: blobs(600, d=30)[0], {}),
    "projected": (wide, {"n_representatives": 150}),
    "exact": (lambda: X, {"neighbors": "exact"}),
    "exact, many features": (lambda: blobs(600, d=30)[0], {"neighbors": "exact"}),
    "far from zero": (lambda: 1e-3 * X + 1e8, {"regularization": 0}),
    "tiny": (lambda: X * 1e-300, {"n_neighbors": 3, "neighborhood_factor": 2}),
    "cosine": (lambda: X + 30, {"metric": "cosine", "selection": "kmeans"}),
    "sparse": (lambda: documents(600)[0], {"selection": "random"}),
    "sparse cosine": (lambda: documents(600)[0], {"metric": "cosine", "neighbors": "exact"}),
    "one feature": (lambda: X[:, :1], {"n_clusters": 2}),
    "one cluster": (lambda: X, {"n_clusters": 1}),
    "auto": (lambda: X, {"n_clusters": "auto", "verbose": 0, "n_jobs": -1, "max_iter": 7, "n_init": 2}),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:The graph has", "ignore:Members have", "ignore:Found 4 clusters")
def test_a_model_comes_back_the_same(case, kind, path):
    rows, options = CASES[case][0](), CASES[case][1]
    model = MODELS[kind]().set_params(**options).fit(rows)
    other = again(model, path)
    same(model, other, rows)
    for k in (2, 5):
        mine, its = model.cut(k), other.cut(k, rows)
        np.testing.assert_array_equal(its.labels_, mine.labels_, strict=True)
        if isinstance(model, USENC):
            np.testing.assert_array_equal(its.base_labels_, mine.base_labels_, strict=True)
            np.testing.assert_array_equal(its.confidence_, mine.confidence_, strict=True)
        same(mine, its, rows)
        same(mine, again(its, path), rows)


@pytest.mark.parametrize("discretize", DISCRETIZATIONS)
@pytest.mark.parametrize("n_components", [None, 2])
def test_models_of_each_discretisation_come_back(discretize, n_components, path):
    model = USPEC(4, discretize=discretize, n_components=n_components, **SMALL).fit(X)
    other = again(model, path)
    same(model, other, X)
    assert other._fitted.preprocessor.projects == (n_components == 2)
    ways = DISCRETIZATIONS if discretize == "auto" else ("kmeans",) if discretize == "kmeans" else DISCRETIZATIONS[1:]
    for way in ways:
        for k in (2, 4, 6):
            mine, its = model.cut(k, discretize=way), other.cut(k, X, discretize=way)
            np.testing.assert_array_equal(its.labels_, mine.labels_, strict=True)
            same(mine, its, X)
    for way in set(DISCRETIZATIONS) - set(ways):
        with pytest.raises(ValueError, match="This model has no"):
            other.cut(3, X, discretize=way)


def test_models_with_a_single_leaf_come_back(path):
    """All representatives have the same embedding: there are no trees to store."""
    model = USPEC(1, n_representatives=3, n_neighbors=3, random_state=0).fit(np.repeat(np.eye(3), 30, axis=0) * 1e-9)
    other = again(model, path)
    same(model, other, np.eye(3))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_models_with_a_sparse_graph_that_probe_come_back(path, monkeypatch, metric):
    monkeypatch.setattr(transfer_cut, "DENSE_REPRESENTATIVES", 50)
    monkeypatch.setattr(neighbors, "EXACT_REPRESENTATIVES", 50)
    monkeypatch.setattr(neighbors, "MOST_CANDIDATES", 1.0)
    rows, y = blobs(3000, d=12)
    model = USPEC(4, n_representatives=100, metric=metric, random_state=0).fit(rows)
    assert isinstance(model._fitted.model.index, neighbors.ProbeIndex)
    assert same_partition(model.labels_, y)
    other = again(model, path)
    same(model, other, rows)
    np.testing.assert_array_equal(other.predict(rows), model.labels_)
    for k in (2, 3):
        np.testing.assert_array_equal(other.cut(k, rows).labels_, model.cut(k).labels_)
    sparse = scipy.sparse.csr_array(rows)
    assert (other.predict(sparse) == model.predict(sparse)).all()
    assert (other.predict(sparse) == model.labels_).mean() > 0.99


def test_names_of_features_are_stored(model, path):
    frame = pandas.DataFrame(X, columns=["a", "größe\0", "a b\n"])
    fitted = clone(model).fit(frame)
    other = again(fitted, path)
    same(fitted, other, frame)
    assert other.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names should match"):
        other.predict(frame.rename(columns={"a": "b"}))


def test_a_cut_can_be_saved(model, path):
    cut = model.cut(3)
    same(cut, again(cut, path), X)
    np.testing.assert_array_equal(load(path).cut(4, X).labels_, model.labels_)


def test_labels_of_many_base_clusters_keep_their_type(path):
    model = USENC(2, n_estimators=2, base_clusters=(2, 300), n_representatives=300, random_state=1)
    with pytest.warns(UserWarning, match="base_clusters was reduced"):
        model.fit(X)
    state = model._fitted
    wide = replace(state.model, label_type=np.dtype(np.uint16))  # as more rows would make it
    model._fitted = replace(state, model=wide)
    assert again(model, path).cut(2, X).base_labels_.dtype == np.uint16


def test_another_process_gives_the_same_bits(tmp_path):
    for name in KINDS:
        save(fitted(name), tmp_path / name)
    np.save(tmp_path / "X.npy", X)
    code = """
        import hashlib, json, sys
        import numpy as np, ultraspec
        folder = FOLDER
        X = np.load(folder + "/X.npy")
        found = {}
        for name in ("USPEC", "USENC"):
            model = ultraspec.load(folder + "/" + name)
            results = model.predict(X), model.transform(X), model.cut(3, X).labels_
            found[name] = [hashlib.sha256(result.tobytes()).hexdigest() for result in results]
        print(json.dumps(found))
    """
    found = python(code.replace("FOLDER", repr(str(tmp_path))))
    for name in KINDS:
        model = fitted(name)
        results = model.labels_, model.transform(X), model.cut(3).labels_
        assert found[name] == [hashlib.sha256(result.tobytes()).hexdigest() for result in results]


def test_saving_twice_gives_the_same_bytes(model, saved, tmp_path):
    save(load(saved), tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == saved.read_bytes()


def test_the_size_does_not_depend_on_the_rows(path):
    sizes = []
    for n in (3_000, 60_000):
        rows, _ = datasets.generate("cc", n, random_state=0)
        save(USPEC.paper(3, n_representatives=100, random_state=0).fit(rows), path)
        sizes.append(path.stat().st_size)
    assert max(sizes) < 45_000  # 4 kB of them are quantiles of outlier scores
    assert max(sizes) - min(sizes) < 1000


def test_the_size_of_a_choice_is_that_of_the_common_rows(path):
    """Thirty bytes for each of 6,000 rows in each graph, and some for the representatives."""
    for n in (8_000, 60_000):
        rows, _ = datasets.generate("cc", n, random_state=0)
        model = USPEC(3, n_representatives=100, random_state=0).fit(rows)
        save(model, path)
        n_graphs = 1 + len(model._fitted.model.choice.judges)
        assert n_graphs * 6_000 * 30 < path.stat().st_size < n_graphs * (6_000 * 30 + 40_000)


def test_files_are_plain_safetensors_without_traces_of_other_libraries(path):
    save(fitted("USENC"), path)
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["ultraspec"])
        names = set(file.keys())
    assert {"member.02.representatives", "consensus.vectors", "offset"} < names
    assert (header["format"], header["version"], header["library"]) == ("ultraspec model", 3, ultraspec.__version__)
    assert header["estimator"] == "USENC"
    assert not any(word in path.read_bytes().lower() for word in (b"sklearn", b"scikit", b"numpy", b"numba"))
    assert sklearn.__version__.encode() not in path.read_bytes()


@pytest.mark.parametrize("kind", ["uspec", "usenc"])
def test_files_of_format_1_stay_readable(kind):
    """The files were written by ultraspec 0.1.0 from blobs(300, k=3, d=2)."""
    rows, y = blobs(300, k=3, d=2)
    model = load(Path(__file__).parents[1] / "data" / f"model-1-{kind}.safetensors")
    assert len(set(zip(y, model.predict(rows), strict=True))) == 3
    assert model.n_clusters_ == model.n_clusters == 3
    assert model.random_state == 0
    assert model._fitted.n_rows == 300
    assert (model.affinity, model.n_components, model.neighbors) == ("paper", None, "approx")
    if kind == "uspec":
        assert model.discretize == model.discretize_ == "kmeans"
        assert model.candidates_ is None
        with pytest.raises(ValueError, match=r"has no trees of its representatives. Fit again"):
            model.cut(2, rows, discretize="linked")
    else:
        assert model.consensus == "transfer_cut"
    assert same_partition(y, model.cut(3, rows).labels_)


GOLDEN_1 = {
    "golden-uspec": "kmeans",
    "golden-uspec-consensus": "agreement",
    "golden-usenc": "transfer_cut",
    "golden-usenc-average": "auto",
}


@pytest.mark.parametrize("name", GOLDEN_1)
def test_all_kinds_of_format_1_are_converted(name, path):
    source = Path(__file__).parents[1] / "data" / f"{name}.safetensors"
    assert parts(source)[0]["version"] == 1
    model = load(source)
    assert (model.discretize if isinstance(model, USPEC) else model.consensus) == GOLDEN_1[name]
    rows = np.random.default_rng(0).normal(size=(200, model.n_features_in_))
    assert set(model.predict(rows)) <= set(range(model.n_clusters_))
    save(model, path)
    assert parts(path)[0]["version"] == 3
    same(model, load(path), rows)


@pytest.mark.parametrize(("kind", "name", "value"), [("USPEC", "discretize", "kmeans"), ("USENC", "consensus", None)])
def test_parameters_that_files_of_format_1_lack_have_the_defaults_of_then(kind, name, value, path):
    """Releases before these parameters existed followed the paper."""
    save(fitted(kind), path)

    def age(header):
        header["version"] = 1
        header["facts"].pop("agreements", None)
        for new in ("affinity", "n_components", "n_graphs", "neighbors", "n_representatives", name):
            header["parameters"].pop(new, None)

    def without_numbers(arrays):
        for array in [each for each in arrays if each.endswith("cluster_numbers")]:
            del arrays[array]

    rewrite(path, header=age, arrays=without_numbers)
    model = load(path)
    assert getattr(model, name) == (value or "transfer_cut")
    assert (model.affinity, model.n_components, model.neighbors) == ("paper", None, "approx")
    assert model.n_representatives == 1000
    assert same_partition(model.predict(X), fitted(kind).labels_)


def test_sparse_rows_of_a_model_of_dense_ones(path):
    other = again(fitted("USPEC"), path)
    np.testing.assert_array_equal(other.predict(scipy.sparse.csr_array(X)), fitted("USPEC").labels_)


# What a loaded model is, and has not


def test_attributes_that_are_not_stored_say_so(model, saved):
    other = load(saved)
    check_is_fitted(other)
    for name in ["labels_", "base_labels_", "confidence_"][: 3 if isinstance(model, USENC) else 1]:
        assert not hasattr(other, name)
        if not hasattr(type(other), name):  # with an old scikit-learn, `dir` lists properties that raise an error
            assert name not in dir(other)
        with pytest.raises(
            AttributeError, match=rf"comes from a file.*do not store {name}.*call model\.(predict|cut)\("
        ):
            getattr(other, name)
    unfitted = type(other)()
    for name in ["confidence_", "cluster_confidence_", "probabilities_", "outlier_scores_"]:
        with pytest.raises(AttributeError, match=f"'{type(other).__name__}' object has no attribute '{name}'"):
            getattr(unfitted, name)
    with pytest.raises(AttributeError, match=r"does not hold its rows.*call model\.outlier_score\(X\) instead of"):
        other.outlier_scores_  # noqa: B018
    with pytest.raises(AttributeError, match="object has no attribute 'center_'"):
        other.center_  # noqa: B018
    with pytest.raises(ValueError, match=r"does not hold its rows: it came from a file.*cut\(n_clusters, X\)"):
        other.cut(3)


def test_advice_of_the_messages_works(path):
    other = again(fitted("USENC"), path)
    np.testing.assert_array_equal(other.cut(other.n_clusters_, X).confidence_, fitted("USENC").confidence_)


def test_models_that_were_not_fitted_have_the_usual_errors(model):
    unfitted = clone(model)
    with pytest.raises(AttributeError, match=f"'{type(model).__name__}' object has no attribute 'labels_'$"):
        unfitted.labels_  # noqa: B018
    with pytest.raises(NotFittedError):
        unfitted.predict(X)


def test_errors_of_properties_are_not_hidden():
    class Odd(USPEC):
        @property
        def odd(self):
            raise AttributeError("of its own")

    with pytest.raises(AttributeError, match="of its own"):
        Odd().odd  # noqa: B018


def test_a_loaded_model_is_an_estimator_like_others(model, saved):
    other = load(saved)
    for copied in (pickle.loads(pickle.dumps(other)), copy.deepcopy(other), copy.copy(other)):
        same(model, copied, X)
        np.testing.assert_array_equal(copied.cut(3, X).labels_, model.cut(3).labels_)
        with pytest.raises(AttributeError, match="comes from a file"):
            copied.labels_  # noqa: B018
    assert clone(other).get_params() == model.get_params()
    assert not hasattr(clone(other), "n_clusters_")
    assert "labels_" not in estimator_html_repr(other)
    framed = other.set_output(transform="pandas").transform(X)
    assert framed.columns.tolist() == other.get_feature_names_out().tolist()
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False).fit(X), load(saved))
    np.testing.assert_array_equal(pipeline.predict(X), model.labels_)


def test_a_loaded_model_can_be_fitted_again(model, saved):
    other = load(saved)
    with pytest.raises(ValueError, match="NaN"):
        other.fit(np.full((100, 5), np.nan))
    same(model, other, X)
    rows, _ = blobs(500, d=5, seed=1)
    other.fit(rows)
    np.testing.assert_array_equal(other.labels_, clone(model).fit(rows).labels_)
    np.testing.assert_array_equal(other.cut(3).labels_, other.cut(3, rows).labels_)


def test_cut_refuses_other_rows(model, saved):
    with pytest.raises(ValueError, match="X has 599 rows, but 600 rows were fitted"):
        load(saved).cut(3, X[1:])
    for others in (X[::-1], X + 5.0, np.concatenate([X[300:], X[:300]])):
        with pytest.raises(ValueError, match="X does not hold the rows that were fitted"):
            load(saved).cut(3, others)
    if isinstance(model, USENC):
        with pytest.raises(ValueError, match="does not hold the rows that were fitted"):
            load(saved).cut(3, np.repeat(X[:1], 600, axis=0))


# Parameters


@pytest.mark.parametrize(
    "random_state", [None, np.random.RandomState(3), np.random.default_rng(3)], ids=["none", "RandomState", "Generator"]
)
def test_generators_as_random_state_become_none(model, path, random_state):
    fitted = clone(model).set_params(random_state=random_state).fit(X)
    other = again(fitted, path)
    assert other.random_state is None
    np.testing.assert_array_equal(other.cut(5, X).labels_, fitted.cut(5).labels_)


@pytest.mark.parametrize("random_state", [0, np.int64(2**40), 2**130])
@pytest.mark.filterwarnings("ignore:The graph has")
def test_seeds_of_any_size_are_stored(path, random_state):
    fitted = USPEC(3, n_representatives=40, random_state=random_state).fit(X)
    other = again(fitted, path)
    assert other.random_state == random_state
    assert type(other.random_state) is int
    np.testing.assert_array_equal(other.cut(5, X).labels_, fitted.cut(5).labels_)


@pytest.mark.filterwarnings("ignore:Members have")
def test_numpy_numbers_become_numbers(path, tmp_path):
    fitted = USENC(
        np.int8(3),
        n_estimators=np.uint16(2),
        base_clusters=[np.int64(3), np.int8(9)],
        regularization=np.float32(0.001),
        n_representatives=np.int64(40),
        selection=np.str_("hybrid"),
        verbose=np.bool_(False),
        random_state=0,
    ).fit(X)
    fitted.checkpoint = tmp_path / "folder"
    found = again(fitted, path).get_params()
    assert found == {**PARAMETERS, **fitted.get_params(), "base_clusters": (3, 9), "checkpoint": None}
    plain = {"n_clusters": int, "n_estimators": int, "regularization": float, "selection": str, "verbose": bool}
    for name, kind in plain.items():
        assert type(found[name]) is kind
    assert str(tmp_path).encode() not in path.read_bytes()


def test_parameters_of_later_releases_have_their_defaults(saved):
    rewrite(saved, parameters=lambda p: p.pop("n_init"))
    assert load(saved).n_init == USPEC().n_init


@pytest.mark.parametrize(("kind", "name"), [("auto", "discretize"), ("ensemble", "consensus")])
def test_the_parameter_of_the_clusters_may_be_missing(kind, name, path):
    save(fitted(kind), path)
    rewrite(path, parameters=lambda p: p.pop(name))
    same(fitted(kind), load(path), X)


def test_parameters_that_changed_after_the_fit(path):
    changed = copy.copy(fitted("USPEC")).set_params(n_clusters=9, metric="cosine", n_neighbors=40)
    same(changed, again(changed, path), X)


def test_callbacks_are_not_stored(model, path):
    pytest.importorskip("sklearn.callback", reason="scikit-learn < 1.9")
    from sklearn.callback import ProgressBar

    fitted = clone(model).set_callbacks(ProgressBar()).fit(X)
    assert not getattr(again(fitted, path), "_skl_callbacks", None)


# Saving


def test_only_fitted_models_can_be_saved(model, path):
    with pytest.raises(NotFittedError):
        save(clone(model), path)
    for other in (make_pipeline(model), StandardScaler().fit(X), type("Sub", (USPEC,), {})(), None, "model"):
        with pytest.raises(TypeError, match="save takes a fitted USPEC or USENC, got"):
            save(other, path)
    assert not path.exists()


def test_models_that_could_not_be_loaded_are_not_saved(model, path):
    for wrong in ({"n_neighbors": 0}, {"selection": "best"}, {"n_init": "3"}, {"verbose": {}}, {"n_jobs": 10**6}):
        with pytest.raises(ValueError, match=rf"^This model cannot be saved: .*{next(iter(wrong))}"):
            save(copy.copy(model).set_params(**wrong), path)
    assert not path.exists()


def test_places_that_cannot_be_written(model, tmp_path, saved):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        save(model, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"folder of the model file does not exist.*nowhere"):
        save(model, tmp_path / "nowhere" / "model")
    before = saved.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite is False"):
        save(model.cut(2), saved, overwrite=False)
    assert saved.read_bytes() == before
    assert list(tmp_path.iterdir()) == [saved]
    save(model.cut(2), tmp_path / "new", overwrite=False)
    assert load(tmp_path / "new").n_clusters == 2
    save(model.cut(3), str(tmp_path / "new"))
    assert load(str(tmp_path / "new")).n_clusters == 3


@pytest.mark.parametrize("content", [b"x,y\n1,2\n", b"\x93NUMPY", b"\x08" + bytes(7) + b"{}      "])
def test_files_of_other_kinds_are_replaced_only_with_overwrite(model, path, content):
    path.write_bytes(content)
    with pytest.raises(FileExistsError, match=r"is no model file of ultraspec; pass overwrite=True"):
        save(model, path)
    assert path.read_bytes() == content
    save(model, path, overwrite=True)
    same(model, load(path), X)


def test_an_empty_file_is_replaced(model, path):
    path.touch()  # what tempfile makes
    save(model, path)
    same(model, load(path), X)


def test_a_file_that_appears_while_another_is_written_is_not_replaced(monkeypatch, model, path):
    monkeypatch.setattr(os, "fsync", lambda _: path.write_text("mine"))
    with pytest.raises(FileExistsError):
        save(model, path, overwrite=False)
    assert path.read_text() == "mine"
    assert list(path.parent.iterdir()) == [path]


def test_file_systems_without_links(monkeypatch, model, path):
    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    save(model, path, overwrite=False)
    same(model, load(path), X)
    assert list(path.parent.iterdir()) == [path]
    monkeypatch.setattr(os, "fsync", lambda _: (path.parent / "other").write_text("mine"))
    with pytest.raises(FileExistsError):
        save(model, path.parent / "other", overwrite=False)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_save_leaves_the_old_file_and_nothing_else(monkeypatch, model, saved, step, error):
    before = saved.read_bytes()

    def fail(*_):
        raise error

    monkeypatch.setattr(atomic.os, step, fail)
    with pytest.raises(type(error)):
        save(model.cut(2), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file sizes")
def test_a_full_disk(path):
    """A limit of file sizes makes writes fail half-way, as a full disk does."""
    save(fitted("USPEC"), path)
    code = """
        import resource, sys, ultraspec
        model = ultraspec.load(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            ultraspec.save(model.set_params(n_init=9), sys.argv[1])
        except OSError as error:
            print(error.errno)
    """
    before = path.read_bytes()
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert int(done.stdout) == errno.EFBIG
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_writers_and_readers_at_once(model, saved):
    """Two threads write to one path, again and again; a reader only ever meets whole files."""
    models, over = [model.cut(2), model.cut(3)], threading.Event()

    def write(mine):
        while not over.is_set():
            save(mine, saved)

    threads = [threading.Thread(target=write, args=(mine,)) for mine in models]
    for thread in threads:
        thread.start()
    try:
        found = {load(saved).n_clusters_ for _ in range(40)}
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert found <= {2, 3, 4}
    assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.skipif(sys.platform == "win32", reason="needs links and modes")
def test_links_are_replaced_and_modes_are_usual(model, tmp_path):
    target, link = tmp_path / "model", tmp_path / "link"
    link.symlink_to(target)
    with pytest.raises(FileExistsError, match="pass overwrite=True"):  # it may point to a file that comes later
        save(model, link)
    target.write_text("of another program")
    before = os.umask(0o027)
    try:
        save(model, link, overwrite=True)
    finally:
        os.umask(before)
    assert not link.is_symlink()
    assert target.read_text() == "of another program"
    assert stat.S_IMODE(link.stat().st_mode) == 0o640
    same(model, load(link), X)


def test_without_safetensors(monkeypatch, model, path):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for use in (lambda: save(model, path), lambda: load(path)):
        with pytest.raises(ImportError, match=r"need safetensors: pip install 'ultraspec\[models\]'"):
            use()


# Versions


def test_older_formats_are_upgraded(monkeypatch, model, saved):
    """A later release reads today's files through its table."""

    def upgrade(header, arrays):
        header["facts"]["n_iter"] += 100
        return {**header, "version": today + 1}, arrays

    today = container.VERSION
    monkeypatch.setattr(container, "VERSION", today + 1)
    refused(saved, f"format {today}, which ultraspec .* no longer reads: load it with an older release")
    monkeypatch.setitem(container.UPGRADES, today, upgrade)
    assert load(saved).n_iter_ == model.n_iter_ + 100


def test_every_older_format_can_be_upgraded():
    assert set(container.UPGRADES) == set(range(1, container.VERSION))
