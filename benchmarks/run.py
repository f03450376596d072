"""All benchmarks, then RESULTS.md and BASELINES.md. ``--quick`` takes one repeat and two seeds of the small sets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SPECTRAL = ("KMeansLite", "SC", "ESCG", "Nystrom", "LSC-K", "LSC-R", "FastESC", "EulerSC")


def main() -> None:
    quick = "--quick" in sys.argv
    repeats = ["--repeats", "1"] if quick else []
    seeds = ["--seeds", "2", "--sets", "PenDigits", "USPS", "Letters", "TB-1M"] if quick else []
    small = ["--sets", "PenDigits", "USPS", "Letters"]
    few = ["--seeds", "2", *small] if quick else []
    calls = [
        ["speed.py", *repeats],
        ["speed_usenc.py", *repeats],
        ["speed_variants.py", *repeats],
        ["quality.py", *seeds],
        ["quality.py", "--method", "USPEC-exact", *seeds],
        ["quality.py", "--method", "USENC", *seeds],
        ["out_of_core.py", *(["--rows", "5_000_000"] if quick else [])],
        *([] if quick else [["billion.py"], ["dask_scaling.py"]]),
        ["report.py"],
        ["baselines.py", "--methods", *SPECTRAL, *few],
        ["baselines_ensemble.py", *few],
        *(
            []
            if quick
            else [["baselines.py", "--try", "--seeds", "5", *small], ["baselines_ensemble.py", "--try", *small]]
        ),
        ["baselines_speed.py", *repeats],
        ["baselines_ensemble_speed.py", *repeats],
        *([] if quick else [["baselines_speed.py", "--whole"], ["baselines_large.py"]]),
        ["baselines_report.py"],
    ]
    for script, *options in calls:
        print(f"== {script} {' '.join(options)}", flush=True)
        subprocess.run([sys.executable, HERE / script, *options], check=True, cwd=HERE)


if __name__ == "__main__":
    main()
