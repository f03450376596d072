"""The figures of the report as matplotlib axes.

Each function draws one figure on the given axes, or on those of a new figure, and returns the axes. They need
matplotlib: ``pip install 'ultraspec[plots]'``.

Examples
--------
>>> from ultraspec import USPEC, datasets, plots
>>> X, _ = datasets.generate("cc", 1_000, random_state=0)
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
from ultraspec.figures.cuts import CutTable, plan_cuts
from ultraspec.figures.labeled_rows import open_labeled_rows
from ultraspec.figures.means import cluster_means
from ultraspec.figures.trust import measure_null
from ultraspec.plots import _draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "agreement",
    "clusters",
    "confidence",
    "eigenvalues",
    "graph",
    "means",
    "phases",
    "sizes",
    "stability",
    "tree",
]


def clusters(
    model: Any, X: Any, *, labels: Any = None, color: str = "cluster", legend: bool = True, ax: Axes | None = None
) -> Axes:
    """Draw the rows by cluster: as points up to 20,000 rows, else as densities on a grid.

    Rows of one feature give a histogram, and rows of two features are plotted by these. Rows of more features are
    drawn on a layout of the graph of the representatives, each at the weighted mean of its nearest representatives. The
    axes of this layout have no meaning.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        Rows, which are read block by block.
    labels : array-like of shape (n_samples,), optional
        Clusters to draw instead of those of the model.
    color : {"cluster", "confidence"}, default="cluster"
        Colour by cluster, or by the confidence in the label of each row.
    legend : bool, default=True
        Whether to draw a legend, for up to 26 clusters.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("tb", 1_000, random_state=0)
    >>> model = USPEC(2, random_state=0).fit(X)
    >>> ax = plots.clusters(model, X, color="confidence")
    >>> ax.get_xlabel()
    'feature 0'
    """
    check_choice("color", color, ("cluster", "confidence"))
    by_confidence = color == "confidence"
    if by_confidence:
        _draw.check_confidence(model, labels, "color='confidence'")
    _draw.check_matplotlib()
    data = figures.compute_figures(model, X, labels, ("map", "confidence") if by_confidence else ("map",))
    assert data.map is not None
    ax = _draw.new_axes(ax, (7.0, 6.0))
    _draw.draw_map(ax, data.map, data.cluster_names, by_confidence)
    if legend and not by_confidence:
        _draw.draw_legend(ax, data)
    return ax


def eigenvalues(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw 1 - eigenvalue of the leading eigenvalues, the number of clusters and the gap after it.

    Clusters that are well separated show as a gap on the logarithmic axis, with as many points below it as there are
    clusters.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("sf", 1_000, random_state=0)
    >>> ax = plots.eigenvalues(USPEC(4, random_state=0).fit(X))
    >>> ax.get_ylabel()
    '1 - eigenvalue'
    """
    check_is_fitted(model)
    _draw.check_matplotlib()
    from matplotlib.ticker import MaxNLocator

    gap = figures.eigengap(model)
    k = gap.chosen
    distances = gap.leading
    ax = _draw.new_axes(ax, (6.4, 3.6))
    numbers = np.arange(1, len(distances) + 1)
    ax.plot(numbers, distances, color=_draw.GREY, linewidth=1, zorder=1)
    ax.scatter(numbers[:k], distances[:k], color=palette.LIGHT[0], s=28, zorder=2, label=f"{k} clusters")
    ax.scatter(numbers[k:], distances[k:], facecolor="white", edgecolor=_draw.GREY, s=24, zorder=2, label="further")
    if k < len(distances):
        text = f"gap: factor {gap.ratios[k - 1]:.1f}"
        ax.axvspan(k, k + 1, color=palette.LIGHT[1], alpha=0.2, linewidth=0, label=text)
    ax.set(xlabel="number", ylabel="1 - eigenvalue", yscale="log")
    if len(distances) > 1:  # the first is zero, whatever the clusters
        ax.set_ylim(bottom=max(distances[0], distances[1] / 4) * 0.8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False)
    return _draw.without_box(ax)


def sizes(model: Any, X: Any = None, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the number of rows of each cluster, the largest first.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows to count. By default those that the model was fitted on.
    labels : array-like of shape (n_samples,), optional
        Clusters to count instead of those of the model.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("sf", 1_000, random_state=0)
    >>> ax = plots.sizes(USPEC(4, random_state=0).fit(X))
    >>> len(ax.patches)
    4
    """
    _draw.check_matplotlib()
    data = figures.compute_figures(model, X, labels, ())
    ax = _draw.new_axes(ax, (6.4, 3.6))
    order = np.argsort(-data.counts.sizes, kind="stable")
    ax.bar(np.arange(len(order)), data.counts.sizes[order], color=[_draw.color_of(code) for code in order])
    ax.set_xticks(np.arange(len(order)), [data.cluster_names[code] for code in order])
    if len(order) > 20:
        ax.tick_params(axis="x", labelsize=6, labelrotation=90)
    ax.set(xlabel="cluster", ylabel="rows")
    return _draw.without_box(ax)


def graph(model: Any, X: Any, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the representatives by cluster, and edges between those that share many rows.

    For an ensemble, these are the representatives of its first member. The axes are those of `clusters`. If there is
    one feature, the height is the number of rows that a representative stands for.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        Rows, of which a sample is read.
    labels : array-like of shape (n_samples,), optional
        Clusters to draw instead of those of the model.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("cc", 1_000, random_state=0)
    >>> ax = plots.graph(USPEC(3, random_state=0).fit(X), X)
    >>> len(ax.collections) > 1
    True
    """
    _draw.check_matplotlib()
    from matplotlib.collections import LineCollection

    data = figures.compute_figures(model, X, labels, ("graph",))
    nodes = data.graph
    assert nodes is not None
    ax = _draw.new_axes(ax, (7.0, 6.0))
    is_drawn = np.zeros(len(nodes.codes), dtype=bool)
    is_drawn[nodes.drawn] = True
    between_drawn = is_drawn[nodes.edges].all(axis=1)
    lines = list(nodes.positions[nodes.edges[between_drawn]])
    shades = [(0.4, 0.44, 0.5, 0.15 + 0.6 * strength) for strength in nodes.strength[between_drawn].tolist()]
    ax.add_collection(LineCollection(lines, colors=shades, linewidths=0.8, zorder=1))
    areas = 4 + 26 * nodes.rows / max(float(nodes.rows.max()), 1.0)
    for code in range(len(data.cluster_names)):
        mine = np.flatnonzero(is_drawn & (nodes.codes == code))
        x, y = nodes.positions[mine].T
        style: dict[str, Any] = {"color": _draw.color_of(code), "marker": _draw.marker_of(code)}
        ax.scatter(x, y, areas[mine], linewidths=0, zorder=2, snap=False, **style)
    ax.autoscale_view()
    if data.n_features > 2:
        ax.set_aspect("equal")
        _draw.without_axes(ax)
    else:
        ax.set_xlabel(data.feature_names[0])
        ax.set_ylabel(data.feature_names[1] if data.n_features == 2 else "rows it stands for")
        width, height = np.ptp(nodes.positions[nodes.drawn], axis=0)
        if data.n_features == 2 and width <= 3 * height <= 9 * width:
            ax.set_aspect("equal")
    _draw.draw_legend(ax, data)
    return _draw.without_box(ax)


def confidence(model: Any, X: Any = None, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the confidence in the labels of rows.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows. By default those that the model was fitted on.
    labels : array-like of shape (n_samples,), optional
        Clusters to use instead of those of the model, which must be an ensemble.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("tb", 1_000, random_state=0)
    >>> ax = plots.confidence(USPEC(2, random_state=0).fit(X))
    >>> ax.get_xlabel()
    'confidence in the label'
    """
    _draw.check_confidence(model, labels, "confidence")
    _draw.check_matplotlib()
    levels = figures.compute_figures(model, X, labels, ("confidence",)).counts.levels
    assert levels is not None
    ax = _draw.new_axes(ax, (6.4, 3.6))
    at = np.linspace(0, 1, levels.shape[1])
    below = np.zeros(levels.shape[1])
    for code, shares in enumerate(levels / levels.sum()):
        ax.bar(at, shares, 0.8 * at[1], bottom=below, color=_draw.color_of(code))
        below += shares
    ax.set(xlabel="confidence in the label", ylabel="share of rows", xlim=(-at[1], 1 + at[1]))
    return _draw.without_box(ax)


def agreement(model: Any, X: Any = None, *, labels: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the agreement of the members of an ensemble: NMI of each two, and of each with the consensus.

    Parameters
    ----------
    model : USENC
        A fitted ensemble.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows, of which a sample is read. By default those that the model was fitted on.
    labels : array-like of shape (n_samples,), optional
        Clusters to use instead of those of the model.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USENC, datasets, plots
    >>> X, _ = datasets.generate("tb", 1_000, random_state=0)
    >>> ax = plots.agreement(USENC(2, n_estimators=5, random_state=0).fit(X))
    >>> [text.get_text() for text in ax.get_yticklabels()][-1]
    'consensus'
    """
    _draw.check_ensemble(model, "agreement")
    _draw.check_matplotlib()
    from matplotlib.colors import LinearSegmentedColormap

    data = figures.compute_figures(model, X, labels, ("agreement",)).agreement
    assert data is not None
    ax = _draw.new_axes(ax, (6.0, 5.2))
    m = len(data.consensus)
    shown = np.vstack([data.members, data.consensus])
    shown[np.arange(m), np.arange(m)] = np.nan
    colors = LinearSegmentedColormap.from_list("agreement", palette.AGREEMENT_LIGHT)
    image = ax.imshow(np.ma.masked_invalid(shown), cmap=colors)
    ax.axhline(m - 0.5, color="white", linewidth=4)
    ticks = list(range(0, m, max(1, m // 20)))
    ax.set_xticks(ticks, [str(i + 1) for i in ticks])
    ax.set_yticks([*ticks, m], [*(str(i + 1) for i in ticks), "consensus"])
    ax.tick_params(labelsize=7)
    ax.set_xlabel("member")
    _draw.draw_colorbar(ax, image, "NMI")
    return ax


def phases(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the time of each phase of the fit, and the largest resident memory of the process in it.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model with `fit_profile_`.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("cc", 1_000, random_state=0)
    >>> model = USPEC(3, random_state=0).fit(X)
    >>> plots.phases(model).get_xlabel()
    'seconds'
    """
    profile = figures.phases(model)
    if not profile:
        raise ValueError("This model has no fit_profile_: model files do not store it. Fit the model again.")
    _draw.check_matplotlib()
    ax = _draw.new_axes(ax, (6.4, 0.5 * len(profile) + 1.0))
    bars = ax.barh([phase.name for phase in profile], [phase.seconds for phase in profile], color=palette.LIGHT[0])
    texts = [
        f" {phase.seconds:.2f} s" + (f", {phase.resident_bytes / 2**20:,.0f} MB" if phase.resident_bytes else "")
        for phase in profile
    ]
    ax.bar_label(bars, texts, fontsize=8)
    ax.margins(x=0.25)
    ax.invert_yaxis()
    ax.set_xlabel("seconds")
    return _draw.without_box(ax)


def tree(model: Any, X: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw the upper part of the tree that the clusters are cut from.

    A branch is as wide as its share of the rows. It reaches from the number of clusters at which it appears down to the
    number at which it splits, so that its length shows its persistence. Branches within one cluster of the model have
    its colour.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model that has a tree: not one with discretize="kmeans" or consensus="transfer_cut".
    X : array-like, sparse matrix, frame or Rows, optional
        Rows, needed if the model comes from a file.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("sf", 1_000, random_state=0)
    >>> ax = plots.tree(USPEC(4, n_representatives=100, random_state=0).fit(X))
    >>> ax.get_ylabel()
    'number of clusters'
    """
    check_is_fitted(model)
    _draw.check_matplotlib()
    with open_labeled_rows(model, X) as rows:
        table = _cut_table(plan_cuts(rows))
        degrees = rows.first_member.partition.spectrum.degrees
    ax = _draw.new_axes(ax, (7.4, 4.2))
    _draw.draw_tree(ax, table.tree, degrees, table.judged[table.ks.index(max(2, int(model.n_clusters_)))].groups)
    ax.set(xlabel="share of the rows", ylabel="number of clusters")
    return _draw.without_box(ax)


def means(model: Any, X: Any, *, labels: Any = None, most: int = 16, ax: Axes | None = None) -> Axes:
    """Draw a heat map of the mean of each feature in each cluster, in standard deviations from the mean of all rows.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows
        Rows, which are read block by block.
    labels : array-like of shape (n_samples,), optional
        Clusters to draw instead of those of the model.
    most : int, default=16
        Number of features: those that differ most between the clusters.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("sf", 1_000, random_state=0)
    >>> ax = plots.means(USPEC(4, n_representatives=100, random_state=0).fit(X), X)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['0', '1', '2', '3']
    """
    _draw.check_matplotlib()
    data = cluster_means(model, X, labels, most)
    k, d = data.means.shape
    ax = _draw.new_axes(ax, (2.0 + 0.5 * d, 1.2 + 0.32 * k))
    picture = ax.imshow(data.means, cmap=_draw.diverging_map(), vmin=-2, vmax=2, aspect="auto")
    ax.set_xticks(np.arange(d), data.feature_names, rotation=45, ha="right")
    ax.set_yticks(np.arange(k), data.cluster_names)
    if k * d <= 320:
        for i, j in np.argwhere(np.isfinite(data.means)):
            ax.text(j, i, f"{data.means[i, j]:+.1f}", ha="center", va="center", fontsize=7, color="#1b222c")
    ax.set(ylabel="cluster")
    ax.figure.colorbar(picture, ax=ax, label="standard deviations from the mean", shrink=0.8)
    return ax


def stability(model: Any, X: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw how far independent graphs agree on each number of clusters, and the same for rows without structure.

    Parameters
    ----------
    model : USPEC
        A fitted model with discretize="auto", whose clusters are judged by other graphs.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows, needed if the model comes from a file.
    ax : Axes, optional
        Where to draw. By default a new figure is created.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from ultraspec import USPEC, datasets, plots
    >>> X, _ = datasets.generate("sf", 1_000, random_state=0)
    >>> ax = plots.stability(USPEC(4, n_representatives=100, random_state=0).fit(X))
    >>> len(ax.lines)
    3
    """
    check_is_fitted(model)
    _draw.check_matplotlib()
    with open_labeled_rows(model, X) as rows:
        table = _cut_table(plan_cuts(rows))
        null = measure_null(rows, table)
    if null is None:
        raise ValueError("No other graphs judge the clusters of this model. Fit USPEC with discretize='auto'.")
    ax = _draw.new_axes(ax, (6.4, 3.6))
    scores = np.array([each.agreement for each in table.judged], dtype=np.float64)
    ax.plot(table.ks, scores, marker="o", markersize=3, color=palette.LIGHT[0], label="these rows")
    ax.plot(null.ks, null.agreement, linestyle="--", color=_draw.GREY, label="rows without structure")
    ax.axvline(model.n_clusters_, color=palette.LIGHT[1], linewidth=1, label="chosen")
    ax.set(xlabel="number of clusters", ylabel="agreement (ARI)", xscale="log", ylim=(0, 1.02))
    ax.set_xticks(ticks := [k for k in (2, 3, 5, 8, 12, 20, 35, 60) if k <= table.ks[-1]], map(str, ticks))
    ax.minorticks_off()
    ax.legend(frameon=False)
    return _draw.without_box(ax)


def _cut_table(planned: CutTable | str) -> CutTable:
    """Return the cuts of a model; raise ValueError if it has none."""
    if isinstance(planned, str):
        raise ValueError(planned)
    return planned
