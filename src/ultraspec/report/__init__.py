"""The report: one HTML page about a fitted model and rows, which opens in any browser without a network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ultraspec._checks import check_integer
from ultraspec.figures.explore import MOST_POINTS
from ultraspec.report._page import render
from ultraspec.report._provenance import source_path
from ultraspec.report.document import is_page
from ultraspec.report.notebook import PAGE_HEIGHT, PageView
from ultraspec.storage.atomic import check_target, write_atomically

__all__ = ["PageView", "is_page", "show", "write"]


def write(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    compare: Mapping[str, Any] | None = None,
    describe: Any = None,
    title: str | None = None,
    code: str | None = None,
    points: int = MOST_POINTS,
    overwrite: bool | None = None,
) -> Path:
    """Write a page that shows the result of a fitted model.

    The page shows the rows by cluster. A slider chooses the number of clusters and shows every cut of the model into 2
    to 60 clusters, without Python and without a network. The page says what sets each cluster apart and whether the
    clusters are stable, and has examples. It also shows eigenvalues, the graph of the representatives, time and memory
    of the fit, and how to repeat it; for an ensemble, the confidence of the rows and the agreement of the members.

    All of it is in one file of less than 8 MB. Large data is read block by block and counted, so that the page of a
    billion rows is no larger than that of a million. The page needs Jinja2: ``pip install 'ultraspec[report]'``.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        Rows, usually those that the model was fitted on. Labels of other rows are predicted.
    path : str or path
        File to write, such as "report.html".
    labels : array-like of shape (n_samples,), optional
        Clusters to show first, instead of those of the model: integers or strings.
    compare : mapping of str to array-like of shape (n_samples,), optional
        Further labels to compare with, by title: known classes, or those of another method.
    describe : frame or mapping of str to array-like of shape (n_samples,), optional
        Columns that were not clustered but describe the rows: numbers, categories or texts. The page shows in which of
        them the clusters differ, and their values in the examples.
    title : str, optional
        Heading of the page. By default the numbers of clusters and rows.
    code : str, optional
        Code that repeats the run. By default it is made from the parameters of the model.
    points : int, default=20_000
        Number of rows up to which each row is drawn, and is in the file. Larger data is drawn as a raster.
    overwrite : bool or None, default=None
        Whether an existing file may be replaced; FileExistsError is raised otherwise. None: a page of ultraspec may be
        replaced, other files may not. The file that the rows come from is never replaced. An existing file stays as it
        is until the page is complete.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ultraspec import USPEC, datasets, report
    >>> X, _ = datasets.generate("cc", 1_000, random_state=0)
    >>> model = USPEC(n_clusters=3, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report.write(model, X, Path(folder) / "circles.html")
    ...     page.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    read = [] if (source := source_path(X)) is None else [source]
    target = check_target(Path(path), "report", overwrite=overwrite, is_ours=is_page, read=read)
    check_integer("points", points, least=1)
    page = render(
        model, X, labels=labels, title=title, code=code, compare=compare, describe=describe, points=int(points)
    )
    write_atomically(target, lambda file: file.write(page.encode()), overwrite=overwrite is not False)
    return Path(path).expanduser()


def show(
    model: Any,
    X: Any,
    *,
    labels: Any = None,
    compare: Mapping[str, Any] | None = None,
    describe: Any = None,
    title: str | None = None,
    points: int = MOST_POINTS,
    height: int = PAGE_HEIGHT,
) -> PageView:
    """Show the page of a fitted model in a notebook, in a frame that needs no network.

    Works in Jupyter, VS Code and marimo. The last value of a cell is shown; elsewhere call ``display`` with it.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        Rows, usually those that the model was fitted on.
    labels, compare, describe, title, points
        As in `write`.
    height : int, default=860
        Height of the frame in pixels.

    Returns
    -------
    PageView
        A page that notebooks show.

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, report
    >>> X, _ = datasets.generate("cc", 1_000, random_state=0)
    >>> view = report.show(USPEC(3, random_state=0).fit(X), X)
    >>> view._repr_html_().startswith("<iframe srcdoc=")
    True
    """
    check_integer("points", points, least=1)
    page = render(model, X, labels=labels, title=title, compare=compare, describe=describe, points=int(points))
    return PageView(page, height)
