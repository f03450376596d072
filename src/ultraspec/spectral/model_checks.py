"""Checks of the arrays of models that come from files or checkpoints, before anything is built from them.

A file may come from a stranger. Kernels do not check indices, so every index must be in range, every cluster must have
members, and all values must be small enough that no distance or product overflows: a kernel that finds no distance
below infinity leaves its ids unset.

Each ``*_rules`` function is a table of conditions and messages; `require` raises `InvalidModel` for the first that does
not hold. Later rules may rely on earlier ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec.spectral.candidates import TREES
from ultraspec.spectral.preprocess import LARGEST
from ultraspec.spectral.representatives import MOST_REPRESENTATIVES

LONGEST = 2.0**10 * LARGEST  # length of a point: with clipped rows, squared distances stay below 2^127
LARGEST_VECTOR = 1e25  # the scale of a row is at most 1e10, and its product with a centre must stay in float32
SIGMAS = 1e-100, 1e100

Arrays = Mapping[str, npt.NDArray[Any]]
Rules = Iterator[tuple[bool, str]]

# name: type and number of axes
INDEX_ARRAYS: dict[str, tuple[type, int]] = {
    "representatives": (np.float32, 2),
    "centers": (np.float32, 2),
    "starts": (np.int64, 1),
    "lists": (np.uint16, 2),
}
SPECTRUM_ARRAYS: dict[str, tuple[type, int]] = {
    "eigenvalues": (np.float64, 1),
    "vectors": (np.float32, 2),
    "degrees": (np.float64, 1),
}
CENTER_ARRAYS: dict[str, tuple[type, int]] = {"cluster_centers": (np.float32, 2)}
NUMBER_ARRAYS: dict[str, tuple[type, int]] = {"cluster_numbers": (np.int32, 1)}
VOTE_ARRAYS: dict[str, tuple[type, int]] = {"groups": (np.int32, 1)}
TRUST_ARRAYS: dict[str, tuple[type, int]] = {"trust": (np.float32, 1)}
NEAREST_ARRAYS: dict[str, tuple[type, int]] = {"nearest": (np.uint16, 1)}
TREE_ARRAYS: dict[str, tuple[type, int]] = {
    "merges": (np.int64, 2),
    "heights": (np.float64, 1),
    "masses": (np.float64, 1),
}
EDGE_ARRAYS: dict[str, tuple[type, int]] = {"ids": (np.uint16, 2), "weights": (np.float32, 2)}
HIERARCHY_ARRAYS: dict[str, tuple[type, int]] = {"nodes": (np.int32, 1), "seed": (np.int64, 1)}
SCALARS = ("sigma", "n_neighbors", "exact")


class InvalidModel(ValueError):
    """A model, or a file of one, whose contents are not valid; the message does not name the file."""


def require(rules: Rules) -> None:
    """Raise InvalidModel with the message of the first condition that does not hold."""
    for holds, message in rules:
        if not holds:
            raise InvalidModel(message)


def shown(value: Any) -> str:
    """Format a value of a file for a message: short, and safe to print."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_integer(value: Any, least: int, most: int) -> bool:
    """Return whether a value is an integer of Python in a range."""
    return type(value) is int and least <= value <= most


def key_rules(what: str, mapping: Any, keys: set[str]) -> Rules:
    """Require a mapping with exactly these keys."""
    yield isinstance(mapping, dict), f"its {what} is no mapping but {shown(mapping)}."
    missing = sorted(keys - set(mapping))
    yield not missing, f"its {what} lacks {''.join(missing[:1])}."
    extra = sorted(set(mapping) - keys)
    yield not extra, f"its {what} has {shown(''.join(extra[:1]))}, which does not belong there."


def array_rules(arrays: Arrays, table: Mapping[str, tuple[type, int]]) -> Rules:
    """Require exactly the arrays of a table, with their types and numbers of axes, and finite values."""
    missing = sorted(set(table) - set(arrays))
    yield not missing, f"its array {shown(''.join(missing[:1]))} is missing."
    extra = sorted(set(arrays) - set(table))
    yield not extra, f"it has an array {shown(''.join(extra[:1]))}, which does not belong there."
    for name, (kind, n_axes) in table.items():
        array = arrays[name]
        yield array.dtype == kind, f"its array {name} must be of type {np.dtype(kind)}, not {array.dtype}."
        yield array.ndim == n_axes, f"its array {name} must have {n_axes} axes, not the shape {array.shape}."
        yield bool(np.isfinite(array).all()), f"its array {name} holds NaN or infinity."


def partition_arrays(prefix: str, arrays: Arrays) -> dict[str, tuple[type, int]]:
    """Return the table of the arrays of a partition: with votes if it has clusters of representatives."""
    table = {**SPECTRUM_ARRAYS, **CENTER_ARRAYS}
    if prefix + "cluster_numbers" in arrays:
        table |= NUMBER_ARRAYS
    if prefix + "groups" in arrays:
        table = {**SPECTRUM_ARRAYS, **VOTE_ARRAYS}
        table |= TRUST_ARRAYS if prefix + "trust" in arrays else {}
    return {prefix + name: entry for name, entry in table.items()}


def model_arrays(prefix: str, arrays: Arrays) -> dict[str, tuple[type, int]]:
    """Return the table of the arrays of a U-SPEC model: with those of a choice if it has nodes of trees."""
    table = {prefix + name: entry for name, entry in INDEX_ARRAYS.items()} | partition_arrays(prefix, arrays)
    parts = choice_prefixes(prefix, arrays)
    for part in parts:
        own = part == prefix + "own."
        needed = HIERARCHY_ARRAYS if own else {**SPECTRUM_ARRAYS, **HIERARCHY_ARRAYS}
        if len(parts) > 1 or part + "ids" in arrays:  # without judges, no edges of common rows are needed
            needed = {**needed, **EDGE_ARRAYS}
        if not own and part + "nearest" in arrays:  # files of older releases lack it
            needed = {**needed, **NEAREST_ARRAYS}
        if arrays[part + "nodes"].any():  # a single leaf has no tree
            needed = {**needed, **{f"{tree}.{name}": entry for tree in TREES for name, entry in TREE_ARRAYS.items()}}
        table |= {part + name: entry for name, entry in needed.items()}
    return table


def choice_prefixes(prefix: str, arrays: Arrays) -> list[str]:
    """Return the prefixes of the graphs of a choice, that of the first graph first; none if there is no choice."""
    if prefix + "own.nodes" not in arrays:
        return []
    judges = itertools.takewhile(
        lambda part: part + "nodes" in arrays, (f"{prefix}judge{number}." for number in itertools.count())
    )
    return [prefix + "own.", *judges]


def n_clusters(prefix: str, arrays: Arrays) -> int:
    """Return the number of clusters of a partition."""
    if prefix + "groups" in arrays:
        return int(arrays[prefix + "groups"].max()) + 1
    return len(arrays[prefix + "cluster_centers"])


def check_model_arrays(arrays: Arrays, n_rows: int, n_features: int) -> None:
    """Raise InvalidModel unless arrays, scalars among them, form a U-SPEC model of rows of this shape."""
    scalars = {name: array for name, array in arrays.items() if name in SCALARS}
    require(key_rules("model", scalars, set(SCALARS)))
    for name, value in scalars.items():
        require(iter([(value.ndim == 0, f"its {name} is no number but has the shape {value.shape}.")]))
    others = {name: array for name, array in arrays.items() if name not in SCALARS}
    require(array_rules(others, model_arrays("", others)))
    require(index_rules("", others, n_features))
    require(scalar_rules("", {name: value.item() for name, value in scalars.items()}, others))
    require(partition_rules("", others, len(others["representatives"]), n_rows))
    require(choice_rules("", others))


def scalar_rules(prefix: str, scalars: Any, arrays: Arrays) -> Rules:
    """Require valid scalars of a model, whose arrays were checked by `index_rules`."""
    yield from key_rules(f"{prefix.rstrip('.') or 'model'} entry", scalars, set(SCALARS))
    sigma, K, exact = (scalars[name] for name in SCALARS)
    valid = type(sigma) is float and SIGMAS[0] <= sigma <= SIGMAS[1]
    yield valid, f"{prefix}sigma must be a positive number, got {shown(sigma)}."
    yield type(exact) is bool, f"{prefix}exact must be true or false, got {shown(exact)}."
    lists = arrays[prefix + "lists"]
    most = p = len(arrays[prefix + "representatives"])
    if len(lists) != p:  # lists of groups: a row is compared with the representatives of those in one list
        most = int(np.diff(arrays[prefix + "starts"])[lists.astype(np.int64)].sum(axis=1).min())
    elif not exact:
        most = lists.shape[1]
    yield is_integer(K, 1, most), f"{prefix}n_neighbors must be 1 to {most}, got {shown(K)}."


def index_rules(prefix: str, arrays: Arrays, n_features: int) -> Rules:
    """Require valid arrays of a `RepresentativeIndex`."""
    R, centers, starts, lists = (arrays[prefix + name] for name in INDEX_ARRAYS)
    p = len(R)
    same = R.shape[1] == centers.shape[1] == n_features
    yield same, f"its {prefix}representatives or {prefix}centers do not have {n_features} features."
    yield p <= MOST_REPRESENTATIVES, f"it has {p:,} representatives, more than {MOST_REPRESENTATIVES:,}."
    for name, points in (("representatives", R), ("centers", centers)):
        longest = np.einsum("ij,ij->i", points, points, dtype=np.float64).max()
        yield longest <= LONGEST**2, f"its array {prefix}{name} holds values that are too large."
    divides = len(starts) == len(centers) + 1 and starts[0] == 0 and starts[-1] == p
    divides = divides and bool((starts[1:] > starts[:-1]).all())
    yield divides, f"its array {prefix}starts does not divide {p} representatives into {len(centers)} groups."
    n_lists, what = (p, "representatives") if len(lists) == p else (len(centers), "groups")
    in_range = len(lists) == n_lists and 1 <= lists.shape[1] <= n_lists and bool(lists.max() < n_lists)
    yield in_range, f"its array {prefix}lists has ids beyond the {n_lists} {what}, or another length."
    ordered = np.sort(lists, axis=1)
    distinct = bool((lists[:, 0] == np.arange(n_lists)).all() and (ordered[:, 1:] != ordered[:, :-1]).all())
    yield (
        distinct,
        f"its array {prefix}lists does not list the neighbours of each of {n_lists} {what} once, itself first.",
    )


def partition_rules(prefix: str, arrays: Arrays, n_points: int, n_rows: int) -> Rules:
    """Require valid arrays of a `Partition` of `n_points` representatives or base clusters."""
    yield from _spectrum_rules(prefix, arrays, n_points)
    if prefix + "groups" in arrays:
        yield from _vote_rules(prefix, arrays, n_points, n_rows)
        return
    n_vectors = len(arrays[prefix + "eigenvalues"])
    centers = arrays[prefix + "cluster_centers"]
    yield (
        centers.shape[1] <= n_vectors and len(centers) <= n_rows,
        f"its array {prefix}cluster_centers has shape {centers.shape}, for {n_vectors} vectors and {n_rows} rows.",
    )
    numbers = arrays.get(prefix + "cluster_numbers", np.arange(len(centers)))
    counts_all = len(numbers) == len(centers) and bool((np.sort(numbers) == np.arange(len(centers))).all())
    yield counts_all, f"its array {prefix}cluster_numbers does not number {len(centers)} clusters."
    yield (
        np.einsum("ij,ij->i", centers, centers, dtype=np.float64).max() <= 1.01,
        f"its array {prefix}cluster_centers holds values that are too large for means of unit vectors.",
    )


def _spectrum_rules(prefix: str, arrays: Arrays, n_points: int) -> Rules:
    eigenvalues, vectors, degrees = (arrays[prefix + name] for name in SPECTRUM_ARRAYS)
    m = len(eigenvalues)
    yield (
        vectors.shape == (n_points, m) and m <= n_points,
        f"its array {prefix}vectors has shape {vectors.shape}, for {n_points} points and {m} eigenvalues.",
    )
    falls = eigenvalues.min() >= 0 and eigenvalues.max() <= 1 and bool((np.diff(eigenvalues) <= 1e-9).all())
    yield bool(falls), f"its array {prefix}eigenvalues does not fall from 1 to 0."
    yield np.abs(vectors).max() <= LARGEST_VECTOR, f"its array {prefix}vectors holds values that are too large."
    valid = len(degrees) == n_points and degrees.min() >= 0 and 0 < degrees.sum() < math.inf
    yield bool(valid), f"its array {prefix}degrees does not weigh {n_points} points."


def _vote_rules(prefix: str, arrays: Arrays, n_points: int, n_rows: int) -> Rules:
    groups = arrays[prefix + "groups"]
    valid = len(groups) == n_points and groups.min() >= 0 and groups.max() < n_points
    yield bool(valid), f"its array {prefix}groups does not give each of {n_points} representatives a cluster."
    k = int(groups.max()) + 1
    used = k <= n_rows and np.bincount(groups).min() > 0
    yield bool(used), f"its array {prefix}groups leaves one of {k} clusters without representatives or rows."
    if prefix + "trust" in arrays:
        trust = arrays[prefix + "trust"]
        valid = len(trust) == n_points and trust.min() >= 0 and trust.max() <= 1
        yield bool(valid), f"its array {prefix}trust does not hold a share for each of {n_points} representatives."


def _tree_rules(prefix: str, arrays: Arrays, n_points: int) -> Rules:
    merges, heights, masses = (arrays[prefix + name] for name in TREE_ARRAYS)
    sizes = merges.shape == (n_points - 1, 2) and len(heights) == len(masses) == n_points - 1
    yield sizes, f"its array {prefix}merges, heights or masses is not of a tree of {n_points} leaves."
    too_early = merges >= n_points + np.arange(n_points - 1)[:, None]
    is_tree = not merges.size or (merges.min() >= 0 and not too_early.any() and np.unique(merges).size == merges.size)
    yield bool(is_tree), f"its array {prefix}merges is no tree: a node is merged twice, or before it exists."


def choice_rules(prefix: str, arrays: Arrays) -> Rules:
    """Require valid arrays of a `Choice`: the trees of each graph, and the edges of the common rows to it."""
    n_common = None
    for part in choice_prefixes(prefix, arrays):
        own = part == prefix + "own."
        p = len(arrays[(prefix if own else part) + "vectors"])
        if not own:
            yield (
                p <= MOST_REPRESENTATIVES,
                f"it has {p:,} representatives in {part}, more than {MOST_REPRESENTATIVES:,}.",
            )
            yield from _spectrum_rules(part, arrays, p)
        nodes = arrays[part + "nodes"]
        valid = len(nodes) == p and nodes.min() >= 0 and nodes.max() < p and np.bincount(nodes).min() > 0
        yield bool(valid), f"its array {part}nodes does not give each of {p} representatives a leaf."
        for tree in TREES if nodes.any() else ():
            yield from _tree_rules(f"{part}{tree}.", arrays, int(nodes.max()) + 1)
        seed = arrays[part + "seed"]
        yield len(seed) == 1 and seed[0] >= 0, f"its array {part}seed is no seed."
        if part + "nearest" in arrays:
            nearest = arrays[part + "nearest"]
            valid = len(nearest) == len(arrays[prefix + "vectors"]) and nearest.max() < p
            yield bool(valid), f"its array {part}nearest does not name one of {p} representatives for each."
        if part + "ids" not in arrays:
            continue
        ids, weights = arrays[part + "ids"], arrays[part + "weights"]
        n_common = len(ids) if n_common is None else n_common
        same = ids.shape == weights.shape and len(ids) == n_common
        yield same, f"its arrays {part}ids and {part}weights are not the edges of {n_common:,} rows."
        in_range = bool(ids.max() < p) and weights.min() >= 0 and weights.max() <= 1.01
        yield bool(in_range), f"its arrays {part}ids and {part}weights are no edges to {p} representatives."
