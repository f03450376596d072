"""Where the time of a fit goes: CPU seconds of each phase, and the share of the machine's peak that they are.

Run it with the code before a change as ``phases.py --name before`` (PYTHONPATH chooses the code), and after it as
``phases.py --name after``. Everything runs on one thread, in CPU seconds, so that other work on the machine counts little.
The machine's peak is a float32 matrix product, and its bandwidth that of copying a large array, in the same process.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import blobs, fetch, machine, read_set, store
from threadpoolctl import threadpool_limits

from ultraspec import USENC, USPEC
from ultraspec._estimator import fitted
from ultraspec.engines.progress import Reporter, report_to

# name, estimator, data set, rows, features, clusters
LINES: list[tuple[str, Any, str, int | None, int, int]] = [
    ("U-SPEC, 2M x 16", USPEC, "blobs", 2_000_000, 16, 20),
    ("U-SPEC, 1M x 64", USPEC, "blobs", 1_000_000, 64, 20),
    ("U-SPEC, 500k x 128", USPEC, "blobs", 500_000, 128, 30),
    ("U-SPEC, 100k x 768", USPEC, "blobs", 100_000, 768, 30),
    ("U-SPEC, CG-10M", USPEC, "cg", 10_000_000, 2, 11),
    ("U-SENC, PenDigits", USENC, "pendigits", None, 16, 10),
    ("U-SENC, MNIST", USENC, "mnist", None, 784, 10),
    ("U-SENC, CG-10M", USENC, "cg", 10_000_000, 2, 11),
]


class CpuTimes(Reporter):
    """Collects the CPU seconds of each phase of a fit; phases of members count as the phase they are in."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}
        self._started = 0.0

    def begin_phase(self, name: str) -> None:  # noqa: ARG002
        self._started = time.process_time()

    def end_phase(self, name: str, done: bool) -> None:  # noqa: ARG002
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - self._started


def cpu_seconds(function: Any, repeats: int = 5) -> float:
    """Return the least CPU time of a call."""
    found = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        found.append(time.process_time() - started)
    return min(found)


def peaks() -> dict[str, float]:
    """Return the float32 operations and the bytes read that one core can do in a second."""
    A, B = np.ones((2000, 1000), dtype=np.float32), np.ones((1000, 1000), dtype=np.float32)
    out = np.empty((2000, 1000), dtype=np.float32)
    with threadpool_limits(1):
        flops = 2 * 2000 * 1000 * 1000 / cpu_seconds(lambda: np.matmul(A, B, out=out))
    large, copy = np.ones(2**26, dtype=np.float32), np.zeros(2**26, dtype=np.float32)
    return {"flops": flops, "bytes": large.nbytes / cpu_seconds(lambda: np.copyto(copy, large))}


def measure(name: str, estimator: Any, data: str, rows: int | None, features: int, k: int) -> dict[str, Any]:
    """Fit once to compile, and once to measure."""
    X = blobs(rows, 0, k, features)[0] if data == "blobs" and rows is not None else read_set(data, rows)[0]
    X = np.ascontiguousarray(X, dtype=np.float32)
    estimator(k, random_state=0, n_jobs=1).fit(X[:20_000])
    times = CpuTimes()
    with report_to(times), threadpool_limits(1):
        model = estimator(k, random_state=0, n_jobs=1).fit(X)
    index = fitted(model).members[0].index
    p, d = index.representatives.shape
    found = {"rows": len(X), "features": X.shape[1], "p": p, "q": d, "exact": bool(index.exact), "cpu": times.seconds}
    print(name, {phase: round(seconds, 3) for phase, seconds in times.seconds.items()}, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", choices=("before", "after"), default="after")
    parser.add_argument("--only", nargs="*", help="lines")
    options = parser.parse_args()
    result: dict[str, Any] = fetch("phases")
    part = result.setdefault(options.name, {"lines": {}})
    result["machine"] = machine()
    part["peaks"] = peaks()
    for line in LINES:
        if not options.only or line[0] in options.only:
            part["lines"][line[0]] = measure(*line)
            store("phases", result)


if __name__ == "__main__":
    main()
