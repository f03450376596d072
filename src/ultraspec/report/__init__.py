"""The report: one HTML page about a fitted model and its rows, which opens anywhere, without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ultraspec.report._page import render
from ultraspec.report._run import source_path
from ultraspec.report.document import is_page
from ultraspec.storage.atomic import check_target, write_atomically

__all__ = ["write"]


def write(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    title: str | None = None,
    code: str | None = None,
    overwrite: bool | None = None,
) -> Path:
    """Write a page that shows what a fitted model found.

    The page has the data by cluster, eigenvalues, cluster sizes, the representatives' graph, of an ensemble the
    confidence of its rows and the agreement of its members, what the fit took, and how to repeat it. Everything is
    inside of the one file. Rows are read block by block and only counted where they are many: the page of a billion
    rows is no larger than that of a million.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        Rows, mostly those that were fitted; others are labelled by the model.
    path : str or path
        The file to write, such as "report.html".
    labels : array-like of shape (n_samples,), optional
        Clusters to show instead of the model's: integers or strings.
    title : str, optional
        Heading of the page.
    code : str, optional
        The lines that repeat the run; by default they are made from the model's parameters.
    overwrite : bool or None, default=None
        Whether an existing file may be replaced, else FileExistsError is raised. None: a page of ultraspec may, a file
        of another kind may not. The file that the rows come from never is. It is replaced at once: there is never half
        a page.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ultraspec import USPEC, datasets, report
    >>> X, _ = datasets.generate("cc", 5_000, random_state=0)
    >>> model = USPEC(n_clusters=3, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report.write(model, X, Path(folder) / "circles.html")
    ...     page.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    read = [] if (source := source_path(X)) is None else [source]
    target = check_target(Path(path), "report", overwrite=overwrite, is_ours=is_page, read=read)
    page = render(model, X, labels=labels, title=title, code=code)
    write_atomically(target, lambda file: file.write(page.encode()), overwrite=overwrite is not False)
    return Path(path).expanduser()
