"""Scores of the ensemble baselines: as `baselines.py`, but each seed's members are made once for all methods.

Members take nearly all the time. They are kept in a folder, one file per member, so that the script can be stopped and
started again; a method's labels are those that its estimator would give. ``--try`` takes other settings than the
defaults, whose scores are stored apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from baselines import REAL, locked
from common import PAPER, SETS, fetch, machine, read_set

from ultraspec import baselines, metrics
from ultraspec.baselines._ensemble import combine_integers
from ultraspec.baselines._members import kmeans_members
from ultraspec.baselines.kcc import COSTS
from ultraspec.engines import ThreadEngine
from ultraspec.members import prepare
from ultraspec.rows import ArrayRows
from ultraspec.space import survey

ENSEMBLE = ("EAC", "WCT", "KCC", "PTGP", "ECC", "SEC", "LWGP")
N_MEMBERS = 20
BASE_CLUSTERS = (20, 60)

DEMONSTRATION = {"n_init": 10, "max_iter": 40}  # starts and iterations in the demonstrations of KCC and ECC

# Settings that the sources leave open, beside the defaults.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"KCC {u}, 10 starts": ("KCC", {"utility": u, **DEMONSTRATION}) for u in COSTS},
    **{
        f"KCC {u}, normalized, 10 starts": ("KCC", {"utility": u, "normalized": True, **DEMONSTRATION})
        for u in ("category", "entropy", "cosine")
    },
    **{f"KCC category, {n} starts": ("KCC", {"utility": "category", "n_init": n, "max_iter": 40}) for n in (1, 5, 20)},
    **{f"ECC {n} starts": ("ECC", {"n_init": n}) for n in (5, 20)},
    **{f"SEC {n} starts": ("SEC", {"n_init": n}) for n in (1, 5, 10, 50)},
    **{f"WCT decay={decay}": ("WCT", {"decay": decay}) for decay in (0.5, 0.9)},
    **{f"EAC {linkage} linkage": ("EAC", {"linkage": linkage}) for linkage in ("single", "complete")},
    "LWGP 12 starts": ("LWGP", {"n_init": 12}),
}


class Members:
    """Base labels of one data set's members, made when they are first asked for."""

    def __init__(self, folder: Path, title: str, X: np.ndarray) -> None:
        self._folder, self._title, self._X = folder, title, X

    def get(self, seed: int, deadline: float) -> np.ndarray | None:
        """Labels (N, m), or None if they cannot be had before the deadline."""
        self._folder.mkdir(parents=True, exist_ok=True)
        paths = [self._folder / f"{self._title}-{seed}-{j}.npy" for j in range(N_MEMBERS)]
        missing = [j for j, path in enumerate(paths) if not path.exists()]
        if missing:
            seeds = np.random.SeedSequence(seed).spawn(3)  # as EnsembleBaseline.fit has them
            members = seeds[1].spawn(N_MEMBERS)
            with ThreadEngine() as engine:
                rows = ArrayRows(self._X)
                space = survey(rows, "euclidean", np.random.default_rng(seeds[0]), engine)
                rows = prepare(rows, space, engine)
                step = N_MEMBERS if rows.n_rows < 30_000 else engine.n_jobs
                for low in range(0, len(missing), step):
                    if time.perf_counter() > deadline:
                        return None
                    some = missing[low : low + step]
                    labels = kmeans_members(rows, BASE_CLUSTERS, 100, [members[j] for j in some], engine)
                    for j, column in zip(some, labels.T, strict=True):
                        np.save(paths[j], column)
        return np.column_stack([np.load(path) for path in paths])


def run(kind: str, parameters: dict[str, Any], labels: np.ndarray, y: np.ndarray, k: int, seed: int) -> list[float]:
    """NMI, CA and the seconds of the consensus alone."""
    started = time.perf_counter()
    method = getattr(baselines, kind)(k, **parameters)._method()
    with ThreadEngine() as engine:
        found = combine_integers(labels, k, method, np.random.SeedSequence(seed).spawn(3)[2], engine).labels
    seconds = time.perf_counter() - started
    return [100 * metrics.nmi(y, found), 100 * metrics.majority_accuracy(y, found), seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*", default=list(ENSEMBLE))
    parser.add_argument("--sets", nargs="*", default=list(REAL))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no run after so long")
    parser.add_argument("--try", dest="others", action="store_true", help="other settings instead of the defaults")
    parser.add_argument("--members", type=Path, default=Path(tempfile.gettempdir()) / "ultraspec-members")
    options = parser.parse_args()
    deadline = time.perf_counter() + options.seconds
    settings: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in options.methods}
    if options.others:
        settings = {title: setting for title, setting in OTHERS.items() if setting[0] in options.methods}
    key = "others" if options.others else "runs"
    for set_title, name, n_rows, k in SETS:
        if set_title not in options.sets:
            continue
        X, y = read_set(name, n_rows)
        members = Members(options.members, name, X)
        for seed in range(options.seeds):
            stored = fetch("baselines").get(key, {})
            todo = [title for title in settings if len(stored.get(title, {}).get(set_title, [])) == seed]
            labels = members.get(seed, deadline) if todo else None
            for title in todo:
                if labels is None or time.perf_counter() > deadline:
                    return
                scores = run(*settings[title], labels, y, k, seed)
                with locked() as result:
                    result["machine"] = machine()
                    result.setdefault(key, {}).setdefault(title, {}).setdefault(set_title, []).append(scores)
        for title in settings:
            found = np.array(fetch("baselines").get(key, {}).get(title, {}).get(set_title, [])[: options.seeds])
            text, paper = f"{title:<36} {set_title:<10} {len(found):>2} seeds", PAPER[settings[title][0]].get(set_title)
            for column, score in enumerate(("nmi", "ca")):
                text += f"   {score.upper()} {found[:, column].mean():6.2f} ± {found[:, column].std():4.2f}"
                text += " (paper {:6.2f} ± {:4.2f})".format(*paper[score]) if paper else ""
            print(f"{text}   {np.median(found[:, 2]):.1f} s", flush=True)


if __name__ == "__main__":
    main()
