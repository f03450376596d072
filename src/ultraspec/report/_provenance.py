"""How to repeat a run: the parameters of a fitted model, lines of code, and versions."""

from __future__ import annotations

import inspect
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import __version__
from ultraspec._estimator import fitted
from ultraspec.rows import FileRows, ScaledRows

WITHOUT_EFFECT = ("n_jobs", "verbose")  # on the labels
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")
LINE_LENGTH = 88


def parameters(model: Any) -> list[tuple[str, str, bool]]:
    """List name, value and whether it differs from the default, for every parameter.

    Examples
    --------
    >>> from ultraspec import USPEC
    >>> parameters(USPEC(3))[0]
    ('n_clusters', '3', True)
    """
    values = model.get_params(deep=False)
    defaults = {name: p.default for name, p in inspect.signature(type(model)).parameters.items()}
    return [(name, as_code(values[name]), not _equal(values[name], default)) for name, default in defaults.items()]


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def code_lines(model: Any, X: Any = None) -> str:
    """Return the lines that repeat the fit of a fitted model; `X` may hold other rows than those that were fitted.

    Examples
    --------
    >>> from ultraspec import USPEC
    >>> X = [[0.0], [0.1], [5.0], [5.1], [9.0], [9.1]]
    >>> print(code_lines(USPEC(3, random_state=0).fit(X)))
    from ultraspec import USPEC
    <BLANKLINE>
    model = USPEC(n_clusters=3, random_state=0)
    labels = model.fit_predict(X)
    """
    kind = type(model).__name__
    values = model.get_params(deep=False)
    seed = fitted(model).seed
    arguments = []
    remarks = []
    for name, code, is_changed in parameters(model):
        if name == "random_state" and values[name] is None and seed is not None:
            arguments.append(f"random_state={seed}")
        elif name in WITHOUT_EFFECT or not (is_changed or name == "n_clusters"):
            continue
        elif has_code(values[name]):
            arguments.append(f"{name}={code}")
        else:
            remarks.append(f"# {name} was {code}, which cannot be written here\n")
    call = f"model = {kind}({', '.join(arguments)})"
    if len(call) > LINE_LENGTH:
        call = f"model = {kind}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"
    opening, imported = _opening_lines(model, X)
    names = ", ".join([kind, *imported])
    return f"from ultraspec import {names}\n\n{opening}{''.join(remarks)}{call}\nlabels = model.fit_predict(X)"


def _opening_lines(model: Any, X: Any) -> tuple[str, list[str]]:
    """Return the lines that make X, and what they import from ultraspec."""
    rows = X.rows if isinstance(X, ScaledRows) else X
    is_scaled = model.scaling_ is not None
    n_fitted = fitted(model).n_rows
    if isinstance(rows, FileRows) and rows.n_rows == n_fitted:
        options = {**rows.options(), **({"scale": "standard"} if is_scaled else {})}
        arguments = [as_code(str(rows.path)), *(f"{name}={as_code(value)}" for name, value in options.items())]
        return f"X = open_rows({', '.join(arguments)})\n", ["open_rows"]
    lines = ""
    if getattr(rows, "shape", (n_fitted,))[0] != n_fitted:
        lines += f"# X: the {n_fitted:,} rows that were fitted, not those of this page\n"
    if is_scaled:
        lines += "from sklearn.preprocessing import StandardScaler\n\nX = StandardScaler().fit_transform(X)\n"
    return lines, []


def source_path(X: Any) -> Path | None:
    """Return the file that rows are read from, or None."""
    rows = X.rows if isinstance(X, ScaledRows) else X
    path = rows.path if isinstance(rows, FileRows) else rows.filename if isinstance(rows, np.memmap) else None
    return None if path is None else Path(path)


def versions() -> list[tuple[str, str]]:
    """List names and versions of the libraries that the result depends on."""
    listed = [("ultraspec", __version__), ("Python", platform.python_version())]
    for name in LIBRARIES:
        try:
            listed.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:  # installed without metadata
            listed.append((name, "unknown"))
    return listed


def has_code(value: Any) -> bool:
    """Return whether a value can be written as code."""
    return isinstance(value, (str, int, float, bool, tuple, list, np.generic, type(None), os.PathLike))


def as_code(value: Any) -> str:
    """Return the value of a parameter as code, or else its type."""
    if not has_code(value):
        return f"a {type(value).__name__}"
    if isinstance(value, np.generic):
        return repr(value.item())
    return repr(os.fspath(value) if isinstance(value, os.PathLike) else value)
