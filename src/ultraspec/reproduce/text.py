"""Figures as the tables write them."""

from __future__ import annotations

from ultraspec.reproduce.declarations import Dataset
from ultraspec.reproduce.paper import Figure
from ultraspec.reproduce.summary import Cell, Entry, Summary

NAMES = {"nmi": "NMI (%)", "ca": "CA (%)", "seconds": "time (s)"}
SHORT = {"nmi": "NMI", "ca": "CA", "seconds": "time"}
TITLES = {"Nystrom": "Nyström"}
DAGGER = "†"
RECONSTRUCTED = (
    f"{DAGGER} A reconstruction: the paper's own synthetic data were never published. These sets were made to match "
    "its Figure 5, so their figures compare with the paper's only so far."
)
DRAWN = (
    "The paper draws most of Tables 10 to 16 without deviations: a point is then judged by that of the default setting."
)
BEYOND = "; *beyond*: ours ran where the paper's did not, *short of*: the other way round"
BOLD = "**Bold** is our best in the row; as in the paper, the method that is listed for reference only takes no part"


def title(method: str) -> str:
    """A method's name as people write it."""
    return TITLES.get(method, method)


def set_name(dataset: Dataset) -> str:
    """A data set's name, marked if it is a reconstruction."""
    return dataset.title + (DAGGER if dataset.reconstructed else "")


def number(value: float, metric: str) -> str:
    """A mean.

    Examples
    --------
    >>> number(85.336, "nmi"), number(0.0213, "seconds"), number(1234.6, "seconds")
    ('85.34', '0.02', '1,235')
    """
    if metric != "seconds":
        return f"{value:.2f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def own(cell: Cell | None, metric: str) -> str:
    """What we have."""
    if cell is None:
        return "–"
    if cell.mean is None:
        return "N/A"
    std = "" if cell.std is None or metric == "seconds" else f" ± {cell.std:.2f}"
    return number(cell.mean, metric) + std


def theirs(figure: Figure | None, metric: str, listed: bool = True) -> str:
    """What the paper has."""
    if not listed:
        return "–"
    if figure is None:
        return "N/A"
    return number(figure.mean, metric) + ("" if figure.std is None else f" ± {figure.std:.2f}")


def difference(entry: Entry) -> str:
    """How far they are apart: in the paper's standard deviations, in points where these are zero, as a ratio of times.

    Examples
    --------
    >>> difference(Entry("", "", "nmi", Cell(5, 82.0, 1.0), Figure(80.0, 2.0), True))
    '+1.0 σ'
    >>> difference(Entry("", "", "seconds", Cell(5, 2.0, None), Figure(10.0, None), True))
    '5.0 × faster'
    """
    if entry.points is None or entry.ours is None or entry.ours.mean is None or entry.paper is None:
        return {"ran": "beyond", "failed": "short of"}.get(entry.verdict, "")
    if entry.metric == "seconds":
        return ratio(entry.paper.mean, entry.ours.mean)
    if entry.sigmas is None:
        return f"{signed(entry.points, 2)} pt"
    return f"{signed(entry.sigmas, 1)} σ"


def ratio(paper: float, ours: float) -> str:
    """How many times faster, or slower."""
    times = paper / max(ours, 1e-9)
    return f"{_times(times)} × faster" if times >= 1 else f"{_times(1 / times)} × slower"


def _times(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def signed(value: float, digits: int) -> str:
    """A number with its sign; zero has none.

    Examples
    --------
    >>> signed(-0.04, 1), signed(0.26, 1), signed(-3, 1)
    ('0.0', '+0.3', '−3.0')
    """
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return ("+" if value > 0 else "−") + text


def made_by(summary: Summary) -> list[str]:
    """Sentences about the machine and what else readers need to know."""
    facts, n = summary.facts(), len(summary.rows)
    if not n:
        return ["Nothing was run yet."]
    days = sorted({facts["first"][:10], facts["last"][:10]})
    machines = "; ".join(
        f"{m['cpu']}, {m['cores']} cores" + (f", {m['memory_bytes'] / 1e9:.0f} GB" if m["memory_bytes"] else "")
        for m in facts["machines"]
    )
    versions = "; ".join(", ".join(f"{name} {v}" for name, v in found.items()) for found in facts["versions"])
    threads = " or ".join(str(count) for count in facts["threads"]) + " thread" + "s" * (facts["threads"] != [1])
    sentences = [
        f"{n:,} runs on {' to '.join(days)}, each in a process of its own with {threads}: {machines}; {versions}."
    ]
    if summary.clock == "cpu_seconds":
        sentences.append(
            f"{summary.crowded:.0%} of the runs shared the machine, with each other or with other work. The clock says "
            "little then, so times are those of the CPU, summed over threads: on idle cores they would be shorter. "
            "The paper's are those of the clock, on four cores. Scores do not depend on it."
        )
    return sentences


def quick_look(summary: Summary) -> str:
    """What runs on a share of the rows are, and which share it was.

    Examples
    --------
    >>> quick_look(Summary([], 0.01))
    'Only a share of the rows was used (--scale 0.01). These figures are not to be compared with the paper.'
    """
    rows = {row["dataset"]: row["rows"] for row in summary.rows}
    used = ": " + ", ".join(f"{count:,} of {name}" for name, count in rows.items()) if rows else ""
    share = f"Only a share of the rows was used (--scale {summary.scale}{used})."
    return f"{share} These figures are not to be compared with the paper."


def limits_text(summary: Summary) -> str:
    """What made a run N/A."""
    facts = summary.facts()
    memory = " or ".join(f"{limit / 1e9:.0f} GB" for limit in facts["memory_limits"]) or "no limit"
    seconds = " or ".join(f"{limit:,.0f} s" for limit in facts["time_limits"]) or "no limit"
    return (
        f"N/A: the run went beyond its memory ({memory}) or its time ({seconds}), or failed; the reasons are listed. "
        f"The paper's N/A mean that its 64 GB were not enough{'' if summary.quick else BEYOND}. A dash: not run."
    )
