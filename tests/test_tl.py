from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import scipy.sparse

import ultraspec
from tests.helpers.common import blobs, documents, python, same_partition
from ultraspec import USENC, USPEC, tl

anndata = pytest.importorskip("anndata")
pandas = pytest.importorskip("pandas")

pytestmark = pytest.mark.usefixtures("few_halves")

BOTH = pytest.mark.parametrize(("function", "kind"), [(tl.uspec, USPEC), (tl.usenc, USENC)], ids=["uspec", "usenc"])
COMPONENTS = pytest.mark.filterwarnings("ignore:The graph has")  # the test requests fewer clusters than there are
FEW = {"uspec": {}, "usenc": {"n_estimators": 4}}  # options that keep the tests quick


def cells(n=300, k=4, d=5, seed=0):
    """Return an AnnData with a representation of k clusters, and the clusters."""
    X, y = blobs(n, k, d, seed)
    counts = scipy.sparse.csr_matrix(np.random.default_rng(seed).poisson(1.0, size=(n, 7)).astype(np.float32))
    adata = anndata.AnnData(counts, obs=pandas.DataFrame(index=[f"cell{i}" for i in range(n)]))
    adata.obsm["X_pca"] = X.astype(np.float32)
    return adata, y


def run(function, adata, n_clusters, **options):
    return function(adata, n_clusters, **{**FEW[function.__name__], **options})


def snapshot(adata):
    """Return everything that a call may write."""
    return adata.obs.columns.tolist(), sorted(adata.obsm), sorted(adata.uns), adata.is_view


@BOTH
def test_writes_what_the_estimator_finds(function, kind):
    adata, y = cells()
    key = function.__name__
    assert run(function, adata, 4) is None
    model = kind(4, random_state=0, **FEW[key]).fit(adata.obsm["X_pca"])
    labels = adata.obs[key]
    assert isinstance(labels.dtype, pandas.CategoricalDtype)
    assert labels.cat.categories.tolist() == ["0", "1", "2", "3"]
    assert labels.astype(int).tolist() == model.labels_.tolist()
    assert same_partition(y, labels)
    assert labels.index.equals(adata.obs_names)
    embedding = adata.obsm[f"X_{key}"]
    assert embedding.dtype == np.float32
    np.testing.assert_array_equal(embedding, model.transform(adata.obsm["X_pca"]))
    np.testing.assert_array_equal(adata.uns[key]["eigenvalues"], model.eigenvalues_)
    assert adata.uns[key]["n_clusters"] == 4


def test_particulars_of_each_method():
    adata, _ = cells()
    tl.uspec(adata, 4)
    tl.usenc(adata, 4, n_estimators=4)
    model = USENC(4, n_estimators=4, random_state=0).fit(adata.obsm["X_pca"])
    np.testing.assert_array_equal(adata.obs["usenc_confidence"], model.confidence_)
    assert adata.obs["usenc_confidence"].dtype == np.float32
    single = USPEC(4, random_state=0).fit(adata.obsm["X_pca"])
    np.testing.assert_array_equal(adata.obs["uspec_confidence"], single.confidence_)
    assert adata.uns["uspec"]["sigma"] == single.sigma_
    tl.uspec(adata, 4, discretize="kmeans")
    assert "uspec_confidence" not in adata.obs  # not that of the former call
    assert "sigma" not in adata.uns["usenc"]


@BOTH
def test_embedding_equals_transform_on_many_blocks_and_overlapping_clusters(function, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_000, 2)).astype(np.float32)
    adata = anndata.AnnData(X)
    run(function, adata, 7, use_rep="X", n_representatives=200, n_jobs=2)
    model = kind(7, random_state=0, n_representatives=200, **FEW[function.__name__]).fit(X)
    np.testing.assert_array_equal(adata.obsm[f"X_{function.__name__}"], model.transform(X))


def test_categories_are_in_natural_order_and_all_in_use():
    adata, _ = cells(1200, 12)
    tl.uspec(adata, 12)
    assert adata.obs["uspec"].cat.categories.tolist() == [str(i) for i in range(12)]
    assert (adata.obs["uspec"].value_counts() > 0).all()
    assert not adata.obs["uspec"].cat.ordered


def test_fewer_clusters_than_asked_for_leave_no_empty_category():
    adata = anndata.AnnData(np.repeat(np.eye(3, dtype=np.float32), 20, axis=0))
    with pytest.warns(UserWarning, match="instead of 6"):
        tl.uspec(adata, 6, use_rep="X")
    found = adata.uns["uspec"]["n_clusters"]
    assert found < 6
    assert adata.obs["uspec"].cat.categories.tolist() == [str(i) for i in range(found)]
    assert adata.uns["uspec"]["params"]["n_clusters"] == 6


@BOTH
def test_copy_leaves_the_original_alone(function, kind):
    adata, _ = cells()
    before = snapshot(adata)
    new = run(function, adata, 4, copy=True)
    assert snapshot(adata) == before
    assert isinstance(new, anndata.AnnData)
    run(function, adata, 4)
    assert new.obs.equals(adata.obs)


@BOTH
def test_a_view_becomes_actual_and_its_parent_stays(function, kind):
    adata, y = cells()
    view = adata[y != 0]
    before = snapshot(adata)
    with pytest.warns(anndata.ImplicitModificationWarning):
        run(function, view, 3)
    assert not view.is_view
    assert snapshot(adata) == before
    assert same_partition(y[y != 0], view.obs[function.__name__])


def test_copy_of_a_view_neither_warns_nor_touches_it():
    adata, y = cells()
    view = adata[y != 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = tl.uspec(view, 3, copy=True)
    assert view.is_view
    assert not new.is_view
    assert new.n_obs == view.n_obs


@pytest.mark.parametrize("of_view", [False, True], ids=["whole", "view"])
@pytest.mark.parametrize("use_rep", ["X", None])
@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "csc_matrix", "array", "F-order"])
def test_clusters_X_in_every_form(form, use_rep, of_view):
    X, _ = documents(400)
    make = {"array": lambda X: X.toarray(), "F-order": lambda X: np.asfortranarray(X.toarray())}
    adata = anndata.AnnData(make.get(form, getattr(scipy.sparse, form, None))(X))
    adata.obsm["X"] = np.zeros((400, 2))  # "X" always means adata.X, as in scanpy
    if of_view:
        adata, X = adata[:300], X[:300]
    new = tl.uspec(adata, 4, use_rep=use_rep, metric="cosine", copy=True)
    expected = USPEC(4, metric="cosine", random_state=0).fit(X)
    assert same_partition(new.obs["uspec"], expected.labels_)
    assert new.uns["uspec"]["params"]["use_rep"] == "X"


def test_sparse_X_stays_sparse(monkeypatch):
    given = []
    fit = USPEC.fit
    monkeypatch.setattr(USPEC, "fit", lambda self, X: given.append(X) or fit(self, X))
    X, _ = documents(300)
    adata = anndata.AnnData(scipy.sparse.csr_matrix(X))
    tl.uspec(adata, 4, use_rep="X")
    assert scipy.sparse.issparse(given[0])
    assert np.shares_memory(given[0].data, adata.X.data)


def test_a_frame_in_obsm():
    adata, y = cells()
    adata.obsm["frame"] = pandas.DataFrame(adata.obsm["X_pca"], index=adata.obs_names).add_prefix("PC")
    tl.uspec(adata, 4, use_rep="frame")
    assert same_partition(y, adata.obs["uspec"])


@BOTH
def test_results_survive_a_file_and_params_repeat_the_call(function, kind, tmp_path):
    adata, _ = cells()
    key = function.__name__
    options = {"n_representatives": np.int64(100), "regularization": 0.002, "metric": "cosine", "n_jobs": 1}
    if kind is USENC:
        options |= {"base_clusters": (4, 8), "checkpoint": tmp_path / "members"}
    run(function, adata, 4, **options)
    adata.write_h5ad(tmp_path / "a.h5ad")
    back = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert back.obs.equals(adata.obs)
    assert back.obs[key].cat.categories.tolist() == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(back.obsm[f"X_{key}"], adata.obsm[f"X_{key}"])
    np.testing.assert_array_equal(back.uns[key]["eigenvalues"], adata.uns[key]["eigenvalues"])
    params = back.uns[key]["params"]
    assert params["n_representatives"] == 100
    assert params["random_state"] == 0
    assert not {"n_jobs", "verbose", "checkpoint"} & set(params)
    again = function(back, **params, copy=True)
    assert again.obs.equals(adata.obs)


@pytest.mark.parametrize("n_clusters", [4, np.int32(4), "auto"])
@pytest.mark.parametrize("random_state", [1, None, "generator"])
def test_params_are_plain(n_clusters, random_state, tmp_path):
    adata, _ = cells()
    seed = np.random.default_rng(0) if random_state == "generator" else random_state
    tl.usenc(adata, n_clusters, random_state=seed, n_estimators=3)
    params = adata.uns["usenc"]["params"]
    assert json.loads(json.dumps(params)) == params
    assert params["n_clusters"] == n_clusters
    assert params.get("random_state") == (1 if random_state == 1 else None)
    adata.write_h5ad(tmp_path / "a.h5ad")


@BOTH
def test_auto_finds_the_number_of_clusters(function, kind):
    adata, y = cells(900, 3)
    run(function, adata, "auto")
    key = function.__name__
    assert adata.uns[key]["n_clusters"] == len(adata.obs[key].cat.categories) == 3
    assert adata.uns[key]["layers"][0, 0] == 3
    assert same_partition(y, adata.obs[key])


def test_key_added_names_everything():
    adata, _ = cells()
    tl.usenc(adata, 4, key_added="mine", n_estimators=3)
    assert set(adata.obs) == {"mine", "mine_confidence"}
    assert set(adata.obsm) == {"X_pca", "X_mine"}
    assert set(adata.uns) == {"mine"}


@COMPONENTS
def test_another_call_replaces_the_first():
    adata, _ = cells()
    tl.uspec(adata, 4)
    tl.uspec(adata, 2)
    assert adata.obs["uspec"].cat.categories.tolist() == ["0", "1"]
    assert adata.obsm["X_uspec"].shape == (300, 2)


@COMPONENTS
def test_colours_of_another_number_of_clusters_go():
    adata, _ = cells()
    colors = ["#000000", "#ff0000", "#00ff00", "#0000ff"]
    adata.uns["uspec_colors"], adata.uns["other_colors"] = colors, ["#000000"]
    tl.uspec(adata, 4)
    assert adata.uns["uspec_colors"] == colors
    tl.uspec(adata, 3)
    assert "uspec_colors" not in adata.uns
    assert "other_colors" in adata.uns


def test_backed_mode(tmp_path):
    whole, y = cells()
    whole.write_h5ad(tmp_path / "a.h5ad")
    adata = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    tl.uspec(adata, 4, use_rep="X", key_added="from_file")
    tl.uspec(whole, 4, use_rep="X", key_added="in_memory")
    assert (adata.obs["from_file"].to_numpy() == whole.obs["in_memory"].to_numpy()).all()
    with pytest.raises(ValueError, match=r"copy=True.*to_memory\(\)"):
        tl.uspec(adata, 4, copy=True)
    with pytest.raises(ValueError, match=r"A view.*to_memory\(\)"):
        tl.uspec(adata[:300], 4)
    tl.uspec(adata, 4)  # obsm and obs are in memory all the same
    assert same_partition(y, adata.obs["uspec"])
    adata.file.close()


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, r"adata\.obsm has no 'X_pca'\. Run scanpy\.pp\.pca\(adata\) first, or pass use_rep", {}),
        (
            ValueError,
            r"adata\.obsm has no 'X_umap'\. Pass use_rep=\.\.\., one of \['X', 'X_x'\]",
            {"use_rep": "X_umap"},
        ),
        (TypeError, "use_rep must be a key", {"use_rep": np.zeros((600, 2))}),
        (TypeError, "key_added", {"use_rep": "X_x", "key_added": 3}),
        (TypeError, "key_added", {"use_rep": "X_x", "key_added": ""}),
        (ValueError, r"key_added='x' would replace adata\.obsm\['X_x'\]", {"use_rep": "X_x", "key_added": "x"}),
        (ValueError, "601", {"use_rep": "X_x", "n_clusters": 601}),
        (ValueError, "n_clusters", {"use_rep": "X_x", "n_clusters": 0}),
        (TypeError, "n_clusters", {"use_rep": "X_x", "n_clusters": "many"}),
        (TypeError, r"unknown option 'n_neighbours'.*n_neighbors", {"use_rep": "X_x", "n_neighbours": 3}),
        (ValueError, "n_neighbors", {"use_rep": "X_x", "n_neighbors": 0}),
        (ValueError, "random_state", {"use_rep": "X_x", "random_state": -1}),
    ],
)
@BOTH
def test_mistakes_are_named_and_nothing_is_written(function, kind, error, message, options):
    adata, _ = cells()
    adata.obsm["X_x"] = adata.obsm.pop("X_pca")
    before = snapshot(adata)
    with pytest.raises(error, match=message):
        function(adata, **{"n_clusters": 4, **options})
    assert snapshot(adata) == before


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_placed(value):
    adata, _ = cells()
    adata.obsm["X_pca"][17, 2] = value
    with pytest.raises(ValueError, match="column 2, row 17") as caught:
        tl.uspec(adata, 4)
    assert caught.value.__notes__ == ["X is adata.obsm['X_pca'] here."]
    adata.X = np.full(adata.shape, value)
    with pytest.raises(ValueError, match="column 0, row 0") as caught:
        tl.uspec(adata, 4, use_rep="X")
    assert caught.value.__notes__ == ["X is adata.X here."]
    assert "uspec" not in adata.obs


def test_no_X_at_all():
    adata = anndata.AnnData(shape=(50, 0), obsm={"X_pca": np.zeros((50, 2))})
    with pytest.raises(ValueError, match=r"adata\.X is None.*X_pca"):
        tl.uspec(adata, 2, use_rep="X")


@pytest.mark.parametrize("wrong", [np.zeros((10, 2)), None, "a.h5ad"])
def test_what_is_no_anndata(wrong):
    with pytest.raises(TypeError, match=r"must be an AnnData, got .*USPEC"):
        tl.uspec(wrong, 2)


def test_is_reached_lazily_and_imports_no_anndata():
    found = python(
        """
        import json, sys
        import ultraspec
        early = "ultraspec.tl" in sys.modules
        ultraspec.tl.uspec
        print(json.dumps([early, "ultraspec.tl" in sys.modules, "anndata" in sys.modules]))
        """
    )
    assert found == [False, True, False]
    assert "tl" in dir(ultraspec)


def grouped(n=900, k=3):
    """Return an AnnData with k clusters, the second of which has two parts, and a column with these clusters."""
    adata, y = cells(n, k)
    parts = np.arange(n) % 3 == 0
    adata.obsm["X_pca"][(y == 1) & parts, 0] += 3
    adata.obs["type"] = pandas.Categorical.from_codes(y, ["B", "T", "NK"][:k])
    return adata, y, parts


@BOTH
def test_restrict_to_divides_some_categories(function, kind):
    adata, y, parts = grouped()
    key = f"{function.__name__}_R"
    run(function, adata, 2, restrict_to=("type", ["T"]))
    found = adata.obs[key]
    assert found.cat.categories.tolist() == ["B", "T,0", "T,1", "NK"]  # in the place of the old category
    assert (found[y != 1] == adata.obs["type"][y != 1].astype(str)).all()
    expected = kind(2, random_state=0, **FEW[function.__name__]).fit(adata.obsm["X_pca"][y == 1])
    assert found[y == 1].tolist() == [f"T,{label}" for label in expected.labels_]
    assert same_partition(parts[y == 1], found[y == 1])
    sizes = found.value_counts()
    assert sizes["T,0"] > sizes["T,1"]  # the largest first
    inside = np.isfinite(adata.obsm[f"X_{key}"]).all(axis=1)
    assert inside.tolist() == (y == 1).tolist() == adata.obs[f"{key}_confidence"].notna().tolist()
    assert adata.uns[key]["n_clusters"] == 2
    assert function.__name__ not in adata.obs


def test_restrict_to_several_categories_and_from_a_file(tmp_path):
    adata, y, _ = grouped()
    tl.uspec(adata, 2, restrict_to=("type", ["NK", "B"]), key_added="both")
    found = adata.obs["both"]
    assert found.cat.categories.tolist() == ["NK-B,0", "NK-B,1", "T"]
    assert same_partition(y, found)
    adata.write_h5ad(tmp_path / "a.h5ad")
    back = anndata.read_h5ad(tmp_path / "a.h5ad")
    params = back.uns["both"]["params"]
    assert tl.uspec(back, key_added="again", **params, copy=True).obs["again"].tolist() == found.tolist()
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    options = {"restrict_to": ("type", ["T"]), "use_rep": "X", "key_added": "x"}
    tl.uspec(backed, 2, **options)
    tl.uspec(back, 2, **options)
    assert backed.obs["x"].tolist() == back.obs["x"].tolist()
    backed.file.close()


def test_restrict_to_columns_of_numbers_and_missing_values():
    adata, y, _ = grouped()
    adata.obs["number"] = pandas.Series(y, index=adata.obs_names).replace(2, pandas.NA).astype("Int64")
    adata.obsm["X_pca"][np.flatnonzero(y == 1)[0]] = np.nan
    tl.uspec(adata, 2, restrict_to=("number", [1]), missing="drop")
    found = adata.obs["uspec_R"]
    assert found.cat.categories.tolist() == ["0", "1,0", "1,1"]
    assert found.isna().sum() == (y == 2).sum() + 1
    assert (found[y == 0] == "0").all()


@pytest.mark.parametrize(
    ("error", "message", "restrict_to"),
    [
        (TypeError, r"restrict_to must be a column and a list of categories, as \('leiden', \['3'\]\)", "type"),
        (TypeError, "restrict_to must be", ("type", "T")),
        (TypeError, "restrict_to must be", ("type", 3)),
        (TypeError, "restrict_to must be", (3, ["T"])),
        (ValueError, "adata.obs has no 'leiden'. It has 'type', 'old'", ("leiden", ["3"])),
        (ValueError, r"adata.obs\['type'\] has no category 'C'. It has 'B', 'T', 'NK'", ("type", ["B", "C"])),
        (ValueError, "at least one category", ("type", [])),
        (ValueError, r"adata.obs\['old'\] has a category 'B,0' already", ("old", ["B"])),
        (ValueError, "n_samples=300 rows cannot form n_clusters=301", ("type", ["T"])),
    ],
)
def test_mistakes_in_restrict_to_are_named_and_nothing_is_written(error, message, restrict_to):
    adata, _, _ = grouped()
    adata.obs["old"] = adata.obs["type"].cat.rename_categories({"T": "B,0"})
    before = snapshot(adata)
    with pytest.raises(error, match=message):
        tl.uspec(adata, 301, restrict_to=restrict_to)
    assert snapshot(adata) == before


@pytest.mark.parametrize("form", ["array", "csr_matrix"])
@BOTH
def test_dask(function, kind, form):
    da = pytest.importorskip("dask.array")
    adata, _, _ = grouped()
    X = adata.obsm["X_pca"]
    whole = anndata.AnnData(scipy.sparse.csr_matrix(X) if form == "csr_matrix" else X, obs=adata.obs.copy())
    lazy = anndata.AnnData(da.from_array(whole.X, chunks=(400, -1), asarray=False), obs=adata.obs.copy())
    key = function.__name__
    for each in (whole, lazy):
        run(function, each, 4, use_rep="X")
        run(function, each, 2, use_rep="X", restrict_to=("type", ["T"]))
    assert whole.obs[key].tolist() == lazy.obs[key].tolist()
    assert whole.obs[f"{key}_R"].tolist() == lazy.obs[f"{key}_R"].tolist()
    np.testing.assert_allclose(lazy.obsm[f"X_{key}"], whole.obsm[f"X_{key}"], atol=1e-6)
    assert isinstance(lazy.obsm[f"X_{key}"], np.ndarray)
    assert isinstance(lazy.X, da.Array)  # still lazy
    view = lazy[::2]
    with pytest.warns(anndata.ImplicitModificationWarning):
        run(function, view, 4, use_rep="X", key_added="half")
    half = run(function, whole[::2], 4, use_rep="X", key_added="half", copy=True)
    assert view.obs["half"].tolist() == half.obs["half"].tolist()


def test_a_file_that_is_read_lazily(tmp_path):
    pytest.importorskip("xarray")
    adata, y, parts = grouped()
    anndata.AnnData(adata.obsm["X_pca"], obs=adata.obs).write_h5ad(tmp_path / "a.h5ad")
    lazy = anndata.experimental.read_lazy(tmp_path / "a.h5ad")
    tl.uspec(lazy, 2, use_rep="X", restrict_to=("type", ["T"]))
    assert same_partition(parts[y == 1], lazy.obs["uspec_R"].to_pandas()[y == 1])
