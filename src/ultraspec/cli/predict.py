"""``ultraspec predict``: takes a model file and data, gives labels; memory does not grow with the rows."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import load
from ultraspec.cli import _targets
from ultraspec.cli._data import Sizes, label_blocks
from ultraspec.cli._errors import about
from ultraspec.cli._input import Input
from ultraspec.cli._screen import Screen, duration, listing
from ultraspec.cli._writers import write_columns


def run(path: Path, source: Input, target: Path, *, jobs: int | None, force: bool, screen: Screen) -> None:
    """Label the rows of a file."""
    model = load_model(path, jobs)
    with source.open(screen, feature_names(model)) as rows:
        types: dict[str, Any] = {"label": np.int32}
        if getattr(model, "_majority", None) is not None:
            types["confidence"] = np.float32
        room = _targets.label_room(target, rows.n_rows, confidence="confidence" in types)
        _targets.check_room({target: room})
        started = time.perf_counter()
        sizes = Sizes(model.n_clusters_)
        with about(source.path), closing(label_blocks(model, rows, screen.reporter("predict"))) as found:
            write_columns(target, rows.n_rows, types, sizes.of(found), force=force)
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
            ("Sizes", listing(sizes.counts)),
            ("Time", duration(seconds)),
            ("Labels", str(target)),
        ],
    )


def load_model(path: Path, jobs: int | None) -> Any:
    """A model from a file, to run on so many threads."""
    model = load(path)
    return model.set_params(n_jobs=jobs)


def feature_names(model: Any) -> list[str] | None:
    """Names of the columns that a model was fitted on, if they had any."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
