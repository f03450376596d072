"""Scores of U-SPEC on the paper's ten data sets, many seeds, beside the paper's.

The five synthetic sets are reconstructions of the paper's. Results are stored after every run; finished runs are not
repeated unless --fresh is given.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import PAPER, SETS, fetch, machine, read_set, store

from ultraspec import USPEC, metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sets", nargs="*", default=[name for name, *_ in SETS])
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    result = {} if options.fresh else fetch("quality")
    result["machine"] = machine()
    runs = result.setdefault("runs", {})
    for title, name, n_rows, k in SETS:
        if title not in options.sets:
            continue
        X, y = read_set(name, n_rows)
        done = runs.setdefault(title, [])
        for seed in range(len(done), options.seeds):
            labels = USPEC(k, random_state=seed).fit_predict(X)
            done.append([100 * metrics.nmi(y, labels), 100 * metrics.majority_accuracy(y, labels)])
            store("quality", result)
        found = np.array(done)
        paper = PAPER[title]
        print(
            f"{title:<11} NMI {found[:, 0].mean():6.2f} ± {found[:, 0].std():4.2f} (paper {paper['nmi'][0]:6.2f} ± "
            f"{paper['nmi'][1]:4.2f})   CA {found[:, 1].mean():6.2f} ± {found[:, 1].std():4.2f} "
            f"(paper {paper['ca'][0]:6.2f} ± {paper['ca'][1]:4.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
