"""Docstrings that are filled in at import: complete, with the right defaults, and harmless where there are none."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.helpers.common import python
from ultraspec import baselines
from ultraspec.baselines._docs import document


class Example:
    """Do something.

    Parameters
    ----------
    shape : {"round", "long"}, default="long"
        Shape
        of the clusters.

    Notes
    -----
    None.
    """

    def __init__(self, n_estimators=20, n_init=7, max_iter=100, shape="long"):
        pass


def example(base_labels, n_init=3, *, shape, linkage="single", random_state=None):
    """Do the same.

    Parameters
    ----------
    base_labels : ...
        More about them.
    random_state : Ignored
        Not used.
    """


def test_shared_texts_are_added_with_the_defaults_of_the_signature():
    assert document()(Example) is Example
    assert document(Example)(example) is example
    text = inspect.getdoc(Example)
    assert "Parameters\n----------\nn_estimators : int, default=20\n    Number of members" in text
    assert "\nn_init : int, default=7\n    Number of k-means runs" in text
    assert "\nmax_iter : int, default=100\n    Maximum" in text
    assert '\nshape : {"round", "long"}, default="long"\n    Shape\n    of the clusters.\n\nAttributes\n------' in text
    assert "\nlabels_ : ndarray of shape (n_samples,), int32\n    Cluster of each row.\nbase_labels_ :" in text
    assert "0 if no k-means was needed" in text
    assert "\n\nSee Also\n--------\nexample : The consensus step alone" in text
    assert "\n\nNotes\n-----\nNone.\n\nExamples\n--------\n>>> from ultraspec import datasets\n" in text
    assert text.rstrip().endswith(">>> len(set(model.labels_))\n4")
    assert ">>> model = Example(n_clusters=4, random_state=0).fit(X)" in text
    text = inspect.getdoc(example)
    assert "does not assign the row.\n    More about them.\nn_init : int, default=3\n" in text
    assert '\nshape : {"round", "long"}\n    Shape\n    of the clusters.\nlinkage : {"average", "single", ' in text
    assert "\nrandom_state : Ignored\n    Not used.\n\nReturns\n-------\nndarray" in text
    assert "\n\nSee Also\n--------\nExample : Estimator that" in text
    assert text.count('default="single"') == 1
    assert "Raises" not in text


def test_unknown_names_are_errors():
    def wrong(colour):
        """Do nothing."""

    with pytest.raises(KeyError, match="no text for colour"):
        document()(wrong)


def test_things_without_a_docstring():
    def silent():
        pass

    assert document()(silent).__doc__ is None


@pytest.mark.parametrize("name", baselines.__all__)
def test_docstrings_are_complete(name):
    text = inspect.getdoc(getattr(baselines, name))
    assert " : ..." not in text
    assert "{name}" not in text
    assert "{other}" not in text
    assert max(map(len, text.splitlines())) <= 120
    sections = re.findall(r"\n\n(\w[\w ]+)\n(-+)\n(?=\S)", text)
    assert all(len(title) == len(line) for title, line in sections)
    order = ["Parameters", "Attributes", "Returns", "Raises", "See Also", "Notes", "References", "Examples"]
    titles = [title for title, _ in sections]
    assert titles == [title for title in order if title in titles]
    assert {"Parameters", "Examples"} < set(titles)
    parameters = inspect.signature(getattr(baselines, name)).parameters
    defaults = dict(re.findall(r"^(\w+) : .*, default=(.+)$", text, flags=re.MULTILINE))
    shown = {key: repr(parameter.default).replace("'", '"') for key, parameter in parameters.items()}
    assert all(default == shown[key] for key, default in defaults.items())


def test_parameters_of_functions_are_those_of_their_estimators():
    """Not those of another method with the same name."""
    for name in ("PTGP", "ptgp"):
        assert "n_neighbors : int or None, default=None\n    Number of nearest groups" in inspect.getdoc(
            getattr(baselines, name)
        )


def test_without_docstrings():
    found = python(
        """
        import json, subprocess, sys
        code = "from ultraspec.baselines import *; from ultraspec.baselines import PTGP, ptgp; print(ptgp.__doc__)"
        done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
        print(json.dumps([done.returncode, done.stdout.strip(), done.stderr]))
        """
    )
    assert found[:2] == [0, "None"], found[2]
