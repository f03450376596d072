"""Docstrings of the baselines: every text that several of them share is written once, here.

A docstring line that holds only names in braces, such as ``{n_init, max_iter}``, stands for the texts of these
names. The decorator `document` inserts them when the module is imported, so that `help`, Sphinx and doctest see the
complete docstring.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

EMPTY = inspect.Parameter.empty
PLACEHOLDERS = re.compile(r"^( *)\{(\w+(?:, \w+)*)\}$", re.MULTILINE)

# Parameters and attributes, found by their names, and other texts. In both, {default} becomes the default in the
# signature, {name} the name of the documented class or function, and {other} that of the function of a class or the
# class of a function. Sections end with an empty line.
ENTRIES = """\
base_labels : array-like or frame of shape (n_samples, n_clusterings)
    Label matrix, one column per clustering. Labels are integers or strings. -1, None and NaN mean that the clustering
    does not assign the row.
n_clusters : int{default}
    Number of clusters.
n_estimators : int{default}
    Number of members of the ensemble, m.
base_clusters : tuple of two int{default}
    Range from which the number of clusters of each member is drawn, both ends included. The upper end is limited to
    the square root of the number of rows (or to `n_clusters`, if that is larger), and the lower end is reduced in
    proportion: the default is used in full from 3,600 rows on.
base_max_iter : int{default}
    Maximum number of k-means iterations of each member.
n_neighbors : int{default}
    Number of nearest rows that each row is connected to.
assign_labels : {"orthogonal", "kmeans"}{default}
    How the rows of the embedding are clustered. "orthogonal" is the k-means of Chen et al., which the scores in the
    paper agree with: one run from rows that are as orthogonal as possible, stopped early. "kmeans" takes the best of
    `n_init` k-means runs from random rows, which scores better.
linkage : {"average", "single", "complete"}{default}
    Distance between two clusters: the mean, the smallest or the largest distance of their rows.
max_pairs_bytes : int or None{default}
    Maximum size in bytes of the matrix of all pairs. None allows half of the available memory.
n_init : int{default}
    Number of k-means runs from different starts; the best run gives the labels.
max_iter : int{default}
    Maximum number of iterations of each k-means run.
random_state : int, RandomState, Generator or None{default}
    Seed of the random numbers. The same integer gives the same labels, for any `n_jobs`.
n_jobs : int or None{default}
    Number of threads. None and -1 use every core that is available to the process.
verbose : int{default}
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

TEXTS = {
    "unused_random_state": """\
random_state : Ignored
    Not used, because the method is deterministic. Present for a uniform interface.
""",
    "consensus_n_iter_": """\
n_iter_ : int
    Number of iterations of the k-means run that gave the labels. 0 if no k-means was needed, because no more groups of
    rows differ in their base labels than there are clusters.
""",
    "neighbor_sigma_": """\
sigma_ : float
    Width of the Gaussian affinity: the mean distance of the rows to their nearest rows.
""",
    "returned_labels": """\
Returns
-------
ndarray of shape (n_samples,), int32
    Cluster of each row; -1 for rows that no clustering assigns.

""",
    "memory_error": """\
Raises
------
MemoryError
    If the matrix of all pairs would be larger than `max_pairs_bytes`. Raised before it is allocated.

""",
    "see_estimator": """\
See Also
--------
{other} : Estimator that also generates the base clusterings; its notes describe the method.

""",
    "see_function": """\
See Also
--------
{other} : The consensus step alone, for label matrices from any clusterers.
ultraspec.USENC : The ensemble clustering of this library.

""",
    "estimator_example": """\
Examples
--------
>>> from ultraspec import datasets
>>> from ultraspec.baselines import {name}
>>> X, y = datasets.generate("sf", 2_000, random_state=0)
>>> model = {name}(n_clusters=4, random_state=0).fit(X)
>>> model.base_labels_.shape
(2000, 20)
>>> len(set(model.labels_))
4
""",
    "function_example": """\
Examples
--------
>>> from ultraspec.baselines import {name}
>>> base_labels = [[0, "a"], [0, "a"], [0, "b"], [1, "c"], [1, "c"]]
>>> labels = {name}(base_labels, 2, random_state=0)
>>> (labels == labels[0]).tolist()
[True, True, True, False, False]
""",
}


def document(estimator: type | None = None) -> Callable[[T], T]:
    """Make a decorator that replaces the placeholders in a docstring by the shared texts.

    Parameters
    ----------
    estimator : class, optional
        Estimator that a function belongs to. Its docstring describes the parameters of the function, too.

    Returns
    -------
    callable
        Decorator of a class or function. It changes only the docstring, and nothing under ``python -OO``, where
        docstrings are None.
    """

    def fill(documented: T) -> T:
        thing: Any = documented
        if thing.__doc__ is not None:
            texts = partial(_texts, thing, estimator)
            thing.__doc__ = PLACEHOLDERS.sub(texts, thing.__doc__)
        return documented

    return fill


def _texts(thing: Any, estimator: type | None, placeholder: re.Match[str]) -> str:
    """Return the texts of the names in a placeholder, with its indentation."""
    indent, names = placeholder.groups()
    parameters = inspect.signature(thing).parameters
    other = thing.__name__.lower() if estimator is None else estimator.__name__
    described = ENTRIES if estimator is None else f"{inspect.getdoc(estimator)}\n{ENTRIES}"
    texts = []
    for name in names.split(", "):
        text = TEXTS[name] if name in TEXTS else _entry(name, described)
        default = parameters[name].default if name in parameters else EMPTY
        shown = f'"{default}"' if isinstance(default, str) else repr(default)
        text = text.replace("{default}", "" if default is EMPTY else f", default={shown}")
        texts.append(text.replace("{name}", thing.__name__).replace("{other}", other))
    return textwrap.indent("".join(texts), indent).rstrip("\n")


def _entry(name: str, described: str) -> str:
    """Return the first description of a parameter or attribute in a numpydoc section."""
    entry = re.search(rf"^({name} : .*\n)((?:    .*\n)+)", described, re.MULTILINE)
    if entry is None:
        raise KeyError(f"There is no text for {name}, neither shared nor in the docstring of the estimator.")
    header, text = entry.groups()
    return re.sub(", default=.*", "{default}", header) + text  # another signature may have another default
