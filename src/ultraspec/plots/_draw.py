"""Parts of the plots: axes, markers, points, rasters, legends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ultraspec._estimator import fitted
from ultraspec.figures import ClusterMap, FigureData, palette
from ultraspec.figures.cuts import TopTree
from ultraspec.spectral.partition import VotePartition
from ultraspec.usenc import USENC

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "wedge": "v", "plus": "P", "cross": "X"}
GREY = "#667080"
MOST_IN_LEGEND = 26


def check_matplotlib() -> None:
    """Raise ImportError if matplotlib is not installed."""
    try:
        import matplotlib.pyplot  # noqa: F401
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'ultraspec[plots]'.") from error


def check_ensemble(model: Any, what: str) -> None:
    """Raise TypeError if a model is not an ensemble."""
    if not isinstance(model, USENC):
        raise TypeError(f"{what} needs a USENC model, which has members, got {type(model).__name__}.")


def check_confidence(model: Any, labels: Any, what: str) -> None:
    """Raise TypeError unless there is a confidence in the clusters of a model, or in the labels that are passed."""
    if isinstance(model, USENC):
        return
    if labels is not None:
        raise TypeError(f"{what} of other labels needs a USENC model, which has members, got {type(model).__name__}.")
    partition = fitted(model).partition
    if not isinstance(partition, VotePartition) or partition.trust is None:
        raise TypeError(
            f"{what} needs a model whose clusters other graphs have judged. Fit with the default of discretize."
        )


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the given axes, or else those of a new figure."""
    import matplotlib.pyplot as plt

    return ax if ax is not None else plt.subplots(figsize=size, layout="constrained")[1]


def without_box(ax: Axes) -> Axes:
    """Hide the upper and the right border of axes; return the axes."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def without_axes(ax: Axes) -> None:
    """Hide ticks and borders of axes that have no meaning."""
    ax.set(xticks=[], yticks=[])
    ax.spines[["left", "bottom"]].set_visible(False)


def color_of(code: int) -> str:
    """Return the colour of a cluster."""
    return palette.LIGHT[code % len(palette.LIGHT)]


def marker_of(code: int) -> str:
    """Return the marker of a cluster."""
    return MARKERS[palette.MARKERS[code % len(palette.MARKERS)]]


def draw_map(ax: Axes, drawn: ClusterMap, names: list[str], by_confidence: bool) -> None:
    """Draw the rows by cluster, the axes and the names of the clusters."""
    low, high = drawn.frame.low, drawn.frame.high
    if drawn.kind == "histogram":
        _draw_histogram(ax, drawn)
    elif drawn.kind == "points":
        _draw_points(ax, drawn, by_confidence)
    else:
        extent = (low[0], high[0], low[1], high[1])
        ax.imshow(raster_image(drawn, by_confidence), origin="lower", extent=extent, interpolation="nearest")
    ax.set(xlim=(low[0], high[0]), xlabel=drawn.axes[0], ylabel=drawn.axes[1])
    without_box(ax)
    if drawn.kind == "histogram":
        return
    ax.set(ylim=(low[1], high[1]), aspect="equal" if drawn.frame.equal else "auto")
    if not drawn.axes[0]:
        without_axes(ax)
    for code, (x, y) in enumerate(drawn.name_positions.tolist()):
        if np.isfinite(x):
            box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": color_of(code), "alpha": 0.9}
            ax.text(x, y, names[code], ha="center", va="center", fontsize=8, bbox=box, zorder=3)
    if by_confidence:
        from matplotlib.cm import ScalarMappable

        draw_colorbar(ax, ScalarMappable(cmap=confidence_colors()), "confidence")


def _draw_histogram(ax: Axes, drawn: ClusterMap) -> None:
    assert drawn.counts.cells is not None
    edges = np.linspace(drawn.frame.low[0], drawn.frame.high[0], drawn.frame.cells[0] + 1)
    below = np.zeros(len(edges) - 1)
    for code, counts in enumerate(drawn.counts.cells.T):
        ax.stairs(below + counts, edges, baseline=below, fill=True, color=color_of(code))
        below += counts


def _draw_points(ax: Axes, drawn: ClusterMap, by_confidence: bool) -> None:
    assert drawn.points is not None
    assert drawn.codes is not None
    size = float(np.clip(30_000 / len(drawn.points), 4, 36))
    for code in range(len(drawn.name_positions)):
        mine = drawn.codes == code
        style: dict[str, Any] = {"color": color_of(code)}
        if by_confidence and drawn.confidence is not None:
            style = {"c": drawn.confidence[mine], "cmap": confidence_colors(), "vmin": 0.0, "vmax": 1.0}
        x, y = drawn.points[mine].T
        # snapped to pixels, small crosses would vanish
        ax.scatter(x, y, s=size, marker=marker_of(code), linewidths=0, alpha=0.8, snap=False, **style)


def raster_image(drawn: ClusterMap, by_confidence: bool) -> npt.NDArray[np.float32]:
    """Return pixels (rows, columns, 4), the lowest row first: the hue is the cluster, the opacity the log density."""
    cells = drawn.counts.cells
    assert cells is not None
    total = cells.sum(axis=1, dtype=np.float64)
    if by_confidence and drawn.counts.cell_confidence is not None:
        colors = confidence_colors()(drawn.counts.cell_confidence.sum(axis=1) / np.maximum(total, 1))[:, :3]
    else:
        hues = np.array([palette.channels(color_of(code)) for code in range(cells.shape[1])])
        colors = cells @ hues / np.maximum(total, 1)[:, None]
    density = np.log1p(total) / max(np.log1p(total.max(initial=0.0)), 1e-300)
    opacity = np.where(total > 0, 0.25 + 0.75 * density, 0.0)
    columns, rows = drawn.frame.cells
    return np.column_stack([colors, opacity]).reshape(rows, columns, 4).astype(np.float32)


def draw_legend(ax: Axes, figures: FigureData) -> None:
    """Draw markers, names and sizes of the clusters, if there are not too many."""
    from matplotlib.lines import Line2D

    if len(figures.cluster_names) > MOST_IN_LEGEND:
        return
    clusters = enumerate(zip(figures.cluster_names, figures.counts.sizes.tolist(), strict=True))
    handles = [
        Line2D([], [], linestyle="", marker=marker_of(code), color=color_of(code), label=f"{name}  ({size:,})")
        for code, (name, size) in clusters
    ]
    ax.legend(handles=handles, title="cluster (rows)", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_colorbar(ax: Axes, image: Any, text: str) -> None:
    """Draw a bar with the meaning of colours beside axes."""
    ax.figure.colorbar(image, ax=ax, label=text, shrink=0.7)


def confidence_colors() -> Any:
    """Return the colour map of confidence."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("confidence", palette.CONFIDENCE_LIGHT)


def diverging_map() -> Any:
    """Return the colours from low to high means."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("means", palette.DIVERGING_LIGHT)


def draw_tree(ax: Axes, tree: TopTree, weights: Any, groups: Any) -> None:
    """Draw a tree as blocks: `weights` (p,) of representatives are widths, and their `groups` (p,) are colours."""
    L = tree.n_leaves
    widths = np.bincount(tree.leaf_of, weights, minlength=L)
    widths = np.maximum(widths / widths.sum(), 1e-4)
    edges = np.concatenate([[0.0], np.cumsum(widths / widths.sum())])
    below: list[list[int]] = [[leaf] for leaf in range(L)]
    start, end = np.ones(2 * L - 1), np.full(2 * L - 1, float(L))
    for t, (a, b) in enumerate(tree.merges.tolist()):
        below.append(below[a] + below[b])
        start[[a, b]] = L - t - 1  # the merge leaves this many clusters
        end[L + t] = L - t - 1
    for node, leaves in enumerate(below):
        codes = np.unique(groups[np.isin(tree.leaf_of, leaves)])
        low, high = edges[min(leaves)], edges[max(leaves) + 1]
        ax.bar(
            low,
            max(end[node] - start[node], 0.0),
            high - low,
            start[node],
            align="edge",
            color=color_of(int(codes[0])) if len(codes) == 1 else GREY,
            alpha=0.75 if len(codes) == 1 else 0.3,
            edgecolor="white",
            linewidth=0.6,
        )
    ax.set(xlim=(0, 1), ylim=(L, 1), yscale="log")
    ax.set_yticks(ticks := [k for k in (1, 2, 3, 5, 8, 12, 20, 35, 60) if k <= L], list(map(str, ticks)))
    ax.minorticks_off()
