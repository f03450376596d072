"""Docstrings of the baselines: every text that several of them share is written once, here.

The docstring of a baseline describes only what is its own. The decorator `document` adds the shared parameters, in the
order of the signature, the shared attributes and the shared sections when the module is imported, so that `help`,
Sphinx and doctest see the complete docstring. The entry ``name : ...`` continues the shared text of a parameter.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

EMPTY = inspect.Parameter.empty
SECTION = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
ORDER = ("Parameters", "Attributes", "Returns", "Raises", "See Also", "Notes", "References", "Examples")

# Parameters and attributes. Defaults are those of the signature.
ENTRIES = """
base_labels : array-like or frame of shape (n_samples, n_clusterings)
    Label matrix, one column per clustering. Labels are integers or strings. -1, None and NaN mean that the clustering
    does not assign the row.
n_clusters : int
    Number of clusters.
n_estimators : int
    Number of members of the ensemble, m.
base_clusters : tuple of two int
    Range from which the number of clusters of each member is drawn, both ends included. The upper end is limited to
    the square root of the number of rows (or to `n_clusters`, if that is larger), and the lower end is reduced in
    proportion: the default is used in full from 3,600 rows on.
base_max_iter : int
    Maximum number of k-means iterations of each member.
n_neighbors : int
    Number of nearest rows that each row is connected to.
assign_labels : {"orthogonal", "kmeans"}
    How the rows of the embedding are clustered. "orthogonal" is the k-means of Chen et al., which the scores in the
    paper agree with: one run from rows that are as orthogonal as possible, stopped early. "kmeans" takes the best of
    `n_init` k-means runs from random rows, which scores better.
linkage : {"average", "single", "complete"}
    Distance between two clusters: the mean, the smallest or the largest distance of their rows.
max_pairs_bytes : int or None
    Maximum size in bytes of the matrix of all pairs. None allows half of the available memory.
n_init : int
    Number of k-means runs from different starts; the best run gives the labels.
max_iter : int
    Maximum number of iterations of each k-means run.
random_state : int, RandomState, Generator or None
    Seed of the random numbers. The same integer gives the same labels, for any `n_jobs`.
n_jobs : int or None
    Number of threads. None and -1 use every core that is available to the process.
verbose : int
    1 shows the phases of the fit and their progress on standard error.
labels_ : ndarray of shape (n_samples,), int32
    Cluster of each row.
base_labels_ : ndarray of shape (n_samples, n_estimators), uint8 (uint16 above 256 base clusters)
    Labels of the rows by each member.
n_clusters_ : int
    Number of clusters found.
n_iter_ : int
    Number of iterations of the k-means run that gave the labels.
fit_profile_ : dict
    For each phase of the fit, its ``seconds`` and the maximum resident memory, ``resident_bytes``.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of str
    Names of the features. Defined only if X has feature names.
"""


N_ITER_OF_CONSENSUS = """
n_iter_ : int
    Number of iterations of the k-means run that gave the labels. 0 if no k-means was needed, because no more groups of
    rows differ in their base labels than there are clusters.
"""

# Sections of estimators and functions that have none of their own. {name} is the name of the documented class or
# function, and {other} that of the function of a class or the class of a function.
ENSEMBLE_SECTIONS = {
    "See Also": """
{other} : The consensus step alone, for label matrices from any clusterers.
ultraspec.USENC : The ensemble clustering of this library.
""",
    "Examples": """
>>> from ultraspec import datasets
>>> from ultraspec.baselines import {name}
>>> X, y = datasets.generate("sf", 2_000, random_state=0)
>>> model = {name}(n_clusters=4, random_state=0).fit(X)
>>> model.base_labels_.shape
(2000, 20)
>>> len(set(model.labels_))
4
""",
}
FUNCTION_SECTIONS = {
    "Returns": """
ndarray of shape (n_samples,), int32
    Cluster of each row; -1 for rows that no clustering assigns.
""",
    "See Also": """
{other} : Estimator that also generates the base clusterings; its notes describe the method.
""",
    "Examples": """
>>> from ultraspec.baselines import {name}
>>> base_labels = [[0, "a"], [0, "a"], [0, "b"], [1, "c"], [1, "c"]]
>>> labels = {name}(base_labels, 2, random_state=0)
>>> (labels == labels[0]).tolist()
[True, True, True, False, False]
""",
}
MEMORY_ERROR = """
MemoryError
    If the matrix of all pairs would be larger than `max_pairs_bytes`. Raised before it is allocated.
"""


def document(estimator: type | None = None) -> Callable[[T], T]:
    """Make a decorator that completes the docstring of a class or function.

    A function belongs to an `estimator`, whose docstring describes the parameters of the function, too. Nothing is
    changed under ``python -OO``, where docstrings are None.
    """

    def fill(documented: T) -> T:
        thing: Any = documented
        if thing.__doc__ is not None:
            thing.__doc__ = _complete(thing, estimator)
        return documented

    return fill


def _complete(thing: Any, estimator: type | None) -> str:
    """Return the complete docstring of an estimator, or of the function of an `estimator`."""
    text = inspect.cleandoc(thing.__doc__)
    summary, *parts = SECTION.split(text)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    parameters = inspect.signature(thing).parameters
    if estimator is not None:
        other = estimator.__name__
        described = f"{text}\n{inspect.getdoc(estimator)}\n{ENTRIES}"
        memory = {"Raises": MEMORY_ERROR} if "max_pairs_bytes" in parameters else {}
        sections = FUNCTION_SECTIONS | memory | sections
    else:
        other = thing.__name__.lower()
        is_ensemble = "n_estimators" in parameters
        described = f"{text}\n{N_ITER_OF_CONSENSUS if is_ensemble else ''}{ENTRIES}"
        sections = (ENSEMBLE_SECTIONS if is_ensemble else {}) | sections
        own = re.findall(r"^(\w+) : ", sections.get("Attributes", ""), re.MULTILINE)
        names = ["labels_", *(["base_labels_"] if is_ensemble else []), *own, "n_clusters_"]
        names += [*(["n_iter_"] if "max_iter" in parameters else []), "fit_profile_", "n_features_in_"]
        sections["Attributes"] = "".join(_entry(name, described) for name in [*names, "feature_names_in_"])
    entries = [_entry(parameter.name, described, parameter.default) for parameter in parameters.values()]
    sections["Parameters"] = "".join(entries)
    texts = [f"{title}\n{'-' * len(title)}\n{sections[title].strip()}\n" for title in ORDER if title in sections]
    return "\n".join([f"{summary.strip()}\n", *texts]).replace("{name}", thing.__name__).replace("{other}", other)


def _entry(name: str, described: str, default: Any = EMPTY) -> str:
    """Return the first description of a parameter or attribute in numpydoc sections, with a default."""
    found = re.search(rf"^{name} : (.*?)(?:, default=.*)?\n((?:    .*\n)+)", described, re.MULTILINE)
    if found is None:
        raise KeyError(f"There is no text for {name}, neither shared nor in the docstring of the estimator.")
    kind, text = found.groups()
    if kind == "...":
        return _entry(name, described[found.end() :], default) + text
    if default is not EMPTY and kind != "Ignored":
        kind += f', default="{default}"' if isinstance(default, str) else f", default={default!r}"
    return f"{name} : {kind}\n{text}"
