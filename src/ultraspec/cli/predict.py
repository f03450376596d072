"""``ultraspec predict``: reads a model and rows, writes labels. Memory does not grow with the number of rows."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import load
from ultraspec._estimator import fitted
from ultraspec.cli import _outputs
from ultraspec.cli._errors import naming_input
from ultraspec.cli._input import DataFile
from ultraspec.cli._labelling import ClusterSizes, label_blocks
from ultraspec.cli._screen import Screen, format_sizes
from ultraspec.cli._writers import write_columns
from ultraspec.engines.progress import format_duration
from ultraspec.persistence.cuts import apply_cut


def run(
    path: Path,
    source: DataFile,
    target: Path,
    *,
    cut: Path | None = None,
    n_jobs: int | None,
    force: bool,
    screen: Screen,
) -> None:
    """Label the rows of a file, with the clusters of a cut file if there is one."""
    model = load_model(path, n_jobs)
    if cut is not None:
        model = apply_cut(model, cut)
    with source.open(screen, feature_names(model)) as rows:
        types: dict[str, Any] = {"label": np.int32}
        if fitted(model).model.has_confidence:
            types["confidence"] = np.float32
        n_bytes = _outputs.label_bytes(target, rows.n_rows, confidence="confidence" in types)
        _outputs.check_disk_space({target: n_bytes})
        started = time.perf_counter()
        sizes = ClusterSizes(model.n_clusters_)
        with naming_input(source.path), closing(label_blocks(model, rows, screen.reporter("predict"))) as blocks:
            write_columns(target, rows.n_rows, types, sizes.count(blocks), force=force)
        seconds = time.perf_counter() - started
    facts = {
        "command": "predict",
        "rows": rows.n_rows,
        "clusters": len(sizes.counts),
        "sizes": sizes.counts.tolist(),
        "seconds": round(seconds, 3),
        "outputs": {"labels": str(target)},
    }
    screen.result(
        facts,
        [
            ("Rows", f"{rows.n_rows:,}"),
            ("Sizes", format_sizes(sizes.counts)),
            ("Time", format_duration(seconds)),
            ("Labels", str(target)),
        ],
    )


def load_model(path: Path, n_jobs: int | None) -> Any:
    """Load a model, and set the number of threads."""
    return load(path).set_params(n_jobs=n_jobs)


def feature_names(model: Any) -> list[str] | None:
    """Return the names of the features that a model was fitted on, if they had names."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
