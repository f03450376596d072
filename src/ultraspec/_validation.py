"""Checks of parameters and input, with messages that say what to do."""

from __future__ import annotations

import numbers
import os
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from ultraspec.rows import ArrayRows, FileRows, Rows, SparseRows, is_lazy
from ultraspec.rows._file import listed
from ultraspec.scaling import ScaledRows


def check_integer(name: str, value: Any, *, least: int, most: int | None = None, other: str = "") -> None:
    """Raise unless `value` is a whole number from `least` to `most`; `other` names what else would be allowed."""
    wanted = f"a whole number >= {least}" + (f" and <= {most:,}" if most is not None else "") + other
    if not isinstance(value, numbers.Integral) or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be {wanted}, got {value!r} ({type(value).__name__}).")
    if not least <= int(value) <= (int(value) if most is None else most):
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def check_clusters(n_clusters: Any) -> None:
    """Raise unless `n_clusters` is a whole number of at least one, or "auto"."""
    if not (isinstance(n_clusters, str) and n_clusters == "auto"):
        check_integer("n_clusters", n_clusters, least=1, other=" or 'auto'")


def check_number(name: str, value: Any, *, least: float) -> None:
    """Raise unless `value` is a finite number of at least `least`."""
    wanted = f"a finite number >= {least:g}"
    if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be {wanted}, got {value!r} ({type(value).__name__}).")
    if not np.isfinite(float(value)) or value < least:
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def check_jobs(n_jobs: Any) -> None:
    """Raise unless `n_jobs` is None or a whole number other than zero."""
    if n_jobs is None:
        return
    check_integer("n_jobs", n_jobs, least=-sys.maxsize, other=" (not 0) or None")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: pass a number of threads, or None for every core.")


def check_range(name: str, value: Any) -> tuple[int, int]:
    """The fewest and the most clusters that `value` names; raise unless it is such a pair."""
    try:
        low, high = value
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a pair (fewest, most), got {value!r}. Pass (30, 30) for 30.") from error
    check_integer(f"{name}[0]", low, least=1)
    check_integer(f"{name}[1]", high, least=1)
    if low > high:
        raise ValueError(f"{name} must be a pair (fewest, most), got {value!r}: the smaller number comes first.")
    return int(low), int(high)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_checkpoint(checkpoint: Any) -> None:
    """Raise unless `checkpoint` may name a folder."""
    if checkpoint is not None and not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a folder's path, a URL or None, got {checkpoint!r}.")
    if checkpoint is not None and not str(checkpoint):
        raise ValueError("checkpoint is an empty string. Pass a folder, or None for no checkpoint.")


def plain(value: Any) -> Any:
    """A parameter as Python has it, not NumPy."""
    return value.item() if isinstance(value, np.generic) else value


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn, naming the user's line: the nearest one outside of this package and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("ultraspec.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """Seeds from what scikit-learn calls `random_state`, or from a NumPy Generator; draws from instances."""
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, (bool, np.bool_)):
        if random_state < 0:
            raise ValueError(f"random_state must not be negative, got {random_state!r}.")
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(2**31, size=4).tolist())
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**31, size=4).tolist())
    raise TypeError(
        "random_state must be None, a whole number, a numpy.random.RandomState or a numpy.random.Generator, "
        f"got {random_state!r}."
    )


def open_input(estimator: Any, X: Any, *, reset: bool) -> Rows:
    """Row source of what a user passes as X; sets or checks the estimator's feature count and names.

    Arrays are neither copied nor cast here, and not looked at for NaN: the passes over blocks do that. Rows for an
    estimator that was fitted on scaled ones (see `ultraspec.scaling`) come scaled.
    """
    kind, scaling = type(estimator).__name__, vars(estimator).get("scaling_")
    if reset:
        rows = _open(estimator, X, reset=True)
        found = rows.scaling if isinstance(rows, ScaledRows) else None
        if estimator._scales_new_rows:
            estimator.scaling_ = found
        if scaling is not None and found is None:
            warn_user(
                f"This {kind} was fitted on scaled rows, and these are not scaled. To scale them too, pass "
                "open_rows(path, scale='standard'), or what StandardScaler makes of an array.",
                UserWarning,
            )
        return rows
    if isinstance(X, ScaledRows):
        if scaling is None:
            raise ValueError(
                f"X was opened with scale='standard', but {kind} was fitted on rows as they are. Leave scale out."
            )
        X = X.rows  # the model has a scaling of its own
    rows = _open(estimator, X, reset=False)
    return rows if scaling is None else ScaledRows(rows, scaling)


def _open(estimator: Any, X: Any, *, reset: bool) -> Rows:
    from sklearn.utils.validation import validate_data

    if isinstance(X, Rows):
        return _reset_features(estimator, X) if reset else _match_features(estimator, X)
    if is_lazy(X):
        return _open_dask(estimator, X, reset=reset)
    if isinstance(X, (str, bytes, os.PathLike)):
        shown = repr(os.fspath(X))
        raise TypeError(f"X is a path, {shown}. Open the file first: pass ultraspec.open_rows({shown}).")
    refuse_masked(X)
    numbers_only = refuse_words(X)
    in_memory = not isinstance(X, np.memmap)
    X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
    if scipy.sparse.issparse(X):
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return SparseRows(X)
    if X.dtype == object and numbers_only:
        X = X.astype(np.float64)  # decimals of polars
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X must hold numbers, got {X.dtype}. Turn it into numbers first, for example into seconds.")
    return ArrayRows(X, in_memory=in_memory)


def _open_dask(estimator: Any, X: Any, *, reset: bool) -> Rows:
    from ultraspec.rows.dask import open_dask

    if not estimator._takes_dask:
        raise TypeError(
            f"{type(estimator).__name__} does not run on Dask; USPEC and USENC do. Pass X.compute() if it fits in "
            "memory, or open_rows of its files."
        )
    rows = open_dask(X, count=reset)
    if not reset:
        return _match_features(estimator, rows)
    if rows.n_rows == 0 or rows.n_features == 0:
        what = "sample" if rows.n_rows == 0 else "feature"
        raise ValueError(f"Found array with 0 {what}(s) (shape={rows.shape}) while a minimum of 1 is required.")
    return _reset_features(estimator, rows)


def _reset_features(estimator: Any, rows: Rows) -> Rows:
    """Set the estimator's feature count and names to those of a row source."""
    estimator.n_features_in_ = rows.n_features
    if rows.names is not None:
        estimator.feature_names_in_ = np.array(rows.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return rows


def _match_features(estimator: Any, rows: Rows) -> Rows:
    """The row source with its columns in the order of the estimator's features; raises if they are others."""
    kind = type(estimator).__name__
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and rows.names is not None:
        if rows.names == fitted.tolist():
            return rows
        _check_names(fitted.tolist(), rows.names, in_order=not isinstance(rows, FileRows))
        return rows.select(fitted.tolist())
    if rows.n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.n_features} features, but {kind} is expecting {estimator.n_features_in_} features as input."
        )
    if fitted is not None:
        warn_user(f"X does not have valid feature names, but {kind} was fitted with feature names", UserWarning)
    elif rows.names is not None:
        warn_user(f"X has feature names, but {kind} was fitted without feature names", UserWarning)
    return rows


def _check_names(fitted: list[str], given: list[str], *, in_order: bool) -> None:
    """Raise, in the words that users of scikit-learn know, where the names are others, or in another order."""
    problems = [
        f"Feature names {title}:\n" + "".join(f"- {name}\n" for name in names[:5]) + "- ...\n" * (len(names) > 5)
        for title, names in (
            ("unseen at fit time", sorted(set(given) - set(fitted))),
            ("seen at fit time, yet now missing", sorted(set(fitted) - set(given))),
        )
        if names
    ]
    if problems:
        problems.append("Choose the columns that were fitted, as in open_rows(path, columns=[...]).")
    elif in_order and given != fitted:
        problems.append("Feature names must be in the same order as they were in fit.")
    if problems:
        message = "The feature names should match those that were passed during fit.\n"
        raise ValueError(message + "".join(problems))


def refuse_words(X: Any) -> bool:
    """Raise, with their names, where columns of a frame hold words, dates or the like; gives whether it is a frame."""
    if hasattr(X, "collect_schema") and not hasattr(X, "shape"):
        raise TypeError("X is a lazy frame, which holds no rows yet. Pass X.collect().")
    if not (hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")):
        return False
    names, kinds = list(X.columns), dict(enumerate(X.dtypes))
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(
            f"X has more than one column named {listed(twice)}. Rename columns, or pass X.to_numpy(), which has no "
            "names."
        )
    bad = [place for place, kind in kinds.items() if not _holds_numbers(X, place, kind)]
    if bad:
        good = [names[place] for place in kinds if place not in bad]
        shown = ", ".join(f"{names[place]!r} ({kinds[place]})" for place in bad[:12]) + ", ..." * (len(bad) > 12)
        instead = f"Pass X[[{listed(good)}]], which do, or turn" if good else "Turn"
        raise ValueError(
            f"X: column{'s' * (len(bad) > 1)} {shown} must hold numbers. {instead} these into numbers first."
        )
    return True


def _holds_numbers(X: Any, place: int, kind: Any) -> bool:
    if hasattr(kind, "is_numeric"):  # polars
        return bool(kind.is_numeric()) or str(kind) in ("Boolean", "Null")
    if getattr(kind, "kind", "O") in "biufc":
        return True
    column = X.iloc[:, place].dropna() if hasattr(X, "iloc") else None
    if column is None or getattr(kind, "kind", "O") in "mM":
        return False
    if any(isinstance(value, (str, bytes)) for value in column.unique()):
        return False  # also digits: an article number is no quantity
    try:
        column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def refuse_masked(X: Any) -> None:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"X has {int(np.ma.getmaskarray(X).sum()):,} masked values, and rows with gaps have no distances. "
            "Fill them (X.filled(...), or an imputer) or drop their rows."
        )
