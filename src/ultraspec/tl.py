"""Clustering of annotated data as scanpy users know it: takes an AnnData, writes labels and embedding into it.

Nothing of scanpy or anndata is imported: what has an AnnData's attributes is treated as one.
"""

from __future__ import annotations

import numbers
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._estimator import fitted
from ultraspec.engines.threads import ThreadEngine
from ultraspec.usenc import USENC
from ultraspec.uspec import USPEC

__all__ = ["usenc", "uspec"]

WHOLE = ("X", None)  # values of `use_rep` that mean adata.X
OWN = ("n_clusters", "random_state")  # parameters of the estimators that the functions here name themselves
UNRECORDED = ("checkpoint", "n_jobs", "verbose")  # they change no label


def uspec(
    adata: Any,
    n_clusters: int | Literal["auto"],
    *,
    use_rep: str | None = "X_pca",
    key_added: str = "uspec",
    random_state: Any = 0,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Cluster the observations of an AnnData by U-SPEC.

    Needs no neighbour graph: only a representation, such as ``scanpy.pp.pca`` gives.

    Parameters
    ----------
    adata : AnnData
        Annotated data. A view becomes an object of its own, as always when it is written to.
    n_clusters : int or "auto"
        Number of clusters. "auto" takes the number at the largest eigengap, which sees well separated clusters only.
    use_rep : str or None, default="X_pca"
        Key of ``adata.obsm``. "X" and None mean ``adata.X``; a sparse one stays sparse.
    key_added : str, default="uspec"
        Name of what is written, see below. What has that name already is replaced.
    random_state : int, RandomState, Generator or None, default=0
        The same number gives the same clusters.
    copy : bool, default=False
        Return a new AnnData instead of writing into `adata`.
    **options
        Further parameters of `ultraspec.USPEC`, such as ``n_representatives=2000`` or ``metric="cosine"``.

    Returns
    -------
    None or AnnData
        The copy, if one was asked for. Written are:

        ``.obs[key_added]``
            Cluster of each observation, a categorical of "0", "1", ...
        ``.obsm["X_" + key_added]``
            Spectral embedding, float32: rows of unit length, in which the clusters are compact.
        ``.uns[key_added]``
            ``"params"``, with which the call can be repeated; ``"n_clusters"``, as found; ``"eigenvalues"``, whose
            largest gap hints at the number of clusters; ``"sigma"``, the width of the affinity.

        Colours in ``.uns[key_added + "_colors"]`` are dropped where they were of another number of clusters.

    See Also
    --------
    usenc : The ensemble: slower, usually better, with a confidence for each observation.
    ultraspec.USPEC : The estimator, which also labels new observations.

    Notes
    -----
    A cluster with fewer observations than a representative stands for (observations / 1000 by default) cannot be seen:
    raise `n_representatives` to find rare types in large data.

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
    return _cluster(USPEC, adata, n_clusters, use_rep, key_added, random_state, copy, options)


def usenc(
    adata: Any,
    n_clusters: int | Literal["auto"],
    *,
    use_rep: str | None = "X_pca",
    key_added: str = "usenc",
    random_state: Any = 0,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Cluster the observations of an AnnData by U-SENC, an ensemble of U-SPEC clusterings.

    About twenty times the time of `uspec`; usually better, and it tells where the members of the ensemble disagree.

    Parameters
    ----------
    adata : AnnData
        Annotated data. A view becomes an object of its own, as always when it is written to.
    n_clusters : int or "auto"
        Number of clusters. "auto" takes the number at the largest eigengap of the consensus.
    use_rep : str or None, default="X_pca"
        Key of ``adata.obsm``. "X" and None mean ``adata.X``; a sparse one stays sparse.
    key_added : str, default="usenc"
        Name of what is written, see below. What has that name already is replaced.
    random_state : int, RandomState, Generator or None, default=0
        The same number gives the same clusters.
    copy : bool, default=False
        Return a new AnnData instead of writing into `adata`.
    **options
        Further parameters of `ultraspec.USENC`, such as ``n_estimators=50`` or ``checkpoint="folder"``.

    Returns
    -------
    None or AnnData
        The copy, if one was asked for. Written are:

        ``.obs[key_added]``
            Cluster of each observation, a categorical of "0", "1", ...
        ``.obs[key_added + "_confidence"]``
            Share of the ensemble that backs it, float32: low at the borders of clusters.
        ``.obsm["X_" + key_added]``
            Embedding by the consensus, float32: rows of unit length, in which the clusters are compact.
        ``.uns[key_added]``
            ``"params"``, with which the call can be repeated; ``"n_clusters"``, as found; ``"eigenvalues"``, whose
            largest gap hints at the number of clusters.

        Colours in ``.uns[key_added + "_colors"]`` are dropped where they were of another number of clusters.

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
    return _cluster(USENC, adata, n_clusters, use_rep, key_added, random_state, copy, options)


def _cluster(
    kind: type[USPEC | USENC],
    adata: Any,
    n_clusters: int | Literal["auto"],
    use_rep: str | None,
    key_added: str,
    random_state: Any,
    copy: bool,
    options: dict[str, Any],
) -> Any:
    """Everything is checked and found before anything is written."""
    _check_target(adata, key_added, copy)
    _check_options(kind, options)
    rep = _read_representation(adata, use_rep)
    if f"X_{key_added}" == use_rep:
        raise ValueError(
            f"key_added={key_added!r} would replace adata.obsm[{use_rep!r}], which use_rep reads. Choose another."
        )
    given = {name: _as_parameter(value) for name, value in options.items()}
    model = kind(n_clusters, random_state=random_state, **given)
    _fit(model, rep, use_rep)
    params = {"use_rep": "X" if use_rep in WHOLE else use_rep, **_plain(model.get_params(deep=False))}
    target = adata.copy() if copy else adata
    _write(target, key_added, model, params)
    return target if copy else None


def _check_target(adata: Any, key_added: str, copy: bool) -> None:
    """Raise unless results can be written, which should not come out after a long fit."""
    if not all(hasattr(adata, name) for name in ("X", "obs", "obsm", "uns", "n_obs")):
        raise TypeError(
            f"adata must be an AnnData, got {type(adata).__name__}. "
            "For arrays and frames call ultraspec.USPEC or ultraspec.USENC."
        )
    if not isinstance(key_added, str) or not key_added:
        raise TypeError(f"key_added must be a string that is not empty, got {key_added!r}.")
    if getattr(adata, "isbacked", False) and (copy or adata.is_view):
        what = "A view of an AnnData in backed mode" if adata.is_view else "With copy=True, an AnnData in backed mode"
        raise ValueError(f"{what} would have to be copied into a new file. Call adata = adata.to_memory() first.")


def _check_options(kind: type[USPEC | USENC], options: dict[str, Any]) -> None:
    known = [name for name in kind().get_params(deep=False) if name not in OWN]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(
            f"{kind.__name__.lower()}() got an unknown option {unknown[0]!r}. Known beside the named ones are "
            f"{', '.join(known)}."
        )


def _read_representation(adata: Any, use_rep: str | None) -> Any:
    """What is to be clustered."""
    if use_rep is not None and not isinstance(use_rep, str):
        raise TypeError(f"use_rep must be a key of adata.obsm, 'X' or None, got {type(use_rep).__name__}.")
    if use_rep in WHOLE:
        return _read_X(adata)
    if use_rep not in adata.obsm:
        keys = ["X", *adata.obsm.keys()]
        advice = "Run scanpy.pp.pca(adata) first, or pass" if use_rep == "X_pca" else "Pass"
        raise ValueError(f"adata.obsm has no {use_rep!r}. {advice} use_rep=..., one of {keys}.")
    return _unwrap(adata.obsm[use_rep])


def _read_X(adata: Any) -> Any:
    if getattr(adata, "isbacked", False):
        raise ValueError(
            "adata.X is in a file (backed mode). Call adata = adata.to_memory() first, or pass use_rep=..., one of "
            f"{list(adata.obsm.keys())}, which are in memory."
        )
    X = adata.X
    if X is None:
        raise ValueError(f"adata.X is None. Pass use_rep=..., one of {list(adata.obsm.keys())}.")
    return _unwrap(X)


def _unwrap(rows: Any) -> Any:
    """Arrays and matrices without the wrapping that views of an AnnData put around theirs."""
    if isinstance(rows, np.ndarray) and not isinstance(rows, np.memmap):
        return rows.view(np.ndarray)
    if scipy.sparse.issparse(rows) and rows.format == "csr":
        kind = scipy.sparse.csr_array if isinstance(rows, scipy.sparse.sparray) else scipy.sparse.csr_matrix
        return kind((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    return rows


def _fit(model: USPEC | USENC, rep: Any, use_rep: str | None) -> None:
    try:
        model.fit(rep)
    except (TypeError, ValueError) as error:
        error.add_note("X is adata.X here." if use_rep in WHOLE else f"X is adata.obsm[{use_rep!r}] here.")
        raise


def _embedding(model: USPEC | USENC) -> npt.NDArray[np.float32]:
    """What `transform` gives for the rows that were fitted, from edges and microclusters that the fit has found.

    A third of the time of a fit is saved by not finding them again.
    """
    with ThreadEngine(model.n_jobs) as engine:
        return fitted(model).embed_fitted_rows(engine)


def _write(adata: Any, key: str, model: USPEC | USENC, params: dict[str, Any]) -> None:
    import pandas

    embedding = _embedding(model)
    categories = [str(number) for number in range(model.n_clusters_)]
    facts = {"params": params, "n_clusters": int(model.n_clusters_), "eigenvalues": np.array(model.eigenvalues_)}
    adata.obs[key] = pandas.Categorical.from_codes(model.labels_, categories)
    if isinstance(model, USENC):
        adata.obs[f"{key}_confidence"] = model.confidence_
    else:
        facts["sigma"] = float(model.sigma_)
    adata.obsm[f"X_{key}"] = embedding
    adata.uns[key] = facts
    colors = f"{key}_colors"
    if colors in adata.uns and len(adata.uns[colors]) != len(categories):
        del adata.uns[colors]


def _as_parameter(value: Any) -> Any:
    """A value as the estimators take it: files give sequences back as arrays."""
    return tuple(value.tolist()) if isinstance(value, np.ndarray) and value.ndim == 1 else value


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that shape the result, as types that every file format for AnnData can hold.

    A `random_state` that is None or a generator is left out: it cannot be written, and would not give the same again.
    """
    return {
        name: _as_plain(value)
        for name, value in parameters.items()
        if name not in UNRECORDED and isinstance(value, (str, numbers.Real, tuple, list))
    }


def _as_plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_as_plain(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)
