"""Scores of the baselines on four of the paper's data sets, many seeds, beside the paper's.

Results are stored after every run and finished runs are not repeated, so that it can be stopped and started again, also
for several methods at once. BASELINES.md is written by `baselines_report.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import importlib
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import PAPER, SETS, fetch, machine, read_set, store

from ultraspec import baselines, metrics
from ultraspec.baselines._neighbors import neighbor_graph

REAL = ("PenDigits", "USPS", "Letters", "MNIST")
LONG = 60.0  # seconds of a run beyond which half as many seeds are taken

# title, class, parameters beside the number of clusters
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "KMeansLite": ("KMeansLite", {}),
    "SC": ("SC", {}),
    "ESCG": ("ESCG", {}),
    "Nystrom": ("Nystrom", {}),
    "LSC-K": ("LSC", {"selection": "kmeans"}),
    "LSC-R": ("LSC", {"selection": "random"}),
    "FastESC": ("FastESC", {}),
    "EulerSC": ("EulerSC", {}),
    **{name: (name, {}) for name in ("EAC", "WCT", "KCC", "PTGP", "ECC", "SEC", "LWGP")},
}

# Settings that the sources leave open, beside the defaults: taken with --try, stored apart.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SC assign_labels=kmeans": ("SC", {"assign_labels": "kmeans"}),
    **{f"ESCG n_supernodes={n}": ("ESCG", {"n_supernodes": n}) for n in (30, 100, 200, 1000)},
    "Nystrom assign_labels=kmeans, n_init=1": ("Nystrom", {"assign_labels": "kmeans", "n_init": 1}),
    "Nystrom rcond=1e-6": ("Nystrom", {"rcond": 1e-6}),
    "LSC-K bandwidth=distance": ("LSC", {"bandwidth": "distance"}),
    "LSC-K drop_first=False": ("LSC", {"drop_first": False}),
    "FastESC drop_first=False": ("FastESC", {"drop_first": False}),
    "FastESC n_frequencies=600": ("FastESC", {"n_frequencies": 600}),
    **{
        f"EulerSC alpha={alpha}, scaling={scaling}": ("EulerSC", {"alpha": alpha, "scaling": scaling})
        for scaling, alphas in (("global", (0.1, 1.0, 1.9)), ("columns", (0.5, 1.0, 1.9)), ("none", (0.01, 0.02)))
        for alpha in alphas
    },
}


def make(title: str, k: int, seed: int) -> Any:
    kind, parameters = {**METHODS, **OTHERS}[title]
    return getattr(baselines, kind)(k, **parameters, random_state=seed)


class Graphs:
    """Stands in for the search of neighbours in SC and ESCG: searches once for all seeds, on which it does not depend.

    The seconds of the search count for every run.
    """

    def __init__(self) -> None:
        self._found: dict[Any, tuple[Any, float]] = {}
        self.set_title, self.saved = "", 0.0
        self._search = neighbor_graph
        for name in ("sc", "escg"):
            importlib.import_module(f"ultraspec.baselines.{name}").neighbor_graph = self

    def __call__(self, rows: Any, n_neighbors: int, method: str, engine: Any) -> tuple[Any, float]:
        key = self.set_title, n_neighbors
        if key in self._found:
            self.saved += self._found[key][1]
        else:
            started = time.perf_counter()
            graph = self._search(rows, n_neighbors, method, engine)
            self._found = {key: (graph, time.perf_counter() - started)}
        return self._found[key][0]


@functools.cache
def _graphs() -> Graphs:
    return Graphs()


@contextlib.contextmanager
def locked() -> Iterator[dict[str, Any]]:
    """The stored results, to be changed and stored again; one process at a time."""
    with (Path(tempfile.gettempdir()) / "ultraspec-baselines.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = fetch("baselines")
        yield result
        store("baselines", result)


def run(key: str, title: str, set_title: str, X: np.ndarray, y: np.ndarray, k: int, seed: int) -> list[float]:
    graphs = _graphs()
    graphs.set_title, graphs.saved = set_title, 0.0
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # graphs in pieces, fewer clusters: known of these sets
        labels = make(title, k, seed).fit_predict(X)
    seconds = time.perf_counter() - started + graphs.saved
    scores = [100 * metrics.nmi(y, labels), 100 * metrics.majority_accuracy(y, labels), seconds]
    with locked() as result:
        result["machine"] = machine()
        result.setdefault(key, {}).setdefault(title, {}).setdefault(set_title, []).append(scores)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--try", action="store_true", dest="others", help="other settings than the defaults")
    parser.add_argument("--sets", nargs="*", default=list(REAL))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no run after so long")
    parser.add_argument("--fresh", action="store_true", help="forget the stored runs of these methods and sets")
    options = parser.parse_args()
    started = time.perf_counter()
    key, methods = ("others", OTHERS) if options.others else ("runs", METHODS)
    titles = options.methods or list(methods)
    if options.fresh:
        with locked() as result:
            for title in titles:
                for set_title in options.sets:
                    result.get(key, {}).get(title, {}).pop(set_title, None)
    for set_title, name, n_rows, k in SETS:
        if set_title not in options.sets:
            continue
        X, y = read_set(name, n_rows)
        for title in titles:
            done = fetch("baselines").get(key, {}).get(title, {}).get(set_title, [])
            while len(done) < (
                options.seeds if not done or min(r[2] for r in done) <= LONG else -(-options.seeds // 2)
            ):
                if time.perf_counter() - started > options.seconds:
                    return
                done.append(run(key, title, set_title, X, y, k, len(done)))
            found, paper = np.array(done), PAPER[title.split()[0]].get(set_title)
            text = f"{title:<10} {set_title:<10} {len(done):>2} seeds"
            for column, score in enumerate(("nmi", "ca")):
                text += f"   {score.upper()} {found[:, column].mean():6.2f} ± {found[:, column].std():4.2f}"
                text += " (paper {:6.2f} ± {:4.2f})".format(*paper[score]) if paper else ""
            print(f"{text}   {np.median(found[:, 2]):.1f} s", flush=True)


if __name__ == "__main__":
    main()
