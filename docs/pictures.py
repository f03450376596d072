"""Pictures of the first page, the guides and of benchmarks/results: ``python docs/pictures.py [name ...]``.

`pages.py` draws the pictures of the tutorials from their examples, `screenshots.py` those of the report.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from pages import DOCS, save_picture
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

from ultraspec import USENC, USPEC, datasets, metrics, plots
from ultraspec.figures import palette
from ultraspec.spectral.candidates import CANDIDATES

GREY = "#667080"
FAINT = "#c3cad4"
REAL = ("pendigits", "usps", "letters", "mnist", "covertype")


def without_axes(ax: Any, title: str) -> Any:
    """Hide ticks, labels and borders of axes; return the axes."""
    ax.set(title=title, xticks=[], yticks=[], xlabel="", ylabel="", aspect="equal")
    ax.spines[:].set_visible(False)
    return ax


def panels(n: int, size: float) -> tuple[Any, Any]:
    """Create a row of axes."""
    return plt.subplots(1, n, figsize=(n * size, size + 0.3), layout="constrained", facecolor="white")


def draw_points(ax: Any, X: Any, labels: Any, size: float = 3.0) -> None:
    """Draw rows in the colours of their clusters; clusters at the same place have the same colour in all pictures."""
    order = np.argsort([X[labels == code].mean(axis=0) @ (1.0, 1e-3) for code in range(labels.max() + 1)])
    colors = np.empty(len(order), dtype=object)
    colors[order] = [palette.LIGHT[i % len(palette.LIGHT)] for i in range(len(order))]
    ax.scatter(*X.T, c=colors[labels], s=size, linewidths=0)


def shapes() -> Any:
    """Draw the clusters of k-means and of U-SPEC on the same rows."""
    X, y = datasets.generate("cc", 100_000, random_state=0)
    figure, axes = panels(2, 3.4)
    models = {"k-means": KMeans(3, random_state=0), "U-SPEC": USPEC(3, random_state=0)}
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        labels = model.fit_predict(X)
        draw_points(without_axes(ax, f"{name}, NMI {metrics.nmi(y, labels):.2f}"), X[:9000], labels[:9000])
    return figure


def small_example() -> tuple[Any, Any]:
    """Return rows, and a model with few representatives, so that each can be seen."""
    X, _ = datasets.generate("cc", 6_000, random_state=0)
    return X, USPEC(3, n_representatives=300, random_state=0).fit(X)


def representatives() -> Any:
    """Draw rows with the representatives, and some rows with their nearest representatives."""
    X, model = small_example()
    R = model.representatives_
    figure, (left, right) = panels(2, 3.4)
    for ax, title in ((left, "1. Representatives"), (right, "2. Neighbours")):
        without_axes(ax, title).scatter(*X.T, color=FAINT, s=4, linewidths=0)
        ax.scatter(*R.T, color=palette.LIGHT[4], s=9, linewidths=0, zorder=3)
    for row in X[np.random.default_rng(4).choice(len(X), 24, replace=False)]:
        for i in np.linalg.norm(R - row, axis=1).argsort()[:5]:
            right.plot(*np.stack([row, R[i]]).T, color=GREY, linewidth=1.1, zorder=1)
        right.scatter(*row, color=palette.LIGHT[0], s=26, zorder=4, edgecolor="white", linewidths=0.7)
    return figure


def cut() -> Any:
    """Draw the graph of the representatives, the embedding and the labels."""
    X, model = small_example()
    figure, (left, middle, right) = panels(3, 2.9)
    plots.graph(model, X, ax=left)
    left.get_legend().remove()
    without_axes(left, "3. Graph")
    embedding = model.transform(X)
    middle.scatter(*embedding[:, 1:3].T, c=[palette.LIGHT[label] for label in model.labels_], s=5, linewidths=0)
    middle.set(title="4. Embedding", xlabel="second eigenvector", ylabel="third eigenvector")
    middle.set(aspect="equal", adjustable="datalim")
    middle.spines[["top", "right"]].set_visible(False)
    plots.clusters(model, X, legend=False, ax=right)
    without_axes(right, "5. Labels")
    return figure


def ensemble() -> Any:
    """Draw the clusters of three members and of the consensus."""
    X, _ = datasets.generate("cg", 20_000, random_state=0)
    model = USENC(11, random_state=0).fit(X)
    figure, axes = panels(4, 2.3)
    for number, ax in enumerate(axes[:3]):
        labels = model.base_labels_[:, number].astype(int)
        draw_points(without_axes(ax, f"{labels.max() + 1} clusters"), X[:6000], labels[:6000])
    draw_points(without_axes(axes[3], "consensus: 11"), X[:6000], model.labels_[:6000])
    return figure


def draw_borders(ax: Any, X: Any, labels: Any) -> None:
    """Draw dark lines where clusters meet, for readers who cannot distinguish the colours."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    axes = [np.linspace(a, b, 220) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    distances, nearest = NearestNeighbors(n_neighbors=1).fit(X).kneighbors(grid.reshape(-1, 2))
    far = distances.reshape(grid.shape[:2]) > 0.02 * (high - low).max()
    codes = labels[nearest].reshape(grid.shape[:2])
    for code in range(labels.max() + 1):
        mine = np.ma.masked_array((codes == code).astype(float), mask=far)
        ax.contour(*axes, mine, levels=[0.5], colors="#20242c", linewidths=0.6)


def which() -> Any:
    """Draw the clusters of each candidate on three data sets; the agreement of the chosen one is in bold."""
    sets = ("sf", "cg", "flower")
    size = (9.6, 7.6)
    figure, axes = plt.subplots(
        len(sets), len(CANDIDATES), figsize=size, layout="constrained", facecolor="white", squeeze=False
    )
    for row, name in zip(axes, sets, strict=True):
        X, y = datasets.generate(name, 100_000, random_state=0)
        k = datasets.N_CLASSES[name]
        model = USPEC(k, random_state=0).fit(X)
        for ax, candidate in zip(row, CANDIDATES, strict=True):
            labels = model.cut(k, discretize=candidate).labels_
            head = f"{candidate}\n" if name == sets[0] else ""
            scores = f"agreement {model.candidates_[candidate]:.2f}, NMI {metrics.nmi(y, labels):.2f}"
            draw_points(without_axes(ax, head + scores), X[:9000], labels[:9000], 2.0)
            draw_borders(ax, X[:30_000], labels[:30_000])
            ax.title.set(fontsize=10, fontweight="bold" if candidate == model.discretize_ else "normal")
    return figure


def calibration() -> Any:
    """Draw the share of right rows by confidence: a line for each of the paper's sets, and one for generated data."""
    runs = json.loads((DOCS.parent / "benchmarks/results/trust.json").read_text())["calibration"]
    named = {name: run["curve"] for name, run in runs.items() if name in REAL or name in datasets.N_CLASSES}
    others = np.concatenate([run["curve"] for name, run in runs.items() if name not in named])
    bins = (others[:, 0] * 10).astype(int).clip(0, 9)
    pooled = [np.average(others[bins == b, :2], axis=0, weights=others[bins == b, 2]) for b in np.unique(bins)]
    figure, ax = plt.subplots(figsize=(7.4, 4.6), layout="constrained", facecolor="white")
    ax.plot([0, 1], [0, 1], color=FAINT, linestyle="--")
    for number, (name, curve) in enumerate(named.items()):
        points = np.array([point for point in curve if point[2] >= 0.005])  # fewer rows tell little
        ax.plot(*points.T[:2], marker="o", markersize=4, color=palette.LIGHT[number], label=name)
    n_others = len(runs) - len(named)
    ax.plot(*np.array(pooled).T, marker="s", color="black", linewidth=2.5, label=f"{n_others} generated sets")
    ax.set(xlabel="confidence", ylabel="share of rows in the right cluster", xlim=(0, 1.02), ylim=(0, 1.02))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


if __name__ == "__main__":
    drawings = {
        "calibration": calibration,
        "shapes": shapes,
        "how-1": representatives,
        "how-2": cut,
        "how-3": ensemble,
        "which-one": which,
    }
    for name in sys.argv[1:] or drawings:
        save_picture(drawings[name](), DOCS / "images" / f"{name}.png", dpi=130)
        plt.close("all")
