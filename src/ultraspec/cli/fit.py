"""``ultraspec fit``: takes data, gives labels, a model and a report."""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ultraspec import USENC, USPEC, report, save
from ultraspec.cli import _targets
from ultraspec.cli._data import Sizes, slices
from ultraspec.cli._errors import about, blaming
from ultraspec.cli._input import Input
from ultraspec.cli._options import PARAMETERS
from ultraspec.cli._screen import Screen, duration, listing, memory
from ultraspec.cli._writers import write_columns
from ultraspec.engines.moments import measure_scaling
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, ScaledRows
from ultraspec.storage import checkpoint


def run(
    source: Input,
    targets: Mapping[str, Path],
    options: Mapping[str, Any],
    *,
    ensemble: bool,
    scale: str,
    force: bool,
    screen: Screen,
) -> None:
    """Cluster a file and write what was asked for to `targets`, paths by option."""
    model = estimator(options, ensemble=ensemble)
    with source.open(screen) as rows:
        if model.n_clusters != "auto" and model.n_clusters > rows.n_rows:
            raise ValueError(f"{source.path} has {rows.n_rows:,} rows, too few for -k {model.n_clusters}.")
        if "-o" in targets:
            room = _targets.label_room(targets["-o"], rows.n_rows, confidence=ensemble)
            _targets.check_room({targets["-o"]: room})
        started = time.perf_counter()
        with about(source.path):
            fit(model, rows, scale, screen)
        seconds = time.perf_counter() - started
        sizes = write(model, rows, targets, force, repeat(model, source), screen)
    facts = describe(model, rows, sizes, scale, seconds)
    facts["outputs"] = {"-o": "labels", "--model": "model", "--report": "report"}
    facts["outputs"] = {name: str(targets[option]) for option, name in facts["outputs"].items() if option in targets}
    screen.result(facts, lines(facts))


def estimator(options: Mapping[str, Any], *, ensemble: bool) -> Any:
    """The estimator that options ask for, with its parameters checked; None is an option that was not given."""
    given = {name: value for name, value in options.items() if value is not None}
    unfinished = "checkpoint" in given and checkpoint.is_begun(given["checkpoint"])
    if given.get("seed") is None and not unfinished:  # which goes on with its own seed
        given["seed"] = secrets.randbelow(2**32)
    model = (USENC if ensemble else USPEC)(**{PARAMETERS[name]: value for name, value in given.items()})
    model._check_parameters()
    return model


def fit(model: Any, rows: Rows, scale: str, screen: Screen) -> None:
    """Fit, on scaled rows if that is wanted."""
    if scale == "none":
        with screen.watching(model):
            model.fit(rows)
        return
    reporter = screen.reporter(type(model).__name__)
    with ThreadEngine(model.n_jobs, reporter) as engine, reporter.phase("scale"):
        scaling = measure_scaling(rows, engine)
    with screen.watching(model):
        model.fit(ScaledRows(rows, scaling))


def write(model: Any, rows: Rows, targets: Mapping[str, Path], force: bool, command: str, screen: Screen) -> Any:
    """Write the files; gives the clusters' sizes."""
    types: dict[str, Any] = {"label": np.int32}
    columns = [model.labels_]
    if hasattr(model, "confidence_"):
        types["confidence"] = np.float32
        columns.append(model.confidence_)
    sizes = Sizes(model.n_clusters_)
    blocks = sizes.of(slices(*columns))
    if "-o" in targets:
        write_columns(targets["-o"], rows.n_rows, types, blocks, force=force)
    else:
        for _ in blocks:
            pass
    if "--model" in targets:
        with blaming(targets["--model"]):
            save(model, targets["--model"], overwrite=force)
    if "--report" in targets:
        with screen.watching(model), blaming(targets["--report"]):
            report.write(model, rows, targets["--report"], code=command, overwrite=force)
    return sizes.counts


def repeat(model: Any, source: Input | Path, n_rows: int | None = None) -> str:
    """The command that repeats a fit, from the model's parameters; `n_rows` where the data may be another."""
    given = source if isinstance(source, Input) else Input(source)
    words = ["ultraspec", "fit", str(given.path)]
    note = ""
    if n_rows is not None and n_rows != model._n_rows:
        words[2], note = "DATA", f"# DATA: the {model._n_rows:,} rows that were fitted, not those of this page\n"
    values, defaults = model.get_params(deep=False), type(model)().get_params(deep=False)
    if isinstance(model, USENC):
        words.append("--ensemble")
    values["random_state"] = model._seed
    for name, parameter in PARAMETERS.items():
        value = values.get(parameter)
        if parameter == "n_clusters":
            words += ["-k", str(value)]
        elif parameter not in values or value == defaults[parameter] or parameter == "n_jobs":
            continue
        elif name == "exact":
            words.append("--exact")
        else:
            text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
            words += ["--" + name.replace("_", "-"), text]
    if model.scaling_ is not None:
        words += ["--scale", "standard"]
    if given.columns is not None:
        words += ["--columns", ",".join(given.columns)]
    words += ["--array", given.array] if given.array is not None else []
    words += ["--delimiter", given.delimiter] if given.delimiter is not None else []
    words += ["--decimal", given.decimal] if given.decimal is not None else []
    if given.header is not None:
        words.append("--header" if given.header else "--no-header")
    return note + shlex.join(words)


def describe(model: Any, rows: Rows, sizes: Any, scale: str, seconds: float) -> dict[str, Any]:
    """The result as facts."""
    used = [facts["resident_bytes"] for facts in model.fit_profile_.values()]
    facts = {
        "command": "fit",
        "method": "U-SENC" if isinstance(model, USENC) else "U-SPEC",
        "rows": rows.n_rows,
        "features": rows.n_features,
        "scale": scale,
        "clusters": int(model.n_clusters_),
        "sizes": sizes.tolist(),
        "seconds": round(seconds, 3),
        "seconds_by_phase": {name: round(phase["seconds"], 3) for name, phase in model.fit_profile_.items()},
        "peak_bytes": max((n for n in used if n is not None), default=None),
        "seed": model._seed,
    }
    if hasattr(model, "confidence_"):
        total = sum(float(part.sum(dtype=np.float64)) for (part,) in slices(model.confidence_))
        facts["mean_confidence"] = round(total / rows.n_rows, 6)
    return facts


def lines(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The result as lines."""
    found = [
        ("Rows", f"{facts['rows']:,} x {facts['features']:,}"),
        ("Clusters", f"{facts['clusters']:,}"),
        ("Sizes", listing(facts["sizes"])),
    ]
    if "mean_confidence" in facts:
        found.append(("Confidence", f"{facts['mean_confidence']:.4f} on average"))
    found += [("Time", duration(facts["seconds"])), ("Memory", memory(facts["peak_bytes"]) + " at most")]
    found.append(("Seed", str(facts["seed"])))
    names = {"labels": "Labels", "model": "Model", "report": "Report"}
    found += [(names[name], path) for name, path in facts["outputs"].items()]
    if not facts["outputs"]:
        found.append(("Labels", "not kept: pass -o labels.parquet, or --model to label rows later"))
    return found
