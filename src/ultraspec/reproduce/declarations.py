"""The paper's experiments as declarations: data sets, methods, tables, and the runs that a table asks for.

A run is a data set, a method with parameters, and a seed. Tables share runs: the default point of Table 10 is U-SPEC's
entry in Table 4, and is run once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

RUNS = 20
AXES = {"p": 1000, "K": 5, "m": 20, "selection": "hybrid", "neighbors": "approx"}  # what may vary, and its default


@dataclass(frozen=True)
class Dataset:
    """A data set: one of the paper's (`name` is that of `ultraspec.datasets`), or a user's file."""

    title: str
    name: str = ""
    file: str = ""  # "path:label"
    reconstructed: bool = False

    @property
    def own(self) -> bool:
        """Whether a user added it."""
        return bool(self.file)


@dataclass(frozen=True)
class Method:
    """A method: an estimator, the parameters that stay, and the names of those that tables vary."""

    title: str
    estimator: str  # "module:name"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    combines: bool = False  # joins k-means members, which all such methods share for a seed
    instead_of: str = ""  # the paper's method of which it is a variant
    own: bool = False  # added by a user
    code: str = ""  # checksum of a user's module, as it may be changed between runs

    def with_setting(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Its parameters in a setting; what it does not have, and what is the default, is left out."""
        varied = {
            self.axes[axis]: value for axis, value in setting.items() if axis in self.axes and value != AXES[axis]
        }
        return {**self.parameters, **varied}


class Setting(NamedTuple):
    """One value of what a table varies."""

    label: Any
    axes: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """One of the paper's tables.

    Attributes
    ----------
    metric : str
        The figure that a comparison shows; empty where the table draws all three.
    reference : str
        The method that is listed for reference only and takes no part in ranks.
    """

    name: str
    title: str
    datasets: Sequence[str]
    methods: Sequence[str]
    settings: Sequence[Setting] = (Setting("", {}),)
    metric: str = ""
    family: str = ""
    reference: str = ""

    @property
    def number(self) -> str:
        """The paper's number."""
        return self.name.removeprefix("table")


class Run(NamedTuple):
    """One fit: all that tells it from others."""

    dataset: str
    scale: float
    method: str
    parameters: str  # JSON, sorted
    seed: int


DATASETS = (
    Dataset("PenDigits", "pendigits"),
    Dataset("USPS", "usps"),
    Dataset("Letters", "letters"),
    Dataset("MNIST", "mnist"),
    Dataset("Covertype", "covertype"),
    Dataset("TB-1M", "tb", reconstructed=True),
    Dataset("SF-2M", "sf", reconstructed=True),
    Dataset("CC-5M", "cc", reconstructed=True),
    Dataset("CG-10M", "cg", reconstructed=True),
    Dataset("Flower-20M", "flower", reconstructed=True),
)
PAPER_SETS = tuple(dataset.title for dataset in DATASETS)

_USPEC = {"p": "n_representatives", "K": "n_neighbors", "selection": "selection", "neighbors": "neighbors"}
_USENC = {**_USPEC, "m": "n_estimators"}
_LETTER = {"regularization": 0.0}  # the paper to the letter
_OURS = (
    Method("U-SPEC", "ultraspec:USPEC", _LETTER, _USPEC),
    Method("U-SENC", "ultraspec:USENC", _LETTER, _USENC),
    Method("U-SPEC (lib)", "ultraspec:USPEC", {}, _USPEC, instead_of="U-SPEC"),
    Method("U-SENC (lib)", "ultraspec:USENC", {}, _USENC, instead_of="U-SENC"),
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

_OUR_TITLES = tuple(method.title for method in _OURS)
SPECTRAL = (*(method.title for method in _SPECTRAL), *_OUR_TITLES)
ENSEMBLE = ("U-SPEC", "U-SPEC (lib)", *(method.title for method in _ENSEMBLE), "U-SENC", "U-SENC (lib)")
FOUR = ("MNIST", "Covertype", "TB-1M", "SF-2M")  # the sets of Tables 10 to 16


def _comparisons() -> Iterable[Table]:
    for first, family, methods, reference in (
        (4, "spectral", SPECTRAL, "k-means"),
        (7, "ensemble", ENSEMBLE, "U-SPEC"),
    ):
        for number, metric, what in ((0, "nmi", "NMI (%)"), (1, "ca", "CA (%)"), (2, "seconds", "Time (s)")):
            title = f"{what} of our methods and the baseline {family} clustering methods"
            yield Table(
                f"table{first + number}",
                title,
                PAPER_SETS,
                methods,
                metric=metric,
                family=family,
                reference=reference,
            )


def _sweep(number: int, title: str, axis: str, values: Iterable[int], methods: Sequence[str]) -> Table:
    return Table(f"table{number}", title, FOUR, methods, [Setting(value, {axis: value}) for value in values])


def _variants(number: int, what: str, axis: str, values: Mapping[str, str], name: str) -> Table:
    settings = [Setting(label, {axis: value}) for label, value in values.items()]
    return Table(f"table{number}", f"{name} with {what}", FOUR, (name, f"{name} (lib)"), settings)


_SHARED = ("U-SPEC", "U-SENC", "U-SPEC (lib)", "U-SENC (lib)")
_SELECTION = {"H": "hybrid", "R": "random", "K": "kmeans"}
_NEIGHBORS = {"A": "approx", "E": "exact"}
_STRATEGIES = "hybrid (H), random (R) and k-means based (K) selection of representatives"
_SEARCHES = "approximate (A) and exact (E) nearest representatives"

TABLES = {
    table.name: table
    for table in (
        *_comparisons(),
        _sweep(10, "Number of representatives p", "p", range(200, 1401, 200), ("Nystrom", "LSC-K", "LSC-R", *_SHARED)),
        _sweep(11, "Number of nearest representatives K", "K", range(3, 11), ("Nystrom", "LSC-K", "LSC-R", *_SHARED)),
        _sweep(12, "Ensemble size m", "m", range(5, 31, 5), ENSEMBLE),
        _variants(13, _STRATEGIES, "selection", _SELECTION, "U-SPEC"),
        _variants(14, _STRATEGIES, "selection", _SELECTION, "U-SENC"),
        _variants(15, _SEARCHES, "neighbors", _NEIGHBORS, "U-SPEC"),
        _variants(16, _SEARCHES, "neighbors", _NEIGHBORS, "U-SENC"),
    )
}


def written(parameters: Mapping[str, Any]) -> str:
    """Parameters as the one text that stands for them."""
    return json.dumps(parameters, sort_keys=True)


def plan(
    tables: Iterable[Table],
    datasets: Iterable[Dataset],
    methods: Iterable[Method],
    *,
    runs: int = RUNS,
    scale: float = 1.0,
) -> list[Run]:
    """All runs that tables ask for, each once: seed by seed, so that the first results cover all of it.

    Data sets and methods that a user added belong to every comparison, and data sets also to the other tables.

    Examples
    --------
    >>> found = plan([TABLES["table4"], TABLES["table5"]], DATASETS[:2], METHODS[:1], runs=2)
    >>> [(run.dataset, run.method, run.seed) for run in found]
    [('PenDigits', 'k-means', 0), ('USPS', 'k-means', 0), ('PenDigits', 'k-means', 1), ('USPS', 'k-means', 1)]
    """
    tables, methods = list(tables), list(methods)
    cells: dict[tuple[str, str, str], None] = {}
    for dataset in datasets:
        for table in tables:
            if not dataset.own and dataset.title not in table.datasets:
                continue
            for method in methods:
                if method.title in table.methods or (method.own and table.metric):
                    for setting in table.settings:
                        cells[dataset.title, method.title, written(method.with_setting(setting.axes))] = None
    return [
        Run(dataset, scale, method, parameters, seed) for seed in range(runs) for dataset, method, parameters in cells
    ]
