"""Data and helpers that several test modules use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import scipy.sparse

from ultraspec import metrics

ROOT = Path(__file__).parents[2]  # where other interpreters start


def blobs(n=400, k=4, d=3, seed=0):
    """Give k compact clusters without outliers, ten times their size apart, on a circle in a random plane."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(k) / k
    circle = 10 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    plane = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
    y = rng.permutation(np.arange(n) % k)
    return circle[y] @ plane + rng.uniform(-1, 1, size=(n, d)) / np.sqrt(d), y


def documents(n=400, k=4, d=200, words=30, seed=0):
    """Give a CSR matrix much like tf-idf: rows of one class share a part of the vocabulary, four words in five."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    own = rng.integers(d // k, size=(n, words)) + (y * (d // k))[:, None]
    columns = np.where(rng.random((n, words)) < 0.8, own, rng.integers(d, size=(n, words)))
    X = scipy.sparse.csr_array((rng.random(n * words) + 0.2, columns.ravel(), np.arange(n + 1) * words), shape=(n, d))
    X.sum_duplicates()
    return X, y


def frames():
    """Give the kinds of data frame whose column names the installed scikit-learn sees."""
    import pandas
    import polars
    import pytest
    from sklearn.preprocessing import StandardScaler

    for module in (pandas, polars):
        seen = hasattr(StandardScaler().fit(module.DataFrame({"a": [0.0, 1.0]})), "feature_names_in_")
        skip = pytest.mark.skipif(not seen, reason=f"this scikit-learn does not see the names of {module.__name__}")
        yield pytest.param(module.DataFrame, id=module.__name__, marks=skip)


def same_partition(a, b):
    """Whether two labelings agree up to the names of the clusters."""
    return metrics.ari(a, b) == 1.0


def python(code, *, timeout=300, **env):
    """Run code in a new interpreter; its last line of output, JSON, is returned."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **env},
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])
