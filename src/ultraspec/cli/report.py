"""``ultraspec report``: reads a model and rows, writes a report."""

from __future__ import annotations

from pathlib import Path

from ultraspec.cli._errors import naming_input, naming_output
from ultraspec.cli._input import DataFile
from ultraspec.cli._screen import Screen
from ultraspec.cli.fit import repeat_command
from ultraspec.cli.predict import feature_names, load_model
from ultraspec.engines.progress import report_to
from ultraspec.report import write
from ultraspec.storage.locks import claim


def run(
    path: Path, source: DataFile, target: Path, *, title: str | None, n_jobs: int | None, force: bool, screen: Screen
) -> None:
    """Write a report on a model and the rows of a file."""
    model = load_model(path, n_jobs=n_jobs)
    opened = source.open(screen, feature_names(model))
    with (
        claim([target]),
        opened as rows,
        report_to(screen.reporter("report")),
        naming_input(source.path),
        naming_output(target),
    ):
        code = repeat_command(model, source, rows.n_rows)
        write(model, rows, target, title=title, code=code, describe=source.describe(), overwrite=force)
    facts = {
        "command": "report",
        "rows": rows.n_rows,
        "clusters": model.n_clusters_,
        "outputs": {"report": str(target)},
    }
    screen.result(facts, [("Rows", f"{rows.n_rows:,}"), ("Report", str(target))])
