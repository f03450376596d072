"""Many rows of many features from files: 10 million x 128 float32 values (5 GB), U-SPEC in a process of its own.

The rows are Gaussian classes that overlap. Each fit is compared with reading the file once, by the same row source, and with
scikit-learn's MiniBatchKMeans(30) on the same blocks. On a busy machine only the CPU seconds say something.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, python, store

K, D = 30, 128
MEMORY = 1_500_000_000
BLOCK = 100_000

RUN = """
import json, sys, time
import numpy as np
from ultraspec import USPEC, metrics, open_rows

def resident(field):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[field].split()[0]) * 1024

what, path, classes = sys.argv[1:]
y = np.load(classes)
rows = open_rows(path)
if what == "fit":
    USPEC(30, random_state=0).fit(rows.read(0, 20_000))  # compiles
elif what == "kmeans":
    from sklearn.cluster import MiniBatchKMeans
started, cpu = time.perf_counter(), time.process_time()
facts = {}
if what == "read":
    for span in rows.blocks():
        rows.read(*span)
elif what == "fit":
    model = USPEC(30, random_state=0).fit(rows)
    labels = model.labels_
    facts["phases"] = {name: each["seconds"] for name, each in model.fit_profile_.items()}
    facts["representatives"] = len(model.representatives_)
else:
    model = MiniBatchKMeans(30, random_state=0, n_init=1)
    for span in rows.blocks():
        model.partial_fit(rows.read(*span))
    labels = np.concatenate([model.predict(rows.read(*span)) for span in rows.blocks()])
facts |= {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu,
          "resident_bytes": resident("VmHWM")}
if what != "read":
    facts["nmi"] = metrics.nmi(y, labels)
print(json.dumps(facts))
"""


def blocks(n: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows and classes, a block at a time."""
    random = np.random.default_rng(seed)
    centers = 1.2 * random.standard_normal((K, D), dtype=np.float32)
    for low in range(0, n, BLOCK):
        y = random.integers(K, size=min(BLOCK, n - low)).astype(np.int32)
        yield centers[y] + 2.0 * random.standard_normal((len(y), D), dtype=np.float32), y


def write(folder: Path, n: int) -> dict[str, Path]:
    """Write the rows as .npy and as Parquet; return the paths."""
    import pyarrow
    import pyarrow.parquet

    paths = {".npy": folder / "wide.npy", "Parquet": folder / "wide.parquet"}
    array = np.lib.format.open_memmap(paths[".npy"], "w+", np.float32, (n, D))
    classes = np.empty(n, dtype=np.int32)
    schema = pyarrow.schema([(f"x{j}", pyarrow.float32()) for j in range(D)])
    at = 0
    with pyarrow.parquet.ParquetWriter(paths["Parquet"], schema, use_dictionary=False) as writer:
        for X, y in blocks(n):
            array[at : at + len(X)] = X
            classes[at : at + len(X)] = y
            writer.write_table(pyarrow.table(list(np.ascontiguousarray(X.T)), schema=schema))
            at += len(X)
    array.flush()
    np.save(folder / "classes.npy", classes)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["read", "fit", "kmeans"], help="what to run: read, fit, kmeans")
    options = parser.parse_args()
    needed = 9 * D * options.rows
    if shutil.disk_usage(options.folder).free < needed:
        raise SystemExit(f"{options.folder} needs {needed / 1e9:.0f} GB of free space.")
    result: dict[str, Any] = {"machine": machine(), "rows": options.rows, "limit": MEMORY, "runs": {}}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = write(Path(folder), options.rows)
        for _ in range(options.repeats):
            for name, path in paths.items():
                for what in options.only:
                    found = json.loads(python(RUN, what, str(path), str(Path(folder) / "classes.npy")))
                    result["runs"].setdefault(name, {}).setdefault(what, []).append(found)
                    print(name, what, found, flush=True)
                    store("wide", result)


if __name__ == "__main__":
    main()
