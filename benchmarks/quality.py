"""Scores of the paper's U-SPEC, regularised, on its ten data sets, many seeds.

U-SENC's own scores are run by `ultraspec reproduce`, those of the default by `default.py`. The five synthetic sets come
from our generators. Results are stored after every run; finished runs are not repeated unless
--fresh is given. quality_average.json has scores of a removed way to combine the members of U-SENC.
"""

from __future__ import annotations

import argparse
from typing import Any

from common import SETS, fetch, machine, read_set, scale, scores_of, store

from ultraspec import USPEC
from ultraspec.reproduce import paper_results


def show(name: str, title: str, runs: list[Any]) -> None:
    text = f"{name:<24} {title:<11} {len(runs):2} seeds"
    for column, score in enumerate(("nmi", "ca")):
        ours = scores_of(runs, column)
        text += f"   {score.upper()} {ours.mean():6.2f} ± {ours.std():5.2f}, least {ours.min():6.2f}"
        text += " (paper {:6.2f} ± {:4.2f})".format(*paper_results.printed(score, title, "U-SPEC"))
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sets", nargs="*", default=[name for name, *_ in SETS])
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    result = {} if options.fresh else fetch("quality")
    for title, dataset, n_rows, k in SETS:
        if title not in options.sets:
            continue
        X, y = read_set(dataset, n_rows)
        done = result.setdefault("runs", {}).setdefault(title, [])
        for seed in range(len(done), options.seeds):
            labels = USPEC.paper(k, regularization=1e-3, random_state=seed).fit(X).labels_
            done.append(scale(y, labels))
            store("quality", {**result, "machine": machine()})
        show("quality", title, done)


if __name__ == "__main__":
    main()
