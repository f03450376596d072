"""``ultraspec generate``: writes one of the synthetic data sets of the paper, with any number of rows."""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ultraspec import datasets
from ultraspec.cli import _outputs
from ultraspec.cli._errors import naming_output
from ultraspec.cli._screen import Screen
from ultraspec.cli._writers import open_writer
from ultraspec.datasets.synthetic import CHUNK_ROWS, Labelled
from ultraspec.engines.progress import Reporter, format_duration
from ultraspec.storage.atomic import write_atomically

COLUMNS = {"x0": np.float32, "x1": np.float32}
NOTE = "our generator, which agrees with 100,000 rows of the authors' data"


def run(
    name: str, n_rows: int | None, output: Path, labels: Path | None, *, seed: int | None, force: bool, screen: Screen
) -> None:
    """Write a data set and, if `labels` names a file, its classes."""
    if name not in datasets.SYNTHETIC:
        raise ValueError(f"SET must be one of {', '.join(datasets.SYNTHETIC)}, got {name!r}.")
    n_rows = n_rows or datasets.N_ROWS[name]
    formats = (".npy", *_outputs.TABLES)
    outputs = {"-o": (output, formats), "--labels": (labels, (*formats, ".npz"))}
    targets = _outputs.check_outputs(outputs, [], force=force)
    n_bytes = dict.fromkeys(targets.values(), 8.0 * n_rows)
    if "--labels" in targets:
        n_bytes[targets["--labels"]] = _outputs.label_bytes(targets["--labels"], n_rows, confidence=False)
    _outputs.check_disk_space(n_bytes)
    seed = secrets.randbelow(2**32) if seed is None else seed
    started = time.perf_counter()
    with closing(report_blocks(name, n_rows, seed, screen.reporter("generate"))) as blocks:
        write_set(targets["-o"], targets.get("--labels"), n_rows, blocks, force)
    seconds = time.perf_counter() - started
    facts = {
        "command": "generate",
        "set": name,
        "rows": n_rows,
        "classes": datasets.N_CLASSES[name],
        "seed": seed,
        "seconds": round(seconds, 3),
        "note": NOTE,
        "outputs": {{"-o": "data", "--labels": "labels"}[option]: str(path) for option, path in targets.items()},
    }
    shown = [("Set", f"{name}, {NOTE}"), ("Rows", f"{n_rows:,} x 2"), ("Classes", f"{facts['classes']}")]
    shown += [("Seed", str(seed)), ("Time", format_duration(seconds)), ("Data", str(targets["-o"]))]
    screen.result(facts, shown + [("Labels", str(path)) for option, path in targets.items() if option == "--labels"])


def report_blocks(name: str, n_rows: int, seed: int, reporter: Reporter) -> Generator[Labelled]:
    """Generate the blocks of a data set, with progress."""
    with reporter.phase("rows"):
        reporter.begin_pass(-(-n_rows // CHUNK_ROWS))
        for block in datasets.stream(name, n_rows, random_state=seed):
            yield block
            reporter.advance()


def write_set(data: Path, labels: Path | None, n_rows: int, blocks: Iterator[Labelled], force: bool) -> None:
    """Write rows and classes in one pass."""

    def fill(file: BinaryIO, classes: BinaryIO | None = None) -> None:
        with ExitStack() as stack:
            write_rows = stack.enter_context(open_writer(data, file, n_rows, COLUMNS, matrix=True))
            write_classes = None
            if labels is not None and classes is not None:
                write_classes = stack.enter_context(open_writer(labels, classes, n_rows, {"label": np.int32}))
            for X, y in blocks:
                write_rows(*X.T)
                if write_classes is not None:
                    write_classes(y)

    with naming_output(data, only_if_full=True):
        if labels is None:
            write_atomically(data, fill, overwrite=force)
            return
        # the file of the classes appears only after that of the rows
        write_atomically(
            labels,
            lambda classes: write_atomically(data, lambda file: fill(file, classes), overwrite=force),
            overwrite=force,
        )
