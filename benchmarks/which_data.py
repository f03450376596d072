"""Data to choose a rule on: classes of known shape, size and nearness, each knob by itself and some together.

`SETTINGS` names the settings, `make` draws rows and classes of one. Rows of background noise and outliers have class
-1 and are left out of scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SHAPES = ("blob", "worm", "ring", "parts", "heavy")
RADII = {"blob": 1.0, "heavy": 1.0, "worm": 3.0, "ring": 3.0, "parts": 2.5}  # about how far a class reaches
MOST_PLACING_DIMENSIONS = 6  # that centres differ in; classes spread over all


@dataclass(frozen=True)
class Setting:
    """How classes are drawn.

    Attributes
    ----------
    shape : str
        One of `SHAPES`, or "mixed" for all in turn.
    k : int
        Number of classes.
    d : int
        Features.
    dominant : float
        Share of the first class; the others share the rest. 0: as `ratio` says.
    wide : bool
        Whether a class's width grows with its size, so that all are about as dense.
    ratio : float
        Each class has so many times the rows of the next.
    gap : float
        Distance of neighbouring classes in units of their widths: 2 overlap, 4 touch, 8 are well apart.
    widths : float
        Widest over narrowest class.
    noise : float
        Share of background rows, spread evenly.
    outliers : int
        Rows far away from all.
    """

    shape: str = "blob"
    k: int = 6
    d: int = 4
    dominant: float = 0.0
    wide: bool = True
    ratio: float = 1.0
    gap: float = 4.0
    widths: float = 1.0
    noise: float = 0.0
    outliers: int = 0


SETTINGS: dict[str, Setting] = {
    **{f"{shape}": Setting(shape) for shape in (*SHAPES, "mixed")},
    **{f"{shape}-apart": Setting(shape, gap=7.0) for shape in ("blob", "worm", "mixed")},
    **{f"{shape}-overlap": Setting(shape, gap=2.5) for shape in (*SHAPES, "mixed")},
    **{f"{shape}-2d": Setting(shape, d=2) for shape in (*SHAPES, "mixed")},
    **{f"mixed-{d}d": Setting("mixed", d=d) for d in (8, 16, 64)},
    **{f"blob-{d}d": Setting("blob", d=d, gap=5.0) for d in (16, 64, 256)},
    **{f"mixed-k{k}": Setting("mixed", k=k) for k in (2, 3, 12, 25, 50)},
    **{f"blob-k{k}": Setting("blob", k=k) for k in (2, 12, 25, 50)},
    **{f"blob-half-{g}": Setting("blob", dominant=0.5, gap=g) for g in (2.5, 4.0, 6.0)},
    **{f"mixed-half-{g}": Setting("mixed", dominant=0.5, gap=g) for g in (2.5, 4.0, 6.0)},
    **{f"{s}-80-{g}": Setting(s, dominant=0.8, gap=g) for s in ("blob", "parts", "worm") for g in (3.0, 5.0)},
    **{f"{s}-dense-80": Setting(s, dominant=0.8, wide=False) for s in ("blob", "mixed", "heavy")},
    **{f"{s}-70-2d": Setting(s, dominant=0.7, d=2) for s in ("blob", "parts", "ring", "heavy")},
    **{f"blob-80-k{k}": Setting("blob", k=k, dominant=0.8) for k in (2, 3, 12)},
    **{f"{s}-70-16d": Setting(s, dominant=0.7, d=16) for s in ("blob", "mixed")},
    **{f"{s}-halving": Setting(s, ratio=2.0) for s in ("blob", "worm", "mixed")},
    **{f"{s}-halving-dense": Setting(s, ratio=2.0, wide=False) for s in ("blob", "mixed")},
    **{f"{s}-thirds-2d": Setting(s, ratio=3.0, d=2, gap=5.0) for s in ("blob", "mixed")},
    **{f"{s}-widths": Setting(s, widths=5.0) for s in ("blob", "mixed")},
    **{f"{s}-noise": Setting(s, noise=0.2) for s in ("blob", "worm", "mixed")},
    **{f"{s}-noise-2d": Setting(s, noise=0.2, d=2, gap=5.0) for s in ("blob", "worm", "mixed")},
    "mixed-half-noise": Setting("mixed", dominant=0.5, noise=0.1),
    "blob-80-noise": Setting("blob", dominant=0.8, noise=0.1),
    "blob-outliers": Setting("blob", outliers=40),
    "mixed-outliers": Setting("mixed", outliers=40),
    "blob-80-outliers": Setting("blob", dominant=0.8, outliers=40),
    "worm-k12-2d": Setting("worm", k=12, d=2, gap=5.0),
    "ring-k12-half": Setting("ring", k=12, dominant=0.5),
}


def make(setting: Setting, n: int, seed: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Rows (n, d) and their classes."""
    random = np.random.default_rng([seed, *repr(setting).encode()])
    sizes = _sizes(setting)
    scales = np.geomspace(1.0, setting.widths, setting.k)[random.permutation(setting.k)]
    if setting.wide:
        scales = scales * (sizes * setting.k) ** (1.0 / min(setting.d, 3))
    shapes = [SHAPES[c % len(SHAPES)] if setting.shape == "mixed" else setting.shape for c in range(setting.k)]
    reach = scales * [RADII[shape] for shape in shapes]
    centers = _places(reach * setting.gap / 2, min(setting.d, MOST_PLACING_DIMENSIONS), random)
    n_noise = int(setting.noise * n)
    y = random.choice(setting.k, n, p=sizes)
    y[: n_noise + setting.outliers] = -1
    X = np.zeros((n, setting.d))
    for c, shape in enumerate(shapes):
        rows = np.flatnonzero(y == c)
        X[rows] = scales[c] * _class(shape, len(rows), setting.d, random)
        X[rows, : centers.shape[1]] += centers[c]
    low, high = X[y >= 0].min(axis=0), X[y >= 0].max(axis=0)
    X[:n_noise] = random.uniform(low, high, (n_noise, setting.d))
    far = random.normal(size=(setting.outliers, setting.d))
    X[n_noise : n_noise + setting.outliers] = (low + high) / 2 + 3 * far / np.linalg.norm(
        far, axis=1, keepdims=True
    ) * np.linalg.norm(high - low)
    order = random.permutation(n)
    return X[order].astype(np.float32), y[order]


def _sizes(setting: Setting) -> Floats:
    """Shares of the classes."""
    if setting.dominant:
        rest = (1 - setting.dominant) / (setting.k - 1)
        return np.array([setting.dominant, *[rest] * (setting.k - 1)])
    sizes = setting.ratio ** -np.arange(float(setting.k))
    return sizes / sizes.sum()


def _places(reach: Floats, d: int, random: np.random.Generator) -> Floats:
    """Centres (k, d) as near to each other as their classes' reaches let them be."""
    centers, side = np.zeros((1, d)), reach.max()
    while len(centers) < len(reach):
        new, c = random.uniform(-side, side, d), len(centers)
        if (np.linalg.norm(centers - new, axis=1) >= reach[:c] + reach[c]).all():
            centers = np.vstack([centers, new])
        else:
            side *= 1.02
    return centers


def _class(shape: str, n: int, d: int, random: np.random.Generator) -> Floats:
    """Rows of one class around the origin, of width one."""
    turn = np.linalg.qr(random.normal(size=(d, d)))[0]
    X = random.normal(size=(n, d))
    if shape == "blob":
        X *= random.uniform(0.5, 1.3, d)
    elif shape == "heavy":
        X /= np.sqrt(random.chisquare(3, n) / 3)[:, None]
    elif shape == "parts":
        parts = random.normal(size=(5, d)) * 2.0 / np.sqrt(min(d, 6))
        parts[:, MOST_PLACING_DIMENSIONS:] = 0
        X = 0.7 * X + parts[random.integers(5, size=n)]
    else:
        X *= 0.5
        along = random.uniform(-1, 1, n)
        if shape == "worm":
            X[:, 0] += 4 * along
            X[:, 1] += 3 * (along**2 - 1 / 3)
        else:
            X[:, 0] += 3 * np.cos(np.pi * along)
            X[:, 1] += 3 * np.sin(np.pi * along)
    return X @ turn
