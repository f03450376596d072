"""Draws the README's picture: what k-means and U-SPEC find on concentric circles and on the flower."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

from ultraspec import USPEC, datasets, metrics

TARGET = Path(__file__).parent.parent / "docs" / "images" / "kmeans-and-uspec.png"
DRAWN = 8_000


def main() -> None:
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.1), facecolor="white")
    for pair, (name, title) in zip(axes.reshape(2, 2), [("cc", "circles"), ("flower", "flower")], strict=True):
        X, y = datasets.generate(name, 200_000, random_state=0)
        k = datasets.N_CLASSES[name]
        shown = np.random.default_rng(0).choice(len(X), DRAWN, replace=False)
        methods = {"k-means": KMeans(k, n_init=3, random_state=0), "U-SPEC": USPEC(k, random_state=0)}
        for axis, (method, estimator) in zip(pair, methods.items(), strict=True):
            labels = estimator.fit_predict(X)
            axis.scatter(*X[shown].T, c=labels[shown], s=1.6, cmap="tab10" if k <= 10 else "tab20", linewidths=0)
            axis.set_title(f"{method}, {title}: NMI {metrics.nmi(y, labels):.2f}", fontsize=13)
            axis.set_aspect("equal", adjustable="datalim")
            axis.axis("off")
    figure.tight_layout()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(TARGET, dpi=72)
    print(f"wrote {TARGET.relative_to(Path.cwd()) if TARGET.is_relative_to(Path.cwd()) else TARGET}")


if __name__ == "__main__":
    main()
