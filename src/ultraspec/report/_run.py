"""How to repeat a run: takes a fitted model, gives its parameters, the lines of code and the versions."""

from __future__ import annotations

import inspect
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import __version__
from ultraspec._estimator import fitted
from ultraspec.rows import FileRows
from ultraspec.rows.scaled import ScaledRows

OF_NO_EFFECT = ("n_jobs", "verbose")  # on the result
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def parameters(model: Any) -> list[tuple[str, str, bool]]:
    """Name, value and whether it differs from the default, of every parameter.

    Examples
    --------
    >>> from ultraspec import USPEC
    >>> parameters(USPEC(3))[0]
    ('n_clusters', '3', True)
    """
    defaults = {name: p.default for name, p in inspect.signature(type(model)).parameters.items()}
    values = model.get_params(deep=False)
    return [(name, written(values[name]), not _same(values[name], default)) for name, default in defaults.items()]


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
    kind, values = type(model).__name__, model.get_params(deep=False)
    used = fitted(model).seed
    given, remarks = [], []
    for name, text, changed in parameters(model):
        if name == "random_state" and values[name] is None and used is not None:
            given.append(f"random_state={used}")
        elif name in OF_NO_EFFECT or not (changed or name == "n_clusters"):
            continue
        elif is_plain(values[name]):
            given.append(f"{name}={text}")
        else:
            remarks.append(f"# {name} was {text}, which cannot be written here\n")
    call = f"model = {kind}({', '.join(given)})"
    if len(call) > 88:
        call = f"model = {kind}(\n" + "".join(f"    {part},\n" for part in given) + ")"
    source, imported = _rows_line(model, X)
    names = ", ".join([kind, *imported])
    return f"from ultraspec import {names}\n\n{source}{''.join(remarks)}{call}\nlabels = model.fit_predict(X)"


def source_path(X: Any) -> Path | None:
    """The file that rows come from, if they do."""
    rows = X.rows if isinstance(X, ScaledRows) else X
    found = rows.path if isinstance(rows, FileRows) else rows.filename if isinstance(rows, np.memmap) else None
    return None if found is None else Path(found)


def _rows_line(model: Any, X: Any) -> tuple[str, list[str]]:
    """Return the lines that make X, and what they import from ultraspec."""
    scaled = model.scaling_ is not None
    rows = X.rows if isinstance(X, ScaledRows) else X
    n_fitted = fitted(model).n_rows
    if isinstance(rows, FileRows) and rows.n_rows == n_fitted:
        arguments = [repr(str(rows.path)), *(f"{name}={written(value)}" for name, value in rows.options().items())]
        if scaled:
            arguments.append("scale='standard'")
        return f"X = open_rows({', '.join(arguments)})\n", ["open_rows"]
    lines = ""
    if getattr(rows, "shape", (n_fitted,))[0] != n_fitted:
        lines += f"# X: the {n_fitted:,} rows that were fitted, not those of this page\n"
    if scaled:
        lines += "from sklearn.preprocessing import StandardScaler\n\nX = StandardScaler().fit_transform(X)\n"
    return lines, []


def versions() -> list[tuple[str, str]]:
    """Names and versions of what the result rests on."""
    found = [("ultraspec", __version__), ("Python", platform.python_version())]
    for name in LIBRARIES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:  # installed in a way that leaves no record
            found.append((name, "unknown"))
    return found


def is_plain(value: Any) -> bool:
    """Whether a value can be written as code."""
    return isinstance(value, (str, int, float, bool, tuple, list, np.generic, type(None))) or hasattr(
        value, "__fspath__"
    )


def written(value: Any) -> str:
    """A parameter's value as code, or what it is."""
    if not is_plain(value):
        return f"a {type(value).__name__}"
    if isinstance(value, np.generic):
        return repr(value.item())
    return repr(str(value) if hasattr(value, "__fspath__") else value)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
