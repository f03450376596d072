"""``ultraspec cut``: reads a model and the rows that were fitted, writes labels of another number of clusters."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ultraspec.cli import _outputs
from ultraspec.cli._errors import naming_input
from ultraspec.cli._input import DataFile
from ultraspec.cli._screen import Screen, format_sizes
from ultraspec.cli._writers import check_input_columns
from ultraspec.cli.fit import OUTPUTS, confidence_of, missing_lines, write_obs_column, write_outputs
from ultraspec.cli.predict import feature_names, load_model
from ultraspec.engines.progress import format_duration, report_to
from ultraspec.storage.locks import claim


def run(
    path: Path,
    source: DataFile,
    outputs: Mapping[str, Path],
    n_clusters: int,
    *,
    n_jobs: int | None,
    screen: Screen,
    with_input: bool,
    obs: str | None,
    force: bool,
) -> None:
    """Cut a model into `n_clusters` clusters and write `outputs`, paths by option."""
    started = time.perf_counter()
    model = load_model(path, n_jobs=n_jobs)
    with claim(outputs.values()), source.open(screen, feature_names(model)) as opened:
        rows, weights = source.split(opened)
        if "-o" in outputs:
            n_bytes = _outputs.label_bytes(outputs["-o"], rows.n_rows, confidence=True)
            _outputs.check_disk_space({outputs["-o"]: n_bytes})
            if with_input:
                check_input_columns(outputs["-o"], rows, ("label", "confidence"))
        with naming_input(source.path), report_to(screen.reporter(type(model).__name__)):
            model = model.cut(n_clusters, rows, sample_weight=weights)
        sizes, written = write_outputs(model, rows, outputs, force, source, screen, with_input=with_input)
        confidence = None if obs is None else confidence_of(model)
    names = {name: str(written[option]) for option, name in OUTPUTS.items() if option in written}
    if obs is not None:
        names["obs"] = write_obs_column(source.path, obs, model.labels_, confidence, force=force)
    seconds = time.perf_counter() - started
    facts = {
        "command": "cut",
        "rows": rows.n_rows,
        "clusters": int(model.n_clusters_),
        "sizes": sizes.counts.tolist(),
        "missing": sizes.missing,
        "seconds": round(seconds, 3),
        "outputs": names,
    }
    lines = [
        ("Rows", f"{rows.n_rows:,}"),
        ("Clusters", f"{facts['clusters']:,}"),
        ("Sizes", format_sizes(sizes.counts)),
        *missing_lines(facts),
        ("Time", format_duration(seconds)),
    ]
    screen.result(facts, lines + [(name.capitalize(), place) for name, place in names.items()])
