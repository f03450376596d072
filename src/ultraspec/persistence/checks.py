"""What a model file must hold, checked before anything is built of it.

A file may come from a stranger. Kernels do not check indices, so every index here must be in range, every group must
have members, and all numbers must be so small that no distance or product overflows: a kernel that finds no distance
below infinity leaves its ids unset.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from ultraspec._estimator import MOST_REPRESENTATIVES, ROWS_LOOKED_AT
from ultraspec.ensemble.combine import MOST_COLUMNS
from ultraspec.persistence.container import Arrays, Flaw, Header, shown
from ultraspec.spectral.preprocess import LEAST_SCALE

INDEX: dict[str, type] = {"representatives": np.float32, "centers": np.float32, "starts": np.int64, "lists": np.uint16}
SPECTRUM: dict[str, type] = {"eigenvalues": np.float64, "vectors": np.float32, "degrees": np.float64}
CENTERS: dict[str, type] = {"cluster_centers": np.float32}
VOTES: dict[str, type] = {"groups": np.int32}
TREE: dict[str, type] = {"merges": np.int64, "heights": np.float64, "masses": np.float64}
SCALING = {"scaling.mean": np.float64, "scaling.deviation": np.float64}  # of models that were fitted on scaled rows
SCALARS = ("sigma", "n_neighbors", "exact")
HEADER = {"format", "version", "library", "estimator", "parameters", "facts"}
COMMON = {"n_rows", "n_features", "feature_names", "n_iter", "labels_seed", "metric", "scale"}
FACTS = {"USPEC": {*COMMON, "model"}, "USENC": {*COMMON, "members", "base_label_type"}}

ONE_AXIS = (
    "offset",
    "starts",
    "eigenvalues",
    "degrees",
    "groups",
    "heights",
    "masses",
    "mean",
    "deviation",
    "majority",
)

MOST_FEATURES = 2**23
LONGEST = 2.0**60  # of a point; with rows of so many features, drawn in by `prepare_new`, squares stay below 2^127
LARGEST_VECTOR = 1e25  # a row's scale is at most 1e10, and its product with a centre must stay in float32
SIGMAS = 1e-100, 1e100
MOST_SEED = 2**4096
MOST_JOBS = 4096  # each could become a thread


def member_name(number: int) -> str:
    """Prefix of the arrays of a member."""
    return f"member.{number:02d}."


def check_contents(header: Header, arrays: Arrays, kinds: dict[str, type]) -> None:
    """Raise a `Flaw` unless header and arrays make a fitted estimator that is one of `kinds`."""
    _check_keys("header", header, HEADER)
    name, facts = header["estimator"], header["facts"]
    if not isinstance(name, str) or name not in kinds:
        raise Flaw(f"holds an unknown estimator, {shown(name)}; this ultraspec knows {', '.join(sorted(kinds))}.")
    check_parameters(kinds[name], header["parameters"])
    _check_keys("facts", facts, FACTS[name])
    _check_facts(facts)
    members = {"": facts["model"]} if name == "USPEC" else _members(facts, arrays)
    wanted: dict[str, type] = {}
    for prefix in members:
        wanted |= {prefix + array: kind for array, kind in INDEX.items()} | _partition_arrays(prefix, arrays)
    if name == "USENC":
        wanted |= _partition_arrays("consensus.", arrays)
        if "consensus.majority" in arrays:  # which older releases did not write
            wanted["consensus.majority"] = np.int32
    _check_kind(name, header["parameters"], arrays)
    if any(array in arrays for array in SCALING):
        wanted |= SCALING
    if "fingerprint" in arrays:  # which older releases did not write
        wanted["fingerprint"] = np.uint16
    _check_names(arrays, {**wanted, "offset": np.float64})
    _check_space(facts, arrays["offset"])
    _check_scaling(facts, arrays)
    for prefix, scalars in members.items():
        _check_index(prefix, scalars, arrays, facts)
        _check_partition(prefix, arrays, len(arrays[prefix + "representatives"]), facts["n_rows"])
    if name == "USENC":
        _check_consensus(facts, arrays, list(members))
    _check_fingerprint(facts, arrays)


def check_member(arrays: Arrays, n_rows: int, n_features: int, *, has_labels: bool = True) -> None:
    """Raise a `Flaw` unless arrays of a checkpoint make a member that was fitted on rows of this shape."""
    keys = {*SCALARS, "labels"} if has_labels else {*SCALARS}
    _check_keys("member", {name: None for name in arrays if name in SCALARS or name == "labels"}, keys)
    scalars = {name: arrays[name] for name in SCALARS}
    for name, value in scalars.items():
        if value.ndim != 0:
            raise Flaw(f"its {name} is no number but has the shape {value.shape}.")
    model = {name: array for name, array in arrays.items() if name not in (*SCALARS, "labels")}
    _check_names(model, {**INDEX, **_partition_arrays("", model)})
    model["offset"] = np.zeros(n_features)
    facts = {"n_features": n_features, "scale": 1.0}
    _check_index("", {name: value.item() for name, value in scalars.items()}, model, facts)
    _check_partition("", model, len(model["representatives"]), n_rows)
    if not has_labels:
        return
    labels, n_clusters = arrays["labels"], _n_clusters("", model)
    if labels.shape != (n_rows,) or labels.dtype.kind != "u" or int(labels.max()) >= n_clusters:
        raise Flaw(f"its labels are not those of {n_rows:,} rows in {n_clusters} clusters.")


def check_parameters(kind: type, parameters: Any) -> None:
    """Raise a `Flaw` unless an estimator of this kind can be made with these parameters, and fitted."""
    if not isinstance(parameters, dict):
        raise Flaw(f"its parameters are no mapping but {shown(parameters)}.")
    unknown = sorted(set(parameters) - set(inspect.signature(kind).parameters))
    if unknown:
        raise Flaw(
            f"{kind.__name__} has no parameter {shown(unknown[0])} in this release; the file may come from a later one."
        )
    for name, value in parameters.items():
        numbers = value if isinstance(value, (list, tuple)) else [value]
        if not all(n is None or type(n) in (bool, int, float, str) for n in numbers):
            raise Flaw(f"parameter {name} has an unknown kind of value, {shown(value)}.")
        if name != "random_state" and any(isinstance(n, int) and abs(n) >= 2**63 for n in numbers):
            raise Flaw(f"parameter {name} is too large: {shown(value)}.")
    if not _is_seed(parameters.get("random_state", 0), or_none=True):
        raise Flaw(f"parameter random_state must be a whole number or none, got {shown(parameters['random_state'])}.")
    if parameters.get("checkpoint") is not None:
        raise Flaw("parameter checkpoint names a folder; model files name none.")
    jobs = parameters.get("n_jobs")
    if isinstance(jobs, int) and abs(jobs) > MOST_JOBS:
        raise Flaw(f"parameter n_jobs is too large: {shown(jobs)}.")
    if not isinstance(parameters.get("verbose", 0), int):
        raise Flaw(f"parameter verbose must be a whole number, got {shown(parameters['verbose'])}.")
    try:
        kind(**parameters)._check_parameters()
    except (TypeError, ValueError, OverflowError) as error:
        raise Flaw(f"its parameters are not valid. {error}") from error


def _check_kind(name: str, parameters: dict[str, Any], arrays: Arrays) -> None:
    """Raise a `Flaw` where the parameter that says how clusters were found does not go with what the file holds."""
    parameter, prefix = ("discretize", "") if name == "USPEC" else ("consensus", "consensus.")
    value = parameters.get(parameter, "kmeans")
    votes, tree = value in ("representatives", "consensus", "average"), value in ("consensus", "average")
    held = "groups" if prefix + "groups" in arrays else "centres"
    if votes != (held == "groups"):
        raise Flaw(f"its parameter {parameter} says {shown(value)}, but it holds {held}.")
    if tree != (prefix + "merges" in arrays):
        raise Flaw(f"its parameter {parameter} says {shown(value)}, but it holds {'no' if tree else 'a'} tree.")


def _is_whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def is_entropy(value: Any) -> bool:
    """Whether it is what a seed sequence starts from: a whole number or a few."""
    words = value if isinstance(value, list) else [value]
    return 1 <= len(words) <= 64 and all(map(_is_seed, words))


def _is_seed(value: Any, *, or_none: bool = False) -> bool:
    return (or_none and value is None) or _is_whole(value, 0, MOST_SEED)


def _check_keys(what: str, found: Any, wanted: set[str]) -> None:
    if not isinstance(found, dict):
        raise Flaw(f"its {what} is no mapping but {shown(found)}.")
    missing, extra = sorted(wanted - set(found)), sorted(set(found) - wanted)
    if missing:
        raise Flaw(f"its {what} lacks {missing[0]}.")
    if extra:
        raise Flaw(f"its {what} has {shown(extra[0])}, which does not belong there.")


def _check_names(arrays: Arrays, wanted: dict[str, type]) -> None:
    missing, extra = sorted(set(wanted) - set(arrays)), sorted(set(arrays) - set(wanted))
    if missing:
        raise Flaw(f"its array {shown(missing[0])} is missing.")
    if extra:
        raise Flaw(f"it has an array {shown(extra[0])}, which does not belong there.")
    for name, kind in wanted.items():
        if arrays[name].dtype != kind:
            raise Flaw(f"its array {name} must be of type {np.dtype(kind)}, not {arrays[name].dtype}.")
        n_axes = 1 if name.rpartition(".")[2] in ONE_AXIS else 2
        if arrays[name].ndim != n_axes:
            raise Flaw(f"its array {name} must have {n_axes} axes, not the shape {arrays[name].shape}.")
        if not np.isfinite(arrays[name]).all():
            raise Flaw(f"its array {name} holds NaN or infinity.")


def _check_facts(facts: Header) -> None:
    for name, least, most in (("n_rows", 1, 2**62), ("n_features", 1, MOST_FEATURES), ("n_iter", 0, 2**62)):
        if not _is_whole(facts[name], least, most):
            raise Flaw(f"{name} must be a whole number from {least} to {most:,}, got {shown(facts[name])}.")
    names = facts["feature_names"]
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Flaw(f"feature_names must be a list of words, got {shown(names)}.")
        if len(names) != facts["n_features"]:
            raise Flaw(f"it has {len(names)} names for {facts['n_features']} features.")
    _check_keys("labels_seed", facts["labels_seed"], {"entropy", "spawn_key"})
    entropy, spawn_key = facts["labels_seed"]["entropy"], facts["labels_seed"]["spawn_key"]
    if not is_entropy(entropy):
        raise Flaw(f"its seed is not valid: {shown(entropy)}.")
    if not (isinstance(spawn_key, list) and len(spawn_key) <= 16 and all(_is_whole(n, 0, 2**32) for n in spawn_key)):
        raise Flaw(f"its seed's spawn_key is not valid: {shown(spawn_key)}.")


def _check_space(facts: Header, offset: Any) -> None:
    metric, scale = facts["metric"], facts["scale"]
    if metric not in ("euclidean", "cosine"):
        raise Flaw(f"its metric is unknown: {shown(metric)}.")
    if type(scale) is not float or not LEAST_SCALE <= scale < math.inf or math.frexp(scale)[0] != 0.5:
        raise Flaw(f"scale must be a power of two, got {shown(scale)}.")
    if metric == "cosine" and (scale != 1.0 or offset.any()):
        raise Flaw("under the cosine metric rows are neither moved nor scaled, but its offset or scale say so.")
    if len(offset) != facts["n_features"]:
        raise Flaw(f"its array offset has {len(offset)} entries for {facts['n_features']} features.")


def _check_scaling(facts: Header, arrays: Arrays) -> None:
    for name in SCALING:
        if name in arrays and len(arrays[name]) != facts["n_features"]:
            raise Flaw(f"its array {name} has {len(arrays[name])} entries for {facts['n_features']} features.")
    if "scaling.deviation" in arrays and not (arrays["scaling.deviation"] > 0).all():
        raise Flaw("its array scaling.deviation must be positive.")


def _check_fingerprint(facts: Header, arrays: Arrays) -> None:
    if "fingerprint" not in arrays:
        return
    members = facts.get("members")
    width = len(members) if members is not None else facts["model"]["n_neighbors"]
    wanted = 2 * min(facts["n_rows"], ROWS_LOOKED_AT), width
    if arrays["fingerprint"].shape != wanted:
        raise Flaw(f"its array fingerprint has the shape {arrays['fingerprint'].shape}, not {wanted}.")


def _check_index(prefix: str, scalars: Any, arrays: Arrays, facts: Header) -> None:
    """Check what finds the nearest representatives."""
    _check_scalars(prefix, scalars)
    R, centers, starts, lists = (arrays[prefix + name] for name in INDEX)
    p, n_features = len(R), facts["n_features"]
    if R.shape[1] != n_features or centers.shape[1] != n_features:
        raise Flaw(f"its {prefix}representatives or {prefix}centers do not have {n_features} features.")
    if p > MOST_REPRESENTATIVES:
        raise Flaw(f"it has {p:,} representatives, more than {MOST_REPRESENTATIVES:,}.")
    for name, points in (("representatives", R), ("centers", centers)):
        if np.einsum("ij,ij->i", points, points, dtype=np.float64).max() > LONGEST**2:
            raise Flaw(f"its array {prefix}{name} holds values that are too large.")
    if not math.isfinite(float(np.abs(R).max()) * facts["scale"] + float(np.abs(arrays["offset"]).max())):
        raise Flaw(f"its array {prefix}representatives holds values that are too large for its scale and offset.")
    if len(starts) != len(centers) + 1 or starts[0] != 0 or starts[-1] != p or (starts[1:] <= starts[:-1]).any():
        raise Flaw(f"its array {prefix}starts does not divide {p} representatives into {len(centers)} groups.")
    if len(lists) != p or lists.shape[1] > p or lists.max() >= p:
        raise Flaw(f"its array {prefix}lists points beyond the {p} representatives, or is not of them.")
    ordered = np.sort(lists, axis=1)
    if (lists[:, 0] != np.arange(p)).any() or (ordered[:, 1:] == ordered[:, :-1]).any():
        raise Flaw(f"its array {prefix}lists does not list each representative's neighbours once, itself first.")
    if not _is_whole(scalars["n_neighbors"], 1, lists.shape[1]):
        raise Flaw(f"{prefix}n_neighbors must be 1 to {lists.shape[1]}, got {shown(scalars['n_neighbors'])}.")


def _check_scalars(prefix: str, scalars: Any) -> None:
    _check_keys(f"{prefix.rstrip('.') or 'model'} entry", scalars, set(SCALARS))
    if not (type(scalars["sigma"]) is float and SIGMAS[0] <= scalars["sigma"] <= SIGMAS[1]):
        raise Flaw(f"{prefix}sigma must be a positive number, got {shown(scalars['sigma'])}.")
    if type(scalars["exact"]) is not bool:
        raise Flaw(f"{prefix}exact must be true or false, got {shown(scalars['exact'])}.")


def _partition_arrays(prefix: str, arrays: Arrays) -> dict[str, type]:
    """Names and types of the arrays of a partition: of centres if it has any, else of votes."""
    kinds = {**SPECTRUM, **CENTERS}
    if prefix + "groups" in arrays:
        kinds = {**SPECTRUM, **VOTES, **(TREE if prefix + "merges" in arrays else {})}
    return {prefix + name: kind for name, kind in kinds.items()}


def _check_partition(prefix: str, arrays: Arrays, n_points: int, n_rows: int) -> None:
    """Check what turns edges to `n_points` representatives or base clusters into labels."""
    _check_spectrum(prefix, arrays, n_points)
    if prefix + "groups" in arrays:
        _check_votes(prefix, arrays, n_points, n_rows)
        return
    n_vectors, centers = len(arrays[prefix + "eigenvalues"]), arrays[prefix + "cluster_centers"]
    if centers.shape[1] > n_vectors or len(centers) > n_rows:
        raise Flaw(
            f"its array {prefix}cluster_centers has shape {centers.shape}, for {n_vectors} vectors and {n_rows} rows."
        )
    if np.einsum("ij,ij->i", centers, centers, dtype=np.float64).max() > 1.01:
        raise Flaw(f"its array {prefix}cluster_centers holds values that are too large for means of unit vectors.")


def _check_votes(prefix: str, arrays: Arrays, n_points: int, n_rows: int) -> None:
    groups = arrays[prefix + "groups"]
    if len(groups) != n_points or groups.min() < 0 or groups.max() >= n_points:
        raise Flaw(f"its array {prefix}groups does not give each of {n_points} representatives a cluster.")
    n_groups = int(groups.max()) + 1
    if n_groups > n_rows or np.bincount(groups).min() == 0:
        raise Flaw(f"its array {prefix}groups leaves one of {n_groups} clusters without representatives or rows.")
    if prefix + "merges" not in arrays:
        return
    merges, heights, masses = (arrays[prefix + name] for name in TREE)
    if merges.shape != (n_points - 1, 2) or len(heights) != n_points - 1 or len(masses) != n_points - 1:
        raise Flaw(f"its array {prefix}merges, heights or masses is not of a tree of {n_points} representatives.")
    later = merges >= n_points + np.arange(n_points - 1)[:, None]
    if merges.size and (merges.min() < 0 or later.any() or np.unique(merges).size < merges.size):
        raise Flaw(f"its array {prefix}merges is no tree: a node is merged twice, or before it is there.")


def _check_spectrum(prefix: str, arrays: Arrays, n_points: int) -> None:
    eigenvalues, vectors, degrees = (arrays[prefix + name] for name in SPECTRUM)
    if len(vectors) != n_points or vectors.shape[1] != len(eigenvalues) or len(eigenvalues) > n_points:
        raise Flaw(
            f"its array {prefix}vectors has shape {vectors.shape}, for {n_points} points and {len(eigenvalues)} "
            "eigenvalues."
        )
    if eigenvalues.min() < 0 or eigenvalues.max() > 1 or (np.diff(eigenvalues) > 1e-9).any():
        raise Flaw(f"its array {prefix}eigenvalues does not fall from 1 to 0.")
    if np.abs(vectors).max() > LARGEST_VECTOR:
        raise Flaw(f"its array {prefix}vectors holds values that are too large.")
    if len(degrees) != n_points or degrees.min() < 0 or not 0 < degrees.sum() < math.inf:
        raise Flaw(f"its array {prefix}degrees does not weigh {n_points} points.")


def _members(facts: Header, arrays: Arrays) -> dict[str, Any]:
    """Scalars of the members by the prefix of their arrays."""
    members = facts["members"]
    if not isinstance(members, list) or not 1 <= len(members) <= len(arrays):
        raise Flaw(f"its members must be a list with an entry for each, got {shown(members)}.")
    return {member_name(number): scalars for number, scalars in enumerate(members)}


def _check_consensus(facts: Header, arrays: Arrays, prefixes: list[str]) -> None:
    sizes = [_n_clusters(prefix, arrays) for prefix in prefixes]
    if sum(sizes) > MOST_COLUMNS:
        raise Flaw(f"its members have {sum(sizes):,} clusters in all, more than {MOST_COLUMNS:,}.")
    if facts["base_label_type"] not in ("uint8", "uint16"):
        raise Flaw(f"base_label_type must be uint8 or uint16, got {shown(facts['base_label_type'])}.")
    if max(sizes) - 1 > np.iinfo(facts["base_label_type"]).max:
        raise Flaw(f"a member has {max(sizes):,} clusters, more than {facts['base_label_type']} can tell apart.")
    votes = "consensus.groups" in arrays  # of the first member's representatives
    n_points = len(arrays[prefixes[0] + "representatives"]) if votes else sum(sizes)
    _check_partition("consensus.", arrays, n_points, facts["n_rows"])
    majority = arrays.get("consensus.majority")
    if majority is not None and not (
        len(majority) == sum(sizes) and 0 <= majority.min() <= majority.max() < _n_clusters("consensus.", arrays)
    ):
        raise Flaw(f"its array consensus.majority does not give each of {sum(sizes)} base clusters a cluster.")


def _n_clusters(prefix: str, arrays: Arrays) -> int:
    if prefix + "groups" in arrays:
        return int(arrays[prefix + "groups"].max()) + 1
    return len(arrays[prefix + "cluster_centers"])
