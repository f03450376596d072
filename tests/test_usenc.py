"""USENC: members, their consensus, and what users rely on."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.neighbors import NearestNeighbors

from tests.helpers.common import blobs, documents, frames, python, same_partition
from ultraspec import USENC, datasets, metrics
from ultraspec.ensemble import members
from ultraspec.ensemble.combine import consensus
from ultraspec.spectral import preprocess


def fit(X, k=4, **options):
    return USENC(k, **{"n_estimators": 6, "random_state": 0, **options}).fit(X)


@pytest.fixture(scope="module")
def circles():
    return datasets.generate("cc", 4000, random_state=0)


@pytest.fixture(scope="module")
def model(circles):
    return USENC(3, n_estimators=8, random_state=0).fit(circles[0])


# Labels


@pytest.mark.parametrize(
    ("name", "k", "least", "seed"), [("cc", 3, 0.95, 0), ("tb", 2, 0.85, 1), ("flower", 13, 0.75, 2)]
)
def test_finds_clusters_of_any_shape(name, k, least, seed):
    X, y = datasets.generate(name, 5000, random_state=seed)
    model = USENC(k, random_state=seed).fit(X)
    assert metrics.nmi(y, model.labels_) > least


def test_attributes(model, circles):
    X, _ = circles
    assert model.labels_.dtype == np.int32
    assert sorted(set(model.labels_)) == [0, 1, 2]
    assert model.base_labels_.shape == (len(X), 8)
    assert model.base_labels_.dtype == np.uint8
    assert model.confidence_.shape == (len(X),)
    assert model.confidence_.dtype == np.float32
    assert model.eigenvalues_[0] == pytest.approx(1)
    assert (np.diff(model.eigenvalues_) <= 1e-12).all()


def test_labels_are_the_consensus_of_the_base_labels(model):
    """The public function and the estimator are the same second half."""
    labels = consensus(model.base_labels_, 3, random_state=0)
    assert same_partition(labels, model.labels_)


def test_base_labels_count_from_zero_and_lie_in_the_range(model):
    for column in model.base_labels_.T:
        used = np.unique(column)
        assert used.tolist() == list(range(len(used)))
        assert 7 <= len(used) <= 22  # 4,000 rows: cut from 20 to 60


# New points


def test_predict_repeats_the_fit_bit_for_bit(model, circles):
    X, _ = circles
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict(X[::-1]), model.labels_[::-1])
    np.testing.assert_array_equal([model.predict(row[None])[0] for row in X[:20]], model.labels_[:20])


@pytest.mark.parametrize("options", [{"neighbors": "exact"}, {"selection": "random"}, {"selection": "kmeans"}])
def test_predict_repeats_the_fit_with_every_option(options):
    X, y = blobs(800)
    model = fit(X, **options)
    assert same_partition(model.labels_, y)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_new_points_join_their_cluster(model):
    new, y = datasets.generate("cc", 3000, random_state=99)
    assert metrics.nmi(y, model.predict(new)) > 0.95


def test_transform(model, circles):
    X, _ = circles
    embedding = model.transform(X)
    assert embedding.shape == (len(X), 3)
    assert embedding.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embedding, axis=1), 1, rtol=1e-5)
    centers = np.array([embedding[model.labels_ == c].mean(axis=0) for c in range(3)])
    nearest = ((embedding[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == model.labels_).mean() > 0.999
    assert model.get_feature_names_out().tolist() == ["usenc0", "usenc1", "usenc2"]


def test_nothing_works_before_fit():
    for method in ("predict", "transform", "cut"):
        with pytest.raises(NotFittedError):
            getattr(USENC(), method)(3)


# Confidence


def test_confidence_of_the_transfer_cut_is_the_share_of_members_that_support_the_label(model, circles):
    model = model.cut(3, circles[0], consensus="transfer_cut")
    supporting = np.zeros(len(model.labels_))
    for column in model.base_labels_.T:
        votes = np.zeros((column.max() + 1, 3))
        np.add.at(votes, (column, model.labels_), 1)
        supporting += votes.argmax(axis=1)[column] == model.labels_
    np.testing.assert_allclose(model.confidence_, supporting / 8, rtol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_confidence_falls_at_borders(seed):
    """Rows with a near neighbour of another label are less certain than rows without."""
    X, _ = datasets.generate("sf", 3000, random_state=seed)
    model = USENC(4, n_estimators=10, n_representatives=300, random_state=seed).fit(X)
    near = NearestNeighbors(n_neighbors=10).fit(X).kneighbors(return_distance=False)
    border = (model.labels_[near] != model.labels_[:, None]).any(axis=1)
    assert 20 < border.sum() < 1000
    assert model.confidence_[border].mean() < model.confidence_[~border].mean() - 0.1


# Other numbers of clusters


def test_cut_makes_other_numbers_of_clusters_from_the_same_members(model, circles):
    X, y = circles
    base_labels = model.base_labels_  # computed once, then shared
    for k in (1, 2, 3, 5):
        other = model.cut(k)
        assert other is not model
        assert other.n_clusters == k
        assert len(set(other.labels_)) == k
        assert other.base_labels_ is base_labels
        np.testing.assert_array_equal(other.predict(X), other.labels_)
    np.testing.assert_array_equal(model.cut(3).labels_, model.labels_)
    assert metrics.nmi(y, model.labels_) > 0.95  # the model itself is as it was


def test_cut_beyond_what_is_kept_is_refused(model, circles):
    X, _ = circles
    with pytest.raises(ValueError, match=r"This model has \d+ leaves of its trees, too few for n_clusters=1001\."):
        model.cut(1001)
    with pytest.raises(ValueError, match=r"This model has 60 eigenvectors, too few for n_clusters=61\."):
        model.cut(4, X, consensus="transfer_cut").cut(61)


def test_auto_finds_the_number_of_clusters():
    for k in (2, 3):
        X, y = blobs(600, k=k)
        model = fit(X, "auto")
        assert model.n_clusters_ == k
        assert same_partition(model.labels_, y)


def test_pickles_hold_no_graph_and_can_be_cut(model, circles):
    X, _ = circles
    again = pickle.loads(pickle.dumps(model))
    assert again._fitted.consensus is None
    np.testing.assert_array_equal(again.predict(X[:500]), model.labels_[:500])
    with pytest.raises(ValueError, match=r"does not hold the rows.*Call cut\(n_clusters, X\)"):
        again.cut(2)
    np.testing.assert_array_equal(again.cut(2, X).labels_, model.cut(2).labels_)
    # the graph of the paper is one of base clusters, which a pickle holds
    paper = fit(X, 3, consensus="transfer_cut", n_representatives=200)
    again = pickle.loads(pickle.dumps(paper))
    np.testing.assert_array_equal(again.cut(2).labels_, paper.cut(2).labels_)


# Determinism


def test_same_seed_same_bits_for_any_number_of_threads_and_either_schedule(monkeypatch):
    X, _ = datasets.generate("sf", 1500, random_state=0)
    reference = fit(X, n_representatives=150, n_jobs=1)
    for n_jobs in (2, 5):
        model = fit(X, n_representatives=150, n_jobs=n_jobs)
        assert model.base_labels_.tobytes() == reference.base_labels_.tobytes()
        assert model.labels_.tobytes() == reference.labels_.tobytes()
    monkeypatch.setattr(members, "PARALLEL_BYTES", 0)  # one member after another
    monkeypatch.setattr(preprocess, "PREPARED_BYTES", 0)
    model = fit(X, n_representatives=150, n_jobs=2)
    assert model.base_labels_.tobytes() == reference.base_labels_.tobytes()
    assert model.confidence_.tobytes() == reference.confidence_.tobytes()


def test_seeds_differ_and_none_is_random():
    X, _ = datasets.generate("sf", 600, random_state=0)
    assert fit(X, random_state=0).base_labels_.tobytes() != fit(X, random_state=1).base_labels_.tobytes()
    assert fit(X, random_state=None).base_labels_.tobytes() != fit(X, random_state=None).base_labels_.tobytes()


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fit(blobs()[0])
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_several_threads_at_once():
    X, _ = blobs(600)
    expected = fit(X).labels_
    found = []
    threads = [threading.Thread(target=lambda: found.append(fit(X).labels_)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert all((labels == expected).all() for labels in found)


# Kinds of input


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.astype(np.float32),
        lambda X: np.asfortranarray(X),
        lambda X: (X * 1000).astype(np.int32),
        lambda X: X[::-1][::-1],
        lambda X: X.tolist(),
        lambda X: X * 1e30,
        lambda X: X * 1e-30,
        lambda X: X + 1e8,
        lambda X: scipy.sparse.csr_array(X),
        lambda X: scipy.sparse.csc_matrix(X),
    ],
)
def test_kinds_of_arrays(change):
    X, y = blobs(600)
    changed = change(X)
    model = fit(changed)
    assert same_partition(model.labels_, y)
    np.testing.assert_array_equal(model.predict(changed), model.labels_)


@pytest.mark.parametrize("frame", list(frames()))
def test_frames(frame):
    X, y = blobs(600)
    data = frame(dict(zip("abc", X.T, strict=True)))
    model = fit(data)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert same_partition(model.labels_, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame(dict(zip("abz", X.T, strict=True))))


def test_memory_mapped_and_read_only(tmp_path):
    X, y = blobs(600)
    np.save(tmp_path / "X.npy", X)
    model = fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert same_partition(model.labels_, y)


def test_documents():
    X, y = documents(800)
    model = fit(X, metric="cosine", n_representatives=100)
    assert same_partition(model.labels_, y)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


# Bad input


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_estimators": 0}, ValueError, "n_estimators must be an integer >= 1, got 0"),
        ({"n_estimators": 2.5}, TypeError, "n_estimators must be an integer"),
        ({"base_clusters": 30}, TypeError, r"base_clusters must be a pair \(fewest, most\), got 30"),
        ({"base_clusters": (1, 2, 3)}, TypeError, "base_clusters must be a pair"),
        ({"base_clusters": (0, 3)}, ValueError, r"base_clusters\[0\] must be an integer >= 1"),
        ({"base_clusters": (9, 3)}, ValueError, r"a pair \(fewest, most\), got \(9, 3\). The smaller"),
        (
            {"n_representatives": 50},
            ValueError,
            r"base_clusters=\(20, 60\) asks for more clusters than n_representatives=50",
        ),
        ({"base_max_iter": 0}, ValueError, "base_max_iter must be an integer >= 1"),
        ({"consensus": "vote"}, ValueError, "consensus must be one of 'auto', 'transfer_cut', got 'vote'"),
        (
            {"n_clusters": 1000, "n_estimators": 3},
            ValueError,
            "n_clusters=1000 is more than the 3 members with",
        ),
        ({"metric": "manhattan"}, ValueError, "metric must be one of"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be a non-zero integer"),
    ],
)
def test_wrong_parameters_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        USENC(**options).fit(blobs(2000)[0])


def test_bad_rows_are_refused():
    X, _ = blobs()
    broken = X.copy()
    broken[7, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN in column 1, row 7"):
        fit(broken)
    with pytest.raises(ValueError, match="n_samples=3 rows cannot form n_clusters=4 clusters"):
        fit(X[:3])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        fit(np.empty((0, 3)))
    with pytest.raises(ValueError, match="zeros"):
        fit(np.zeros((100, 3)), metric="cosine")
    model = fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but USENC is expecting 3"):
        model.predict(X[:, :2])


def test_one_member_is_an_ensemble_too():
    X, y = blobs(600)
    model = fit(X, n_estimators=1, base_clusters=(4, 4))
    assert same_partition(model.labels_, y)
    assert model.base_labels_.shape == (600, 1)
    assert model.confidence_ is None  # nobody else judges
    with pytest.raises(ValueError, match="it has a single member"):
        model.predict(X, return_confidence=True)
    np.testing.assert_array_equal(fit(X, n_estimators=1, base_clusters=(4, 4), consensus="transfer_cut").confidence_, 1)


@pytest.mark.parametrize("consensus", ["auto", "transfer_cut"])
def test_one_member_with_more_clusters_says_that_it_is_no_ensemble(consensus):
    with pytest.warns(UserWarning, match="no ensemble: which of its 9 clusters are merged is arbitrary"):
        fit(blobs(2000)[0], n_estimators=1, base_clusters=(9, 9), consensus=consensus)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
def test_very_few_rows(n):
    X = blobs(n, k=2)[0]
    model = fit(X, 1)
    np.testing.assert_array_equal(model.labels_, 0)
    np.testing.assert_array_equal(model.predict(X), 0)


def test_equal_rows_make_one_cluster_and_a_warning():
    with pytest.raises(ValueError, match="have 6 clusters in all, too few for n_clusters=8"):
        fit(np.ones((200, 3)), 8, consensus="transfer_cut")
    for way in ("auto", "transfer_cut"):
        with pytest.warns(ConvergenceWarning, match="Found 1 clusters instead of 4"):
            model = fit(np.ones((200, 3)), 4, consensus=way)
        np.testing.assert_array_equal(model.labels_, 0)


def test_a_fit_that_fails_leaves_the_model_before_it():
    X, _ = blobs()
    model = fit(X)
    before = model.labels_
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((50, 7), np.nan))
    assert model.labels_ is before
    assert model.n_features_in_ == 3
    np.testing.assert_array_equal(model.predict(X), before)


def test_clone_and_refit():
    X, _ = blobs()
    model = fit(X)
    np.testing.assert_array_equal(clone(model).fit(X).labels_, model.labels_)


# Progress, memory and Ctrl-C


def test_progress_tells_members_and_phases(capsys):
    fit(blobs()[0], verbose=1)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["survey", "members", "consensus"]


def test_memory_stays_in_bounds():
    """60 bytes a row and a constant, whatever the members do."""
    above = python("""
        import json
        import numpy as np
        from ultraspec import USENC, datasets

        def resident(field):
            lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
            return int(lines[field].split()[0]) * 1024

        X, _ = datasets.generate("cc", 1_500_000, random_state=0)
        USENC(3, n_estimators=2, random_state=0).fit(X[:20_000])
        before = resident("VmRSS")
        USENC(3, n_estimators=3, random_state=0, n_jobs=2).fit(X)
        print(json.dumps(resident("VmHWM") - before))
    """)
    assert above < 60 * 1_500_000 + 300e6


def test_ctrl_c_returns_at_once_and_leaves_no_thread():
    """While members run at once, and while they run one after another."""
    for stopped, left, fine in python("""
        import json, os, signal, threading, time
        import numpy as np
        from ultraspec import USENC, datasets
        from ultraspec.ensemble import members
        X, _ = datasets.generate("cc", 60_000, random_state=0)
        USENC(3, n_estimators=2, random_state=0).fit(X[:2000])
        found = []
        for parallel in (True, False):
            if not parallel:
                members.PARALLEL_BYTES = 0
            model = USENC(3, n_estimators=500, random_state=0, n_jobs=2)
            threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                model.fit(X)
                stopped = False
            except KeyboardInterrupt:
                stopped = True
            left = [thread.name for thread in threading.enumerate() if thread.name.startswith("ultraspec")]
            fine = not hasattr(model, "labels_") and len(USENC(3, n_estimators=2).fit(X[:2000]).labels_) == 2000
            found.append([stopped, left, fine])
        print(json.dumps(found))
    """):
        assert stopped
        assert left == []
        assert fine


@pytest.mark.parametrize("pair", [[5, 9], np.array([5, 9]), (np.int64(5), np.int32(9))])
def test_parameters_may_be_numpy_integers(pair, tmp_path):
    X, _ = blobs(600)
    options = {"n_estimators": np.int64(2), "n_representatives": np.int64(60), "random_state": 0}
    wanted = USENC(4, base_clusters=(5, 9), n_estimators=2, n_representatives=60, random_state=0).fit_predict(X)
    model = USENC(np.int64(4), base_clusters=pair, checkpoint=tmp_path, **options)
    for _ in range(2):
        assert (model.fit_predict(X) == wanted).all()
