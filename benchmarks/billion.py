"""A billion rows on this machine: U-SPEC out of core, killed and resumed; U-SENC on 100 million likewise.

The file is made by ``ultraspec generate cg --rows 1_000_000_000`` (8 GB), unless it is there, and written as Parquet, too.
Every fit runs in a process of its own; what it prints goes to billion.log. A first run is not disturbed, and gives time and
memory; a second one is killed outright in the middle and started again: its labels must be the same. Time per row is set
beside that of 10 million rows in memory, in the same session.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import HERE, fetch, machine, store

LOG = HERE / "billion.log"
TIMES, MEMORY = 1.3, 1_500_000_000

FIT = """
import hashlib, json, sys, time
from ultraspec import USENC, USPEC, datasets, open_rows

def resident(field):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[field].split()[0]) * 1024

kind, path, options = {"USPEC": USPEC, "USENC": USENC}[sys.argv[1]], sys.argv[2], json.loads(sys.argv[3])
limit = options.pop("rows", None)
kind(11, random_state=0).fit(datasets.generate("cg", 20_000, random_state=0)[0])  # compiles
rows = open_rows(path)
if options.pop("in_memory", False):
    rows = rows.read(0, limit)
started, cpu = time.perf_counter(), time.process_time()
model = kind(11, random_state=0, **options).fit(rows)
seconds, cpu_seconds, most = time.perf_counter() - started, time.process_time() - cpu, resident("VmHWM")
digest = hashlib.sha256()
for low in range(0, len(model.labels_), 10**7):
    digest.update(model.labels_[low : low + 10**7].tobytes())
phases = {name: round(facts["seconds"], 2) for name, facts in model.fit_profile_.items()}
print(json.dumps({"rows": len(model.labels_), "seconds": seconds, "cpu_seconds": cpu_seconds, "resident_bytes": most,
                  "labels": digest.hexdigest(), "phases": phases}))
"""


def start(kind: str, path: Path, log: Any, **options: Any) -> subprocess.Popen[str]:
    log.write(f"\n== {kind} {options}, {time.strftime('%H:%M:%S')}\n")
    log.flush()
    command = [sys.executable, "-c", FIT, kind, str(path), json.dumps(options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)


def run(kind: str, path: Path, log: Any, **options: Any) -> dict[str, Any]:
    with start(kind, path, log, **options) as process:
        out = process.communicate()[0]
    if process.returncode:
        raise SystemExit(f"{kind} failed; see {LOG}")
    found: dict[str, Any] = json.loads(out)
    log.write(json.dumps(found) + "\n")
    log.flush()
    return found


def run_killed(kind: str, path: Path, log: Any, folder: Path, done: str, **options: Any) -> dict[str, Any]:
    """Kill a fit some seconds after a file of its checkpoint has appeared, then run it again."""
    with start(kind, path, log, checkpoint=str(folder), **options) as process:
        while not (folder / done).exists():
            if process.poll() is not None:
                raise SystemExit(f"{kind} ended before {done} was there; see {LOG}")
            time.sleep(0.5)
        time.sleep(5)
        process.send_signal(signal.SIGKILL)
    kept = sorted(file.name for file in folder.glob("*.npz"))
    log.write(f"killed (SIGKILL); finished so far: {', '.join(kept)}\n")
    return {**run(kind, path, log, checkpoint=str(folder), **options), "kept": kept}


def generate(path: Path, n: int) -> None:
    if path.exists():
        return
    free = shutil.disk_usage(path.parent).free
    if free < 4 * 8 * n:
        raise SystemExit(
            f"{path.parent} has {free / 1e9:.0f} GB left; {n:,} rows and their results need {32 * n / 1e9:.0f}."
        )
    command = [sys.executable, "-m", "ultraspec", "generate", "cg", "--rows", str(n), "-o", str(path), "--seed", "0"]
    subprocess.run(command, check=True)


def to_parquet(path: Path) -> Path:
    """Write a .npy file of two columns as Parquet, unless that was done; return the path."""
    import numpy as np
    import pyarrow
    import pyarrow.parquet

    out = path.with_suffix(".parquet")
    if out.exists():
        return out
    X = np.load(path, mmap_mode="r")
    schema = pyarrow.schema([("x", pyarrow.float32()), ("y", pyarrow.float32())])
    scratch = out.with_suffix(".tmp")
    with pyarrow.parquet.ParquetWriter(scratch, schema) as writer:
        for low in range(0, len(X), 1_000_000):
            columns = list(np.ascontiguousarray(X[low : low + 1_000_000].T))
            writer.write_table(pyarrow.table(columns, schema=schema))
    scratch.rename(out)
    return out


def show(name: str, found: dict[str, Any], per_row: float | None) -> None:
    ratio = f"{found['seconds'] / found['rows'] / per_row:5.2f} x in memory" if per_row else ""
    print(
        f"{name:<28} {found['rows']:>13,} rows {found['seconds']:8.1f} s {found['resident_bytes'] / 1e6:7.0f} MB {ratio}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000_000)
    parser.add_argument("--ensemble-rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--only", nargs="*", help="names of runs")
    options = parser.parse_args()
    large, middle = options.folder / f"cg-{options.rows}.npy", options.folder / f"cg-{options.ensemble_rows}.npy"
    result: dict[str, Any] = fetch("billion")
    result |= {"machine": machine(), "limits": {"times": TIMES, "bytes": MEMORY}}
    runs = result.setdefault("runs", {})
    shown = {"verbose": 1}  # progress, which goes to the log

    def killed(kind: str, path: Path, done: str, **more: Any) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            return run_killed(kind, path, log, folder, done, **shown, **more)
        finally:
            shutil.rmtree(folder)

    with LOG.open("a") as log:
        plan = {
            "uspec 10M in memory": lambda: sorted(
                (run("USPEC", large, log, rows=10_000_000, in_memory=True) for _ in range(5)),
                key=lambda f: f["seconds"],
            )[2],
            "uspec": lambda: run("USPEC", large, log, **shown),
            "uspec Parquet": lambda: run("USPEC", to_parquet(large), log, **shown),
            "uspec graph_rows=None": lambda: run("USPEC", large, log, graph_rows=None, **shown),
            "uspec graph_rows=None killed": lambda: killed("USPEC", large, "sigma.npz", graph_rows=None),
            "usenc 10M in memory": lambda: run("USENC", large, log, rows=10_000_000, in_memory=True, **shown),
            "usenc": lambda: run("USENC", middle, log, **shown),
            "usenc killed": lambda: killed("USENC", middle, "member-0003.npz"),
        }
        for name, call in plan.items():
            if options.only and name not in options.only:
                continue
            of_middle = name in ("usenc", "usenc killed")
            generate(middle if of_middle else large, options.ensemble_rows if of_middle else options.rows)
            runs[name] = call()
            store("billion", result)
            memory = runs.get(f"{name.split()[0]} 10M in memory")
            show(name, runs[name], memory["seconds"] / memory["rows"] if memory else None)


if __name__ == "__main__":
    main()
