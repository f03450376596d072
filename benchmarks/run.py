"""All benchmarks, then RESULTS.md and BASELINES.md. ``--quick`` takes one repeat and two seeds of the small sets.

Scores of all methods go on with the store in docs/reproduction, which both are written from; a quick run leaves
that as it is and has its own in benchmarks/quick, new every time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
REPRODUCE = ["-m", "ultraspec", "reproduce"]
SPECTRAL = ("SC", "ESCG", "Nystrom", "LSC-K", "FastESC", "EulerSC")
ENSEMBLE = ("EAC", "WCT", "KCC", "ECC", "SEC", "LWGP")


def main() -> None:
    quick = "--quick" in sys.argv
    repeats = ["--repeats", "1"] if quick else []
    seeds = ["--seeds", "2", "--sets", "PenDigits", "USPS", "Letters", "TB-1M"] if quick else []
    small = ["--sets", "PenDigits", "USPS", "Letters"]
    store = "../docs/reproduction"
    if quick:
        shutil.rmtree(HERE / "quick", ignore_errors=True)
        scores = [[*REPRODUCE, "4-9", "--datasets", "PenDigits,USPS,Letters", "--runs", "2", "-o", "quick"]]
    else:
        scores = [
            [*REPRODUCE, "4-9", "--datasets", "PenDigits,USPS,Letters,MNIST", "-o", store],
            [*REPRODUCE, "all", "--draw-only", "-o", store],  # the tables of what else is in the store
            ["baselines_settings.py", "--methods", *SPECTRAL, "--seeds", "5", *small],
            ["baselines_settings.py", "--methods", *ENSEMBLE, *small],
        ]
    calls = [
        ["speed.py", *repeats],
        ["search.py", *repeats],
        ["speed_usenc.py", *repeats],
        ["speed_variants.py", *repeats],
        ["default.py", *(["--parts", "noise"] if quick else [])],
        ["quality.py", *seeds],
        ["out_of_core.py", *(["--rows", "5_000_000"] if quick else [])],
        *([] if quick else [["billion.py"], ["dask_scaling.py"]]),
        *scores,
        ["baselines_speed.py", *repeats],
        ["baselines_ensemble_speed.py", *repeats],
        *([] if quick else [["baselines_speed.py", "--whole"], ["baselines_large.py"]]),
        ["report.py"],
        ["baselines_report.py"],
    ]
    for call in calls:
        print(f"== {' '.join(call)}", flush=True)
        subprocess.run([sys.executable, *call], check=True, cwd=HERE)


if __name__ == "__main__":
    main()
