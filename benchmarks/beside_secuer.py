"""U-SPEC and U-SENC beside Secuer and Secuer-consensus, the other Python implementation, on the same rows.

Secuer wants older releases of many packages, so it runs in an interpreter of its own: see --python. Every fit is a
process: rows are read, a fit of some of them warms up, and then time and resident memory of one fit are taken.
Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import fetch, machine, read_set, store

from ultraspec import metrics

HOW_TO = """Pass --python PATH, an interpreter that has secuer. It names no dependencies; this makes one:

    python3.10 -m venv secuer-env
    secuer-env/bin/python -m pip install secuer==1.1 scanpy igraph louvain
    python benchmarks/beside_secuer.py --python secuer-env/bin/python
"""

# title, data set, rows, clusters
SETS = [
    ("cells-20k", "cells", 20_000, 20),
    ("cells-100k", "cells", 100_000, 20),
    ("PenDigits", "pendigits", None, 10),
    ("MNIST", "mnist", None, 10),
]

# ours and theirs; both with p = 1000 and K = 5, ensembles with as many members as each has by default
PAIRS = {
    "single": ("USPEC(k, random_state=seed).fit(X).labels_", "secuer(X, Ks=k, p=1000, Knn=5, seed=seed)"),
    "ensemble": ("USENC(k, random_state=seed).fit(X).labels_", "secuerconsensus(X, k=k, p=1000, Knn=5, M=5)"),
}
IMPORTS = "from ultraspec import USENC, USPEC", "from secuer import secuer, secuerconsensus"

FIT = """
import contextlib, json, platform, sys, time
from importlib.metadata import version
import numpy as np
IMPORT

def resident(field):  # of this process alone: getrusage's peak would begin with that of the parent
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[field].split()[0]) * 1024

def fit(X):
    with contextlib.redirect_stdout(sys.stderr):
        return CALL

rows, k, seed, out, packages = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]
X = np.load(rows)
fit(X[:2000])
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")  # the highest resident memory is counted anew
before, started = resident("VmRSS"), time.perf_counter()
labels = fit(X)
seconds = time.perf_counter() - started
above, most = resident("VmHWM") - before, resident("VmHWM")
np.save(out, np.asarray(labels).astype(np.int64))
versions = {name: version(name) for name in packages}
print(json.dumps({"seconds": seconds, "bytes_above_input": above, "bytes": most, "python": platform.python_version(),
                  "versions": versions}))
"""


def make_cells(n: int, n_types: int, n_genes: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """50 principal components of counts as single-cell RNA sequencing gives them, and the cells' types.

    Types come in five lineages and share most of their lineage's expression; the commonest has some 40 times the cells
    of the rarest. Counts are Poisson around gamma-distributed rates, with library sizes that vary from cell to cell,
    and are normalised and log-transformed as usual.
    """
    from sklearn.decomposition import PCA

    random = np.random.default_rng(seed)
    shares = np.geomspace(40, 1, n_types)
    y = random.choice(n_types, size=n, p=random.permutation(shares / shares.sum()))
    base = random.gamma(0.5, 1.0, size=n_genes) + 0.01
    lineage = np.where(random.random((5, n_genes)) < 0.1, random.lognormal(0, 1.2, (5, n_genes)), 1.0)
    own = np.where(random.random((n_types, n_genes)) < 0.05, random.lognormal(0, 1.0, (n_types, n_genes)), 1.0)
    profiles = base * lineage[np.arange(n_types) % 5] * own
    profiles /= profiles.sum(axis=1, keepdims=True)
    counts = np.empty((n, n_genes), dtype=np.float32)
    for low in range(0, n, 5000):  # float64 rates of some cells at a time
        types = y[low : low + 5000]
        depth = random.lognormal(np.log(1500), 0.4, size=(len(types), 1))
        noise = random.gamma(4.0, 0.25, size=(len(types), n_genes))
        counts[low : low + 5000] = random.poisson(depth * profiles[types] * noise)
    counts *= 1e4 / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.log1p(counts, out=counts)
    return PCA(50, svd_solver="covariance_eigh").fit_transform(counts).astype(np.float32), y


def measure(python: str, side: int, pair: str, rows: Path, k: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """One fit in a process of its own: what it prints, and the labels."""
    code = FIT.replace("IMPORT", IMPORTS[side]).replace("CALL", PAIRS[pair][side])
    packages = [["ultraspec", "numpy", "scipy", "scikit-learn", "numba"], ["secuer", "numpy", "scipy", "scikit-learn"]]
    out = rows.with_name("labels.npy")
    # away from this folder, and -I, as this file has the name of the package
    done = subprocess.run(
        [python, "-I", "-c", code, rows.name, str(k), str(seed), out.name, *packages[side]],
        cwd=rows.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{python} failed at {PAIRS[pair][side]}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1]), np.load(out)


def scores(y: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> dict[str, list[float]]:
    """ARI and NMI of each against the classes, and of the two against each other."""
    pairs = {"ours": (y, ours), "theirs": (y, theirs), "each_other": (ours, theirs)}
    return {name: [metrics.ari(a, b), metrics.nmi(a, b)] for name, (a, b) in pairs.items()}


def compare(title: str, X: np.ndarray, y: np.ndarray, k: int, python: str, pair: str, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npy"
        np.save(rows, X.astype(np.float32))
        theirs, their_labels = measure(python, 1, pair, rows, k, seed)
        ours, our_labels = measure(sys.executable, 0, pair, rows, k, seed)
    found = scores(y, our_labels, their_labels)
    print(
        f"{title:<11} {pair:<9} {ours['seconds']:7.2f} s against {theirs['seconds']:7.2f} s   "
        f"{ours['bytes_above_input'] / 1e6:5.0f} MB against {theirs['bytes_above_input'] / 1e6:5.0f} MB   "
        f"ARI {found['ours'][0]:.3f} against {found['theirs'][0]:.3f}",
        flush=True,
    )
    return {"ours": ours, "theirs": theirs, "scores": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="interpreter that has secuer")
    parser.add_argument("--repeats", type=int, default=3, help="seeds")
    parser.add_argument("--sets", nargs="*", choices=[title for title, *_ in SETS], default=[s[0] for s in SETS])
    parser.add_argument("--pairs", nargs="*", choices=list(PAIRS), default=list(PAIRS))
    parser.add_argument("--note", default="", help="a sentence for the report, say on what else ran meanwhile")
    options = parser.parse_args()
    if options.python is None:
        raise SystemExit(HOW_TO)
    python = os.path.abspath(options.python)  # not resolved: an environment's interpreter is a link
    result = fetch("secuer")
    result["machine"], result["note"] = machine(), options.note
    runs = result.setdefault("runs", {})
    for title, name, n_rows, k in SETS:
        if title not in options.sets:
            continue
        X, y = make_cells(n_rows, k) if name == "cells" else read_set(name, n_rows)
        for pair in options.pairs:
            done = [compare(title, X, y, k, python, pair, seed) for seed in range(options.repeats)]
            runs.setdefault(pair, {})[title] = {"rows": len(X), "features": X.shape[1], "clusters": k, "fits": done}
            store("secuer", result)


if __name__ == "__main__":
    main()
