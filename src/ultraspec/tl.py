"""Clustering of AnnData, in the style of scanpy: labels and embedding are written into the AnnData.

Neither scanpy nor anndata is imported: any object with the attributes of an AnnData is treated as one.
"""

from __future__ import annotations

import contextlib
import numbers
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ultraspec._estimator import fitted
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, SelectedRows, is_lazy, open_anndata, spread, spread_block, without_view
from ultraspec.usenc import USENC
from ultraspec.uspec import USPEC

__all__ = ["usenc", "uspec", "write_obs"]

MEANS_X = ("X", None)  # values of `use_rep` that mean adata.X
NAMED_PARAMETERS = ("n_clusters", "random_state")  # parameters of the estimators that are no `options` here
WITHOUT_EFFECT = ("checkpoint", "n_jobs", "verbose")  # on the labels


class Results(NamedTuple):
    """Cluster of each row, the confidence in it if there is one, and the embedding."""

    labels: npt.NDArray[np.int32]
    confidence: npt.NDArray[np.float32] | None
    embedding: npt.NDArray[np.float32]


class Part(NamedTuple):
    """Observations of some categories of a column of ``obs``."""

    column: str
    categories: list[str]
    chosen: npt.NDArray[np.bool_]  #: whether each observation has one of the categories

    def join(self, whole: Any, labels: npt.NDArray[np.int32], names: list[str]) -> Any:
        """Return the column with the clusters of the part instead of its categories, in their place."""
        whole = whole.astype("category")
        prefix = "-".join(self.categories)
        new = [f"{prefix},{name}" for name in names]
        old = [str(category) for category in whole.cat.categories]
        place = min(old.index(category) for category in self.categories)
        rest = [name for name in old if name not in self.categories]
        before = sum(name not in self.categories for name in old[:place])
        categories = [*rest[:before], *new, *rest[before:]]
        number = {name: code for code, name in enumerate(categories)}
        of_old = np.array([*(number.get(name, -1) for name in old), -1])  # the last for missing values
        codes = of_old[whole.cat.codes.to_numpy()]
        of_new = np.array([*(number[name] for name in new), -1])
        codes[self.chosen] = of_new[labels]
        return _to_categorical(codes, categories)


def uspec(
    adata: Any,
    n_clusters: int | Literal["auto"],
    *,
    restrict_to: tuple[str, Any] | None = None,
    use_rep: str | None = "X_pca",
    key_added: str = "uspec",
    random_state: Any = 0,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Cluster the observations of an AnnData by U-SPEC.

    Needs no neighbour graph, only a representation such as that of ``scanpy.pp.pca``.

    Parameters
    ----------
    adata : AnnData
        Annotated data. A view is copied before it is written to, as always in AnnData.
    n_clusters : int or "auto"
        Number of clusters. "auto" takes the number at which graphs of disjoint halves of the rows agree most; one
        cluster means that no structure was found.
    restrict_to : tuple of str and list of str, optional
        Column of ``adata.obs`` and some of its categories, as in ``("leiden", ["3"])``: only their observations are
        clustered, into "3,0", "3,1", ... The others keep their categories. The results have the key "uspec_R" then,
        unless `key_added` is another.
    use_rep : str or None, default="X_pca"
        Key of ``adata.obsm``. "X" and None mean ``adata.X``, which may be sparse, a Dask array, or in a file (backed
        mode).
    key_added : str, default="uspec"
        Key of the results, see below. Existing results with this key are replaced.
    random_state : int, RandomState, Generator or None, default=0
        Seed. Equal integers give equal clusters.
    copy : bool, default=False
        Return a new AnnData instead of writing into `adata`.
    **options
        Further parameters of `ultraspec.USPEC`, such as ``n_representatives=2000`` or ``metric="cosine"``.

    Returns
    -------
    None or AnnData
        The copy if `copy` is True, else None. These results are written:

        ``.obs[key_added]``
            Cluster of each observation, categorical: "0", the largest, "1", ...
        ``.obs[key_added + "_confidence"]``
            How far other graphs keep the observation with its cluster, float32. Low at the borders of clusters, and for
            clusters that other graphs do not find. Not written if `discretize` or `n_graphs` leave nothing to compare.
        ``.obsm["X_" + key_added]``
            Spectral embedding, float32, in which clusters are compact. Rows have unit length.
        ``.uns[key_added]``
            ``"params"``, the parameters that repeat the call; ``"n_clusters"``, the number of clusters;
            ``"eigenvalues"`` of the graph; ``"sigma"``, the width of the affinity; with n_clusters="auto",
            ``"layers"``, the numbers of clusters that the data supports and their strengths, the best first.

        ``.uns[key_added + "_colors"]`` is deleted if it has colours for another number of clusters. With `restrict_to`,
        confidence and embedding of the other observations are NaN, and ``"n_clusters"`` counts the new clusters.

    See Also
    --------
    usenc : The ensemble method: slower.
    ultraspec.USPEC : The estimator, which also labels new observations.

    Notes
    -----
    Clusters with fewer observations than one of the representatives stands for (by default, a thousandth of all) cannot
    be recognised. Raise `n_representatives` to find rare types in large data.

    Examples
    --------
    >>> import anndata
    >>> import numpy as np
    >>> from ultraspec import datasets, tl
    >>> X, y = datasets.generate("cc", 5_000, random_state=0)  # three concentric circles
    >>> adata = anndata.AnnData(obsm={"X_pca": X}, shape=(5_000, 0))
    >>> tl.uspec(adata, 3)
    >>> adata.obs["uspec"].cat.categories.tolist()
    ['0', '1', '2']
    >>> adata.obsm["X_uspec"].shape
    (5000, 3)
    >>> tl.uspec(adata, "auto", key_added="auto", n_representatives=500)
    >>> int(adata.uns["auto"]["n_clusters"]), adata.uns["auto"]["params"]["n_representatives"]
    (3, 500)
    """
    return _cluster(USPEC, adata, n_clusters, restrict_to, use_rep, key_added, random_state, copy, options)


def usenc(
    adata: Any,
    n_clusters: int | Literal["auto"],
    *,
    restrict_to: tuple[str, Any] | None = None,
    use_rep: str | None = "X_pca",
    key_added: str = "usenc",
    random_state: Any = 0,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Cluster the observations of an AnnData by U-SENC, an ensemble of U-SPEC clusterings.

    Takes several times as long as `uspec`. The confidence is low where other members do not find the same clusters.

    Parameters
    ----------
    adata : AnnData
        Annotated data. A view is copied before it is written to, as always in AnnData.
    n_clusters : int or "auto"
        Number of clusters. "auto" takes the number at which graphs of disjoint halves of the rows agree most; one
        cluster means that no structure was found.
    restrict_to : tuple of str and list of str, optional
        Column of ``adata.obs`` and some of its categories, as in ``("leiden", ["3"])``: only their observations are
        clustered, into "3,0", "3,1", ... The others keep their categories. The results have the key "usenc_R" then,
        unless `key_added` is another.
    use_rep : str or None, default="X_pca"
        Key of ``adata.obsm``. "X" and None mean ``adata.X``, which may be sparse, a Dask array, or in a file (backed
        mode).
    key_added : str, default="usenc"
        Key of the results, see below. Existing results with this key are replaced.
    random_state : int, RandomState, Generator or None, default=0
        Seed. Equal integers give equal clusters.
    copy : bool, default=False
        Return a new AnnData instead of writing into `adata`.
    **options
        Further parameters of `ultraspec.USENC`, such as ``n_estimators=50`` or ``checkpoint="folder"``.

    Returns
    -------
    None or AnnData
        The copy if `copy` is True, else None. These results are written:

        ``.obs[key_added]``
            Cluster of each observation, categorical: "0", the largest, "1", ...
        ``.obs[key_added + "_confidence"]``
            How far other members keep the observation with its cluster, float32. Low at the borders of clusters, and
            for clusters that other members do not find.
        ``.obsm["X_" + key_added]``
            Embedding of the consensus, float32, in which clusters are compact. Rows have unit length.
        ``.uns[key_added]``
            ``"params"``, the parameters that repeat the call; ``"n_clusters"``, the number of clusters;
            ``"eigenvalues"`` of the graph; with n_clusters="auto", ``"layers"``, the numbers of clusters that the data
            supports and their strengths, the best first.

        ``.uns[key_added + "_colors"]`` is deleted if it has colours for another number of clusters. With `restrict_to`,
        confidence and embedding of the other observations are NaN, and ``"n_clusters"`` counts the new clusters.

    See Also
    --------
    uspec : A single clustering.
    ultraspec.USENC : The estimator, which also labels new observations.

    Examples
    --------
    >>> import anndata
    >>> from ultraspec import datasets, tl
    >>> X, y = datasets.generate("tb", 2_000, random_state=0)  # two bananas
    >>> adata = anndata.AnnData(X)
    >>> tl.usenc(adata, 2, use_rep="X", n_estimators=10)
    >>> sorted(adata.obs.columns)
    ['usenc', 'usenc_confidence']
    >>> sure = adata[adata.obs["usenc_confidence"] == 1.0]
    >>> sure.n_obs < adata.n_obs
    True
    """
    return _cluster(USENC, adata, n_clusters, restrict_to, use_rep, key_added, random_state, copy, options)


def write_obs(
    path: str | os.PathLike[str],
    labels: Any,
    key_added: str = "uspec",
    *,
    confidence: Any = None,
    overwrite: bool = False,
) -> None:
    """Write labels into the ``obs`` of an AnnData in a file, whose other parts are not read.

    An .h5ad file is copied, and replaced when the copy is complete. A Zarr folder is changed in place.

    Parameters
    ----------
    path : str or path-like
        The .h5ad file or the Zarr folder.
    labels : array-like of int of shape (n_obs,)
        Cluster of each observation; -1 for none.
    key_added : str, default="uspec"
        Name of the column of ``obs``, which is categorical: "0", "1", ...
    confidence : array-like of shape (n_obs,), optional
        Confidence in each label, written as a column ``key_added + "_confidence"``.
    overwrite : bool, default=False
        Replace columns of these names.

    Examples
    --------
    >>> import tempfile
    >>> import anndata
    >>> import numpy as np
    >>> from ultraspec import USPEC, datasets, open_rows, tl
    >>> X, _ = datasets.generate("cc", 2_000, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     anndata.AnnData(X).write_h5ad(f"{folder}/cells.h5ad")
    ...     with open_rows(f"{folder}/cells.h5ad", array="X") as rows:
    ...         labels = USPEC(3, random_state=0).fit_predict(rows)
    ...     tl.write_obs(f"{folder}/cells.h5ad", labels)
    ...     anndata.read_h5ad(f"{folder}/cells.h5ad").obs["uspec"].cat.categories.tolist()
    ['0', '1', '2']
    """
    import pandas

    file = Path(path).expanduser()
    check_obs_target(file, key_added, overwrite=overwrite)
    codes = np.asarray(labels)
    categories = [str(number) for number in range(int(codes.max(initial=0)) + 1)]
    columns: dict[str, Any] = {key_added: pandas.Categorical.from_codes(codes, categories)}
    if confidence is not None:
        columns[f"{key_added}_confidence"] = np.asarray(confidence)
    if file.is_dir():
        import zarr

        consolidated = zarr.open_group(file, mode="r").metadata.consolidated_metadata is not None
        _add_to_obs(zarr.open_group(file, mode="r+", use_consolidated=False), columns)
        if consolidated:
            zarr.consolidate_metadata(file)
        return
    import h5py

    copy = file.with_name(f".ultraspec-{secrets.token_hex(6)}.tmp")
    try:
        shutil.copy2(file, copy)
        with h5py.File(copy, "r+") as root:
            _add_to_obs(root, columns)
        with open(copy, "rb") as done:
            os.fsync(done.fileno())
        os.replace(copy, file)
    finally:
        copy.unlink(missing_ok=True)


def check_obs_target(path: Path, key: str, *, overwrite: bool) -> None:
    """Raise unless labels can be written into the ``obs`` of the AnnData at a path."""
    if not key or key.startswith("_") or "/" in key:
        raise ValueError(f"The name of a column of obs must not be empty, begin with '_' or have a '/', got {key!r}.")
    if path.suffix.lower() != ".h5ad" and not (path.is_dir() and path.suffix.lower() == ".zarr"):
        raise ValueError(f"{path} is no AnnData: labels can be written into the obs of .h5ad files and .zarr folders.")
    with _open_root(path) as root:
        if "obs" not in root:
            raise ValueError(f"{path} is no AnnData: it has no obs.")
        if key in root["obs"] and not overwrite:
            raise ValueError(f"{path} has a column {key!r} in obs already. Replace it with overwrite=True (--force).")
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path} cannot be written to: permission denied.")


def _open_root(path: Path) -> Any:
    if path.is_dir():
        import zarr

        return contextlib.nullcontext(zarr.open_group(path, mode="r"))
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path} cannot be read as an .h5ad file: {error}") from error


def _add_to_obs(root: Any, columns: dict[str, Any]) -> None:
    """Write columns to the obs of an open AnnData file."""
    from anndata.io import write_elem

    obs = root["obs"]
    n_obs = obs[obs.attrs["_index"]].shape[0]
    for name, values in columns.items():
        if len(values) != n_obs:
            raise ValueError(f"There are {len(values):,} labels, but the AnnData has {n_obs:,} observations.")
        write_elem(obs, name, values)
    order = [str(name) for name in obs.attrs["column-order"]]
    obs.attrs["column-order"] = [*order, *(name for name in columns if name not in order)]


def _cluster(
    kind: type[USPEC | USENC],
    adata: Any,
    n_clusters: int | Literal["auto"],
    restrict_to: Any,
    use_rep: str | None,
    key_added: str,
    random_state: Any,
    copy: bool,
    options: dict[str, Any],
) -> Any:
    """Cluster an AnnData; nothing is written before all is checked and computed."""
    _check_target(adata, key_added, copy)
    _check_options(kind, options)
    part = None if restrict_to is None else _find_part(adata, restrict_to)
    if part is not None and key_added == kind.__name__.lower():
        key_added += "_R"  # as in scanpy: the whole is not replaced
    X = _read_representation(adata, use_rep)
    if f"X_{key_added}" == use_rep:
        raise ValueError(
            f"key_added={key_added!r} would replace adata.obsm[{use_rep!r}], which use_rep reads. Choose another name."
        )
    # AnnData files return sequences as arrays, and `options` may come from one
    given: dict[str, Any] = {
        name: tuple(value.tolist()) if isinstance(value, np.ndarray) and value.ndim == 1 else value
        for name, value in options.items()
    }
    model = kind(n_clusters, random_state=random_state, **given)
    if part is not None:
        X = _select(X, part.chosen)
    try:
        model.fit(X)
    except (TypeError, ValueError) as error:
        error.add_note("X is adata.X here." if use_rep in MEANS_X else f"X is adata.obsm[{use_rep!r}] here.")
        raise
    params = {"use_rep": "X" if use_rep in MEANS_X else use_rep, **_params_to_store(model)}
    if part is not None:
        params["restrict_to"] = {part.column: part.categories}
    found = _read_results(model, X)
    target = adata.copy() if copy else adata
    _write(target, key_added, model, found, part, params)
    return target if copy else None


def _check_target(adata: Any, key_added: str, copy: bool) -> None:
    """Raise TypeError or ValueError unless results can be written: before a long fit, not after it."""
    if not all(hasattr(adata, name) for name in ("X", "obs", "obsm", "uns", "n_obs")):
        raise TypeError(
            f"adata must be an AnnData, got {type(adata).__name__}. "
            "For arrays and data frames, use ultraspec.USPEC or ultraspec.USENC."
        )
    if not isinstance(key_added, str) or not key_added:
        raise TypeError(f"key_added must be a non-empty string, got {key_added!r}.")
    if getattr(adata, "isbacked", False) and (copy or adata.is_view):
        what = "A view of an AnnData in backed mode" if adata.is_view else "With copy=True, an AnnData in backed mode"
        raise ValueError(f"{what} would have to be copied into a new file. Call adata = adata.to_memory() first.")


def _check_options(kind: type[USPEC | USENC], options: dict[str, Any]) -> None:
    known = [name for name in kind().get_params(deep=False) if name not in NAMED_PARAMETERS]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(
            f"{kind.__name__.lower()}() got an unknown option {unknown[0]!r}. Known options are {', '.join(known)}."
        )


def _find_part(adata: Any, restrict_to: Any) -> Part:
    """Return the observations that `restrict_to` names; raise ValueError or TypeError if there are none."""
    if isinstance(restrict_to, Mapping) and len(restrict_to) == 1:  # as it is stored
        restrict_to = next(iter(restrict_to.items()))
    is_pair = isinstance(restrict_to, (tuple, list)) and len(restrict_to) == 2 and isinstance(restrict_to[0], str)
    if not is_pair or isinstance(restrict_to[1], str) or not np.iterable(restrict_to[1]):
        raise TypeError(
            f"restrict_to must be a column and a list of categories, as ('leiden', ['3']), got {restrict_to!r}."
        )
    column, wanted = restrict_to[0], [str(category) for category in restrict_to[1]]
    if column not in adata.obs:
        raise ValueError(f"restrict_to: adata.obs has no {column!r}. It has {', '.join(map(repr, adata.obs))}.")
    if not wanted:
        raise ValueError("restrict_to needs at least one category.")
    values = _read_column(adata, column)
    known = values.cat.categories if hasattr(values, "cat") else values.dropna().unique()
    names = [str(category) for category in known]
    unknown = [category for category in wanted if category not in names]
    if unknown:
        shown = ", ".join([*map(repr, names[:10]), *(["..."] if len(names) > 10 else [])])
        raise ValueError(f"restrict_to: adata.obs[{column!r}] has no category {unknown[0]!r}. It has {shown}.")
    prefix = "-".join(wanted) + ","
    taken = [name for name in names if name.startswith(prefix) and name[len(prefix) :].isdigit()]
    if taken:
        raise ValueError(f"restrict_to: adata.obs[{column!r}] has a category {taken[0]!r} already. Rename it first.")
    return Part(column, wanted, values.astype(str).isin(wanted).to_numpy())


def _read_column(adata: Any, name: str) -> Any:
    """Return a column of obs as a series of pandas; that of a file that is read lazily is an array of xarray."""
    column = adata.obs[name]
    return column.to_pandas() if hasattr(column, "to_pandas") else column


def _read_representation(adata: Any, use_rep: str | None) -> Any:
    """Return the rows to cluster."""
    if use_rep is not None and not isinstance(use_rep, str):
        raise TypeError(f"use_rep must be a key of adata.obsm, 'X' or None, got {type(use_rep).__name__}.")
    if use_rep in MEANS_X:
        return _read_X(adata)
    if use_rep not in adata.obsm:
        keys = ["X", *adata.obsm.keys()]
        advice = "Run scanpy.pp.pca(adata) first, or pass" if use_rep == "X_pca" else "Pass"
        raise ValueError(f"adata.obsm has no {use_rep!r}. {advice} use_rep=..., one of {keys}.")
    return without_view(adata.obsm[use_rep])


def _read_X(adata: Any) -> Any:
    if getattr(adata, "isbacked", False):
        return open_anndata(adata, None, "X")
    X = adata.X
    if X is None:
        raise ValueError(f"adata.X is None. Pass use_rep=..., one of {list(adata.obsm.keys())}.")
    return without_view(X)


def _select(X: Any, chosen: npt.NDArray[np.bool_]) -> Any:
    """Return some of the rows."""
    if isinstance(X, Rows):
        return SelectedRows(X, np.flatnonzero(chosen))
    return X.loc[chosen] if hasattr(X, "loc") else X[np.flatnonzero(chosen)]


def _read_results(model: USPEC | USENC, X: Any) -> Results:
    """Return what a model has found for the rows that it was fitted on, in memory."""
    confidence = getattr(model, "confidence_", None)
    if is_lazy(X):
        import dask

        return Results(*dask.compute(model.labels_, confidence, model.transform(X)))
    with ThreadEngine(model.n_jobs) as engine:
        # what `transform` returns for these rows, in less time: their edges or microclusters are known
        embedding = spread(fitted(model).embed_fitted_rows(engine), fitted(model).missing)
    return Results(model.labels_, confidence, embedding)


def _write(
    adata: Any, key: str, model: USPEC | USENC, found: Results, part: Part | None, params: dict[str, Any]
) -> None:
    labels, confidence, embedding = found
    categories = [str(number) for number in range(model.n_clusters_)]
    clusters = _to_categorical(labels, categories)
    if part is not None:
        clusters = part.join(_read_column(adata, part.column), labels, categories)
        confidence = None if confidence is None else spread_block(confidence, part.chosen)
        embedding = spread_block(embedding, part.chosen)
    facts = {"params": params, "n_clusters": int(model.n_clusters_), "eigenvalues": np.array(model.eigenvalues_)}
    adata.obs[key] = clusters
    if confidence is not None:
        adata.obs[f"{key}_confidence"] = confidence
    elif f"{key}_confidence" in adata.obs:
        del adata.obs[f"{key}_confidence"]  # of a former call
    if isinstance(model, USPEC):
        facts["sigma"] = float(model.sigma_)
    if model.layers_ is not None:
        facts["layers"] = np.array(model.layers_, dtype=np.float64)
    adata.obsm[f"X_{key}"] = embedding
    adata.uns[key] = facts
    colors = f"{key}_colors"
    if colors in adata.uns and len(adata.uns[colors]) != len(clusters.categories):
        del adata.uns[colors]


def _to_categorical(codes: npt.NDArray[Any], categories: list[str]) -> Any:
    import pandas

    return pandas.Categorical.from_codes(codes, categories)


def _params_to_store(model: USPEC | USENC) -> dict[str, Any]:
    """Return the parameters that determine the result, as types that every file format of AnnData can store.

    A `random_state` that is None or a generator is left out: it cannot be stored, and would not repeat the result.
    """
    return {
        name: _as_builtin(value)
        for name, value in model.get_params(deep=False).items()
        if name not in WITHOUT_EFFECT and isinstance(value, (str, numbers.Real, tuple, list))
    }


def _as_builtin(value: Any) -> Any:
    """Return numbers and sequences, of NumPy too, as int, float, str and list."""
    if isinstance(value, (tuple, list)):
        return [_as_builtin(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)
