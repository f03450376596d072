"""Data larger than memory should be: U-SPEC on 100 million rows from files, in a process of its own each.

Measured are the time, the most resident memory above that of an interpreter which has imported and compiled
everything, and that the labels of both files are the same.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import fetch, machine, python, store

from ultraspec import datasets

LIMIT = 1_000_000_000  # bytes

FIT = """
import hashlib, json, sys, time
from ultraspec import USPEC, datasets, metrics, open_rows

def resident(field):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[field].split()[0]) * 1024

USPEC(11, random_state=0).fit(datasets.generate("cg", 20_000, random_state=0)[0])
before = resident("VmRSS")
started = time.perf_counter()
model = USPEC(11, random_state=0).fit(open_rows(sys.argv[1]))
seconds = time.perf_counter() - started
most = resident("VmHWM")
digest = hashlib.sha256()
for low in range(0, len(model.labels_), 10**7):
    digest.update(model.labels_[low : low + 10**7].tobytes())
print(json.dumps({"seconds": seconds, "bytes_above": most - before, "labels": digest.hexdigest(),
                  "phases": {name: facts["seconds"] for name, facts in model.fit_profile_.items()}}))
"""


def write_npy(path: Path, n: int) -> None:
    array = np.lib.format.open_memmap(path, "w+", np.float32, (n, 2))
    at = 0
    for X, _ in datasets.stream("cg", n, random_state=0):
        array[at : at + len(X)] = X
        at += len(X)
    array.flush()


def write_parquet(path: Path, n: int) -> None:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([("x", pyarrow.float32()), ("y", pyarrow.float32())])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for X, _ in datasets.stream("cg", n, random_state=0):
            columns = [pyarrow.array(np.ascontiguousarray(column)) for column in X.T]
            writer.write_table(pyarrow.table(columns, schema=schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    options = parser.parse_args()
    result: dict[str, Any] = fetch("out_of_core")
    result["machine"] = machine()
    result["rows"], result["limit"] = options.rows, LIMIT
    runs = result.setdefault("runs", {})
    for suffix, write in (("npy", write_npy), ("parquet", write_parquet)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"cg.{suffix}"
            write(path, options.rows)
            found = json.loads(python(FIT, str(path)))
            found["file_bytes"] = path.stat().st_size
        runs[suffix] = found
        print(
            f"{suffix:<8} {found['seconds']:6.1f} s   {found['bytes_above'] / 1e6:5.0f} MB above the interpreter",
            flush=True,
        )
        store("out_of_core", result)
    assert runs["npy"]["labels"] == runs["parquet"]["labels"], "the two files gave different labels"


if __name__ == "__main__":
    main()
