"""Five synthetic 2-D sets: takes a name and a row count, gives points (float32) and classes (int32).

They generate the sets TB-1M, SF-2M, CC-5M, CG-10M and Flower-20M of the U-SPEC paper. The code of the authors'
generators is not published. Ours were fitted to the points of the paper's Figure 5, and that of SF to half of 100,000
rows of the authors' data. They agree with 100,000 rows of each of the authors' sets to within the noise of these rows,
except for the unit of length (ours is two of theirs for TB and CC, five for CG and Flower) and for the origin of TB
(0.03 lower in the authors' data, in our unit). ``benchmarks/generators.py`` has the comparison.

Every class of every set is an arc, a straight stalk or a blob, and all three have the same formula with different
constants (see ``_fill``). A set is therefore a table with one line per class.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, pi, radians, sin
from numbers import Integral
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ultraspec._checks import check_integer

Labelled = tuple[NDArray[np.float32], NDArray[np.int32]]

CHUNK_ROWS = 1_000_000
_STRIP_ROWS = 32_768  # drawn at a time, so that temporary arrays fit into the cache of a core


class _Class(NamedTuple):
    """One class of a set: its share of the rows and its shape in the plane (angles in radians)."""

    share: float
    x: float = 0.0  # centre
    y: float = 0.0
    radius: float = 0.0  # an arc about the centre (a circle if half_angle is pi) ...
    angle: float = 0.0
    half_angle: float = 0.0
    half_length: float = 0.0  # ... or a stalk along the direction `angle`, radius -+ half_length from the centre
    radial_noise: float = 0.0
    angular_noise: float = 0.0
    across_noise: float = 0.0
    noise: float = 0.0  # standard deviation in x and in y


def _two_bananas() -> list[_Class]:
    upper = _Class(0.5, x=0.5, y=-0.12, radius=0.99, angle=pi / 2, half_angle=pi / 2, noise=0.15)
    return [upper, upper._replace(x=-0.5, y=0.18, angle=-pi / 2)]


def _smiling_face() -> list[_Class]:
    def arc(x: float, y: float, radius: float, angle: float) -> _Class:
        share = 0.95 * radius / (2.0 + 2.0 + 2.6)  # in proportion to the length; the nose has the other 0.05
        return _Class(share, x, y, radius, angle, pi / 2, radial_noise=0.35, angular_noise=0.092)

    brows_and_mouth = [arc(2.6, -0.22, 2.0, pi / 2), arc(-2.6, -0.22, 2.0, pi / 2), arc(0.0, 0.22, 2.6, -pi / 2)]
    return [*brows_and_mouth, _Class(0.05, y=-1.01, noise=0.28)]


def _concentric_circles() -> list[_Class]:
    radii = (1.35, 0.85, 0.35)
    return [_Class(r / sum(radii), radius=r, half_angle=pi, radial_noise=0.065) for r in radii]


def _circles_and_gaussians() -> list[_Class]:
    rings = [_Class(share, radius=r, half_angle=pi, radial_noise=0.03) for share, r in ((0.3, 1.2), (0.1, 0.4))]
    blob = _Class(0.6 / 9, noise=0.12)
    around = [blob._replace(x=0.8 * cos(k * pi / 4), y=0.8 * sin(k * pi / 4)) for k in range(8)]
    return [*rings, blob, *around]


def _flower() -> list[_Class]:
    centre_share, petal_length, stalk_length = 0.019, 0.4 * radians(300), 0.8
    per_length = (1 - centre_share) / (6 * (petal_length + stalk_length))
    petal = _Class(
        petal_length * per_length,
        radius=0.4,
        half_angle=radians(150.9),
        radial_noise=0.042,
        angular_noise=0.064 / 0.4,
    )
    low, high = 0.195, 1.0
    stalk = _Class(
        stalk_length * per_length,
        radius=(low + high) / 2,
        half_length=(high - low) / 2,
        radial_noise=0.055,
        across_noise=0.036,
    )
    directions = [k * pi / 3 for k in range(6)]
    petals = [petal._replace(x=cos(d), y=sin(d), angle=d) for d in directions]
    return [*petals, *(stalk._replace(angle=d) for d in directions), _Class(centre_share, noise=0.036)]


_SETS = {
    "tb": _two_bananas(),
    "sf": _smiling_face(),
    "cc": _concentric_circles(),
    "cg": _circles_and_gaussians(),
    "flower": _flower(),
}

N_CLASSES = MappingProxyType({name: len(classes) for name, classes in _SETS.items()})
PAPER_ROWS = MappingProxyType(
    {"tb": 1_000_000, "sf": 2_000_000, "cc": 5_000_000, "cg": 10_000_000, "flower": 20_000_000}
)


def generate(name: str, n: int, random_state: Any = None) -> Labelled:
    """Generate one of the paper's synthetic sets with any number of rows.

    Parameters
    ----------
    name : {"tb", "sf", "cc", "cg", "flower"}
        Two bananas (2 classes), smiling face (4), concentric circles (3), circles and gaussians (11), flower (13).
    n : int
        Number of rows. Those of the paper are in ``datasets.N_ROWS``.
    random_state : None, int, SeedSequence, Generator or RandomState
        An int or a SeedSequence gives the same points every time. From a Generator or RandomState a seed is drawn,
        which changes its state. None gives different points every time.

    Returns
    -------
    X : ndarray of shape (n, 2), float32
        Points.
    y : ndarray of shape (n,), int32
        Class of each row, drawn at random, so that the sizes of classes vary.

    Notes
    -----
    The points are drawn by our own generators, which agree with 100,000 rows of each of the authors' sets to within the
    noise of these rows, up to scale and origin.
    The result is the concatenation of ``stream(name, n, random_state)``.

    Examples
    --------
    >>> from ultraspec import datasets
    >>> X, y = datasets.generate("cc", 1000, random_state=0)
    >>> X.shape, X.dtype.name, y.max().item()
    ((1000, 2), 'float32', 2)
    """
    classes = _set_named(name)
    check_integer("n", n, least=1)
    seed = seed_of(random_state)
    X = np.empty((n, 2), np.float32)
    y = np.empty(n, np.int32)
    for i, start in enumerate(range(0, n, CHUNK_ROWS)):
        rows = slice(start, start + CHUNK_ROWS)
        _fill(classes, _chunk_generator(seed, i), X[rows], y[rows])
    return X, y


def stream(name: str, n: int, random_state: Any = None, chunk_rows: int = CHUNK_ROWS) -> Iterator[Labelled]:
    """Generate one of the paper's synthetic sets block by block, for sets larger than memory.

    Parameters
    ----------
    name, n, random_state
        As in `generate`.
    chunk_rows : int
        Rows per block; the last block may have fewer. Another block size gives other points of the same distribution.

    Returns
    -------
    iterator of (X, y)
        Block ``i`` equals ``chunk(name, len(y), seed_of(random_state), i)`` and does not depend on other blocks.

    Examples
    --------
    >>> from ultraspec import datasets
    >>> [len(y) for X, y in datasets.stream("tb", 2500, random_state=0, chunk_rows=1000)]
    [1000, 1000, 500]
    """
    # Not a generator function, whose checks and seed would wait for the first block.
    _set_named(name)
    check_integer("n", n, least=1)
    check_integer("chunk_rows", chunk_rows, least=1)
    seed = seed_of(random_state)
    starts = range(0, int(n), int(chunk_rows))
    return (chunk(name, min(starts.step, starts.stop - start), seed, i) for i, start in enumerate(starts))


def chunk(name: str, n_rows: int, seed: int, i: int) -> Labelled:
    """Generate one block of `stream`, for instance on another machine.

    Parameters
    ----------
    name : str
        As in `generate`.
    n_rows : int
        Number of rows of the block.
    seed : int
        Seed of the set; `seed_of` converts a SeedSequence or a Generator.
    i : int
        Number of the block, from 0.

    Returns
    -------
    X, y : ndarrays
        As in `generate`.

    Examples
    --------
    >>> from ultraspec import datasets
    >>> blocks = list(datasets.stream("sf", 300, random_state=7, chunk_rows=100))
    >>> X, y = datasets.chunk("sf", 100, seed=7, i=2)
    >>> bool((X == blocks[2][0]).all())
    True
    """
    classes = _set_named(name)
    check_integer("n_rows", n_rows, least=1)
    check_integer("seed", seed, least=0)
    check_integer("i", i, least=0)
    X = np.empty((n_rows, 2), np.float32)
    y = np.empty(n_rows, np.int32)
    _fill(classes, _chunk_generator(int(seed), int(i)), X, y)
    return X, y


def seed_of(random_state: Any) -> int:
    """Convert a ``random_state`` to an integer, as `chunk` needs it.

    Parameters
    ----------
    random_state : None, int, SeedSequence, Generator or RandomState
        An int is returned as it is. A SeedSequence gives its first 128 bits and is not changed, a Generator or
        RandomState gives its next draw, None gives a random seed.

    Returns
    -------
    int

    Examples
    --------
    >>> from ultraspec import datasets
    >>> datasets.seed_of(42)
    42
    """
    if random_state is None:
        random_state = np.random.SeedSequence()
    if isinstance(random_state, np.random.SeedSequence):
        return int.from_bytes(random_state.generate_state(4, np.uint32).astype("<u4").tobytes(), "little")
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if not isinstance(random_state, Integral) or isinstance(random_state, bool):
        raise TypeError(
            "random_state must be None, an int, or a numpy SeedSequence, Generator or RandomState, "
            f"not {type(random_state).__name__}"
        )
    check_integer("random_state", random_state, least=0)
    return int(random_state)


def _fill(classes: list[_Class], rng: np.random.Generator, X: NDArray[np.float32], y: NDArray[np.int32]) -> None:
    """Draw classes into y and points into X.

    A uniform number u is the position along the curve of the class, two normal numbers v and w are the noise::

        r = radius + half_length u + radial_noise v        t = angle + half_angle u + angular_noise w
        x = centre + r e(t) + across_noise w e'(t) + noise (v, w)        e(t) = (cos t, sin t)
    """
    shares = np.cumsum([c.share for c in classes])
    table = np.array([c[1:] for c in classes], np.float32).T
    for start in range(0, len(y), _STRIP_ROWS):
        strip = slice(start, start + _STRIP_ROWS)
        m = len(y[strip])
        which = np.searchsorted(shares[:-1], rng.random(m), side="right")
        u = 2 * rng.random(m, np.float32) - 1
        v, w = rng.standard_normal((2, m), np.float32)
        x0, y0, radius, angle, half_angle, half_length, radial, angular, across, noise = table.take(which, axis=1)
        r = radius + half_length * u + radial * v
        t = angle + half_angle * u + angular * w
        e1, e2 = np.cos(t), np.sin(t)
        across *= w
        X[strip, 0] = x0 + r * e1 - across * e2 + noise * v
        X[strip, 1] = y0 + r * e2 + across * e1 + noise * w
        y[strip] = which


def _chunk_generator(seed: int, i: int) -> np.random.Generator:
    # The tag makes these streams differ from the children of SeedSequence(seed), which an estimator with the same
    # random_state may spawn: sampling rows with the numbers that generated them would not be random.
    tag = int.from_bytes(b"data", "big")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(tag, i)))


def _set_named(name: str) -> list[_Class]:
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if name not in _SETS:
        raise ValueError(f"unknown synthetic set {name!r}; known are {', '.join(map(repr, _SETS))}")
    return _SETS[name]
