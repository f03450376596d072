"""Checks of the contents of model files, before anything is built from them.

The arrays of each model are checked by `ultraspec.spectral.model_checks`; here are the header, the parameters and what
belongs to a file as a whole. Each ``*_rules`` function is a table of conditions and messages, as there.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from ultraspec._checks import MOST_SEED, is_entropy
from ultraspec._estimator import ROWS_REMEMBERED, check_parameters
from ultraspec.ensemble.methods import CONSENSUS_METHODS
from ultraspec.ensemble.transfer_cut import MOST_COLUMNS
from ultraspec.persistence.container import Arrays, Header
from ultraspec.spectral.candidates import CANDIDATES
from ultraspec.spectral.layers import MOST_LAYERS
from ultraspec.spectral.model_checks import (
    InvalidModel,
    Rules,
    array_rules,
    choice_rules,
    index_rules,
    is_integer,
    key_rules,
    model_arrays,
    n_clusters,
    partition_arrays,
    partition_rules,
    require,
    scalar_rules,
    shown,
)
from ultraspec.spectral.outliers import QUANTILES
from ultraspec.spectral.preprocess import LARGEST, LEAST_SCALE, METRICS

HEADER = {"format", "version", "library", "estimator", "parameters", "facts"}
COMMON = {"n_rows", "n_features", "feature_names", "n_iter", "labels_seed", "metric", "scale", "layers", "agreements"}
FACTS = {"USPEC": {*COMMON, "model"}, "USENC": {*COMMON, "members", "base_label_type"}}
INTEGERS = {"n_rows": (1, 2**62), "n_features": (1, 2**23), "n_iter": (0, 2**62)}

# arrays of a file as a whole: type and number of axes; those in OPTIONAL may be absent
OFFSET: dict[str, tuple[type, int]] = {"offset": (np.float64, 1)}
PROJECTION: dict[str, tuple[type, int]] = {"basis": (np.float32, 2), "center": (np.float32, 1)}
SCALING: dict[str, tuple[type, int]] = {"scaling.mean": (np.float64, 1), "scaling.deviation": (np.float64, 1)}
OPTIONAL: dict[str, tuple[type, int]] = {"fingerprint": (np.uint16, 2), "outlier_quantiles": (np.float32, 1)}
SUMS: dict[str, tuple[type, int]] = {
    "sums.starts": (np.int64, 1),
    "sums.columns": (np.uint16, 1),
    "sums.values": (np.float64, 1),
    "sums.counts": (np.float64, 1),
    "sums.totals": (np.float64, 1),
}
MAJORITY: dict[str, tuple[type, int]] = {"consensus.majority": (np.int32, 1)}

LARGEST_SUM = 1e30  # of weights
MOST_JOBS = 4096  # each could become a thread


def member_name(number: int) -> str:
    """Return the prefix of the arrays of a member."""
    return f"member.{number:02d}."


def check_contents(header: Header, arrays: Arrays, kinds: dict[str, type]) -> None:
    """Raise InvalidModel unless header and arrays form a fitted estimator that is one of `kinds`."""
    require(key_rules("header", header, HEADER))
    name = header["estimator"]
    known = isinstance(name, str) and name in kinds
    if not known:
        raise InvalidModel(
            f"holds an unknown estimator, {shown(name)}; this ultraspec knows {', '.join(sorted(kinds))}."
        )
    check_file_parameters(kinds[name], header["parameters"])
    facts = header["facts"]
    require(key_rules("facts", facts, FACTS[name]))
    require(_fact_rules(facts))
    require(_layer_rules(facts["layers"]))
    is_ensemble = name == "USENC"
    require(_agreement_rules(facts))
    members = _members(facts, arrays) if is_ensemble else {"": facts["model"]}
    parameter = "consensus" if is_ensemble else "discretize"
    require(_kind_rules(parameter, _value(kinds[name], header["parameters"], parameter), arrays))
    require(array_rules(arrays, _array_table(arrays, list(members), is_ensemble=is_ensemble)))
    require(_file_rules(facts, arrays))
    for prefix, scalars in members.items():
        n_prepared = arrays["basis"].shape[1] if "basis" in arrays else len(arrays["offset"])
        require(index_rules(prefix, arrays, n_prepared))
        require(scalar_rules(prefix, scalars, arrays))
        require(_range_rules(prefix, arrays, facts["scale"]))
        p = len(arrays[prefix + "representatives"])
        require(partition_rules(prefix, arrays, p, facts["n_rows"]))
        require(choice_rules(prefix, arrays))
    if "sums.values" in arrays:
        require(_sum_rules(arrays))
    if is_ensemble:
        require(_consensus_rules(facts, arrays, list(members)))
    require(_fingerprint_rules(facts, arrays))


def check_file_parameters(kind: type, parameters: Any) -> None:
    """Raise InvalidModel unless an estimator of this kind can be created and fitted with these parameters."""
    require(_parameter_rules(kind, parameters))
    try:
        check_parameters(kind(**parameters))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidModel(f"its parameters are not valid. {error}") from error


def _parameter_rules(kind: type, parameters: Any) -> Rules:
    yield isinstance(parameters, dict), f"its parameters are no mapping but {shown(parameters)}."
    unknown = sorted(set(parameters) - set(inspect.signature(kind).parameters))
    yield (
        not unknown,
        f"{kind.__name__} has no parameter {shown(''.join(unknown[:1]))} in this release; the file may come from a "
        "later one.",
    )
    for name, value in parameters.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        plain = all(each is None or type(each) in (bool, int, float, str) for each in values)
        yield plain, f"parameter {name} has an unknown kind of value, {shown(value)}."
        small = name == "random_state" or all(not isinstance(each, int) or abs(each) < 2**63 for each in values)
        yield small, f"parameter {name} is too large: {shown(value)}."
    seed = parameters.get("random_state")
    valid = seed is None or is_integer(seed, 0, MOST_SEED)
    yield valid, f"parameter random_state must be an integer or none, got {shown(seed)}."
    yield parameters.get("checkpoint") is None, "parameter checkpoint names a folder; model files name none."
    jobs = parameters.get("n_jobs")
    yield not isinstance(jobs, int) or abs(jobs) <= MOST_JOBS, f"parameter n_jobs is too large: {shown(jobs)}."
    verbose = parameters.get("verbose", 0)
    yield isinstance(verbose, int), f"parameter verbose must be an integer, got {shown(verbose)}."


def _fact_rules(facts: Header) -> Rules:
    for name, (least, most) in INTEGERS.items():
        valid = is_integer(facts[name], least, most)
        yield valid, f"{name} must be an integer from {least} to {most:,}, got {shown(facts[name])}."
    names = facts["feature_names"]
    if names is not None:
        strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
        yield strings, f"feature_names must be a list of strings, got {shown(names)}."
        yield len(names) == facts["n_features"], f"it has {len(names)} names for {facts['n_features']} features."
    yield from key_rules("labels_seed", facts["labels_seed"], {"entropy", "spawn_key"})
    entropy, spawn_key = facts["labels_seed"]["entropy"], facts["labels_seed"]["spawn_key"]
    yield is_entropy(entropy), f"its seed is not valid: {shown(entropy)}."
    keys = isinstance(spawn_key, list) and len(spawn_key) <= 16 and all(is_integer(n, 0, 2**32) for n in spawn_key)
    yield keys, f"the spawn_key of its seed is not valid: {shown(spawn_key)}."


def _value(kind: type, parameters: dict[str, Any], name: str) -> Any:
    """Return the value of a parameter; one that the file lacks has its default."""
    return parameters.get(name, inspect.signature(kind).parameters[name].default)


def _agreement_rules(facts: Header) -> Rules:
    agreements = facts["agreements"]
    if agreements is not None:
        pairs = isinstance(agreements, dict) and set(agreements) == set(CANDIDATES)
        yield pairs, f"its agreements are not of the candidates: {shown(agreements)}."
        numbers = all(type(value) is float and -1.01 <= value <= 1.01 for value in agreements.values())
        yield numbers, f"its agreements are no adjusted Rand indices: {shown(agreements)}."


def _layer_rules(layers: Any) -> Rules:
    if layers is not None:
        pairs = isinstance(layers, list) and 1 <= len(layers) <= MOST_LAYERS
        pairs = pairs and all(isinstance(each, (list, tuple)) and len(each) == 2 for each in layers)
        yield pairs, f"its layers are no list of numbers and strengths: {shown(layers)}."
        valid = all(is_integer(k, 1, 2**31) and type(s) is float and 0 <= s <= 1.01 for k, s in layers)
        yield valid, f"its layers hold no numbers of clusters and strengths: {shown(layers)}."


def _members(facts: Header, arrays: Arrays) -> dict[str, Any]:
    """Return the scalars of the members by the prefix of their arrays."""
    members = facts["members"]
    if not isinstance(members, list) or not 1 <= len(members) <= len(arrays):
        raise InvalidModel(f"its members must be a list with an entry for each, got {shown(members)}.")
    return {member_name(number): scalars for number, scalars in enumerate(members)}


def _kind_rules(parameter: str, value: str, arrays: Arrays) -> Rules:
    """Require that the parameter that says how clusters were found agrees with the arrays."""
    if parameter == "consensus":
        prefix = "consensus."
        votes = CONSENSUS_METHODS[value].votes
    else:
        prefix = ""
        votes = value != "kmeans"
    holds = "groups" if prefix + "groups" in arrays else "centres"
    yield votes == (holds == "groups"), f"its parameter {parameter} says {shown(value)}, but it holds {holds}."


def _array_table(arrays: Arrays, prefixes: list[str], *, is_ensemble: bool) -> dict[str, tuple[type, int]]:
    """Return the table of all arrays that the file must hold."""
    table = dict(OFFSET)
    for prefix in prefixes:
        table |= model_arrays(prefix, arrays)
    if is_ensemble:
        table |= partition_arrays("consensus.", arrays)
    for group in (SCALING, PROJECTION) if is_ensemble else (SCALING, PROJECTION, SUMS):
        if any(name in arrays for name in group):
            table |= group
    optional = {**OPTIONAL, **MAJORITY} if is_ensemble else OPTIONAL
    return table | {name: entry for name, entry in optional.items() if name in arrays}


def _file_rules(facts: Header, arrays: Arrays) -> Rules:
    """Require a valid metric, offset, scale and scaling."""
    metric, scale, d = facts["metric"], facts["scale"], facts["n_features"]
    yield metric in METRICS, f"its metric is unknown: {shown(metric)}."
    power = type(scale) is float and LEAST_SCALE <= scale < math.inf and math.frexp(scale)[0] == 0.5
    yield power, f"scale must be a power of two, got {shown(scale)}."
    yield (
        metric != "cosine" or (scale == 1.0 and not arrays["offset"].any()),
        "under the cosine metric rows are neither moved nor scaled, but its offset or scale say so.",
    )
    yield metric != "haversine" or d == 2, f"the haversine metric needs 2 features, but it has {d}."
    expected = dict.fromkeys((*OFFSET, *SCALING), d) | ({"offset": 3} if metric == "haversine" else {})
    for name, number in expected.items():
        if name in arrays:
            yield len(arrays[name]) == number, f"its array {name} has {len(arrays[name])} entries for {d} features."
    if "basis" in arrays:
        basis, center = arrays["basis"], arrays["center"]
        fits = basis.shape[0] == d and 1 <= basis.shape[1] == len(center) < d
        yield fits, f"its array basis has shape {basis.shape}, for {d} features and {len(center)} components."
        lengths = np.einsum("ij,ij->j", basis, basis, dtype=np.float64)
        yield bool(lengths.max() <= 1.01), "its array basis holds values that are too large for directions."
        yield bool(np.abs(center).max() <= LARGEST), "its array center holds values that are too large."
    if "outlier_quantiles" in arrays:
        quantiles = arrays["outlier_quantiles"]
        ascend = len(quantiles) == QUANTILES and bool((np.diff(quantiles) >= 0).all())
        valid = ascend and quantiles[0] >= 0 and quantiles[-1] <= 1
        yield bool(valid), f"its array outlier_quantiles does not hold {QUANTILES} ascending scores."
    positive = "scaling.deviation" not in arrays or bool((arrays["scaling.deviation"] > 0).all())
    yield positive, "its array scaling.deviation must be positive."


def _range_rules(prefix: str, arrays: Arrays, scale: float) -> Rules:
    """Require that representatives are finite in the coordinates of the user, too."""
    farthest = float(np.abs(arrays[prefix + "representatives"]).max()) * scale
    yield (
        math.isfinite(farthest + float(np.abs(arrays["offset"]).max())),
        f"its array {prefix}representatives holds values that are too large for its scale and offset.",
    )


def _sum_rules(arrays: Arrays) -> Rules:
    """Require valid sums of a graph: the upper triangle of an affinity, in rows, and the weights of rows."""
    p = len(arrays["representatives"])
    starts, columns, values, counts, totals = (arrays[name] for name in SUMS)
    ordered = len(starts) == p + 1 and starts[0] == 0 and starts[-1] == len(columns) == len(values)
    ordered = ordered and bool((np.diff(starts) >= 0).all())
    yield ordered, f"its array sums.starts does not divide {len(values):,} sums into {p} rows."
    rows = np.repeat(np.arange(p), np.diff(starts))
    keys = rows * 2**16 + columns
    upper = bool(len(columns)) and columns.max() < p and bool((columns >= rows).all() and (np.diff(keys) > 0).all())
    yield upper, f"its array sums.columns is not the upper triangle of a graph of {p} representatives."
    valid = len(counts) == p and counts.min() >= 0 and values.min() >= 0 and 0 < values.sum() < LARGEST_SUM
    valid = valid and 0 < counts.sum() < LARGEST_SUM and bool((values[columns == rows] > 0).any())
    yield bool(valid), "its arrays sums.values and sums.counts do not weigh the rows of a graph."
    known = len(totals) == 3 and 1 <= totals[0] <= 2**53 and 0 < totals[1] < LARGEST_SUM
    known = known and 0 < totals[2] < LARGEST_SUM
    yield bool(known), f"its array sums.totals is not valid: {shown(totals.tolist())}."


def _consensus_rules(facts: Header, arrays: Arrays, prefixes: list[str]) -> Rules:
    sizes = [n_clusters(prefix, arrays) for prefix in prefixes]
    total = sum(sizes)
    yield total <= MOST_COLUMNS, f"its members have {total:,} clusters in all, more than {MOST_COLUMNS:,}."
    label_type = facts["base_label_type"]
    yield label_type in ("uint8", "uint16"), f"base_label_type must be uint8 or uint16, got {shown(label_type)}."
    fits = max(sizes) - 1 <= np.iinfo(label_type).max
    yield fits, f"a member has {max(sizes):,} clusters, more than {label_type} can number."
    votes = "consensus.groups" in arrays  # of the first member's representatives
    n_points = len(arrays[prefixes[0] + "representatives"]) if votes else total
    yield from partition_rules("consensus.", arrays, n_points, facts["n_rows"])
    majority = arrays.get("consensus.majority")
    if majority is not None:
        valid = len(majority) == total and majority.min() >= 0 and majority.max() < n_clusters("consensus.", arrays)
        yield bool(valid), f"its array consensus.majority does not give each of {total} base clusters a cluster."


def _fingerprint_rules(facts: Header, arrays: Arrays) -> Rules:
    if "fingerprint" in arrays:
        width = len(facts["members"]) if "members" in facts else facts["model"]["n_neighbors"]
        expected = 2 * min(facts["n_rows"], ROWS_REMEMBERED), width
        shape = arrays["fingerprint"].shape
        yield shape == expected, f"its array fingerprint has the shape {shape}, not {expected}."
