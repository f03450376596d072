"""Scores of the baselines with other settings than the defaults, where the sources leave them open, many seeds.

Scores of the defaults come from `ultraspec reproduce`; these runs have its data, its members and its measure. Results
are stored after every run and finished runs are not repeated, so that it can be stopped and started again, also for
several methods at once. BASELINES.md is written by `baselines_report.py`.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import REPRODUCTION, changing, fetch, machine

from ultraspec.baselines.kcc import COSTS
from ultraspec.reproduce.declarations import DATASETS, METHODS, Method, Run, Table
from ultraspec.reproduce.experiment import Experiment, choose
from ultraspec.reproduce.worker import measure

REAL = ("PenDigits", "USPS", "Letters", "MNIST")
DEMONSTRATION = {"n_init": 10, "max_iter": 40}  # starts and iterations in the demonstrations of KCC and ECC


def setting(name: str, label: str, **parameters: Any) -> Method:
    """Return a method of the paper with some parameters changed."""
    (usual,) = choose(METHODS, [name], "method")
    return replace(usual, title=f"{name} {label}", parameters={**usual.parameters, **parameters})


SETTINGS = (
    setting("SC", "assign_labels=kmeans", assign_labels="kmeans"),
    *(setting("ESCG", f"n_supernodes={n}", n_supernodes=n) for n in (30, 100, 200, 1000)),
    setting("Nystrom", "assign_labels=kmeans, n_init=1", assign_labels="kmeans", n_init=1),
    setting("Nystrom", "rcond=1e-6", rcond=1e-6),
    setting("LSC-K", "bandwidth=distance", bandwidth="distance"),
    setting("LSC-K", "drop_first=False", drop_first=False),
    setting("FastESC", "drop_first=False", drop_first=False),
    setting("FastESC", "n_frequencies=600", n_frequencies=600),
    *(
        setting("EulerSC", f"alpha={alpha}, scaling={scaling}", alpha=alpha, scaling=scaling)
        for scaling, alphas in (("global", (0.1, 1.0, 1.9)), ("columns", (0.5, 1.0, 1.9)), ("none", (0.01, 0.02)))
        for alpha in alphas
    ),
    *(setting("KCC", f"{u}, 10 starts", utility=u, **DEMONSTRATION) for u in COSTS),
    *(
        setting("KCC", f"{u}, normalized, 10 starts", utility=u, normalized=True, **DEMONSTRATION)
        for u in ("category", "entropy", "cosine")
    ),
    *(setting("KCC", f"category, {n} starts", utility="category", n_init=n, max_iter=40) for n in (1, 5, 20)),
    *(setting("ECC", f"{n} starts", n_init=n) for n in (5, 20)),
    *(setting("SEC", f"{n} starts", n_init=n) for n in (1, 5, 10, 50)),
    *(setting("WCT", f"decay={decay}", decay=decay) for decay in (0.5, 0.9)),
    *(setting("EAC", f"{linkage} linkage", linkage=linkage) for linkage in ("single", "complete")),
    setting("LWGP", "12 starts", n_init=12),
)


def scores_of(result: dict[str, Any], run: Run) -> list[list[float]]:
    """NMI, CA and seconds (of ensembles those of the consensus) of the seeds that are stored."""
    return result.setdefault("others", {}).setdefault(run.method, {}).setdefault(run.dataset, [])


def main() -> None:
    names = list(dict.fromkeys(method.title.split()[0] for method in SETTINGS))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*", default=names, choices=names)
    parser.add_argument("--sets", nargs="*", default=list(REAL))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no run after so long")
    parser.add_argument("--cache", type=Path, default=REPRODUCTION / "cache", help="data sets and members")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    methods = [method for method in SETTINGS if method.title.split()[0] in options.methods]
    experiment = Experiment(
        tables=[Table("settings", "", options.sets, [method.title for method in methods])],
        datasets=choose(DATASETS, options.sets, "data set"),
        methods=methods,
        runs=options.seeds,
        scale=1.0,
        cache=options.cache.resolve(),
        threads=os.cpu_count() or 1,
    )
    stored = fetch("baselines")
    todo = [run for run in experiment.plan() if run.seed >= len(scores_of(stored, run))]
    experiment.prepare(todo, print)
    for run in todo:
        if time.monotonic() > deadline:
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # graphs in pieces, fewer clusters: known of these sets
            found = measure(experiment.task(run))
        scores = [found["nmi"], found["ca"], found.get("consensus_seconds", found["seconds"])]
        with changing("baselines") as result:
            result["machine"] = machine()
            if len(done := scores_of(result, run)) == run.seed:  # unless another process was faster
                done.append(scores)
        text = "NMI {:6.2f}   CA {:6.2f}   {:.1f} s".format(*scores)
        print(f"{run.method:<36} {run.dataset:<10} seed {run.seed:<2}   {text}", flush=True)


if __name__ == "__main__":
    main()
