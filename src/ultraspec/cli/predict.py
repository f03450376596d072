"""``ultraspec predict``: reads a model and rows, writes labels. Memory does not grow with the number of rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
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
from ultraspec.cli._writers import check_input_columns, write_columns, write_with_input
from ultraspec.cli.fit import missing_lines
from ultraspec.engines.progress import format_duration
from ultraspec.persistence.cuts import apply_cut
from ultraspec.storage.locks import claim


def run(
    path: Path,
    source: DataFile,
    target: Path,
    *,
    cut: Path | None = None,
    options: Mapping[str, Any],
    with_input: bool = False,
    force: bool,
    screen: Screen,
) -> None:
    """Label the rows of a file, with the clusters of a cut file if there is one.

    The `options` are parameters of the model; those that are None stay as they were saved.
    """
    started = time.perf_counter()
    model = load_model(path, **options)
    if cut is not None:
        model = apply_cut(model, cut)
    with claim([target]), source.open(screen, feature_names(model)) as rows:
        types: dict[str, Any] = {"label": np.int32}
        if fitted(model).model.has_confidence:
            types["confidence"] = np.float32
        n_bytes = _outputs.label_bytes(target, rows.n_rows, confidence="confidence" in types)
        _outputs.check_disk_space({target: n_bytes})
        if with_input:
            check_input_columns(target, rows, types)
        sizes = ClusterSizes(model.n_clusters_)
        with naming_input(source.path), closing(label_blocks(model, rows, screen.reporter("predict"))) as blocks:
            if with_input:
                target = write_with_input(target, rows, types, sizes.count(blocks), force=force)
            else:
                target = write_columns(target, rows.n_rows, types, sizes.count(blocks), force=force)
        seconds = time.perf_counter() - started
    facts = {
        "command": "predict",
        "rows": rows.n_rows,
        "clusters": len(sizes.counts),
        "sizes": sizes.counts.tolist(),
        "missing": sizes.missing,
        "seconds": round(seconds, 3),
        "outputs": {"labels": str(target)},
    }
    screen.result(
        facts,
        [
            ("Rows", f"{rows.n_rows:,}"),
            ("Sizes", format_sizes(sizes.counts)),
            *missing_lines(facts),
            ("Time", format_duration(seconds)),
            ("Labels", str(target)),
        ],
    )


def load_model(path: Path, *, n_jobs: int | None, missing: str | None = None) -> Any:
    """Load a model, and set the number of threads and, unless that is None, what to do with missing values."""
    model = load(path).set_params(n_jobs=n_jobs)
    return model if missing is None else model.set_params(missing=missing)


def feature_names(model: Any) -> list[str] | None:
    """Return the names of the features that a model was fitted on, if they had names."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
