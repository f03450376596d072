"""Fills in the figures that README.md and the documentation state, from the stored results.

A page marks each with its name, inside a sentence or around a table: ``<!-- figures: name -->...<!-- end -->``.
``report.py`` writes them, and ``tests/test_docs.py`` compares the pages with the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from common import HERE, RESULTS, SETS, beside_paper, fetch, results, scores_of
from which_data import SETTINGS

from ultraspec.reproduce import paper_results
from ultraspec.reproduce.store import read

ROOT = HERE.parent
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->)(\s*).*?(<!-- end -->)", re.DOTALL)
SHAPES = {
    "CG-10M": "10,000,000 x 2",
    "CC-10M": "10,000,000 x 2",
    "MNIST": "70,000 x 784",
    "Covertype": "581,012 x 54",
    "PenDigits": "10,992 x 16",
    "1M x 64": "1,000,000 x 64",
}
MOST_PEERS = 10  # methods with runs on a data set, from which on it counts for all
SHORT = {"tb": "TB", "sf": "SF", "cc": "CC", "cg": "CG", "flower": "Flower"}
VARIANTS = {
    "quality": "U-SPEC of the paper, regularised",
    "quality_usenc": "U-SENC of the paper, regularised",
    "quality_average": "the same, average linkage (removed)",
}


def pages() -> list[Path]:
    """Return README.md and the pages of the documentation."""
    docs = ROOT / "docs"
    return [ROOT / "README.md", *(page for page in sorted(docs.rglob("*.md")) if "_build" not in page.parts)]


def fill(text: str, names: set[str] | None = None) -> str:
    """Return a page with all marked figures as the results have them; collects their names in `names`."""

    def replace(match: re.Match[str]) -> str:
        start, name, before, end = match.groups()
        if name not in FIGURES:
            raise KeyError(f"benchmarks/figures.py has no figure {name!r}")
        if names is not None:
            names.add(name)
        around = "\n" if "\n" in before else ""
        return f"{start}{around}{FIGURES[name]()}{around}{end}"

    return MARKED.sub(replace, text)


def write() -> None:
    """Write the figures into all pages."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        filled = fill(text)
        if filled != text:
            page.write_text(filled, encoding="utf-8")
            print(f"wrote the figures of {page.relative_to(ROOT)}")


def seconds(value: float) -> str:
    """Write a time, with a decimal below ten seconds."""
    return f"{value:.1f} s" if value < 9.95 else f"{value:.0f} s"


def megabytes(value: float) -> str:
    """Write a size."""
    return f"{value / 1e6:.0f} MB"


def speed_table() -> str:
    """Compare times with scikit-learn's."""
    text = "| data | rows x features | method | time | scikit-learn | ratio |\n|---|---|---|---|---|---|\n"
    single, ensemble = fetch("speed")["ratios"], fetch("speed_usenc")["ratios"]
    runs = [(name, "U-SPEC", run) for name, run in single.items()]
    runs += [(name, "U-SENC, 20 members", run) for name, run in reversed(ensemble.items())]
    for name, method, run in runs:
        dagger = "†" if name.startswith("C") and name != "Covertype" else ""
        ours, theirs = f"{median(run['seconds']):.1f} s", f"{median(run['peer_seconds']):.1f} s"
        peer = f"`{run['peer']}` {theirs}"
        text += f"| {name}{dagger} | {SHAPES[name]} | {method} | {ours} | {peer} | {run['ratio']:.2f} |\n"
    return text.rstrip()


def share_of_kmeans() -> str:
    """Say what part of the time of KMeans U-SPEC takes on ten million rows."""
    times = round(1 / fetch("speed")["ratios"]["CG-10M"]["ratio"])
    return {
        2: "half",
        3: "third",
        4: "quarter",
        5: "fifth",
        6: "sixth",
        7: "seventh",
        8: "eighth",
        9: "ninth",
        10: "tenth",
    }[times]


def file_run(suffix: str) -> str:
    """Say time and memory of a hundred million rows from a file."""
    run = fetch("out_of_core")["runs"][suffix]
    return f"{seconds(run['seconds'])} and {megabytes(run['bytes_above'])}"


def billion(key: str) -> str:
    """Say time or memory of a billion rows."""
    run = fetch("billion")["runs"]["uspec"]
    return seconds(run["seconds"]) if key == "seconds" else megabytes(run["resident_bytes"])


def default_table() -> str:
    """Compare the NMI of the default with the paper's methods on the ten sets, the best of each in bold."""
    columns = ["`USPEC(k)`, AMI", "`USPEC(k)`, ARI", "`USPEC(k)`, NMI", *(f"{name}, NMI" for name in VARIANTS.values())]
    text = f"| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}\n"
    runs = [results(name)["runs"] for name in VARIANTS]
    for data, done in fetch("default")["sets"].items():
        ours = np.array([run["scores"][:4] for run in done.values()])
        values = [ours[:, 2], *(scores_of(each[data], 0) for each in runs)]
        means = [f"{value.mean():.1f}" for value in values]
        best = max(means, key=float)
        cells = [
            f"{f'**{mean}**' if mean == best else mean} ± {value.std():.1f}"
            for mean, value in zip(means, values, strict=True)
        ]
        first = [f"{ours[:, column].mean():.1f} ± {ours[:, column].std():.1f}" for column in (0, 1)]
        text += f"| {data} | {' | '.join(first + cells)} |\n"
    return text.rstrip()


def reached() -> str:
    """Count the sets on which both methods reach the paper's scores, within one standard deviation."""
    count = 0
    for data, *_ in SETS:
        ours = [beside_paper(results("quality")["runs"][data], data, "U-SPEC")]
        ours.append(beside_paper(results("quality_usenc")["runs"][data], data, "U-SENC"))
        count += all(within for within, _ in ours)
    return f"{count} of the paper's {len(SETS)} data sets"


def dask_runs(workers: int) -> list[dict[str, Any]]:
    """Return the runs on 20 million rows, larger chunks first."""
    return [run for run in fetch("dask_scaling")["runs"] if run["rows"] == 20_000_000 and run["workers"] == workers]


def dask_table() -> str:
    """Compare times on a cluster with what the model says."""
    text = "| workers | chunks | time | the model below says |\n|---|---|---|---|\n"
    for run in dask_runs(1) + dask_runs(2):
        chunks = f"{run['rows'] // run['chunk_rows']} of {run['chunk_rows']:,} rows"
        text += f"| {run['workers']} | {chunks} | {run['seconds']:.1f} s | {run['predicted']:.1f} s |\n"
    return text.rstrip()


def dask_faster() -> str:
    """Say how much a second worker helps."""
    ratios = sorted(one["seconds"] / two["seconds"] for one, two in zip(dask_runs(1), dask_runs(2), strict=True))
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f} times"


def dask_model() -> str:
    """Write the cost of a chunk."""
    model = fetch("dask_scaling")["model"]
    return f"{1e6 * model['per_row']:.2f} µs x rows of a chunk + {model['per_chunk']:.2f} s"


def dask_error() -> str:
    """Say by how much the model errs on two workers."""
    errors = [1 - run["predicted"] / run["seconds"] for run in dask_runs(2)]
    return f"{100 * np.mean(errors):.0f} %"


def generators() -> str:
    """Return the table of our generators beside rows of the authors."""
    text = "| | authors' and ours | ours and ours | one sample, all rows | one sample, half not used for SF |\n|---|---|---|---|---|\n"
    for name, parts in fetch("generators")["sets"].items():
        pairs = (parts["all"]["two_samples"], parts["all"]["own"])
        spans = [f"{np.mean(found):.2f} ({min(found):.2f} to {max(found):.2f})" for found in pairs]
        tests = [f"{part['one_sample']:.2f} ({part['deviations']:+.1f} σ)" for part in (parts["all"], parts["check"])]
        text += f"| {SHORT[name]} | {' | '.join(spans + tests)} |\n"
    return text.rstrip("\n")


def authors_rows() -> str:
    """Return the table of all methods on the authors' rows and on ours."""
    text = "| NMI (%) | TB, the authors' rows | TB, ours | TB-1M, *paper* | SF, the authors' rows | SF, ours | SF-2M, *paper* |\n"
    text += "|---" * 7 + "|\n"
    found = fetch("generators")["methods"]
    for method in found["sf"]:
        cells = []
        for name, title in (("tb", "TB-1M"), ("sf", "SF-2M")):
            cells += [mean_of(found[name].get(method, {}).get(whose, [])) for whose in ("authors", "ours")]
            paper = paper_results.printed("nmi", title, method.removesuffix(" (lib)"))
            cells.append("N/A" if paper is None else f"*{paper.mean:.2f} ± {paper.std:.2f}*")
        text += f"| {'Nyström' if method == 'Nystrom' else method} | {' | '.join(cells)} |\n"
    return text.rstrip("\n")


def mean_of(runs: list[list[float]]) -> str:
    """Format mean and standard deviation of the NMI of runs, and their number."""
    values = [run[0] for run in runs]
    if not values:
        return "–"
    return (
        f"{np.mean(values):.2f}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "") + f" ({len(values)})"
    )


def cells_table() -> str:
    """Compare `tl.uspec` with Leiden on generated cells."""
    titles = {
        "leiden": "`sc.tl.leiden`",
        "uspec": "`tl.uspec(adata, 25)`",
        "kmeans": '`tl.uspec(adata, 25, discretize="kmeans")`',
        "more": '`tl.uspec(adata, 50, discretize="kmeans")`',
        "auto": '`tl.uspec(adata, "auto")`',
    }
    text = "| cells | method | CPU time | clusters | ARI | AMI | types found, of 25 | of the three of 0.1 % |\n"
    text += f"|{'---|' * 8}\n"
    runs = fetch("cells")["runs"]
    for size in ("-200k", ""):
        for method, title in titles.items():
            if run := runs.get(f"{method}{size}"):
                values = (
                    f"{run['n_clusters']} | {run['ari']:.2f} | {run['ami']:.2f} | {run['found']} | {run['rare_found']}"
                )
                text += f"| {run['cells']:,} | {title} | {seconds(run['cpu_seconds'])} | {values} |\n"
    return text.rstrip()


def documents_table() -> str:
    """Compare U-SPEC with k-means and HDBSCAN on generated documents."""
    titles = {
        "uspec": '`USPEC(200, metric="cosine")`',
        "auto": '`USPEC("auto", metric="cosine")`',
        "kmeans": "`KMeans(200, n_init=1)`",
        "hdbscan": "`HDBSCAN`",
    }
    text = f"| documents | method | CPU time | clusters | AMI | topics found, of 200 | left out |\n|{'---|' * 7}\n"
    runs = fetch("documents")["runs"]
    for size in ("-10k", "-20k", ""):
        for method, title in titles.items():
            if run := runs.get(f"{method}{size}"):
                values = f"{run['n_clusters']} | {run['ami']:.2f} | {run['found']} | {100 * run['left_out']:.0f} %"
                text += f"| {run['rows']:,} | {title} | {seconds(run['cpu_seconds'])} | {values} |\n"
    return text.rstrip()


def documents_rate() -> str:
    """Say how many new documents are labelled in a second of one core."""
    runs = fetch("documents")["runs"]
    rate = runs.get("uspec", runs["uspec-20k"])["predicted_per_cpu_second"]
    return f"{round(rate, -3):,.0f} documents"


def places() -> str:
    """Say time and quality for eight million places."""
    run = fetch("places")["runs"]["uspec"]
    quality = f"{run['together']} of {run['cities']} cities are one cluster, AMI {run['ami']:.3f}"
    return f"{seconds(run['cpu_seconds'])} of CPU time: {quality}"


def cytometry_table() -> str:
    """List the runs on generated cytometry data."""
    titles = {"kmeans": '`discretize="kmeans"`', "auto": "the default"}
    text = "| cells | Parquet | clusters by | CPU time of the fit | memory above Python's | populations found, of 20 |"
    text += f" of the three of 0.05 % |\n|{'---|' * 7}\n"
    for name, run in sorted(fetch("cytometry")["runs"].items(), key=lambda item: (item[1]["rows"], item[0])):
        size = f"{run['file_bytes'] / 1e9:.1f} GB"
        cost = f"{seconds(run['cpu_seconds'])} | {megabytes(run['bytes_above'])}"
        found = f"{run['found']} | {run['rare_found']}"
        text += f"| {run['rows']:,} | {size} | {titles[name.split('-')[1]]} | {cost} | {found} |\n"
    return text.rstrip()


def calibration(names: Callable[[str], bool], reduce: Callable[[list[float]], float]) -> str:
    """Say the calibration error of the data sets with some names, reduced to one number."""
    runs = fetch("trust")["calibration"]
    return f"{reduce([run['error'] for name, run in runs.items() if names(name)]):.3f}"


def near_best() -> str:
    """Say how often the default is within a point of the best AMI, beside the next best of other methods."""
    sets: dict[str, dict[str, list[float]]] = {}
    for run in read(RESULTS / "peers.jsonl"):
        if run["dataset"] not in SETTINGS and " x " not in run["dataset"]:
            found = sets.setdefault(run["dataset"], {}).setdefault(run["method"], [])
            if run["na"] is None:
                found.append(max(run["ami"], run.get("assigned_ami", 0.0)))
    full = [methods for methods in sets.values() if len(methods) >= MOST_PEERS]  # most peers were run there
    scores = [{name: np.mean(values) for name, values in methods.items() if values} for methods in full]
    near: dict[str, int] = {}
    for each in scores:
        for name, score in each.items():
            near[name] = near.get(name, 0) + int(score > max(each.values()) - 1.0)
    others = [name for name in near if not name.startswith(("USPEC", "USENC"))]
    second = max(others, key=near.__getitem__)
    return (
        f"{near['USPEC']} of {len(full)} data sets; the next best of {len(others)} other methods and settings ({second}) "
        f"is on {near[second]}"
    )


FIGURES: dict[str, Callable[[], str]] = {
    "speed-table": speed_table,
    "share-of-kmeans": share_of_kmeans,
    "uspec-10m-seconds": lambda: seconds(median(fetch("speed")["ratios"]["CG-10M"]["seconds"])),
    "uspec-10m-memory": lambda: megabytes(fetch("speed")["memory"]["bytes_above_input"]),
    "usenc-10m-memory": lambda: megabytes(fetch("speed_usenc")["memory"]["CG-10M"]["bytes_above_input"]),
    "compile": lambda: f"{fetch('speed')['start']['first_fit_ever_extra']:.0f} s",
    "npy-100m": lambda: file_run("npy"),
    "parquet-100m": lambda: file_run("parquet"),
    "billion-seconds": lambda: billion("seconds"),
    "billion-memory": lambda: billion("memory"),
    "consensus-10m": lambda: seconds(median(fetch("speed_usenc")["consensus"]["10M x 20, int64"]["seconds"])),
    "tree": lambda: f"{fetch('speed_variants')['tree']['seconds']:.2f} s",
    "paper-reached": reached,
    "generators": generators,
    "authors-rows": authors_rows,
    "default-table": default_table,
    "dask-table": dask_table,
    "dask-faster": dask_faster,
    "dask-model": dask_model,
    "dask-error": dask_error,
    "cells-table": cells_table,
    "documents-table": documents_table,
    "documents-rate": documents_rate,
    "cytometry-table": cytometry_table,
    "places": places,
    "near-best": near_best,
    "calibration-generated": lambda: calibration(lambda name: name in SETTINGS, np.mean),
    "calibration-synthetic": lambda: calibration(lambda name: name in SHORT, max),
    "dask-ten-billion-moved": lambda: f"{fetch('dask_scaling')['ten_billion']['bytes_moved'] / 1e9:.0f} GB",
}
