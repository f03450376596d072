"""``ultraspec fit``: reads rows, writes labels, a model and a report."""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import USENC, USPEC, report, save
from ultraspec._estimator import check_parameters, fitted
from ultraspec.cli import _outputs
from ultraspec.cli._errors import naming_input, naming_output
from ultraspec.cli._input import DataFile
from ultraspec.cli._labelling import ClusterSizes, split_blocks
from ultraspec.cli._parameters import NONE, parameters_of
from ultraspec.cli._screen import Screen, format_bytes, format_sizes
from ultraspec.cli._writers import check_input_columns, write_columns, write_with_input
from ultraspec.engines.finite import drop_missing
from ultraspec.engines.moments import measure_scaling
from ultraspec.engines.progress import format_duration, report_to
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, ScaledRows
from ultraspec.storage import checkpoint
from ultraspec.storage.locks import claim

OUTPUTS = {"-o": "labels", "--model": "model", "--report": "report"}


def run(
    source: DataFile,
    outputs: Mapping[str, Path],
    parameters: Mapping[str, Any],
    *,
    ensemble: bool,
    scale: str,
    force: bool,
    screen: Screen,
    with_input: bool = False,
    obs: str | None = None,
) -> None:
    """Cluster the rows of a file and write `outputs`, paths by option, and labels to the column `obs` of an AnnData."""
    model = make_estimator(parameters, ensemble=ensemble)
    started = time.perf_counter()
    with claim(outputs.values()), source.open(screen) as opened:
        reading = time.perf_counter() - started
        rows, weights = source.split(opened)
        if model.n_clusters != "auto" and model.n_clusters > rows.n_rows:
            raise ValueError(f"{source.path} has {rows.n_rows:,} rows, too few for -k {model.n_clusters}.")
        if "-o" in outputs:
            n_bytes = _outputs.label_bytes(outputs["-o"], rows.n_rows, confidence=True)
            _outputs.check_disk_space({outputs["-o"]: n_bytes})
            if with_input:
                check_input_columns(outputs["-o"], rows, ("label", "confidence"))
        with naming_input(source.path):
            fit_rows(model, rows, scale, screen, weights)
        seconds = time.perf_counter() - started
        sizes, written = write_outputs(model, rows, outputs, force, source, screen, with_input=with_input)
        facts = describe_fit(model, rows, sizes, scale, seconds, reading)  # may read the rows
    facts["outputs"] = {name: str(written[option]) for option, name in OUTPUTS.items() if option in written}
    if obs is not None:
        facts["outputs"]["obs"] = write_obs_column(source.path, obs, model.labels_, confidence_of(model), force=force)
    screen.result(facts, result_lines(facts))


def make_estimator(parameters: Mapping[str, Any], *, ensemble: bool) -> Any:
    """Create the estimator and check its parameters; None stands for a parameter that was not given."""
    specs = parameters_of("USENC" if ensemble else "USPEC")
    given: dict[str, Any] = {
        name: None if value == NONE and name in specs and specs[name].takes_none else value
        for name, value in parameters.items()
        if value is not None
    }
    unfinished = "checkpoint" in given and checkpoint.is_begun(given["checkpoint"])
    if "random_state" not in given and not unfinished:  # an unfinished fit continues with its seed
        given["random_state"] = secrets.randbelow(2**32)
    model = (USENC if ensemble else USPEC)(**given)
    check_parameters(model)
    return model


def fit_rows(model: Any, rows: Rows, scale: str, screen: Screen, weights: Rows | None = None) -> None:
    """Fit a model to rows, scaled if `scale` says so, and weighted by a column."""
    if scale == "standard":
        reporter = screen.reporter(type(model).__name__)
        with ThreadEngine(model.n_jobs, reporter) as engine, reporter.phase("scale"):
            complete = drop_missing(rows, model.n_jobs) if model.missing == "drop" else rows
            rows = ScaledRows(rows, measure_scaling(complete, engine))
    with report_to(screen.reporter(type(model).__name__)):
        model.fit(rows, **({} if weights is None else {"sample_weight": weights}))


def write_outputs(
    model: Any,
    rows: Rows,
    outputs: Mapping[str, Path],
    force: bool,
    source: DataFile,
    screen: Screen,
    *,
    with_input: bool = False,
) -> tuple[ClusterSizes, dict[str, Path]]:
    """Write the output files; return the sizes of the clusters, and the paths of the files by option."""
    written: dict[str, Path] = {}
    types: dict[str, Any] = {"label": np.int32}
    columns = [model.labels_]
    if fitted(model).model.has_confidence:
        types["confidence"] = np.float32
        columns.append(model.confidence_)
    sizes = ClusterSizes(model.n_clusters_)
    blocks = sizes.count(split_blocks(*columns))
    if "-o" in outputs:
        if with_input:
            written["-o"] = write_with_input(outputs["-o"], rows, types, blocks, force=force)
        else:
            written["-o"] = write_columns(outputs["-o"], rows.n_rows, types, blocks, force=force)
    else:
        for _ in blocks:
            pass
    if "--model" in outputs:
        path = written["--model"] = _outputs.keep_aside(outputs["--model"], force=force)
        with naming_output(path):
            save(model, path, overwrite=force)
    if "--report" in outputs:
        path = written["--report"] = _outputs.keep_aside(outputs["--report"], force=force)
        with report_to(screen.reporter("report")), naming_output(path):
            command = repeat_command(model, source)
            report.write(model, rows, path, code=command, describe=source.describe(), overwrite=force)
    return sizes, written


def confidence_of(model: Any) -> Any:
    """Return the confidence of the fitted rows, or None if the model has none."""
    return model.confidence_ if fitted(model).model.has_confidence else None


def write_obs_column(path: Path, name: str, labels: Any, confidence: Any, *, force: bool) -> str:
    """Write labels into the obs of the input; return where."""
    from ultraspec.tl import write_obs

    with naming_output(path):
        write_obs(path.expanduser(), np.asarray(labels), name, confidence=confidence, overwrite=force)
    return f"{path}: obs[{name!r}]"


def repeat_command(model: Any, source: DataFile, n_rows: int | None = None) -> str:
    """Write the command that repeats a fit.

    Parameters
    ----------
    model : USPEC or USENC
        The fitted model.
    source : DataFile
        The rows.
    n_rows : int, optional
        Their number, if they may differ from the fitted rows.
    """
    arguments = ["ultraspec", "fit", str(source.path)]
    note = ""
    if n_rows is not None and n_rows != fitted(model).n_rows:
        arguments[2] = "DATA"
        note = f"# DATA: the {fitted(model).n_rows:,} rows that were fitted, not those of this page\n"
    kind = USENC if isinstance(model, USENC) else USPEC
    if kind is USENC:
        arguments.append("--ensemble")
    values = {**model.get_params(deep=False), "random_state": fitted(model).seed}
    defaults = {**kind().get_params(deep=False), "n_clusters": None}  # -k is required
    for name, parameter in parameters_of(kind.__name__).items():
        if values[name] != defaults[name] and name != "n_jobs":
            arguments += parameter.write(values[name])
    if model.scaling_ is not None:
        arguments += ["--scale", "standard"]
    return note + shlex.join(arguments + source.options())


def describe_fit(
    model: Any, rows: Rows, sizes: ClusterSizes, scale: str, seconds: float, reading: float
) -> dict[str, Any]:
    """Collect the result; `seconds` include those of `reading` the file on opening."""
    phases = {name: round(phase["seconds"], 3) for name, phase in model.fit_profile_.items()}
    used = [facts["resident_bytes"] for facts in model.fit_profile_.values()]
    facts = {
        "command": "fit",
        "method": "U-SENC" if isinstance(model, USENC) else "U-SPEC",
        "rows": rows.n_rows,
        "features": rows.n_features,
        "scale": scale,
        "clusters": int(model.n_clusters_),
        "sizes": sizes.counts.tolist(),
        "missing": sizes.missing,
        "seconds": round(seconds, 3),
        "seconds_by_phase": {"read": round(reading, 3), **phases},
        "peak_bytes": max((n for n in used if n is not None), default=None),
        "seed": fitted(model).seed,
    }
    if fitted(model).model.has_confidence:
        total = sum(float(np.nansum(part, dtype=np.float64)) for (part,) in split_blocks(model.confidence_))
        facts["mean_confidence"] = round(total / (rows.n_rows - sizes.missing), 6)
    if model.n_clusters == "auto":
        facts["layers"] = [list(layer) for layer in model.layers_]
        facts["explanation"] = model.explain()
    return facts


def missing_lines(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Format the number of rows that have no label, if there are any."""
    n = facts["missing"]
    return [("Missing", f"{n:,} row{'s' if n > 1 else ''} with missing values, labelled -1")] if n else []


def result_lines(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Format the result as lines."""
    lines = [
        ("Rows", f"{facts['rows']:,} x {facts['features']:,}"),
        ("Clusters", f"{facts['clusters']:,}"),
        ("Sizes", format_sizes(facts["sizes"])),
        *missing_lines(facts),
    ]
    if "mean_confidence" in facts:
        lines.append(("Confidence", f"{facts['mean_confidence']:.4f} on average"))
    if "explanation" in facts:
        lines.append(("In words", facts["explanation"]))
    lines.append(("Time", format_duration(facts["seconds"])))
    lines.append(("Memory", format_bytes(facts["peak_bytes"]) + " at most"))
    lines.append(("Seed", str(facts["seed"])))
    lines += [(name.capitalize(), path) for name, path in facts["outputs"].items()]
    if not facts["outputs"]:
        lines.append(("Labels", "not written: pass -o labels.parquet, or --model to label rows later"))
    return lines
