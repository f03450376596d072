"""Cut files: the clusters that someone chose in a report, as JSON, and the model that they make of another one."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec._estimator import RowEstimator, fitted, with_groups

FORMAT = "ultraspec cut"
VERSION = 1


def model_key(model: RowEstimator) -> str:
    """Return a string that recognises the representatives of a fitted model, which a cut divides."""
    representatives = np.ascontiguousarray(fitted(model).members[0].index.representatives)
    return hashlib.blake2b(representatives.tobytes(), digest_size=8).hexdigest()


def apply_cut(model: RowEstimator, path: str | os.PathLike[str]) -> Any:
    """Return a model with the clusters of a cut file, which a report of the same model wrote.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    path : str or path
        File that the report downloads as "cut.json".

    Returns
    -------
    USPEC or USENC
        A fitted model that labels rows as the report does. It has no `labels_`: call `predict`.
    """
    cut = read_cut(path)
    if cut["model"] != model_key(model):
        raise ValueError(f"{path} is a cut of another model. Download it from a report of this model.")
    groups = np.asarray(cut["groups"], dtype=np.int64)
    p = len(fitted(model).members[0].index.representatives)
    k = int(cut["n_clusters"])
    if groups.shape != (p,) or groups.min() < 0 or groups.max() >= k:
        raise ValueError(
            f"{path} is damaged: it must have a cluster from 0 to {k - 1} for each of {p} representatives."
        )
    return with_groups(model, groups.astype(np.int32), k)


def read_cut(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a cut file; raise ValueError if it is none."""
    try:
        cut = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError(f"{path} is no cut file: it is not JSON.") from None
    if not isinstance(cut, dict) or cut.get("format") != FORMAT:
        raise ValueError(f"{path} is no cut file. Download one from a report, under 'How many clusters?'.")
    if cut.get("version") != VERSION:
        raise ValueError(f"{path} was written by a newer version of ultraspec.")
    is_list = isinstance(cut.get("groups"), list) and all(type(each) is int for each in cut["groups"])
    if not is_list or not cut["groups"] or type(cut.get("n_clusters")) is not int or cut["n_clusters"] < 1:
        raise ValueError(f"{path} is damaged: groups must be a list of integers.")
    return cut
