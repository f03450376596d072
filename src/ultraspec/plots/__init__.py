"""The report's figures as matplotlib axes.

Each function draws one figure on the axes it is given, or on those of a new figure, and returns the axes. matplotlib
is imported when one is called: ``pip install 'ultraspec[plots]'``.

Examples
--------
>>> from ultraspec import USPEC, datasets, plots
>>> X, _ = datasets.generate("cc", 3_000, random_state=0)
>>> model = USPEC(3, random_state=0).fit(X)
>>> axes = plots.clusters(model, X)
>>> axes.figure.savefig("circles.png")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ultraspec import figures
from ultraspec._checks import check_choice
from ultraspec.figures import palette
from ultraspec.plots import _draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["agreement", "clusters", "confidence", "eigenvalues", "graph", "phases", "sizes"]


def clusters(
    model: Any, X: Any, *, labels: Any = None, color: str = "cluster", legend: bool = True, ax: Axes | None = None
) -> Axes:
    """Draw the rows by cluster: points up to 20,000 rows, beyond that how dense they lie, counted on a grid.

    One feature gives a histogram, two are drawn in their own coordinates. Rows of more features lie on a drawing of the
    representatives' graph, each at the weighted mean of its representatives; the axes then mean nothing.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        Rows; read block by block.
    labels : array-like of shape (n_samples,), optional
        Clusters to draw instead of the model's.
    color : {"cluster", "confidence"}, default="cluster"
        Colour by cluster, or by the confidence of an ensemble.
    legend : bool, default=True
        Whether to write a legend (up to 26 clusters).
    ax : Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USENC, datasets, plots
    >>> X, _ = datasets.generate("tb", 3_000, random_state=0)
    >>> model = USENC(2, n_estimators=5, random_state=0).fit(X)
    >>> ax = plots.clusters(model, X, color="confidence")
    >>> ax.get_xlabel()
    'feature 0'
    """
    check_choice("color", color, ("cluster", "confidence"))
    by_confidence = color == "confidence"
    if by_confidence:
        _draw.need_ensemble(model, "color='confidence'")
    _draw.need_matplotlib()
    found = figures.survey(model, X, labels, ("map", "confidence") if by_confidence else ("map",))
    assert found.map is not None
    ax = _draw.new_axes(ax, (7.0, 6.0))
    _draw.draw_map(ax, found.map, found.names, by_confidence)
    if legend and not by_confidence:
        _draw.legend(ax, found)
    return ax


def eigenvalues(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how far the leading eigenvalues are from one, the number of clusters and the gap after it.

    Clusters that are well apart show as a step on the logarithmic axis: as many points below it as there are clusters.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    ax : Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("sf", 3_000, random_state=0)
    >>> ax = plots.eigenvalues(USPEC(4, random_state=0).fit(X))
    >>> ax.get_ylabel()
    '1 - eigenvalue'
    """
    check_is_fitted(model)
    _draw.need_matplotlib()
    from matplotlib.ticker import MaxNLocator

    found = figures.eigengap(model)
    ax = _draw.new_axes(ax, (6.4, 3.6))
    k, distances = found.chosen, found.leading
    numbers = np.arange(1, len(distances) + 1)
    ax.plot(numbers, distances, color=_draw.QUIET, linewidth=1, zorder=1)
    ax.scatter(numbers[:k], distances[:k], color=palette.LIGHT[0], s=28, zorder=2, label=f"{k} clusters")
    ax.scatter(numbers[k:], distances[k:], facecolor="white", edgecolor=_draw.QUIET, s=24, zorder=2, label="beyond")
    if k < len(distances):
        text = f"gap: {found.growth[k - 1]:.1f} times"
        ax.axvspan(k, k + 1, color=palette.LIGHT[1], alpha=0.2, linewidth=0, label=text)
    ax.set(xlabel="number", ylabel="1 - eigenvalue", yscale="log")
    if len(distances) > 1:  # the first is zero, whatever the clusters
        ax.set_ylim(bottom=max(distances[0], distances[1] / 4) * 0.8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False)
    return _draw.bare(ax)


def sizes(model: Any, X: Any = None, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the number of rows of each cluster, the largest first.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows to count; left out, those that were fitted.
    labels : array-like of shape (n_samples,), optional
        Clusters to count instead of the model's.
    ax : Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("sf", 3_000, random_state=0)
    >>> ax = plots.sizes(USPEC(4, random_state=0).fit(X))
    >>> len(ax.patches)
    4
    """
    _draw.need_matplotlib()
    found = figures.survey(model, X, labels, ())
    ax = _draw.new_axes(ax, (6.4, 3.6))
    order = np.argsort(-found.tally.sizes, kind="stable")
    ax.bar(np.arange(len(order)), found.tally.sizes[order], color=[_draw.color_of(code) for code in order])
    ax.set_xticks(np.arange(len(order)), [found.names[code] for code in order])
    if len(order) > 20:
        ax.tick_params(axis="x", labelsize=6, labelrotation=90)
    ax.set(xlabel="cluster", ylabel="rows")
    return _draw.bare(ax)


def graph(model: Any, X: Any, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the representatives by cluster, and ties between those that share many rows.

    Of an ensemble, the representatives of its first member. The axes are those of `clusters`; of one feature, the
    height tells how many rows a representative stands for.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        Rows, of which a sample is taken.
    labels : array-like of shape (n_samples,), optional
        Clusters to draw instead of the model's.
    ax : Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("cc", 3_000, random_state=0)
    >>> ax = plots.graph(USPEC(3, random_state=0).fit(X), X)
    >>> len(ax.collections) > 1
    True
    """
    _draw.need_matplotlib()
    from matplotlib.collections import LineCollection

    found = figures.survey(model, X, labels, ("graph",))
    nodes = found.graph
    assert nodes is not None
    ax = _draw.new_axes(ax, (7.0, 6.0))
    here = np.zeros(len(nodes.codes), dtype=bool)
    here[nodes.drawn] = True
    kept = here[nodes.ties].all(axis=1)
    shades = [(0.4, 0.44, 0.5, 0.15 + 0.6 * s) for s in nodes.strength[kept].tolist()]
    ax.add_collection(LineCollection(list(nodes.positions[nodes.ties[kept]]), colors=shades, linewidths=0.8, zorder=1))
    areas = 4 + 26 * nodes.rows / max(float(nodes.rows.max()), 1.0)
    for code in range(len(found.names)):
        mine = np.flatnonzero(here & (nodes.codes == code))
        x, y = nodes.positions[mine].T
        style: dict[str, Any] = {
            "color": _draw.color_of(code),
            "marker": _draw.marker_of(code),
            "linewidths": 0,
            "zorder": 2,
        }
        ax.scatter(x, y, areas[mine], snap=False, **style)
    ax.autoscale_view()
    if found.n_features > 2:
        ax.set(xticks=[], yticks=[], aspect="equal")
        ax.spines[["left", "bottom"]].set_visible(False)
    else:
        ax.set_xlabel(found.feature_names[0])
        ax.set_ylabel(found.feature_names[1] if found.n_features == 2 else "rows it stands for")
        width, height = np.ptp(nodes.positions[nodes.drawn], axis=0)
        if found.n_features == 2 and width <= 3 * height <= 9 * width:
            ax.set_aspect("equal")
    _draw.legend(ax, found)
    return _draw.bare(ax)


def confidence(model: Any, X: Any = None, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """Draw how confident an ensemble is of its rows: how many rows have which share of members behind their label.

    Parameters
    ----------
    model : USENC
        A fitted ensemble.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows; left out, those that were fitted.
    labels : array-like of shape (n_samples,), optional
        Clusters instead of the model's.
    ax : Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USENC, datasets, plots
    >>> X, _ = datasets.generate("tb", 3_000, random_state=0)
    >>> ax = plots.confidence(USENC(2, n_estimators=5, random_state=0).fit(X))
    >>> ax.get_xlabel()
    'share of members that back the label'
    """
    _draw.need_ensemble(model, "confidence")
    _draw.need_matplotlib()
    levels = figures.survey(model, X, labels, ("confidence",)).tally.levels
    assert levels is not None
    ax = _draw.new_axes(ax, (6.4, 3.6))
    at, below = np.linspace(0, 1, levels.shape[1]), np.zeros(levels.shape[1])
    shares = levels / levels.sum()
    for code, row in enumerate(shares):
        ax.bar(at, row, 0.8 * at[1], bottom=below, color=_draw.color_of(code))
        below += row
    ax.set(xlabel="share of members that back the label", ylabel="share of rows", xlim=(-at[1], 1 + at[1]))
    return _draw.bare(ax)


def agreement(model: Any, X: Any = None, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """Draw how far the members of an ensemble agree: NMI of each two, and of each with the consensus.

    Parameters
    ----------
    model : USENC
        A fitted ensemble.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows, of which a sample is taken; left out, those that were fitted.
    labels : array-like of shape (n_samples,), optional
        Clusters instead of the model's.
    ax : Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USENC, datasets, plots
    >>> X, _ = datasets.generate("tb", 3_000, random_state=0)
    >>> ax = plots.agreement(USENC(2, n_estimators=5, random_state=0).fit(X))
    >>> [text.get_text() for text in ax.get_yticklabels()][-1]
    'consensus'
    """
    _draw.need_ensemble(model, "agreement")
    _draw.need_matplotlib()
    from matplotlib.colors import LinearSegmentedColormap

    found = figures.survey(model, X, labels, ("agreement",)).agreement
    assert found is not None
    ax = _draw.new_axes(ax, (6.0, 5.2))
    m = len(found.consensus)
    shown = np.vstack([found.members, found.consensus])
    shown[np.arange(m), np.arange(m)] = np.nan
    colors = LinearSegmentedColormap.from_list("agreement", palette.AGREEMENT_LIGHT)
    image = ax.imshow(np.ma.masked_invalid(shown), cmap=colors)
    ax.axhline(m - 0.5, color="white", linewidth=4)
    step = max(1, m // 20)
    ticks = list(range(0, m, step))
    ax.set_xticks(ticks, [str(i + 1) for i in ticks])
    ax.set_yticks([*ticks, m], [*(str(i + 1) for i in ticks), "consensus"])
    ax.tick_params(labelsize=7)
    ax.set_xlabel("member")
    _draw.colorbar(ax, image, "NMI")
    return ax


def phases(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the time that each phase of the fit took, and the memory of the process at its end.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model with `fit_profile_`.
    ax : Axes, optional
        Where to draw; a new figure if left out.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("cc", 3_000, random_state=0)
    >>> model = USPEC(3, random_state=0).fit(X)
    >>> model.fit_profile_ = {"survey": {"seconds": 0.1, "resident_bytes": 2**28}}
    >>> plots.phases(model).get_xlabel()
    'seconds'
    """
    found = figures.phases(model)
    if not found:
        raise ValueError("This model does not tell what its fit took: it has no fit_profile_. Fit it anew.")
    _draw.need_matplotlib()
    ax = _draw.new_axes(ax, (6.4, 0.5 * len(found) + 1.0))
    bars = ax.barh([phase.name for phase in found], [phase.seconds for phase in found], color=palette.LIGHT[0])
    texts = [
        f" {phase.seconds:.2f} s" + (f", {phase.resident / 2**20:,.0f} MB" if phase.resident is not None else "")
        for phase in found
    ]
    ax.bar_label(bars, texts, fontsize=8)
    ax.margins(x=0.25)
    ax.invert_yaxis()
    ax.set_xlabel("seconds")
    return _draw.bare(ax)
