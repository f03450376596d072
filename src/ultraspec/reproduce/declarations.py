"""The paper's experiments as declarations: data sets, methods, tables, and the runs that each table needs.

A run is a data set, a method with parameters, and a seed. Tables share runs: the default point of Table 10 is U-SPEC's
entry in Table 4, and is run once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

RUNS = 20
AXES = {"p": 1000, "K": 5, "m": 20, "selection": "hybrid", "neighbors": "approx"}  # what tables vary, with defaults


@dataclass(frozen=True)
class Dataset:
    """A data set: one of the paper's (`name` is that of `ultraspec.datasets`), or a user's file."""

    title: str
    name: str = ""
    file: str = ""  # "path:label"
    generated: bool = False
    version: int = 1  # of the generator: runs on data of another version are repeated

    @property
    def custom(self) -> bool:
        """Whether it is a user's file."""
        return bool(self.file)


@dataclass(frozen=True)
class Method:
    """A method: an estimator, its fixed parameters, and the names of the parameters that tables vary."""

    title: str
    estimator: str  # "module:name"
    parameters: Mapping[str, Any] = field(default_factory=dict)  # identify runs, with those that tables vary
    axes: Mapping[str, str] = field(default_factory=dict)
    combines: bool = False  # combines k-means members, which all such methods share for a seed
    variant_of: str = ""  # the paper's method of which it is a variant
    custom: bool = False  # added by a user
    fixed: Mapping[str, Any] = field(default_factory=dict)  # parameters that all runs of the method share
    code: str = ""  # checksum of a user's module, which may change between runs

    def with_setting(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters for a setting; axes that the method lacks, and default values, are left out."""
        varied = {
            self.axes[axis]: value for axis, value in setting.items() if axis in self.axes and value != AXES[axis]
        }
        return {**self.parameters, **varied}


class Setting(NamedTuple):
    """One column of a table that varies a parameter: its heading and the values of the axes."""

    label: Any
    axes: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """One of the paper's tables."""

    name: str
    title: str
    datasets: Sequence[str]
    methods: Sequence[str]
    settings: Sequence[Setting] = (Setting("", {}),)
    metric: str = ""  # "nmi", "ca" or "seconds"; empty for Tables 10 to 16, which show all three
    family: str = ""  # "spectral" or "ensemble"; empty for Tables 10 to 16
    reference: str = ""  # the method that is listed for reference only and is not ranked

    @property
    def number(self) -> str:
        """Number of the table in the paper."""
        return self.name.removeprefix("table")


class Run(NamedTuple):
    """One fit, identified by everything that distinguishes it from others."""

    dataset: str
    scale: float
    method: str
    parameters: str  # JSON with sorted keys
    seed: int


DATASETS = (
    Dataset("PenDigits", "pendigits"),
    Dataset("USPS", "usps"),
    Dataset("Letters", "letters"),
    Dataset("MNIST", "mnist"),
    Dataset("Covertype", "covertype"),
    Dataset("TB-1M", "tb", generated=True),
    Dataset("SF-2M", "sf", generated=True, version=2),
    Dataset("CC-5M", "cc", generated=True),
    Dataset("CG-10M", "cg", generated=True),
    Dataset("Flower-20M", "flower", generated=True),
)
PAPER_SETS = tuple(dataset.title for dataset in DATASETS)

_USPEC = {"p": "n_representatives", "K": "n_neighbors", "selection": "selection", "neighbors": "neighbors"}
_USENC = {**_USPEC, "m": "n_estimators"}
_PAPER = {"regularization": 0.0}  # exactly as the paper describes the methods
_REGULARIZED = {"regularization": 1e-3}
_OURS = (
    Method("U-SPEC", "ultraspec:USPEC.paper", _PAPER, _USPEC),
    Method("U-SENC", "ultraspec:USENC.paper", _PAPER, _USENC),
    Method("U-SPEC (lib)", "ultraspec:USPEC.paper", {}, _USPEC, variant_of="U-SPEC", fixed=_REGULARIZED),
    Method("U-SENC (lib)", "ultraspec:USENC.paper", {}, _USENC, variant_of="U-SENC", fixed=_REGULARIZED),
)
_LANDMARKS = {"p": "n_landmarks", "K": "n_neighbors"}
_SPECTRAL = (
    Method("k-means", "ultraspec.baselines:KMeansLite"),
    Method("SC", "ultraspec.baselines:SC"),
    Method("ESCG", "ultraspec.baselines:ESCG"),
    Method("Nystrom", "ultraspec.baselines:Nystrom", {}, {"p": "n_landmarks"}),
    Method("LSC-K", "ultraspec.baselines:LSC", {"selection": "kmeans"}, _LANDMARKS),
    Method("LSC-R", "ultraspec.baselines:LSC", {"selection": "random"}, _LANDMARKS),
    Method("FastESC", "ultraspec.baselines:FastESC"),
    Method("EulerSC", "ultraspec.baselines:EulerSC"),
)
_ENSEMBLE = tuple(
    Method(name, f"ultraspec.baselines:{name}", {}, {"m": "n_estimators"}, combines=True)
    for name in ("EAC", "WCT", "KCC", "PTGP", "ECC", "SEC", "LWGP")
)
METHODS = (*_SPECTRAL, *_ENSEMBLE, *_OURS)

PAPER_METHODS = ("U-SPEC", "U-SENC")
LIBRARY_METHODS = ("U-SPEC (lib)", "U-SENC (lib)")
OUR_METHODS = (*PAPER_METHODS, *LIBRARY_METHODS)
SPECTRAL = (*(method.title for method in _SPECTRAL), *OUR_METHODS)
ENSEMBLE = ("U-SPEC", "U-SPEC (lib)", *(method.title for method in _ENSEMBLE), "U-SENC", "U-SENC (lib)")
SWEEP_SETS = ("MNIST", "Covertype", "TB-1M", "SF-2M")  # of Tables 10 to 16


def _comparisons(first: int, family: str, methods: Sequence[str], reference: str) -> Iterator[Table]:
    """Yield the tables of NMI, CA and time of a family of methods, from Table `first` on."""
    for number, (metric, what) in enumerate({"nmi": "NMI (%)", "ca": "CA (%)", "seconds": "Time (s)"}.items(), first):
        title = f"{what} of our methods and the baseline {family} clustering methods"
        yield Table(f"table{number}", title, PAPER_SETS, methods, metric=metric, family=family, reference=reference)


def _sweep(number: int, title: str, axis: str, values: Iterable[int], methods: Sequence[str]) -> Table:
    return Table(f"table{number}", title, SWEEP_SETS, methods, [Setting(value, {axis: value}) for value in values])


def _variants(number: int, what: str, axis: str, values: Mapping[str, str], method: str) -> Table:
    settings = [Setting(label, {axis: value}) for label, value in values.items()]
    return Table(f"table{number}", f"{method} with {what}", SWEEP_SETS, (method, f"{method} (lib)"), settings)


_LANDMARK_METHODS = ("Nystrom", "LSC-K", "LSC-R", *OUR_METHODS)
_SELECTION = {"H": "hybrid", "R": "random", "K": "kmeans"}
_NEIGHBORS = {"A": "approx", "E": "exact"}
_STRATEGIES = "hybrid (H), random (R) and k-means based (K) selection of representatives"
_SEARCHES = "approximate (A) and exact (E) nearest representatives"

TABLES = {
    table.name: table
    for table in (
        *_comparisons(4, "spectral", SPECTRAL, reference="k-means"),
        *_comparisons(7, "ensemble", ENSEMBLE, reference="U-SPEC"),
        _sweep(10, "Number of representatives p", "p", range(200, 1401, 200), _LANDMARK_METHODS),
        _sweep(11, "Number of nearest representatives K", "K", range(3, 11), _LANDMARK_METHODS),
        _sweep(12, "Ensemble size m", "m", range(5, 31, 5), ENSEMBLE),
        _variants(13, _STRATEGIES, "selection", _SELECTION, "U-SPEC"),
        _variants(14, _STRATEGIES, "selection", _SELECTION, "U-SENC"),
        _variants(15, _SEARCHES, "neighbors", _NEIGHBORS, "U-SPEC"),
        _variants(16, _SEARCHES, "neighbors", _NEIGHBORS, "U-SENC"),
    )
}


def canonical_json(parameters: Mapping[str, Any]) -> str:
    """Return parameters as JSON with sorted keys: equal parameters give equal strings."""
    return json.dumps(parameters, sort_keys=True)


def plan(
    tables: Iterable[Table],
    datasets: Iterable[Dataset],
    methods: Iterable[Method],
    *,
    runs: int = RUNS,
    scale: float = 1.0,
) -> list[Run]:
    """List the runs that tables need, each once, seed by seed, so that the first results cover everything.

    Data sets that a user added belong to every table, methods that a user added to Tables 4 to 9.

    Examples
    --------
    >>> planned = plan([TABLES["table4"], TABLES["table5"]], DATASETS[:2], METHODS[:1], runs=2)
    >>> [(run.dataset, run.method, run.seed) for run in planned]
    [('PenDigits', 'k-means', 0), ('USPS', 'k-means', 0), ('PenDigits', 'k-means', 1), ('USPS', 'k-means', 1)]
    """
    tables = list(tables)
    methods = list(methods)
    cells: dict[tuple[str, str, str], None] = {}  # an ordered set
    for dataset in datasets:
        for table in tables:
            if not dataset.custom and dataset.title not in table.datasets:
                continue
            for method in methods:
                if method.title in table.methods or (method.custom and table.metric):
                    for setting in table.settings:
                        cells[dataset.title, method.title, canonical_json(method.with_setting(setting.axes))] = None
    return [
        Run(dataset, scale, method, parameters, seed) for seed in range(runs) for dataset, method, parameters in cells
    ]
