"""How the plots draw: axes, markers, points, rasters, legends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ultraspec.figures import ClusterMap, Survey, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "wedge": "v", "plus": "P", "cross": "X"}
QUIET = "#667080"  # of what is not the subject
MOST_IN_LEGEND = 26


def need_matplotlib() -> None:
    """Refuse to begin where matplotlib is missing."""
    try:
        import matplotlib.pyplot  # noqa: F401
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'ultraspec[plots]'.") from error


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The given axes, or those of a new figure."""
    import matplotlib.pyplot as plt

    return ax if ax is not None else plt.subplots(figsize=size, layout="constrained")[1]


def need_ensemble(model: Any, what: str) -> None:
    """Refuse models that are not ensembles."""
    from ultraspec.usenc import USENC

    if not isinstance(model, USENC):
        raise TypeError(f"{what} needs a USENC model, which has members, got {type(model).__name__}.")


def bare(ax: Axes) -> Axes:
    """Axes without a box."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def color_of(code: int) -> str:
    """Colour of a cluster."""
    return palette.LIGHT[code % len(palette.LIGHT)]


def marker_of(code: int) -> str:
    """Marker of a cluster."""
    return MARKERS[palette.MARKERS[code % len(palette.MARKERS)]]


def draw_map(ax: Axes, drawn: ClusterMap, names: list[str], by_confidence: bool) -> None:
    """The map itself, its frame and the clusters' names."""
    if drawn.kind == "histogram":
        _histogram(ax, drawn, names)
    elif drawn.kind == "points":
        _points(ax, drawn, names, by_confidence)
    else:
        _raster(ax, drawn, by_confidence)
    _frame(ax, drawn)
    if drawn.kind != "histogram":
        _names(ax, drawn, names)
        if by_confidence:
            from matplotlib.cm import ScalarMappable

            colorbar(ax, ScalarMappable(cmap=confidence_colors()), "confidence")
    bare(ax)


def legend(ax: Axes, found: Survey) -> None:
    """Markers, names and sizes of the clusters, if they are not too many."""
    from matplotlib.lines import Line2D

    if len(found.names) > MOST_IN_LEGEND:
        return
    handles = [
        Line2D([], [], linestyle="", marker=marker_of(code), color=color_of(code), label=f"{name}  ({size:,})")
        for code, (name, size) in enumerate(zip(found.names, found.tally.sizes.tolist(), strict=True))
    ]
    ax.legend(handles=handles, title="cluster (rows)", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def colorbar(ax: Axes, image: Any, text: str) -> None:
    """A bar that tells what colours mean."""
    ax.figure.colorbar(image, ax=ax, label=text, shrink=0.7)


def confidence_colors() -> Any:
    """The scale of confidence."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("confidence", palette.CONFIDENCE_LIGHT)


def raster_image(drawn: ClusterMap, by_confidence: bool) -> npt.NDArray[np.float32]:
    """Pixels (rows, columns, 4), the lowest row first: hue for clusters, opacity for the log of the density."""
    cells, backing = drawn.tally.cells, drawn.tally.backing
    assert cells is not None
    total = cells.sum(axis=1, dtype=np.float64)
    if by_confidence and backing is not None:
        colors = confidence_colors()(backing.sum(axis=1) / np.maximum(total, 1))[:, :3]
    else:
        hues = np.array([palette.channels(color_of(code)) for code in range(cells.shape[1])])
        colors = cells @ hues / np.maximum(total, 1)[:, None]
    density = np.log1p(total) / max(np.log1p(total.max(initial=0.0)), 1e-300)
    opacity = np.where(total > 0, 0.25 + 0.75 * density, 0.0)
    columns, rows = drawn.frame.cells
    return np.column_stack([colors, opacity]).reshape(rows, columns, 4).astype(np.float32)


def _raster(ax: Axes, drawn: ClusterMap, by_confidence: bool) -> None:
    low, high = drawn.frame.low, drawn.frame.high
    extent = (low[0], high[0], low[1], high[1])
    ax.imshow(raster_image(drawn, by_confidence), origin="lower", extent=extent, interpolation="nearest")


def _points(ax: Axes, drawn: ClusterMap, names: list[str], by_confidence: bool) -> None:
    assert drawn.points is not None
    assert drawn.codes is not None
    size = float(np.clip(30_000 / len(drawn.points), 4, 36))
    for code in range(len(names)):
        mine = drawn.codes == code
        style: dict[str, Any] = {"color": color_of(code)}
        if by_confidence and drawn.confidence is not None:
            style = {"c": drawn.confidence[mine], "cmap": confidence_colors(), "vmin": 0.0, "vmax": 1.0}
        x, y = drawn.points[mine].T
        style |= {"s": size, "marker": marker_of(code), "linewidths": 0, "alpha": 0.8}
        ax.scatter(x, y, snap=False, **style)  # snapped to pixels, small crosses would vanish


def _histogram(ax: Axes, drawn: ClusterMap, names: list[str]) -> None:
    assert drawn.tally.cells is not None
    edges = np.linspace(drawn.frame.low[0], drawn.frame.high[0], drawn.frame.cells[0] + 1)
    below = np.zeros(len(edges) - 1)
    for code in range(len(names)):
        counts = drawn.tally.cells[:, code]
        ax.stairs(below + counts, edges, baseline=below, fill=True, color=color_of(code))
        below += counts


def _frame(ax: Axes, drawn: ClusterMap) -> None:
    low, high = drawn.frame.low, drawn.frame.high
    ax.set(xlim=(low[0], high[0]), xlabel=drawn.axes[0], ylabel=drawn.axes[1])
    if drawn.kind == "histogram":
        return
    ax.set(ylim=(low[1], high[1]), aspect="equal" if drawn.frame.equal else "auto")
    if not drawn.axes[0]:
        ax.set(xticks=[], yticks=[])
        ax.spines[["left", "bottom"]].set_visible(False)


def _names(ax: Axes, drawn: ClusterMap, names: list[str]) -> None:
    for code, (x, y) in enumerate(drawn.spots.tolist()):
        if np.isfinite(x):
            box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": color_of(code), "alpha": 0.9}
            ax.text(x, y, names[code], ha="center", va="center", fontsize=8, bbox=box, zorder=3)
