"""``ultraspec demo``: generates concentric circles, clusters them, prints time and scores."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from ultraspec import USPEC, datasets, metrics, report
from ultraspec.cli._errors import naming_output
from ultraspec.cli._screen import Screen, format_sizes
from ultraspec.engines.progress import format_duration, report_to


def run(n_rows: int, seed: int, page: Path | None, *, force: bool, screen: Screen) -> None:
    """Cluster circles and write a report, which may replace an earlier one."""
    screen.say(f"Generating {n_rows:,} points on three concentric circles ...")
    X, y = datasets.generate("cc", n_rows, random_state=seed)
    screen.say("Compiling (once per machine) ...")
    USPEC(3, random_state=seed).fit(X[:2000])
    screen.say("Clustering ...")
    model = USPEC(3, random_state=seed)
    started = time.perf_counter()
    with report_to(screen.reporter("USPEC")):
        model.fit(X)
    seconds = time.perf_counter() - started
    if page is not None:
        with report_to(screen.reporter("report")), naming_output(page):
            report.write(model, X, page, title="Three concentric circles", overwrite=True if force else None)
    facts = {
        "command": "demo",
        "rows": n_rows,
        "seed": seed,
        "seconds": round(seconds, 3),
        "nmi": metrics.nmi(y, model.labels_),
        "sizes": np.bincount(model.labels_).tolist(),
        "true_sizes": np.bincount(y).tolist(),
        "outputs": {} if page is None else {"report": str(page)},
    }
    lines = [
        ("Time", format_duration(seconds)),
        ("NMI", f"{facts['nmi']:.4f}  (1 is perfect)"),
        ("Cluster sizes", format_sizes(facts["sizes"])),
        ("True sizes", format_sizes(facts["true_sizes"])),
    ]
    screen.result(facts, lines + ([("Report", str(page))] if page is not None else []))
