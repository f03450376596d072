"""Time and peak memory of the baselines that work in row blocks, at 2 and 10 million rows, a process for each fit.

Finished fits are not repeated unless --fresh is given.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import SETS, changing, fetch, machine, python, read_set

from ultraspec.reproduce.declarations import METHODS
from ultraspec.reproduce.experiment import choose

STREAMED = ("Nystrom", "LSC-R", "LSC-K", "FastESC", "EulerSC", "k-means")
LARGE = ("SF-2M", "CG-10M")

FIT = """
import json, sys, time
import numpy as np
from ultraspec import baselines, metrics

def resident(field):  # of this process alone: getrusage's peak would begin with that of the parent
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[field].split()[0]) * 1024

X, y = np.load(sys.argv[1]), np.load(sys.argv[2])
model = getattr(baselines, sys.argv[3])(int(sys.argv[4]), random_state=0, **json.loads(sys.argv[5]))
model.fit(X[:20_000])
before, started, worked = resident("VmRSS"), time.perf_counter(), time.process_time()
labels = model.fit_predict(X)
seconds, cpu_seconds, peak = time.perf_counter() - started, time.process_time() - worked, resident("VmHWM")
print(json.dumps({
    "seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": peak, "bytes_above_input": peak - before,
    "scores": [100 * metrics.nmi(y, labels), 100 * metrics.majority_accuracy(y, labels)],
    "phases": {name: facts["seconds"] for name, facts in model.fit_profile_.items()},
}))
"""


def measure(title: str, X: Path, y: Path, k: int) -> dict[str, Any]:
    (method,) = choose(METHODS, [title], "method")
    kind, parameters = method.estimator.partition(":")[2], json.dumps(method.parameters)
    return json.loads(python(FIT, str(X), str(y), kind, str(k), parameters).splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*", default=list(STREAMED))
    parser.add_argument("--sets", nargs="*", default=list(LARGE))
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    for set_title, name, n_rows, k in SETS:
        done = {} if options.fresh else fetch("baselines").get("large", {}).get(set_title, {})
        wanted = [title for title in options.methods if title not in done]
        if set_title not in options.sets or not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / "X.npy", Path(folder) / "y.npy"]
            for path, array in zip(paths, read_set(name, n_rows), strict=True):
                np.save(path, array)
            for title in wanted:
                found = measure(title, *paths, k)
                print(
                    f"{title:<10} {set_title}  {found['seconds']:.0f} s, {found['peak_bytes'] / 1e9:.2f} GB", flush=True
                )
                with changing("baselines") as result:
                    result["machine"] = machine()
                    result.setdefault("large", {}).setdefault(set_title, {})[title] = found


if __name__ == "__main__":
    main()
