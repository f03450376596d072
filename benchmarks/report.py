"""Writes RESULTS.md from the stored results, and the figures of README.md and of the documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import figures
import numpy as np
from common import HERE, SETS, beside_paper, results, scores_of
from default import SCORES
from default import report as default_report
from n_clusters import report as n_clusters_report
from trust import report as trust_report

from ultraspec.reproduce import paper_results

HEAD = """# Benchmark results

Measured by `make bench` on one machine; written by `benchmarks/report.py` from `benchmarks/results/`. Times are ratios
against scikit-learn on the same data in the same run: seconds of one machine say little about another.

The generator of SF was corrected on 2026-11-18 (`docs/reproduction.md`). Results on SF with an earlier date are on rows of its first
version, which differ little.

"""


def about(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, {versions}.\n\n"


def verdict(met: bool) -> str:
    return "yes" if met else "**no**"


def spread(runs: list[Any], column: int) -> str:
    """Format mean and deviation of a score, and the number of runs if not all have it."""
    found = scores_of(runs, column)
    if not len(found):
        return "–"
    return f"{found.mean():.2f} ± {found.std():.2f}" + (f" ({len(found)})" if len(found) < len(runs) else "")


def quality(stored: dict[str, Any], method: str = "U-SPEC") -> str:
    text = (
        f"## Scores of {method}\n\n"
        + about(stored["machine"])
        + "The paper's method with its parameters, but regularization="
        "1e-3; mean ± standard deviation in %. NMI is normalised by the larger entropy and CA is majority accuracy, as in "
        "the paper. Met: no lower than the paper's mean minus its standard deviation, at the paper's two decimals. "
        "The last five sets come from our generators, which agree with 100,000 rows of the authors' data.\n\n"
        "AMI and ARI are adjusted for chance, HA is the Hungarian accuracy; all on all rows. Runs before 2026-11-18 lack some "
        "of them; in parentheses, the number of runs that have them.\n\n"
        "| data set | seeds | NMI | paper | CA | paper | met | AMI | ARI | HA |\n|---|---|---|---|---|---|---|---|---|---|\n"
    )
    above = 0
    for title, *_ in SETS:
        runs = stored["runs"].get(title)
        if not runs:
            continue
        met, higher = beside_paper(runs, title, method)
        above += higher
        cells = []
        for column, score in enumerate(("nmi", "ca")):
            mean, std = paper_results.printed(score, title, method)
            cells += [spread(runs, column), f"{mean:.2f} ± {std:.2f}"]
        others = [spread(runs, column) for column in (2, 3, 4)]
        text += f"| {title} | {len(runs)} | {' | '.join(cells)} | {verdict(met)} | {' | '.join(others)} |\n"
    return text + f"\nBoth scores at or above the paper's mean on {above} of these sets.\n\n"


def speed(stored: dict[str, Any]) -> str:
    text = "## Speed and memory of U-SPEC\n\n" + about(stored["machine"])
    text += "Warm, medians of alternating runs, float32 input, all cores.\n\n"
    text += ratio_table(stored["ratios"], "U-SPEC")
    text += "\n| what | measured | asked | met |\n|---|---|---|---|\n"
    grown = stored["scaling"]
    text += f"| CG, time at 10M / at 1M | {grown['growth']:.1f} | ≤ {grown['limit']} | {verdict(grown['growth'] <= grown['limit'])} |\n"
    text += memory_line({"set": "CG-10M", **stored["memory"]})
    names = {
        "import_seconds": "`import ultraspec`",
        "first_fit_ever_extra": "first fit ever (empty numba cache), extra",
        "first_fit_in_process_extra": "first fit of a process (with the cache), extra",
    }
    for key, name in names.items():
        value, limit = stored["start"][key], stored["start"]["limits"][key]
        text += f"| {name} | {value:.2f} s | ≤ {limit} s | {verdict(value <= limit)} |\n"
    peak = stored["peak"]
    text += (
        f"\nNeighbour search against the machine's matrix-product peak ({peak['gemm_gflops']:.0f} GFLOP/s, float32, measured in "
        "the same run). Counted are the distances that the method's definition asks for (approx: z1 + p / z1 + K' + 1 per row, "
        "exact: p), three operations per feature, or two where a matrix product gives them; so pruning counts as speed.\n\n| search, p = 1000, K = 5 | time | GFLOP/s | share of peak |\n|---|---|---|---|\n"
    )
    for name, r in peak["search"].items():
        text += f"| {name} | {r['seconds']:.2f} s | {r['gflops']:.0f} | {r['share']:.0%} |\n"
    return text + "\n"


def search(stored: dict[str, Any]) -> str:
    """Write the search for nearest representatives against matrix products, before and after small products."""
    text = "## Nearest representatives against one matrix product\n\n" + about(stored["machine"])
    loads = [line["load"] for name in ("before", "now") for line in stored[name].values()]
    text += (
        "The time of the search over that of one float32 product of N rows with as many columns as the search has "
        "distances by definition (z1 + p / z1 + K' + 1, p, or z1 + the probed ones); K = 5, `search.py`. *Before* is one "
        "row at a time, *now* are small products. **The machine was not idle** (load "
        f"{min(loads):.0f} to {max(loads):.0f} on {stored['machine']['cores']} cores), so ratios of CPU seconds decide "
        "what is met, on all lines, to a product on one thread; those of wall time, to a product on all cores, are beside "
        "them. Each is a median of three, of a half (p = 1,000) or a fifth of the rows of the lines in `search.py`; differences "
        "of a tenth mean nothing. *Faster* is by CPU seconds of the search alone. *Mean cell* is the size of the rep-cluster of a representative, on average: where it "
        "is far above p / z1, the search of the paper has more distances than its definition counts. Lines with * project "
        "rows: most distances are excluded, and the ratio counts that, so it may be below one. 20 or 30 Gaussian classes; "
        "384 features are one cloud without structure.\n\n"
        "| rows x features | p | search | mean cell | before: CPU (wall) | now: CPU (wall) | faster | GFLOP/s a core | share of peak | asked | met |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    for key, now in stored["now"].items():
        before = stored["before"].get(key)
        old = f"{before['cpu_ratio']:.2f} ({before['ratio']:.2f})" if before else "not measured"
        faster = f"{before['cpu_seconds'] / now['cpu_seconds']:.1f} x" if before else ""
        star = "*" if now["projects"] else ""
        text += f"| {now['rows']:,} x {now['features']} | {now['representatives']:,} | {now['search']}{star} | "
        text += f"{now['mean_cell']:.0f} | {old} | {now['cpu_ratio']:.2f} ({now['ratio']:.2f}) | {faster} | "
        text += f"{now['gflops_per_core']:.0f} | {now['gflops_per_core'] / stored['peak_now']:.0%} | "
        text += f"≤ {now['limit']} | {verdict(now['cpu_ratio'] <= now['limit'])} |\n"
    return text + "\n"


# what plain USPEC(k) was asked to reach: score (0 AMI, 2 NMI), in %
DEFAULT_GOALS = {
    "PenDigits": (0, 85.0),
    "USPS": (0, 85.0),
    "Letters": (0, 50.0),
    "MNIST": (0, 90.0),
    "Covertype": (2, 10.0),
    "TB-1M": (2, 97.0),
    "SF-2M": (2, 95.0),
    "CC-5M": (2, 99.8),
    "CG-10M": (2, 94.0),
    "Flower-20M": (2, 98.0),
}
VARIANTS = {
    "quality": "U-SPEC of the paper",
    "quality_usenc": "U-SENC of the paper",
    "quality_average": "U-SENC of the paper, average linkage (removed)",
}


def default(stored: dict[str, Any]) -> str:
    """Write the scores of plain `USPEC(k)`."""
    text = "## Plain `USPEC(k)`\n\n" + about(stored["machine"])
    text += "Seeds and draws that were not used to choose anything (`default.py`). Scores in %.\n\n"
    text += default_report(stored) + "\n\n| data set | score | asked | mean | met |\n|---|---|---|---|---|\n"
    for title, (column, goal) in DEFAULT_GOALS.items():
        runs = stored.get("sets", {}).get(title)
        if runs:
            mean = float(np.mean([run["scores"][column] for run in runs.values()]))
            text += f"| {title} | {SCORES[column]} | {goal} | {mean:.2f} | {verdict(round(mean, 2) >= goal)} |\n"
    return text + "\n"


def n_clusters(stored: dict[str, Any]) -> str:
    """Write the numbers of clusters that were found."""
    text = '## The number of clusters: `n_clusters="auto"`\n\n' + about(stored["machine"])
    text += "Seeds and draws that were not used to choose anything (`n_clusters.py`), a number for each. HDBSCAN's "
    text += "clusters are without its noise; k-means is compared at 16 numbers, the right ones among them. The generated groups ran before the last change "
    text += (
        "of the rule (halves are compared up to all leaves of their trees), the real sets after it; the structureless "
    )
    text += "group is not complete.\n\n"
    return text + n_clusters_report(stored) + "\n\n"


def trust(stored: dict[str, Any]) -> str:
    """Write the calibration of the confidence, and how well outliers are found."""
    text = "## Confidence and outliers\n\n" + about(stored["machine"])
    text += (
        "One seed that was not used to choose anything (`trust.py`); two for outliers. A row is right if its cluster "
    )
    text += "is the one that is matched with its class. Among rows of confidence c a share close to c should be right: "
    text += "the calibration error is the mean difference over ten bins.\n\n"
    return text + trust_report(stored) + "\n\n"


def variants(stored: dict[str, Any]) -> str:
    text = "## Ways to divide the graph\n\n" + about(stored["machine"])
    text += "CG, 10,000,000 x 2, against `KMeans(11, n_init=1)`; `USPEC(11, discretize=...)` as named:\n\n"
    text += ratio_table(stored["ratios"], "U-SPEC")
    tree = stored["tree"]
    text += f"\nThe trees of 1000 representatives of a judging graph take {tree['seconds']:.3f} s on one core "
    text += f"(asked ≤ {tree['limit']} s: {verdict(tree['seconds'] <= tree['limit'])}).\n\n"
    runs = {name: results(name).get("runs", {}) for name in VARIANTS}
    text += "Methods of the paper with regularization=1e-3: NMI in %, mean ± standard deviation (seeds); the last five "
    text += "sets come from our generators:\n\n"
    text += f"| data set | {' | '.join(VARIANTS.values())} |\n|{'---|' * (len(VARIANTS) + 1)}\n"
    for title, *_ in SETS:
        cells = [nmi_cell(runs[name].get(title)) for name in VARIANTS]
        text += f"| {title} | {' | '.join(cells)} |\n"
    return text + "\n"


def nmi_cell(runs: list[list[float]] | None) -> str:
    if not runs:
        return ""
    scores = scores_of(runs, 0)
    return f"{scores.mean():.1f} ± {scores.std():.1f} ({len(scores)})"


def ratio_table(ratios: dict[str, Any], method: str) -> str:
    text = f"| data | {method} | peer | peer's time | ratio | asked | met |\n|---|---|---|---|---|---|---|\n"
    for name, r in ratios.items():
        own, peer = np.median(r["seconds"]), np.median(r["peer_seconds"])
        met = verdict(r["ratio"] <= r["limit"])
        text += f"| {name} | {own:.2f} s | {r['peer']} | {peer:.2f} s | {r['ratio']:.2f} | ≤ {r['limit']} | {met} |\n"
    return text


def memory_line(used: dict[str, Any]) -> str:
    above, limit = used["bytes_above_input"], used["limit"]
    measured = f"{above / 1e6:.0f} MB ({above / used['rows']:.0f} bytes a row)"
    asked = f"≤ {limit / 1e6:.0f} MB" if limit else ""
    return f"| peak memory above the input, {used['set']} | {measured} | {asked} | {verdict(above <= limit) if limit else ''} |\n"


def speed_usenc(stored: dict[str, Any]) -> str:
    text = "## Speed and memory of U-SENC\n\n" + about(stored["machine"])
    text += "m = 20. Warm, medians of alternating runs, float32 input, all cores.\n\n"
    text += ratio_table(stored["ratios"], "U-SENC")
    text += "\n`consensus` alone against `np.unique` of one column of the same label matrix:\n\n"
    text += ratio_table(stored["consensus"], "consensus")
    text += "\n| what | measured | asked | met |\n|---|---|---|---|\n"
    for used in stored["memory"].values():
        text += memory_line(used)
    return text + "\n"


def out_of_core(stored: dict[str, Any]) -> str:
    rows, limit = stored["rows"], stored["limit"]
    text = "## Rows from files\n\n" + about(stored["machine"])
    text += (
        f"U-SPEC on {rows:,} x 2 float32 values (CG, 11 clusters). Memory is the most that was resident above the interpreter "
        "with everything imported and compiled. Both files give the same labels, bit for bit.\n\n"
        "| file | size | time | memory | asked | met |\n|---|---|---|---|---|---|\n"
    )
    for suffix, run in stored["runs"].items():
        above = run["bytes_above"]
        text += f"| .{suffix} | {run['file_bytes'] / 1e6:.0f} MB | {run['seconds']:.0f} s | {above / 1e6:.0f} MB | "
        text += f"< {limit / 1e6:.0f} MB | {verdict(above < limit)} |\n"
    return text + "\n"


def billion(stored: dict[str, Any]) -> str:
    runs, limits = stored["runs"], stored["limits"]
    text = "## A billion rows\n\n" + about(stored["machine"])
    text += (
        "CG, 11 clusters, from a .npy file made by `ultraspec generate`, or Parquet; memory is the most that was resident, the "
        "interpreter included. Time per row is set beside that of 10 million rows in memory, in the same session. The "
        "killed fits had a checkpoint, were ended by SIGKILL and started again; their time is that of the second start, "
        "and their labels must be those of the undisturbed fit. What they printed is in [billion.log](billion.log).\n\n"
        "| fit | rows | time | time per row, x in memory | asked | memory | asked | labels |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    for name, run in runs.items():
        base = runs.get(f"{name.split()[0]} 10M in memory")
        text += f"| {name} | {run['rows']:,} | {run['seconds']:.1f} s | "
        if "in memory" in name or base is None:
            text += f"| | {run['resident_bytes'] / 1e6:.0f} MB | | |\n"
            continue
        killed = name.endswith("killed")
        times = run["seconds"] / run["rows"] / base["seconds"] * base["rows"]
        same = runs.get(name.removesuffix(" killed"), {}).get("labels") == run["labels"]
        text += (
            "resumed | | " if killed else f"{times:.2f} | <= {limits['times']} ({verdict(times <= limits['times'])}) | "
        )
        text += f"{run['resident_bytes'] / 1e6:.0f} MB | < {limits['bytes'] / 1e6:.0f} MB "
        text += f"({verdict(run['resident_bytes'] < limits['bytes'])}) | {('the same' if same else 'OTHERS') if killed else ''} |\n"
    return text + "\n"


def dask_scaling(stored: dict[str, Any]) -> str:
    model, far = stored["model"], stored["ten_billion"]
    text = "## On a Dask cluster\n\n" + about(stored["machine"])
    text += (
        "U-SPEC on CG, 11 clusters, from a .npy file whose chunks the workers read themselves; workers are processes of one "
        "thread on this machine. The model has three costs, from the runs with one worker: "
        f"{model['once']:.2f} s once, {1e3 * model['per_chunk']:.0f} ms a chunk, {1e9 * model['per_row']:.0f} ns a row.\n\n"
        "| workers | rows | rows a chunk | time | the model says | between workers |\n|---|---|---|---|---|---|\n"
    )
    for run in stored["runs"]:
        text += f"| {run['workers']} | {run['rows']:,} | {run['chunk_rows']:,} | {run['seconds']:.2f} s | "
        text += f"{run['predicted']:.2f} s | {run['bytes_between_workers'] / 1e6:.0f} MB |\n"
    if "cpu_per_row" in stored:
        dask, threads = stored["cpu_per_row"]["dask"], stored["cpu_per_row"]["threads"]
        text += (
            f"\nA further row costs {1e9 * dask:.0f} ns of CPU time, {dask / threads:.2f} times that of the thread engine "
            f"(asked: at most 1.3). Two workers are {stored['speedup']:.2f} times as fast as one (asked: at least 1.85).\n"
        )
    return text + (
        f"\nTen billion rows on 100 nodes of 8 threads, in {far['chunks']:,} chunks of 8 million: the model says "
        f"{far['seconds']:.0f} s and {far['bytes_moved'] / 1e9:.0f} GB moved, which nobody has measured.\n\n"
    )


def phases(stored: dict[str, Any]) -> str:
    peaks = stored["after"]["peaks"]
    text = "## Where the time goes\n\n" + about(stored["machine"])
    text += (
        "CPU seconds of the phases of one fit on one thread, before and after the graph of a sample, labels without a search "
        "and deferred base labels (`benchmarks/phases.py`). *survey* is also given as a share of the memory bandwidth "
        f"({peaks['bytes'] / 1e9:.1f} GB/s: X is read once), the search of the *neighbors* as a share of the matrix-product peak "
        f"({peaks['flops'] / 1e9:.0f} GFLOP/s; counted are p distances per row that is searched, most of which are excluded "
        "unseen for few features).\n\n| fit | phase | before | after | after, share of the fit | share of peak or bandwidth |\n"
        "|---|---|---|---|---|---|\n"
    )
    before = stored.get("before", {"lines": {}})["lines"]
    for name, line in stored["after"]["lines"].items():
        total = sum(line["cpu"].values())
        old = before.get(name, {"cpu": {}})["cpu"]
        for phase, seconds in line["cpu"].items():
            cells = [f"{old[phase]:.2f} s" if phase in old else "", f"{seconds:.2f} s", f"{seconds / total:.0%}"]
            text += f"| {name} | {phase} | {' | '.join(cells)} | {share_of_peak(line, phase, seconds, peaks)} |\n"
        text += f"| {name} | **all** | {f'{sum(old.values()):.2f} s' if old else ''} | {total:.2f} s | | |\n"
    return text + "\n"


def share_of_peak(line: dict[str, Any], phase: str, seconds: float, peaks: dict[str, float]) -> str:
    """Say which share of the machine's bandwidth or matrix-product peak a phase reached, where that makes sense."""
    sampled = min(line["rows"], 2_000_000, max(200_000, 2**26 // line["features"]))
    if phase == "survey" and seconds > 0:
        return f"{4 * line['features'] * sampled / seconds / peaks['bytes']:.0%}"
    if phase == "neighbors" and line["exact"]:
        return f"{2 * sampled * line['p'] * line['q'] / seconds / peaks['flops']:.0%}"
    return ""


def wide(stored: dict[str, Any]) -> str:
    text = "## Many rows of many features\n\n" + about(stored["machine"])
    text += (
        f"{stored['rows']:,} x 128 float32 values in 30 overlapping classes, from files (`benchmarks/wide.py`). Medians; CPU time "
        "of a fit is set beside that of reading the file once and of MiniBatchKMeans(30), which reads it twice.\n\n"
        "| file | fit: CPU time | x reading | x MiniBatchKMeans | NMI | NMI of MiniBatchKMeans | memory | asked | met |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    for name, runs in stored["runs"].items():
        cpu = {what: float(np.median([run["cpu_seconds"] for run in each])) for what, each in runs.items()}
        most = max(run["resident_bytes"] for run in runs["fit"])
        peer = runs.get("kmeans")
        cells = [f"{cpu['fit']:.1f} s", f"{cpu['fit'] / cpu['read']:.1f}"]
        cells += [f"{cpu['fit'] / cpu['kmeans']:.2f}" if peer else "", f"{100 * runs['fit'][0]['nmi']:.1f}"]
        cells += [
            f"{100 * peer[0]['nmi']:.1f}" if peer else "",
            f"{most / 1e6:.0f} MB",
            f"< {stored['limit'] / 1e6:.0f} MB",
        ]
        text += f"| {name} | {' | '.join(cells)} | {verdict(most < stored['limit'])} |\n"
    return text + "\n"


def secuer(stored: dict[str, Any]) -> str:
    peer = next(iter(next(iter(stored["runs"].values())).values()))["fits"][0]["theirs"]
    versions = ", ".join(f"{name} {version}" for name, version in peer["versions"].items())
    text = "## Beside Secuer\n\n" + about(stored["machine"])
    text += (
        f"[Secuer](https://github.com/nanawei11/Secuer) is the other U-SPEC in Python; here with Python {peer['python']}, "
        f"{versions}. Taken by `benchmarks/beside_secuer.py --python ...`. The number of clusters is given, p = 1000, K = 5, float32 rows, "
        "a process for each fit after a warm-up; the ensembles have the members each has by default (20; Secuer-consensus: 5). "
        "*cells* are 50 principal components of generated counts with 20 types, the rarest 40 times rarer than the commonest. "
        "Means over seeds, medians of times and of memory above the rows. ARI and NMI are against the classes; the last "
        "column is the ARI of the two with each other.\n\n"
    )
    text += f"**{stored['note']}**\n\n" if stored["note"] else ""
    names = {"single": ("U-SPEC", "Secuer"), "ensemble": ("U-SENC", "Secuer-consensus")}
    for pair, sets in stored["runs"].items():
        ours, theirs = names[pair]
        text += f"| data | rows x features | seeds | {ours}: ARI, NMI | {theirs} | {ours}: time | {theirs} | {ours}: memory | {theirs} | with each other |\n"
        text += "|---|---|---|---|---|---|---|---|---|---|\n"
        for title, run in sets.items():
            text += f"| {title} | {run['rows']:,} x {run['features']} | {len(run['fits'])} | {secuer_cells(run['fits'])} |\n"
        text += "\n"
    return text


def secuer_cells(fits: list[dict[str, Any]]) -> str:
    means = {name: np.mean([fit["scores"][name] for fit in fits], axis=0) for name in ("ours", "theirs", "each_other")}
    cells = ["{:.3f}, {:.3f}".format(*means[side]) for side in ("ours", "theirs")]
    for key, form, unit in (("seconds", "{:.1f} s", 1), ("bytes_above_input", "{:.0f} MB", 1e6)):
        cells += [form.format(np.median([fit[side][key] for fit in fits]) / unit) for side in ("ours", "theirs")]
    return " | ".join([*cells, f"{means['each_other'][0]:.3f}"])


def text() -> str:
    """Return RESULTS.md."""
    text = HEAD
    sections: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("speed", speed),
        ("search", search),
        ("default", default),
        ("n_clusters", n_clusters),
        ("trust", trust),
        ("quality", quality),
        ("speed_usenc", speed_usenc),
        ("quality_usenc", lambda stored: quality(stored, "U-SENC")),
        ("speed_variants", variants),
        ("out_of_core", out_of_core),
        ("billion", billion),
        ("wide", wide),
        ("phases", phases),
        ("dask_scaling", dask_scaling),
        ("secuer", secuer),
    ]
    for name, write in sections:
        if stored := results(name):
            text += write(stored)
    return text.rstrip() + "\n"


def main() -> None:
    (HERE / "RESULTS.md").write_text(text(), encoding="utf-8")
    print("wrote RESULTS.md")
    figures.write()


if __name__ == "__main__":
    main()
