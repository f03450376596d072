"""Scores of U-SPEC or U-SENC on the paper's ten data sets, many seeds, beside the paper's.

The five synthetic sets are reconstructions of the paper's. Results are stored after every run; finished runs are not
repeated unless --fresh is given. U-SENC takes fewer seeds on sets above a million rows.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import PAPER, SETS, fetch, machine, read_set, store

from ultraspec import USENC, USPEC, metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=("USPEC", "USENC"), default="USPEC")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--large-seeds", type=int, default=5, help="seeds of U-SENC above a million rows")
    parser.add_argument("--sets", nargs="*", default=[name for name, *_ in SETS])
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    make, results = (USPEC, "quality") if options.method == "USPEC" else (USENC, "quality_usenc")
    result = {} if options.fresh else fetch(results)
    result["machine"] = machine()
    runs = result.setdefault("runs", {})
    for title, name, n_rows, k in SETS:
        if title not in options.sets:
            continue
        X, y = read_set(name, n_rows)
        done = runs.setdefault(title, [])
        few = make is USENC and len(X) > 1_000_000
        for seed in range(len(done), min(options.seeds, options.large_seeds) if few else options.seeds):
            labels = make(k, random_state=seed).fit_predict(X)
            done.append([100 * metrics.nmi(y, labels), 100 * metrics.majority_accuracy(y, labels)])
            store(results, result)
        found = np.array(done)
        paper = PAPER[options.method][title]
        print(
            f"{title:<11} NMI {found[:, 0].mean():6.2f} ± {found[:, 0].std():4.2f} (paper {paper['nmi'][0]:6.2f} ± "
            f"{paper['nmi'][1]:4.2f})   CA {found[:, 1].mean():6.2f} ± {found[:, 1].std():4.2f} "
            f"(paper {paper['ca'][0]:6.2f} ± {paper['ca'][1]:4.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
