"""Scores of the paper's U-SPEC, regularised, and of U-SENC with average linkage on its ten data sets, many seeds.

U-SENC's own scores are run by `ultraspec reproduce`, those of the default by `default.py`. The five synthetic sets are
reconstructions of the paper's. Results are stored after every run; finished runs are not repeated unless
--fresh is given. U-SENC takes fewer seeds on sets above a million rows, but for CC, on which the paper's consensus now
and then collapses.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import SETS, fetch, machine, read_set, store

from ultraspec import USENC, USPEC, metrics
from ultraspec.reproduce import paper_results

Labels = dict[str, np.ndarray]  # by the name of the result's file


def uspec(X: np.ndarray, k: int, seed: int) -> Labels:
    return {"quality": USPEC.paper(k, regularization=1e-3, random_state=seed).fit(X).labels_}


def usenc(X: np.ndarray, k: int, seed: int) -> Labels:
    model = USENC.paper(k, regularization=1e-3, random_state=seed).fit(X)
    return {"quality_average": model.cut(k, X, consensus="average").labels_}


METHODS = {
    "USPEC": (uspec, ["quality"]),
    "USENC": (usenc, ["quality_average"]),
}


def show(name: str, title: str, runs: list[Any], method: str) -> None:
    found, twin = np.array(runs), "U-SENC" if method == "USENC" else "U-SPEC"
    text = f"{name:<24} {title:<11} {len(runs):2} seeds"
    for column, score in enumerate(("nmi", "ca")):
        ours = found[:, column]
        text += f"   {score.upper()} {ours.mean():6.2f} ± {ours.std():5.2f}, least {ours.min():6.2f}"
        text += " (paper {:6.2f} ± {:4.2f})".format(*paper_results.printed(score, title, twin))
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=tuple(METHODS), default="USPEC")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--large-seeds", type=int, default=5, help="seeds of U-SENC above a million rows")
    parser.add_argument("--sets", nargs="*", default=[name for name, *_ in SETS])
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    run, names = METHODS[options.method]
    results = {name: {} if options.fresh else fetch(name) for name in names}
    for title, dataset, n_rows, k in SETS:
        if title not in options.sets:
            continue
        X, y = read_set(dataset, n_rows)
        few = options.method == "USENC" and len(X) > 1_000_000 and title != "CC-5M"
        done = {name: result.setdefault("runs", {}).setdefault(title, []) for name, result in results.items()}
        for seed in range(min(options.seeds, options.large_seeds) if few else options.seeds):
            if all(seed < len(scores) for scores in done.values()):
                continue
            for name, labels in run(X, k, seed).items():
                if seed == len(done[name]):
                    done[name].append([100 * metrics.nmi(y, labels), 100 * metrics.majority_accuracy(y, labels)])
                    store(name, {**results[name], "machine": machine()})
        for name, scores in done.items():
            show(name, title, scores, options.method)


if __name__ == "__main__":
    main()
