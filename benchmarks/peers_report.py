"""Writes docs/guides/compare.md and its pictures from results/peers.jsonl: ``python benchmarks/peers_report.py``.

Everything on the page comes from the store, except the reasons. ``--text`` leaves the pictures as they are.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable
from typing import Any

from common import HERE
from peers import PEERS, SETS, SETTING_ROWS, STORE, SYNTHETIC_ROWS, Peer
from which_data import SETTINGS

from ultraspec.reproduce.store import Record, read

DOCS = HERE.parent / "docs"
PAGE = DOCS / "guides" / "compare.md"
OURS = ("USPEC", "USENC", 'USPEC("auto")')
BETTER = 1.0  # points of AMI, beyond the deviations of seeds, that count as better
FASTER = 1.5

HEAD = """# How does it compare?

Scores and times of this library and of others on the same data, on the same machine, each fit in a process of its own. This page is
written by `benchmarks/peers_report.py` from the runs in `benchmarks/results/peers.jsonl`; `make peers` repeats or continues them.

- Every method has its own default parameters, or those that its documentation advises for clustering ([settings](#settings)).
  Nothing is chosen by the known classes, except the number of clusters where a method takes it (*k given*).
- Scores are in %, on all rows. AMI is adjusted for chance, so that many small clusters are no advantage. Methods that leave rows
  without a cluster have two scores: with these rows as one cluster of noise and, after the slash, with each of them in the cluster of
  its nearest clustered row.
- A score without a deviation is that of a single seed.
- The real data are in full. The synthetic sets of the paper have {rows:,} rows here, because most methods cannot do millions.
- A run ends after 10 minutes or at 16 GB. That is all we say about such methods: they may well finish later.

"""

# why a peer has a higher score or is faster, where it was measured or follows from what it does
FINER = "a graph of all rows: with representatives, even their true classes vote for less than that on images"
MORE = "several clusters for each letter, which has many shapes; ours finds fewer"
GRAPHS_OF_ROWS = ("Leiden", "Leiden to k", "UMAP + HDBSCAN", "EVoC", "SpectralClustering, neighbours")
QUICKER = {
    "KMeans": "no graph",
    "MiniBatchKMeans": "no graph, and few rows are read",
    "faiss Kmeans": "no graph, and centres are trained on a sample",
}

ADVICE = {
    "SpectralClustering, neighbours": '`affinity="nearest_neighbors"`, else defaults',
    "Leiden": "as scanpy does it: UMAP's weights of 15 neighbours, modularity at resolution 1, two iterations (igraph)",
    "Leiden to k": "the same, with the resolution searched in up to 20 steps until there are k clusters",
    "UMAP + HDBSCAN": "UMAP's tutorial on clustering: 30 neighbours, `min_dist=0`; clusters of at least 1/140 of the rows, "
    "10 samples (no seed, which would restrict UMAP to one thread)",
    "fast_hdbscan, large clusters": "clusters of at least 1/140 of the rows, 10 samples, as above",
}


class Results:
    """The runs of the store, by data set and method."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.groups: dict[tuple[str, str], list[Record]] = {}
        for record in records:
            self.groups.setdefault((record["dataset"], record["method"]), []).append(record)

    def runs(self, dataset: str, method: str) -> list[Record]:
        """Return the runs with scores."""
        return [record for record in self.groups.get((dataset, method), []) if record["na"] is None]

    def failure(self, dataset: str, method: str) -> Record | None:
        """Return a run without scores, if there are no others."""
        found = self.groups.get((dataset, method), [])
        return found[-1] if found and not self.runs(dataset, method) else None

    def values(self, dataset: str, method: str, field: str) -> list[float]:
        return [record[field] for record in self.runs(dataset, method) if field in record]

    def has(self, dataset: str) -> bool:
        return any(name == dataset for name, _ in self.groups)

    def clock(self, datasets: Iterable[str]) -> str:
        """Return which time to show: CPU time where the machine did other work too."""
        chosen = set(datasets)
        runs = [record for (name, _), group in self.groups.items() if name in chosen for record in group]
        busy = any((record["load"] or 0.0) > record["threads"] for record in runs)
        return "cpu_seconds" if busy else "seconds"


def spread(values: list[float]) -> str:
    text = f"{statistics.fmean(values):.1f}"
    return text + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")


def both(results: Results, dataset: str, method: str, field: str) -> str:
    """Format a score, after a slash with noise assigned."""
    text = spread(results.values(dataset, method, field))
    assigned = results.values(dataset, method, f"assigned_{field}")
    return text + (f" / {spread(assigned)}" if assigned else "")


def best_ami(results: Results, dataset: str, method: str) -> list[float]:
    """Return AMI by seed, the better of both ways to count noise."""
    ways = [results.values(dataset, method, field) for field in ("ami", "assigned_ami")]
    return max((way for way in ways if way), key=statistics.fmean, default=[])


def seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 10 else f"{value:,.0f} s"


def quality_table(results: Results, dataset: str, clock: str) -> str:
    lines = ["| method | k | clusters | AMI | ARI | Hungarian accuracy | NMI | time | memory |", "|---" * 9 + "|"]
    rows: list[tuple[float, str]] = []
    for peer in PEERS:
        runs, failed = results.runs(dataset, peer.title), results.failure(dataset, peer.title)
        name = f"**{peer.title}**" if peer.title in OURS else peer.title
        given = "given" if peer.k_given else "found"
        if runs:
            found = sorted(run["found_clusters"] for run in runs)
            clusters = f"{found[0]:,}" if found[0] == found[-1] else f"{found[0]:,}–{found[-1]:,}"
            noise = statistics.fmean(run["noise"] for run in runs)
            clusters += f", {noise:.0%} noise" if noise >= 0.005 else ""
            cells = [both(results, dataset, peer.title, field) for field in ("ami", "ari", "hungarian", "nmi")]
            time = seconds(statistics.median(results.values(dataset, peer.title, clock)))
            memory = f"{max(run['peak_bytes'] for run in runs) / 1e9:.1f} GB"
            score = statistics.fmean(best_ami(results, dataset, peer.title))
            rows.append((-score, f"| {name} | {given} | {clusters} | {' | '.join(cells)} | {time} | {memory} |"))
        elif failed is not None:
            rows.append((1.0, f"| {name} | {given} | | {_why(failed)} | | | | | |"))
        else:
            rows.append((2.0, f"| {name} | {given} | | not run yet | | | | | |"))
    return "\n".join([*lines, *(line for _, line in sorted(rows, key=lambda row: row[0]))])


def _why(record: Record) -> str:
    reasons = {"time": "more than 10 minutes", "memory": "more than 16 GB"}
    return reasons.get(record["na"], f"failed: {(record['reason'] or '').replace('|', '/')[:80]}")


def settings_table(results: Results) -> str:
    """Average over those generated settings that all methods with runs there have."""
    peers = [peer for peer in PEERS if any(results.runs(name, peer.title) for name in SETTINGS)]
    common = [name for name in SETTINGS if peers and all(results.runs(name, peer.title) for peer in peers)]
    if not common:
        return ""
    lines = [f"| method | k | mean AMI on {len(common)} settings | worst | median time |", "|---" * 5 + "|"]
    clock = results.clock(common)
    rows = []
    for peer in peers:
        means = [statistics.fmean(best_ami(results, name, peer.title)) for name in common]
        time = statistics.median(statistics.median(results.values(name, peer.title, clock)) for name in common)
        name = f"**{peer.title}**" if peer.title in OURS else peer.title
        given = "given" if peer.k_given else "found"
        mean = statistics.fmean(means)
        rows.append((-mean, f"| {name} | {given} | {mean:.1f} | {min(means):.1f} | {seconds(time)} |"))
    return "\n".join([*lines, *(line for _, line in sorted(rows))])


def better_table(results: Results) -> str:
    """List for each peer the data sets on which it beats the best of ours that knows as much, and where it is faster."""
    lines = ["| method | higher AMI than ours on | faster than `USPEC` on | reason, if known |", "|---" * 4 + "|"]
    for peer in PEERS:
        if peer.title in OURS:
            continue
        rivals = OURS[:2] if peer.k_given else OURS[2:]
        higher, faster, won = [], [], []
        for dataset in SETS:
            theirs = best_ami(results, dataset, peer.title)
            ours = [best_ami(results, dataset, rival) for rival in rivals]
            ours = [values for values in ours if values]
            if not theirs or not ours:
                continue
            best = max(ours, key=statistics.fmean)
            gain = statistics.fmean(theirs) - statistics.fmean(best)
            noise = sum(statistics.stdev(values) if len(values) > 1 else 0.0 for values in (theirs, best))
            if gain > max(BETTER, noise):
                won.append(dataset)
                higher.append(f"{dataset} ({statistics.fmean(theirs):.1f}, ours {statistics.fmean(best):.1f})")
            clock = results.clock([dataset])
            rival = OURS[0] if peer.k_given else OURS[2]
            times = [results.values(dataset, name, clock) for name in (peer.title, rival)]
            if all(times) and statistics.median(times[1]) > FASTER * statistics.median(times[0]):
                faster.append(f"{dataset} ({statistics.median(times[1]) / statistics.median(times[0]):.0f} ×)")
        if higher or faster:
            reasons = [_why_higher(peer, dataset) for dataset in won] + [QUICKER.get(peer.title, "") * bool(faster)]
            reason = "; ".join(dict.fromkeys(part for part in reasons if part)) or "–"
            lines.append(f"| {peer.title} | {', '.join(higher) or '–'} | {', '.join(faster) or '–'} | {reason} |")
    return "\n".join(lines)


def _why_higher(peer: Peer, dataset: str) -> str:
    if dataset == "Letters" and not peer.k_given:
        return f"Letters: {MORE}"
    return f"{dataset}: {FINER}" if dataset in ("MNIST", "USPS") and peer.title in GRAPHS_OF_ROWS else ""


def time_sets(results: Results) -> list[tuple[int, int]]:
    """Return (features, rows) of the timing runs in the store."""
    names = {name for name, _ in results.groups if " x " in name}
    return sorted({(int(name.split(" x ")[1]), int(name.split(" x ")[0])) for name in names})


def time_table(results: Results) -> str:
    sets = time_sets(results)
    clock = results.clock(f"{n} x {d}" for d, n in sets)
    lines = ["| method | " + " | ".join(f"{n:,} x {d}" for d, n in sets) + " |", "|---" * (len(sets) + 1) + "|"]
    for peer in PEERS:
        cells = []
        for d, n in sets:
            name = f"{n} x {d}"
            values, failed = results.values(name, peer.title, clock), results.failure(name, peer.title)
            cells.append(seconds(statistics.median(values)) if values else _why(failed) if failed is not None else "–")
        if any(cell != "–" for cell in cells):
            lines.append(f"| {peer.title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def peers_table(results: Results) -> str:
    lines = ["| method | package | k | settings |", "|---" * 4 + "|"]
    for peer in PEERS:
        found = [record for (_, method), group in results.groups.items() if method == peer.title for record in group]
        versions = sorted({record["parameters"]["version"] for record in found})
        package = f"{peer.package} {', '.join(versions)}" if versions else f"{peer.package}, not run"
        settings = ADVICE.get(peer.title, "defaults")
        lines.append(f"| {peer.title} | {package} | {'given' if peer.k_given else 'found'} | {settings} |")
    return "\n".join(lines)


def text() -> str:
    """Return the page."""
    results = Results(read(STORE))
    done = [dataset for dataset in SETS if results.has(dataset)]
    parts = [HEAD.format(rows=SYNTHETIC_ROWS)]
    machines = {
        f"{record['machine']['cpu']}, {record['machine']['cores']} cores, {record['threads']} threads"
        for group in results.groups.values()
        for record in group
    }
    missing = [dataset for dataset in SETS if dataset not in done]
    parts.append(f"Machine: {'; '.join(sorted(machines))}.")
    parts.append(f" Not run yet: {', '.join(missing)}.\n\n" if missing else "\n\n")
    parts.append("## Where others are better\n\n")
    parts.append(
        'Compared with the better of `USPEC(k)` and `USENC(k)` if the number of clusters is given, with `USPEC("auto")` if it is '
        f"not. Higher: by more than {BETTER:g} point and more than the deviations of the seeds. Faster: {FASTER:g} times at least. "
        "For noise, the better of both ways to count it.\n\n" + better_table(results) + "\n\n"
    )
    parts.append("## Scores and times by data set\n\n")
    parts.append("![AMI against time for each data set](../images/compare-quality.png)\n\n")
    for dataset in done:
        clock = results.clock([dataset])
        runs = [record for (name, _), group in results.groups.items() if name == dataset for record in group]
        size = f"{runs[0]['rows']:,} rows, {runs[0]['features']} features, {runs[0]['clusters']} classes"
        note = " Times are CPU times, because the machine did other work too." if clock == "cpu_seconds" else ""
        parts.append(f"### {dataset}\n\n{size}.{note}\n\n{quality_table(results, dataset, clock)}\n\n")
    table = settings_table(results)
    if table:
        parts.append("## Generated data\n\n")
        parts.append(
            f"Classes of known shape, size and nearness (`benchmarks/which_data.py`), {SETTING_ROWS:,} rows each.\n\n{table}\n\n"
        )
    parts.append("## Time against the number of rows\n\n")
    if time_sets(results):
        parts.append(f"![Time against rows](../images/compare-time.png)\n\n{time_table(results)}\n\n")
    else:
        parts.append(
            "Not measured yet: it needs a machine that does nothing else (`python benchmarks/peers.py time`).\n\n"
        )
    parts.append(f"## Settings\n\n{peers_table(results)}\n")
    return "".join(parts)


def draw(results: Results) -> None:
    """Draw both pictures."""
    import sys

    sys.path.insert(0, str(DOCS))
    from pages import save_picture

    done = [dataset for dataset in SETS if results.has(dataset)]
    if done:
        save_picture(draw_quality(results, done), DOCS / "images" / "compare-quality.png")
    if time_sets(results):
        save_picture(draw_time(results), DOCS / "images" / "compare-time.png")


def _style(peer: Peer) -> dict[str, Any]:
    """Return marker and colour; ours are blue."""
    index = [other.title for other in PEERS].index(peer.title)
    if peer.title in OURS:
        return {"color": "#1f5fbf", "marker": dict(zip(OURS, "oPs", strict=True))[peer.title]}
    return {"color": f"C{1 + index % 8}", "marker": "D^v<>pX*hd"[index % 10]}


def draw_quality(results: Results, done: list[str]) -> Any:
    import matplotlib.pyplot as plt

    columns = min(3, len(done))
    lines = -(-len(done) // columns)
    size = (4.1 * columns, 3.0 * lines + 0.9)
    figure, axes = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat[len(done) :]:
        ax.axis("off")
    for ax, dataset in zip(axes.flat, done, strict=False):
        clock = results.clock([dataset])
        for peer in PEERS:
            values = best_ami(results, dataset, peer.title)
            if values:
                time = statistics.median(results.values(dataset, peer.title, clock))
                ax.plot(time, statistics.fmean(values), linestyle="", label=peer.title, markersize=7, **_style(peer))
        what = "CPU seconds" if clock == "cpu_seconds" else "seconds"
        ax.set(title=dataset, xscale="log", xlabel=what, ylabel="AMI (%)")
        ax.grid(alpha=0.3)
    _legend(figure, axes.flat, columns)
    return figure


def draw_time(results: Results) -> Any:
    import matplotlib.pyplot as plt

    sets = time_sets(results)
    features = sorted({d for d, _ in sets})
    clock = results.clock(f"{n} x {d}" for d, n in sets)
    figure, axes = plt.subplots(
        1, len(features), figsize=(4.3 * len(features), 4.2), layout="constrained", squeeze=False
    )
    for ax, d in zip(axes.flat, features, strict=True):
        for peer in PEERS:
            points = [(n, results.values(f"{n} x {d}", peer.title, clock)) for e, n in sets if e == d]
            known = [(n, statistics.median(values)) for n, values in points if values]
            if known:
                ax.plot(*zip(*known, strict=True), label=peer.title, **_style(peer))
        title = f"{d} features"
        ax.set(
            title=title,
            xscale="log",
            yscale="log",
            xlabel="rows",
            ylabel="CPU seconds" if "cpu" in clock else "seconds",
        )
        ax.grid(alpha=0.3)
    _legend(figure, axes.flat, len(features))
    return figure


def _legend(figure: Any, axes: Iterable[Any], columns: int) -> None:
    """Show each method once, below all axes."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    order = [peer.title for peer in PEERS if peer.title in found]
    figure.legend(
        [found[name] for name in order], order, loc="outside lower center", ncols=2 * columns, fontsize=8, frameon=False
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", action="store_true", help="leave the pictures as they are")
    if not parser.parse_args().text:
        draw(Results(read(STORE)))
    PAGE.write_text(text(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
