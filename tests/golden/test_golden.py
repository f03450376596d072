"""Fixes what the library gives today, through public names only, so that code can be moved without changing it.

Settings follow the paper's method (`USPEC.paper`, `USENC.paper`), but for those that are named "new", which are of the
defaults. Labels are compared up to the numbers of the clusters. All but settings named "new" or "header" were recorded
with the release whose default was the paper's method.

``python tests/golden/test_golden.py --record`` runs the same tests through pytest (without xdist) and writes what they
find to golden.json. Record only when behaviour is meant to
change: moving code must change no value.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import ultraspec
from ultraspec import USENC, USPEC, baselines, consensus, datasets, load, metrics, open_rows, save, tl
from ultraspec.cli import main

pytestmark = [
    pytest.mark.skipif(
        platform.machine() != "x86_64" or sys.platform != "linux",
        reason="labels depend on eigenvectors, which were recorded on x86_64 Linux and may differ elsewhere",
    ),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

GOLDEN = Path(__file__).with_name("golden.json")
DATA = Path(__file__).parents[1] / "data"
RECORD = os.environ.get("ULTRASPEC_GOLDEN") == "record"
TOLERANCE = 1e-3  # of floats, which differ a little between processors

SETTINGS = {}  # name -> function of a folder that gives what is recorded


def setting(function):
    SETTINGS[function.__name__] = function
    return function


# Data


def blobs(n=1500, k=5, d=4, seed=0):
    """Give k clusters of uneven sizes, well apart, and their numbers."""
    rng = np.random.default_rng(seed)
    centers = 12 * np.stack([np.cos(1.9 * np.arange(k) + j) * (1 + j / d) for j in range(d)], axis=1)
    centers[:, 0] += 9 * np.arange(k)
    y = rng.permutation(np.repeat(np.arange(k), np.diff(np.linspace(0, 1, k + 1) ** 1.4 * n).round().astype(int)))
    return centers[y] + rng.normal(size=(len(y), d)), y


def documents(n=1200, k=4, d=80, words=12, seed=0):
    """Give a CSR matrix in which rows of a class share a part of the columns."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    own = rng.integers(d // k, size=(n, words)) + (y * (d // k))[:, None]
    columns = np.where(rng.random((n, words)) < 0.9, own, rng.integers(d, size=(n, words)))
    X = scipy.sparse.csr_array((rng.random(n * words) + 0.2, columns.ravel(), np.arange(n + 1) * words), shape=(n, d))
    X.sum_duplicates()
    return X, y


def base_labels(n=900, k=4, m=8, seed=0):
    """Give a label matrix around k planted clusters, finer than they are, with noise."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.arange(n) % k)
    columns = [truth * (2 + j % 2) + rng.integers(2 + j % 2, size=n) for j in range(m)]
    noise = [np.where(rng.random(n) < 0.08, rng.integers(column.max() + 1, size=n), column) for column in columns]
    return np.column_stack(noise), truth


X, Y = blobs()
NEW = blobs(400, seed=1)[0]
CIRCLES, _ = datasets.generate("cc", 3000, random_state=0)
GAUSSIANS, _ = datasets.generate("cg", 4000, random_state=0)
BANANAS, _ = datasets.generate("tb", 800, random_state=0)
DOCUMENTS, _ = documents()
COLUMNS = [f"x{j}" for j in range(X.shape[1])]


# What is recorded of things


def by_size(labels):
    """Number clusters by size, the largest first, those of equal size by their first rows; -1 stays."""
    values, first, numbers, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    sizes = np.where(values < 0, -1, sizes)  # rows without a label come last
    numbers = np.argsort(np.lexsort((first, -sizes)))[numbers.reshape(-1)]
    return np.where(labels < 0, -1, numbers).astype(np.int32)


def of_labels(labels):
    labels = by_size(np.asarray(labels, dtype=np.int32))
    values, sizes = np.unique(labels, return_counts=True)
    digest = hashlib.sha256(np.ascontiguousarray(labels).tobytes()).hexdigest()
    return {"sizes": dict(zip(map(str, values.tolist()), sizes.tolist(), strict=True)), "sha256": digest}


def of_floats(values):
    values = np.asarray(values, dtype=np.float64)
    return {"shape": list(values.shape), "total": {"sum": float(values.sum()), "abs": float(np.abs(values).sum())}}


def of_directions(values, most=None):
    """Of rows in an eigenspace, which may be turned: lengths, and products of some of them."""
    values = np.asarray(values, dtype=np.float64)
    rows = values[:: max(1, len(values) // 50), :most]
    return {
        "shape": list(values.shape),
        "length": float(np.linalg.norm(values[:, :most])),
        "products": float(np.abs(rows @ rows.T).sum()),
    }


def of_model(model):
    """What a fitted estimator tells of itself."""
    k = model.n_clusters_
    found = {
        "labels": of_labels(model.labels_),
        "n_clusters": int(k),
        "n_features": int(model.n_features_in_),
        "names": list(getattr(model, "feature_names_in_", [])),
        "eigenvalues": [float(value) for value in model.eigenvalues_[: k + 1]],
        "n_eigenvalues": len(model.eigenvalues_),
        "n_iter": int(model.n_iter_),
    }
    if isinstance(model, USPEC):
        found |= {"sigma": float(model.sigma_), "representatives": of_floats(model.representatives_)}
    else:
        base = np.asarray(model.base_labels_)
        found |= {
            "confidence": of_floats(model.confidence_),
            "base_labels": {"shape": list(base.shape), "type": str(base.dtype), "clusters": base.max(axis=0).tolist()},
        }
    if model.scaling_ is not None:
        found["scaling"] = {"mean": of_floats(model.scaling_.mean), "deviation": of_floats(model.scaling_.deviation)}
    return found


def read_model_file(path):
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["ultraspec"]), {name: file.get_tensor(name) for name in sorted(file.keys())}


def of_header(path):
    """What the header of a model file says, apart from the version of the library that wrote it, and what is in it."""
    header, arrays = read_model_file(path)
    facts = {name: header[name] for name in ("format", "version", "estimator", "parameters", "facts")}
    return {"keys": sorted(header), **facts, "arrays": {name: str(array.dtype) for name, array in arrays.items()}}


def of_arrays(path, k):
    """What is in the arrays of a model file, apart from the numbers of clusters."""
    found = {}
    for name, array in read_model_file(path)[1].items():
        kind = name.rsplit(".", 1)[-1]
        if kind == "cluster_numbers":
            continue
        if kind in ("merges", "masses"):
            value = None  # rounding decides the order of merges far down in the tree
        elif kind in ("groups", "majority"):
            value = of_labels(array)
        elif array.dtype.kind in "iu":
            value = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        elif kind in ("vectors", "cluster_centers"):
            value = of_directions(array, k)
        else:
            value = of_floats(array)
        found[name] = [str(array.dtype), list(array.shape), value]
    return found


def compare(found, golden, where=""):
    """Give the places where two records differ, floats beyond the tolerance."""
    if isinstance(golden, dict) and set(golden) == {"sum", "abs"} and isinstance(found, dict):
        room = TOLERANCE * golden["abs"] + 1e-9
        return [f"{where}.{name}: {found[name]}, was {golden[name]}"
                for name in golden if not abs(found[name] - golden[name]) <= room]  # fmt: skip
    if isinstance(golden, dict) and isinstance(found, dict) and set(golden) == set(found):
        return [line for name in golden for line in compare(found[name], golden[name], f"{where}.{name}")]
    if isinstance(golden, list) and isinstance(found, list) and len(golden) == len(found):
        both = enumerate(zip(found, golden, strict=True))
        return [line for i, (a, b) in both for line in compare(a, b, f"{where}[{i}]")]
    if isinstance(golden, float) and isinstance(found, float):
        same = abs(found - golden) <= TOLERANCE * abs(golden) + 1e-6
    else:
        same = type(found) is type(golden) and found == golden
    return [] if same else [f"{where}: {found}, was {golden}"]


# USPEC


PAPER = {"regularization": 1e-3, "random_state": 0}  # labels of a graph in pieces would depend on rounding without it


def uspec(rows=X, k=5, **options):
    return USPEC.paper(k, **{**PAPER, "n_representatives": 100, **options}).fit(rows)


HARD = {"rows": GAUSSIANS, "k": datasets.N_CLASSES["cg"], "n_representatives": 300}
OPTIONS = {
    "default": {},
    "all_representatives": {"n_representatives": 1000},
    "random": {"selection": "random"},
    "kmeans_selection": {"selection": "kmeans"},
    "exact": {**HARD, "neighbors": "exact", "neighborhood_factor": 1},
    "cosine": {"rows": X + 30, "metric": "cosine"},
    "graph_rows": {"graph_rows": 700},
    "no_regularization": {"rows": CIRCLES, "k": 3, "regularization": 0},
    "more_regularization": {"regularization": 1e-2},
    "auto": {"k": "auto"},
    "neighbors_3": {"n_neighbors": 3},
    "neighbors_9": {"n_neighbors": 9, "n_representatives": 200},
    "candidate_factor": {"candidate_factor": 3},
    "neighborhood_factor": {**HARD, "neighborhood_factor": 1},
    "n_init": {**HARD, "n_init": 7},
    "max_iter": {**HARD, "max_iter": 2},
    "seed": {"random_state": 12345},
    "generator": {"random_state": np.random.RandomState},
    "gaussians": HARD,
    "circles": {"rows": CIRCLES, "k": 3, "n_representatives": 400},
}


def fit_with(options):
    def run(folder):
        given = dict(options)
        if given.get("random_state") is np.random.RandomState:
            given["random_state"] = np.random.RandomState(5)
        rows = given.get("rows", X)
        model = uspec(**given)
        assert (model.predict(rows) == model.labels_).all()
        return {**of_model(model), "embedding": of_directions(model.transform(rows))}

    return run


SETTINGS |= {f"uspec_{name}": fit_with(options) for name, options in OPTIONS.items()}


@setting
def uspec_jobs(folder):
    one, two = uspec(n_jobs=1), uspec(n_jobs=2)
    assert (one.labels_ == two.labels_).all()
    assert one.sigma_ == two.sigma_
    return of_model(two)


@setting
def uspec_cut(folder):
    model = uspec()
    return {str(k): of_labels(model.cut(k).labels_) for k in (2, 4, 5)}


@setting
def uspec_new_rows(folder):
    model = uspec()
    found = [of_labels(model.predict(NEW)), of_directions(model.transform(NEW))]
    return {"kmeans": found, "names": model.get_feature_names_out().tolist()}


# Kinds of input


@setting
def input_float32(folder):
    return of_model(uspec(X.astype(np.float32)))


@setting
def input_integers(folder):
    return of_model(uspec((100 * X).round().astype(np.int32)))


@setting
def input_fortran(folder):
    return of_model(uspec(np.asfortranarray(X)))


@setting
def input_sparse(folder):
    model = uspec(DOCUMENTS, 4)
    return {**of_model(model), "new": of_labels(model.predict(documents(300, seed=1)[0]))}


@setting
def input_sparse_cosine(folder):
    return of_model(uspec(DOCUMENTS, 4, metric="cosine"))


@setting
def input_pandas(folder):
    pandas = pytest.importorskip("pandas")
    return of_model(uspec(pandas.DataFrame(X, columns=COLUMNS)))


@setting
def input_polars(folder):
    polars = pytest.importorskip("polars")
    return of_model(uspec(polars.DataFrame(X, schema=COLUMNS)))


def write_rows(path, rows=X):
    """Write rows in the format of the name."""
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        np.savez(path, X=rows, y=rows[:, 0])
    elif path.suffix in (".csv", ".parquet"):
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet

        table = pyarrow.table(dict(zip(COLUMNS, rows.T, strict=True)))
        (pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table)(table, path)
    elif path.suffix == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            file["group/X"] = rows
    else:
        import zarr

        zarr.save_array(path, rows)
    return path


def fit_file(ending, **options):
    def run(folder):
        path = write_rows(folder / f"rows{ending}")
        with open_rows(path, **options) as rows:
            model = uspec(rows)
            found = {**of_model(model), "rows": list(rows.shape)}
        columns = options.get("columns")
        found["new"] = of_labels(model.predict(NEW if columns is None else NEW[:, [0, 2]]))
        return found

    return run


SETTINGS |= {f"file_{ending[1:]}": fit_file(ending) for ending in (".npy", ".npz", ".csv", ".parquet", ".h5", ".zarr")}
SETTINGS |= {f"file_scaled_{ending[1:]}": fit_file(ending, scale="standard") for ending in (".npy", ".parquet")}
SETTINGS["file_columns"] = fit_file(".parquet", columns=["x0", "x2"])


@setting
def file_sparse(folder):
    scipy.sparse.save_npz(folder / "rows.npz", scipy.sparse.csr_matrix(DOCUMENTS))
    return of_model(uspec(open_rows(folder / "rows.npz"), 4))


@setting
def file_checkpoint(folder):
    found = {}
    for graph_rows in (None, 700):
        options = {"checkpoint": folder / f"checkpoint-{graph_rows}", "graph_rows": graph_rows}
        rows = open_rows(write_rows(folder / "rows.npy"))
        model = uspec(rows, **options)
        again = uspec(rows, **options | {"random_state": None})  # goes on with the folder's
        assert (again.labels_ == model.labels_).all()
        found[str(graph_rows)] = of_model(again)
    return found


def chunked(rows):
    da = pytest.importorskip("dask.array")
    return da.concatenate([da.from_array(part) for part in np.split(rows, [600, 700])])


@setting
def dask_uspec(folder):
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="threads"):
        model = uspec(chunked(X))
        new = of_labels(model.predict(chunked(X)[::3]).compute())
        model.labels_ = model.labels_.compute()
        return {**of_model(model), "new": new}


@setting
def dask_usenc(folder):
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="threads"):
        model = usenc(chunked(X))
        for name in ("labels_", "confidence_", "base_labels_"):
            setattr(model, name, getattr(model, name).compute())
        return of_model(model)


# USENC


def usenc(rows=X, k=5, **options):
    given = {**PAPER, "n_estimators": 5, "n_representatives": 120, "base_clusters": (8, 14), **options}
    return USENC.paper(k, **given).fit(rows)


HARD_ENSEMBLE = {**HARD, "base_clusters": (20, 40)}
ENSEMBLES = {
    "default": {},
    "base_clusters": {"base_clusters": (6, 20), "n_estimators": 8},
    "paper_base_clusters": {"base_clusters": (20, 60), "n_representatives": 300},
    "gaussians": HARD_ENSEMBLE,
    "base_max_iter": {**HARD_ENSEMBLE, "base_max_iter": 1},
    "auto": {"k": "auto"},
    "random_exact": {"selection": "random", "neighbors": "exact", "n_neighbors": 4},
    "cosine": {"rows": DOCUMENTS, "k": 4, "metric": "cosine"},
    "no_regularization": {"rows": CIRCLES, "k": 3, "n_representatives": 300, "regularization": 0},
}


def ensemble_with(options):
    def run(folder):
        rows = options.get("rows", X)
        model = usenc(**options)
        labels, confidence = model.predict(rows, return_confidence=True)
        assert (labels == model.labels_).all()
        assert (confidence == model.confidence_).all()
        return {**of_model(model), "embedding": of_directions(model.transform(rows))}

    return run


SETTINGS |= {f"usenc_{name}": ensemble_with(options) for name, options in ENSEMBLES.items()}


@setting
def usenc_cut(folder):
    model = usenc()
    return {str(k): of_labels(model.cut(k).labels_) for k in (2, 4)}


@setting
def usenc_new_rows(folder):
    labels, confidence = usenc().predict(NEW, return_confidence=True)
    return {"transfer_cut": [of_labels(labels), of_floats(confidence)]}


@setting
def usenc_jobs(folder):
    one, two = usenc(n_jobs=1), usenc(n_jobs=2)
    assert (one.labels_ == two.labels_).all()
    assert (one.base_labels_ == two.base_labels_).all()
    return of_model(two)


@setting
def usenc_checkpoint(folder):
    rows = open_rows(write_rows(folder / "rows.csv"), scale="standard")
    model = usenc(rows, n_estimators=3, checkpoint=folder / "checkpoint")
    more = usenc(rows, n_estimators=5, checkpoint=folder / "checkpoint", random_state=None)
    assert (more.base_labels_[:, :3] == model.base_labels_).all()
    return of_model(more)


# Label matrices and baselines


@setting
def consensus_function(folder):
    labels, truth = base_labels()
    found = {str(k): of_labels(consensus(labels, k, random_state=0)) for k in (4, "auto")}
    found["regularization"] = of_labels(consensus(labels, 4, regularization=0, n_init=1, max_iter=20, random_state=1))
    words = np.array(list("abcdefghijklmnop"), dtype=object)[labels]
    words[::7, 0] = None
    words[5] = None
    found["words"] = of_labels(consensus(words, 4, random_state=0))
    found["nmi"] = metrics.nmi(truth, consensus(labels, 4, random_state=0))
    return found


BASELINES = {
    "KMeansLite": {"n_init": 4},
    "SC": {},
    "SC kmeans": {"assign_labels": "kmeans"},
    "ESCG": {},
    "Nystrom": {"n_landmarks": 60},
    "LSC": {"n_landmarks": 60},
    "LSC random": {"n_landmarks": 60, "selection": "random", "drop_first": False},
    "FastESC": {"n_frequencies": 30},
    "EulerSC": {},
} | {name: {"n_estimators": 6} for name in ("EAC", "WCT", "KCC", "PTGP", "ECC", "SEC", "LWGP")}


def baseline(name, options):
    def run(folder):
        # methods whose labels would depend on eigenvectors of equal eigenvalues get data that is in one piece
        rows, k = (BANANAS, 2) if name.startswith(("LSC", "LWGP")) else (blobs(600)[0], 5)
        model = getattr(baselines, name.split()[0])(k, random_state=0, **options).fit(rows)
        return {"model": type(model).__name__, "labels": of_labels(model.labels_), "n_clusters": int(model.n_clusters_)}

    return run


FUNCTIONS = ("eac", "wct", "kcc", "ptgp", "ecc", "sec", "lwgp")


def baseline_function(name):
    return lambda folder: of_labels(getattr(baselines, name)(base_labels(400)[0], 4, random_state=0))


SETTINGS |= {f"baseline_{name.replace(' ', '_')}": baseline(name, options) for name, options in BASELINES.items()}
SETTINGS |= {f"function_{name}": baseline_function(name) for name in FUNCTIONS}


# AnnData, scores, synthetic sets


@setting
def tl_functions(folder):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(obsm={"X_pca": X}, shape=(len(X), 0))
    paper = {"affinity": "paper", "neighbors": "approx", "n_components": None}
    tl.uspec(adata, 5, n_representatives=150, discretize="kmeans", **paper)
    given = {"n_estimators": 4, "n_representatives": 120, "base_clusters": (8, 14), "consensus": "transfer_cut"}
    tl.usenc(adata, 5, **given, **paper)
    found = {"obs": sorted(adata.obs), "obsm": sorted(adata.obsm), "uns": sorted(adata.uns)}
    for key in ("uspec", "usenc"):
        found[key] = {
            "labels": of_labels(adata.obs[key].cat.codes),
            "categories": adata.obs[key].cat.categories.tolist(),
            "embedding": of_directions(adata.obsm[f"X_{key}"]),
            "facts": sorted(adata.uns[key]),
        }
    return found


@setting
def scores(folder):
    labels, truth = base_labels()
    names = ("nmi", "ari", "majority_accuracy", "hungarian_accuracy")
    return {name: [float(getattr(metrics, name)(truth, column)) for column in labels.T] for name in names}


@setting
def synthetic_sets(folder):
    found = {"names": list(datasets.NAMES), "classes": dict(datasets.N_CLASSES), "rows": dict(datasets.N_ROWS)}
    for name in datasets.SYNTHETIC:
        rows, y = datasets.generate(name, 1000, random_state=7)
        assert np.array_equal(np.concatenate([part for part, _ in datasets.stream(name, 1000, random_state=7)]), rows)
        found[name] = [str(rows.dtype), of_floats(rows), [float(value) for value in rows[:3].ravel()], of_labels(y)]
    return found


# Model files

FILES = {  # name -> model and rows, small
    "golden-uspec": lambda rows: uspec(rows, 3, n_representatives=40),
    "golden-usenc": lambda rows: usenc(rows, 3, n_representatives=40, n_estimators=3, base_clusters=(4, 6)),
}
SMALL, SMALL_NEW = blobs(600, k=3, d=3, seed=2)[0], blobs(300, k=3, d=3, seed=3)[0]
DROPPED = {  # files with the tree of a removed option, which is dropped, and what the option becomes
    "golden-uspec-consensus": {"discretize": "agreement"},
    "golden-usenc-average": {"consensus": "auto"},
}
UPGRADED = {"affinity": "paper", "n_components": None}  # parameters that files of format 1 do not have


def saved(name, record):
    def run(folder):
        save(FILES[name](SMALL), folder / "model.safetensors")
        save(load(folder / "model.safetensors"), folder / "again.safetensors")
        assert (folder / "model.safetensors").read_bytes() == (folder / "again.safetensors").read_bytes()
        return record(folder / "model.safetensors")

    return run


def loaded(name):
    """Load a file of format 1, which stays as it is."""

    def run(folder):
        model = load(DATA / f"{name}.safetensors")
        save(model, folder / "again.safetensors")
        old, new = read_model_file(DATA / f"{name}.safetensors"), read_model_file(folder / "again.safetensors")
        changed = DROPPED.get(name, {})
        has_tree = bool(changed)
        parameters = {**old[0]["parameters"], **UPGRADED, **changed}
        assert (old[0]["version"], new[0]["version"]) == (1, 3)
        assert parameters == {n: new[0]["parameters"][n] for n in parameters}
        assert old[0]["facts"] == {n: new[0]["facts"][n] for n in old[0]["facts"]}
        prefix = "" if isinstance(model, USPEC) else "consensus."
        arrays = set(old[1]) - ({prefix + n for n in ("merges", "heights", "masses")} if has_tree else set())
        assert set(new[1]) == arrays
        assert all(np.array_equal(old[1][n], new[1][n]) for n in arrays)
        units = [1, 100, 0.01] if name == "golden-uspec-consensus" else 1  # it was fitted on a file of scaled rows
        found = {
            "model": type(model).__name__,
            "new": of_labels(model.predict(SMALL_NEW * units)),
            "fitted": of_labels(model.predict(SMALL * units)),
            "embedding": of_directions(model.transform(SMALL_NEW * units)),
        }
        if not has_tree:
            return {**found, "cut": of_labels(model.cut(2, SMALL).labels_)}
        with pytest.raises(ValueError, match=r"no trees.* Fit again with"):
            model.cut(2, SMALL * units)
        return found

    return run


SETTINGS |= {f"save_{name}": saved(name, lambda path: of_arrays(path, 3)) for name in FILES}
SETTINGS |= {f"header_{name}": saved(name, of_header) for name in FILES}
SETTINGS |= {f"load_{name}": loaded(name) for name in (*FILES, *DROPPED)}


@setting
def load_format_1(folder):
    rows = SMALL[:, :2]
    models = {kind: load(DATA / f"model-1-{kind}.safetensors") for kind in ("uspec", "usenc")}
    return {kind: [type(model).__name__, of_labels(model.predict(rows))] for kind, model in models.items()}


# The command line

FACTS = ("rows", "features", "clusters", "sizes", "seed", "mean_confidence", "classes", "nmi", "ari",
         "majority_accuracy", "hungarian_accuracy")  # fmt: skip


PAPER_OPTIONS = "--neighbors approx --affinity paper"  # rows with more than 50 features need --n-components, too
KMEANS = f"{PAPER_OPTIONS} --discretize kmeans"


def command(folder, *texts, code=0):
    """Run a command, words separated by blanks, in the folder; gives what is the same in its JSON in every run."""
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        assert main([*" ".join(texts).split(), "--json"]) == code
    if code:
        return code
    facts = json.loads(out.getvalue())
    if "sizes" in facts:
        facts["sizes"].sort(reverse=True)
    return {name: facts[name] for name in FACTS if name in facts}


def read_labels(path):
    """Read a file of labels; gives its columns, recorded."""
    if path.suffix == ".npy":
        columns = {"label": np.load(path)}
    elif path.suffix == ".npz":
        with np.load(path) as file:
            columns = {name: file[name] for name in file.files}
    else:
        import pyarrow.csv
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
    return {name: of_labels(values) if name == "label" else of_floats(values) for name, values in columns.items()}


@setting
def cli_fit_evaluate(folder):
    write_rows(folder / "rows.npy")
    np.save(folder / "truth.npy", Y)
    fit = command(folder, "fit rows.npy -k 5 -p 100 --seed 1 -j 2 -o labels.csv -q", KMEANS)
    return {
        "fit": fit,
        "labels": read_labels(folder / "labels.csv"),
        "evaluate": command(folder, "evaluate", "labels.csv", "truth.npy"),
        "again": command(folder, "fit rows.npy -k 5 -p 100 --seed 1 -o labels.csv", code=2),
    }


@setting
def cli_scale_model_predict(folder):
    write_rows(folder / "rows.csv")
    write_rows(folder / "new.parquet", NEW)
    words = "fit rows.csv -k 5 -p 100 --columns x0,x2,x1 --scale standard --seed 2 -o labels.parquet"
    fit = command(folder, words, KMEANS, "--model m.safetensors --report page.html")
    assert (folder / "page.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    return {
        "fit": fit,
        "labels": read_labels(folder / "labels.parquet"),
        "model": of_arrays(folder / "m.safetensors", 5),
        "predict": command(folder, "predict m.safetensors new.parquet -o new.npy -j 1"),
        "new": read_labels(folder / "new.npy"),
    }


@setting
def cli_auto(folder):
    write_rows(folder / "rows.zarr")
    words = "fit rows.zarr -k auto -p 100 --selection random --seed 4 -o labels.npz"
    return {"fit": command(folder, words, KMEANS), "labels": read_labels(folder / "labels.npz")}


@setting
def cli_checkpoint(folder):
    write_rows(folder / "rows.npz")
    words = (
        "fit rows.npz --array X -k 5 -p 100 --candidate-factor 4 --neighborhood-factor 3 --regularization 0.01 "
        "--graph-rows 700 --checkpoint kept -o labels.npy"
    )
    fit = command(folder, words, KMEANS, "--seed 5")
    again = command(folder, words, KMEANS, "--force")
    assert again == fit
    return {"fit": fit, "labels": read_labels(folder / "labels.npy")}


@setting
def cli_cosine(folder):
    scipy.sparse.save_npz(folder / "rows.npz", scipy.sparse.csr_matrix(DOCUMENTS))
    words = "fit rows.npz -k 4 -p 120 --metric cosine --selection kmeans --seed 6 -o labels.csv"
    return {"fit": command(folder, words, KMEANS, "--n-components 80"), "labels": read_labels(folder / "labels.csv")}


@setting
def cli_ensemble(folder):
    write_rows(folder / "rows.h5")
    write_rows(folder / "new.csv", NEW)
    words = "fit rows.h5 --array group/X -k 5 --ensemble -m 4 -p 100 --base-clusters 8,14 --seed 7 --checkpoint kept"
    fit = command(folder, words, PAPER_OPTIONS, "--consensus transfer_cut -o labels.parquet --model m.safetensors")
    return {
        "fit": fit,
        "labels": read_labels(folder / "labels.parquet"),
        "predict": command(folder, "predict m.safetensors new.csv -o new.csv.parquet"),
        "new": read_labels(folder / "new.csv.parquet"),
    }


@setting
def cli_generate(folder):
    found = command(folder, "generate tb --seed 9 -o rows.npy")
    rows = np.load(folder / "rows.npy")
    return {"generate": found, "rows": [str(rows.dtype), of_floats(rows), [float(v) for v in rows[:3].ravel()]]}


# The defaults


def of_choice(model):
    """What a fitted USPEC tells, of the candidates too."""
    return {**of_model(model), "discretize": model.discretize_, "candidates": model.candidates_}


def new_uspec(rows=X, k=5, **options):
    model = USPEC(k, **{"random_state": 0, **options}).fit(rows)
    assert (model.predict(rows) == model.labels_).all()
    return model


def fit_new(options):
    def run(folder):
        model = new_uspec(**options)
        return {**of_choice(model), "embedding": of_directions(model.transform(options.get("rows", X)))}

    return run


FACE_ROWS, _ = datasets.generate("sf", 6000, random_state=0)
WIDE = blobs(1200, k=4, d=80, seed=4)[0]  # more than 50 features, so rows are projected
CLASSES = {"rows": GAUSSIANS, "k": datasets.N_CLASSES["cg"]}
FACE = {"rows": FACE_ROWS, "k": datasets.N_CLASSES["sf"]}
TREES = ("agreement", "linked", "border")
NEW_OPTIONS = {
    "blobs": {},
    "circles": {"rows": CIRCLES, "k": 3},
    "gaussians": CLASSES,
    "face": FACE,
    "bananas": {"rows": BANANAS, "k": 2},
    **{name: {**CLASSES, "discretize": name} for name in ("kmeans", *TREES)},
    "n_graphs": {**CLASSES, "n_graphs": 5},
    "paper_affinity": {**FACE, "affinity": "paper"},
    "wide": {"rows": WIDE, "k": 4},
    "wide_not_projected": {"rows": WIDE, "k": 4, "n_components": None},
    "documents": {"rows": DOCUMENTS, "k": 4},
    "documents_cosine": {"rows": DOCUMENTS, "k": 4, "metric": "cosine", "n_components": 6},
    "sparse_graph": {**FACE, "n_representatives": 1800},
    "sparse_graph_kmeans": {**FACE, "n_representatives": 1800, "discretize": "kmeans"},
    "graph_rows": {**FACE, "graph_rows": 3000},
    "auto": {"k": "auto"},
    "many_clusters": {"rows": GAUSSIANS, "k": 80},
}
SETTINGS |= {f"new_uspec_{name}": fit_new(options) for name, options in NEW_OPTIONS.items()}


@setting
def new_uspec_cut(folder):
    model = new_uspec(**FACE)
    found = {str(k): of_choice(model.cut(k)) for k in (2, 5, 13, 30)}
    ways = ("kmeans", *TREES)
    return found | {f"{way}_{k}": of_labels(model.cut(k, discretize=way).labels_) for way in ways for k in (3, 8)}


@setting
def new_uspec_new_rows(folder):
    model = new_uspec(WIDE, 4)
    rows = blobs(300, k=4, d=80, seed=5)[0]
    return {"labels": of_labels(model.predict(rows)), "embedding": of_directions(model.transform(rows))}


@setting
def new_usenc(folder):
    model = USENC(5, n_estimators=6, random_state=0).fit(X)
    assert (model.predict(X) == model.labels_).all()
    return {**of_model(model), "cut": of_labels(model.cut(3).labels_)}


@setting
def new_usenc_wide(folder):
    models = [USENC(4, n_estimators=4, random_state=0).fit(rows) for rows in (WIDE, DOCUMENTS)]
    return [of_model(model) for model in models]


@setting
def new_dask(folder):
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="threads"):
        model = USPEC(5, random_state=0).fit(chunked(X))
        model.labels_ = model.labels_.compute()
        return of_choice(model)


@setting
def new_file(folder):
    rows = open_rows(write_rows(folder / "rows.parquet"), scale="standard")
    return of_choice(new_uspec(rows, checkpoint=folder / "checkpoint"))


@setting
def new_model_file(folder):
    model = new_uspec(WIDE, 4, n_representatives=150)
    save(model, folder / "model.safetensors")
    again = load(folder / "model.safetensors")
    save(again, folder / "again.safetensors")
    assert (folder / "model.safetensors").read_bytes() == (folder / "again.safetensors").read_bytes()
    assert (again.predict(WIDE) == model.labels_).all()
    assert (again.cut(6, WIDE).labels_ == model.cut(6).labels_).all()
    assert again.candidates_ == model.candidates_
    assert list(again.candidates_) == list(model.candidates_)
    header = of_header(folder / "model.safetensors")
    agreements = header["facts"].pop("agreements")
    return {**header, "candidates": agreements, "cut": of_labels(again.cut(6, WIDE).labels_)}


@setting
def new_cli(folder):
    write_rows(folder / "rows.npy", CIRCLES)
    fit = command(folder, "fit rows.npy -k 3 --seed 1 -o labels.csv -q --model m.safetensors")
    return {"fit": fit, "labels": read_labels(folder / "labels.csv"), "model": of_header(folder / "m.safetensors")}


@setting
def new_tl(folder):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(obsm={"X_pca": X}, shape=(len(X), 0))
    tl.uspec(adata, 5)
    tl.usenc(adata, 5, n_estimators=4)
    return {key: [of_labels(adata.obs[key].cat.codes), adata.uns[key]["params"]] for key in ("uspec", "usenc")}


# Tests


@pytest.mark.parametrize("name", SETTINGS)
def test_golden(name, tmp_path):
    found = json.loads(json.dumps(SETTINGS[name](tmp_path)))
    golden = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if RECORD:
        assert "PYTEST_XDIST_WORKER" not in os.environ, "record without -n"
        kept = {name: golden[name] for name in golden if name in SETTINGS} | {name: found}
        text = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept[name], sort_keys=True)}" for name in sorted(kept))
        GOLDEN.write_text("{\n" + text + "\n}\n", encoding="utf-8")
        return
    different = compare(found, golden[name])
    assert not different, "\n".join([f"{name} (ultraspec {ultraspec.__version__}) gives:", *different])


def test_golden_has_no_other_settings():
    assert RECORD or set(json.loads(GOLDEN.read_text(encoding="utf-8"))) == set(SETTINGS)


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit("usage: python tests/golden/test_golden.py --record")
    os.environ["ULTRASPEC_GOLDEN"] = "record"
    sys.exit(pytest.main([__file__, "-p", "no:xdist", "-q"]))
