"""The paper's experiments: declarations against the paper's tables, averages, the store, verdicts, tables, the page."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from tests.helpers.browser import Visit, open_browser
from tests.helpers.common import ROOT
from ultraspec import baselines, datasets
from ultraspec.reproduce import averages, declarations, markdown, members, page, paper, store, summary, text
from ultraspec.reproduce.charts import Point, Series, bars, lines
from ultraspec.reproduce.data import Prepared, prepare
from ultraspec.reproduce.declarations import DATASETS, METHODS, PAPER_SETS, TABLES, Run, plan
from ultraspec.reproduce.expectation import Expectation
from ultraspec.reproduce.paper import Figure
from ultraspec.reproduce.runner import Limits, settled
from ultraspec.reproduce.store import Store
from ultraspec.reproduce.summary import Cell, Entry, Summary
from ultraspec.reproduce.worker import Task, measure

COMPARISONS = [table for table in TABLES.values() if table.metric]
CURVES = [table for table in TABLES.values() if not table.metric]


def row(dataset="PenDigits", method="U-SPEC", seed=0, na=None, scale=1.0, parameters=None, **more):
    """Make a line of a store."""
    known = next((m for m in METHODS if m.title == method), None)
    return {
        "dataset": dataset,
        "scale": scale,
        "method": method,
        "parameters": dict(known.parameters if known else {}) if parameters is None else parameters,
        "seed": seed,
        "na": na,
        "reason": None if na is None else "out of memory: it held 9.1 GB",
        "estimator": known.estimator if known else "mine:Mine",
        "nmi": 80.0,
        "ca": 84.0,
        "seconds": 0.5,
        "cpu_seconds": 0.9,
        "run_seconds": 1.0,
        "rows": 10_992,
        "started": "2026-01-01T00:00:00Z",
        "threads": 2,
        "jobs": 1,
        "load": 0.5,
        "memory_limit_bytes": 9 * 10**9,
        "time_limit_seconds": 600.0,
        "machine": {"cpu": "a CPU", "cores": 2, "memory_bytes": 10**10},
        "versions": {"python": "3.11", "ultraspec": "0"},
        **more,
    }


# ------------------------------------------------------------------------------------------- declarations


@pytest.mark.parametrize("table", COMPARISONS, ids=lambda table: table.name)
def test_comparisons_are_complete(table):
    raw = paper._paper()["scores"][table.metric]
    assert set(table.datasets) == set(raw) == set(PAPER_SETS)
    ours = {method for method in table.methods if not method.endswith("(lib)")}
    other = "ensemble" if table.family == "spectral" else "spectral"
    rest = {method for t in COMPARISONS if t.family == other for method in t.methods}
    assert {method for methods in raw.values() for method in methods} <= ours | rest
    assert {"U-SPEC (lib)", "U-SENC (lib)"} <= set(table.methods)
    for dataset in table.datasets:
        for method in ours:
            assert paper.has(dataset, method)


@pytest.mark.parametrize("table", CURVES, ids=lambda table: table.name)
def test_curves_are_complete(table):
    raw = paper._paper()["curves"][table.name]
    assert set(table.datasets) == set(raw)
    labels = [setting.label for setting in table.settings]
    for figures in raw.values():
        assert set(figures) == set(paper.METRICS)
        for methods in figures.values():
            assert set(methods) <= set(table.methods)
            for points in methods.values():
                assert [point[0] for point in points] == [x for x in labels if x in {point[0] for point in points}]


def test_every_table_of_the_experiments_is_declared():
    assert list(TABLES) == [f"table{number}" for number in range(4, 17)]
    assert [d.title for d in DATASETS if d.reconstructed] == ["TB-1M", "SF-2M", "CC-5M", "CG-10M", "Flower-20M"]
    assert [d.name for d in DATASETS] == list(datasets.NAMES)


def test_our_methods_run_to_the_letter_and_with_the_librarys_defaults():
    known = {method.title: method for method in METHODS}
    for name in ("U-SPEC", "U-SENC"):
        assert known[name].with_setting({}) == {"regularization": 0.0}
        assert known[f"{name} (lib)"].with_setting({}) == {}
        assert known[f"{name} (lib)"].instead_of == name


def test_tables_share_runs_and_default_points():
    runs = plan(TABLES.values(), DATASETS, METHODS, runs=1)
    assert len(runs) == len(set(runs))
    everything = set(runs)
    assert set(plan([TABLES["table4"]], DATASETS, METHODS, runs=1)) <= everything
    assert Run("MNIST", 1.0, "U-SPEC", '{"n_representatives": 200, "regularization": 0.0}', 0) in everything
    assert Run("MNIST", 1.0, "LSC-K", '{"n_neighbors": 3, "selection": "kmeans"}', 0) in everything
    assert Run("MNIST", 1.0, "LWGP", '{"n_estimators": 30}', 0) in everything
    assert Run("MNIST", 1.0, "U-SENC", '{"neighbors": "exact", "regularization": 0.0}', 0) in everything
    # Nyström has no K: Table 11 draws its one figure as a line
    nystrom = {r.parameters for r in plan([TABLES["table11"]], DATASETS, METHODS, runs=1) if r.method == "Nystrom"}
    assert nystrom == {"{}"}


def test_all_estimators_take_their_parameters():
    from ultraspec.reproduce.worker import find

    for run in plan(TABLES.values(), DATASETS[3:4], METHODS, runs=1):
        method = next(m for m in METHODS if m.title == run.method)
        find(method.estimator)(n_clusters=3, random_state=0, n_jobs=1, **json.loads(run.parameters))


# ------------------------------------------------------------------------------------------- averages


@pytest.mark.parametrize("table", [t for t in COMPARISONS if t.metric != "seconds"], ids=lambda table: table.name)
def test_the_papers_averages_follow_from_its_own_scores(table):
    methods = [m for m in table.methods if not m.endswith("(lib)") and m != table.reference]
    figures = {d: {m: paper.printed(table.metric, d, m) for m in methods} for d in PAPER_SETS}
    scores = {d: {m: f and f.mean for m, f in found.items()} for d, found in figures.items()}
    for kind, rule in (
        ("average", averages.averages),
        ("normalized", averages.normalized),
        ("rank", averages.ranks),
    ):
        found = rule(scores)
        for method in methods:
            expected = paper.aggregate(kind, table.metric, table.family, method)
            if expected is None:
                assert found[method] is None
            else:
                assert found[method] == pytest.approx(expected, abs=0.0051), (kind, method)


def test_a_store_of_the_papers_figures_gives_the_papers_averages():
    rows = []
    for run in plan(COMPARISONS, DATASETS, [m for m in METHODS if not m.instead_of], runs=1):
        figures = {metric: paper.printed(metric, run.dataset, run.method) for metric in paper.METRICS}
        if figures["nmi"] is None:
            rows.append(row(run.dataset, run.method, na="memory"))
        else:
            rows.append(row(run.dataset, run.method, **{metric: f.mean for metric, f in figures.items()}))
    found = Summary(rows)
    for table in COMPARISONS:
        if table.metric == "seconds":
            continue
        for method in table.methods:
            if method == table.reference or method.endswith("(lib)"):
                continue
            ours = found.averages(table, method)
            assert ours.rank_sets == 10
            for kind in ("average", "normalized", "rank"):
                expected = paper.aggregate(kind, table.metric, table.family, method)
                mine, theirs = getattr(ours, kind), getattr(ours, f"paper_{kind}")
                assert (mine is None) == (expected is None)
                assert expected is None or (mine == pytest.approx(expected, abs=0.0051) == theirs)
    verdicts = {entry.verdict for entry in found.score_entries()}
    assert verdicts == {"agrees", "neither"}


def test_a_variant_is_ranked_in_the_place_of_the_papers_method():
    table = TABLES["table4"]
    rows = [row("USPS", m, nmi=float(i)) for i, m in enumerate(table.methods)]
    rows += [row("USPS", "Mine", nmi=100.0)]
    found = Summary(rows)
    assert found.averages(table, "U-SENC").rank == 1
    assert found.averages(table, "U-SPEC").rank == 2
    assert found.averages(table, "U-SENC (lib)").rank == 1
    assert found.averages(table, "U-SPEC (lib)").rank == 1  # better than U-SENC to the letter
    assert found.averages(table, "Mine").rank == 1
    assert found.averages(table, "SC").rank == 9
    assert found.averages(table, "SC").paper_rank == 4  # on USPS
    assert found.averages(table, "SC").rank_sets == 1
    assert found.averages(table, "SC").average is None


# ------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "shown"),
    [
        (Cell(20, 84.0, 1.0), Figure(80.0, 2.0), "agrees", "+2.0 σ"),
        (Cell(20, 84.1, 1.0), Figure(80.0, 2.0), "higher", "+2.0 σ"),
        (Cell(20, 75.0, 1.0), Figure(80.0, 2.0), "lower", "−2.5 σ"),
        (Cell(20, 80.9, 1.0), Figure(80.0, 0.1), "agrees", "+9.0 σ"),
        (Cell(20, 80.9, 1.0), Figure(80.0, 0.0), "agrees", "+0.90 pt"),
        (Cell(20, 78.9, 1.0), Figure(80.0, 0.0), "lower", "−1.10 pt"),
        (Cell(1, 80.0, None), None, "ran", "beyond"),
        (Cell(1, None, None, "out of memory"), Figure(80.0, 2.0), "failed", "short of"),
        (Cell(1, None, None, "out of memory"), None, "neither", ""),
        (None, Figure(80.0, 2.0), "missing", ""),
    ],
)
def test_verdicts(ours, theirs, verdict, shown):
    entry = Entry("USPS", "SC", "nmi", ours, theirs, True)
    assert entry.verdict == verdict
    assert text.difference(entry) == shown


def test_bold_is_where_the_paper_has_it():
    """The method for reference takes no part: k-means, with the least time of Table 6; U-SPEC, on SF-2M in Table 8."""
    shown = markdown.render(Summary(papers_store()), [TABLES["table6"], TABLES["table8"]])
    pendigits = next(line for line in shown.splitlines() if line.startswith("| *PenDigits*"))
    assert "| 0.06<br>" in pendigits
    assert pendigits.count("**") == 2
    assert "| **0.49**<br>" in pendigits  # LSC-R
    sf = [line for line in shown.splitlines() if line.startswith("| *SF-2M*")][1]
    assert "| 93.60 ± 0.00<br>" in sf
    assert "| **93.46 ± 0.00**<br>" in sf
    sums = [line for line in shown.splitlines() if line.startswith(("| Avg.", "| N-Avg."))]
    assert [re.findall(r"\*\*(.*?)\*\*", line) for line in sums] == [["81.68"], ["100.00"], ["1.00"]]


def test_means_deviations_and_medians():
    found = Summary([row(seed=s, nmi=70.0 + s, seconds=s, scale=1.0) for s in (0, 1, 5)] + [row(seed=9, scale=0.1)])
    nmi = found.cell("PenDigits", "U-SPEC", "nmi")
    assert (nmi.runs, nmi.mean) == (3, 72.0)
    assert nmi.std == pytest.approx(np.std([70, 71, 75], ddof=1))
    assert found.cell("PenDigits", "U-SPEC", "seconds").mean == 1
    assert found.cell("PenDigits", "U-SPEC (lib)", "nmi") is None
    some = Summary([row(seed=0), row(seed=1, na="time")])
    assert some.cell("PenDigits", "U-SPEC", "nmi").runs == 1
    none = Summary([row(na="memory")]).cell("PenDigits", "U-SPEC", "nmi")
    assert none.mean is None
    assert "9.1 GB" in none.reason


def test_times_of_a_crowded_machine_are_those_of_the_cpu():
    alone = Summary([row(seed=0)])
    assert alone.cell("PenDigits", "U-SPEC", "seconds").mean == 0.5
    assert "shared the machine" not in markdown.render(alone, [TABLES["table6"]])
    for crowd in ({"jobs": 2}, {"load": 2.5}):
        crowded = Summary([row(seed=0), row(seed=1, **crowd)])
        assert crowded.cell("PenDigits", "U-SPEC", "seconds").mean == 0.9
        assert "50% of the runs shared the machine" in markdown.render(crowded, [TABLES["table6"]])
        assert "50% of the runs shared the machine" in page.render(crowded, [TABLES["table6"]])


# ------------------------------------------------------------------------------------------- the store


def test_a_store_that_is_cut_anywhere_loses_one_run_at_most(tmp_path):
    path = tmp_path / "runs.jsonl"
    lines = [json.dumps(row(seed=seed)) + "\n" for seed in range(3)]
    whole = "".join(lines).encode()
    ends = np.cumsum([len(line) for line in lines])
    for cut in [*range(0, len(whole), 37), *(ends - 1), *ends]:
        path.write_bytes(whole[:cut])
        kept = int((ends <= cut).sum())
        assert len(store.read(path)) == kept
        with store.opened(path) as opened:
            assert len(opened.rows) == kept
            opened.append(row(seed=7))
        assert [r["seed"] for r in store.read(path)] == [*range(kept), 7]
        assert path.read_bytes().count(b"\n") == kept + 1


def test_the_last_line_of_a_run_counts(tmp_path):
    path = tmp_path / "runs.jsonl"
    with store.opened(path) as opened:
        opened.append(row(na="error"))
        opened.append(row(seed=1))
        opened.append(row(nmi=1.0))
    assert [(r["seed"], r["na"], r["nmi"]) for r in store.read(path)] == [(1, None, 80.0), (0, None, 1.0)]


def test_another_file_is_no_store(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(row()) + "\nnonsense\n" + json.dumps(row(seed=1)) + "\n")
    with pytest.raises(ValueError, match="line 2, is no result"):
        store.read(path)
    with pytest.raises(ValueError, match="line 2, is no result"):
        Store(path)
    assert path.read_text().count("nonsense") == 1


def test_two_cannot_write_one_store(tmp_path):
    with (
        store.opened(tmp_path / "runs.jsonl"),
        pytest.raises(ValueError, match="in use by another"),
        store.opened(tmp_path / "runs.jsonl"),
    ):
        pass


def test_what_is_run_again():
    rows = [row(seed=0), row(seed=1, na="error"), row("USPS", na="memory"), row("MNIST", na="time")]
    runs = [store.run_of(r) for r in rows]
    same = Limits(9 * 10**9, 600.0)
    done, beyond = settled(rows, same)
    assert done == {runs[0], runs[2], runs[3]}
    assert beyond == {runs[2][:-1], runs[3][:-1]}
    assert settled(rows, Limits(20 * 10**9, 600.0))[0] == {runs[0], runs[3]}
    assert settled(rows, Limits(9 * 10**9, 900.0))[0] == {runs[0], runs[2]}
    assert settled(rows, Limits(None, None))[0] == {runs[0]}
    assert settled(rows, Limits(10**9, 60.0)) == (done, beyond)


def test_time_left_is_learnt():
    run = store.run_of(row())
    fresh = Expectation([])
    assert math.isfinite(fresh.of(run))
    known = Expectation([row(seed=1, run_seconds=3.0), row("USPS", run_seconds=7.0)])
    assert known.of(run) == 3.0
    assert known.of_all([run, store.run_of(row("USPS", seed=3))]) == 10.0
    quick = Expectation([row(scale=0.01, run_seconds=1.0), row("USPS", scale=0.01, run_seconds=2.0)])
    assert quick.of(store.run_of(row("Flower-20M", scale=0.01))) == 1.5
    assert known.of(store.run_of(row("Flower-20M"))) > known.of(store.run_of(row("TB-1M"))) > 3.0


# ------------------------------------------------------------------------------------------- data and members


def test_data_sets_are_made_once(tmp_path, monkeypatch):
    flower = DATASETS[-1]
    first = prepare(flower, 0.0001, tmp_path)
    monkeypatch.setattr(datasets, "generate", None)
    assert prepare(flower, 0.0001, tmp_path) == first
    X, y = first.open()
    assert (first.rows, first.features, first.clusters) == (2000, 2, 13)
    assert type(X) is np.ndarray
    assert not X.flags.writeable
    assert len(X) == len(y) == 2000


def task(tmp_path, method, m, combines=True):
    X, y = datasets.generate("sf", 1500, random_state=0)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    return Task(
        data=Prepared("sf", str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), 1500, 2, 4),
        estimator=f"ultraspec.baselines:{method}",
        parameters={"n_estimators": m} if combines else {},
        seed=3,
        threads=1,
        combines=combines,
        own=False,
        members_folder=str(tmp_path / "members"),
        module_folder="",
    )


@pytest.mark.parametrize("method", ["LWGP", "KCC"])
def test_shared_members_give_the_estimators_own_labels(tmp_path, method, monkeypatch):
    from ultraspec.reproduce import worker

    X, _ = datasets.generate("sf", 1500, random_state=0)
    for m in (5, 8, 6):  # more are added, fewer are the first of them
        found = worker._combine(task(tmp_path, method, m), X)
        model = getattr(baselines, method)(4, n_estimators=m, random_state=3, n_jobs=1).fit(X)
        assert (found["labels"] == model.labels_).all()
        assert found["seconds"] > found["consensus_seconds"] > 0
    monkeypatch.setattr(members, "kmeans_members", None)  # no more are made
    again = worker._combine(task(tmp_path, "SEC", 8), X)
    assert again["seconds"] > again["consensus_seconds"]


def test_a_run_measures_time_memory_and_scores(tmp_path):
    found = measure(task(tmp_path, "KMeansLite", 0, combines=False))
    assert 0 < found["nmi"] < 100
    assert 0 < found["ca"] <= 100
    assert found["seconds"] > 0
    assert found["peak_bytes"] >= found["base_bytes"] > 10**7
    assert found["found_clusters"] == 4


# ------------------------------------------------------------------------------------------- tables and page


def papers_store(extra=()):
    """Make a store in which everything is as in the paper, but U-SENC on USPS, which is far lower, and EAC, N/A."""
    rows = []
    for run in plan(TABLES.values(), DATASETS, [m for m in METHODS if not m.instead_of], runs=2):
        figures = {metric: paper.printed(metric, run.dataset, run.method) for metric in paper.METRICS}
        parameters = json.loads(run.parameters)
        if figures["nmi"] is None:
            rows.append(row(run.dataset, run.method, run.seed, na="memory", parameters=parameters))
            continue
        values = {metric: f.mean for metric, f in figures.items()}
        if (run.method, run.dataset) == ("U-SENC", "USPS"):
            values["nmi"] = 50.0
        rows.append(row(run.dataset, run.method, run.seed, parameters=parameters, **values))
    return [*rows, *extra]


def test_markdown_has_the_papers_layout_and_both_figures():
    found = Summary(papers_store([row("mine", "SC"), row("USPS", "My<Own>", nmi=99.0)]))
    shown = markdown.render(found, list(TABLES.values()))
    lines = shown.splitlines()
    for number in range(4, 17):
        assert sum(line.startswith(f"## Table {number}:") for line in lines) == 1
    head = next(line for line in lines if line.startswith("| Data set | k-means"))
    assert [part.strip() for part in head.split("|")][2:-1] == [*map(text.title, TABLES["table4"].methods), "My<Own>"]
    usps = next(line for line in lines if line.startswith("| *USPS*"))
    assert "50.00 ± 0.00<br>*73.89 ± 1.82*<br>−13.1 σ" in usps
    assert "**99.00**" in usps
    assert any(line.startswith("| *mine*") for line in lines)
    assert "Flower-20M*†" in shown
    assert text.RECONSTRUCTED in shown
    assert "out of memory: it held 9.1 GB" in shown
    assert all(line.count(" | ") == lines[i - 1].count(" | ") for i, line in enumerate(lines) if line.startswith("| *"))


def test_what_stands_out_says_which_sets_are_reconstructions():
    found = Summary([row(name, "U-SPEC", seed=s, nmi=10.0) for name in ("PenDigits", "SF-2M") for s in (0, 1)])
    shown = page.render(found, list(TABLES.values()))
    assert "on PenDigits NMI 10.00 ± 0.00 in 2 runs (paper 80.30 ± 2.18); SF-2M† NMI 10.00 ± 0.00 in 2 runs" in shown


@pytest.mark.parametrize(
    ("ours", "std", "in_points"),
    [
        (79.05, 0.05, True),
        (78.5, 0.05, False),
        (79.5, 2.0, False),
        (60.0, 2.0, False),
        (60.0, 0.2, True),
        (79, 0, True),
    ],
)
def test_a_difference_is_told_in_points_where_deviations_are_too_small_a_unit(ours, std, in_points):
    assert Entry("", "", "nmi", Cell(5, ours, 1.0), Figure(80.0, std), True).in_points is in_points


def test_axes_of_scores_end_at_100():
    series = [Series("U-SPEC", 0, [Point(99.0, 3.0), Point(98.0, 0.1)], [Point(99.5, 0.6), Point(97.0, None)])]
    for chart in (lines(["1", "2"], series, "%"), bars(["H", "R"], series, "%")):
        ticks = [float(found) for found in re.findall(r'text-anchor="end">([\d.]+)<', chart)]
        assert max(ticks) == 100
        assert min(float(found) for found in re.findall(r' y[12]?="([-\d.]+)"', chart)) >= 0
        assert not re.findall(r"M[\d.]+ -", chart)


def test_the_tables_in_the_docs_are_those_of_the_store():
    folder = ROOT / "docs" / "reproduction"
    runs = Summary(store.read(folder / "runs.jsonl"))
    assert len(runs.rows) >= 4780
    assert markdown.render(runs, list(TABLES.values())) == (folder / "tables.md").read_text(encoding="utf-8")


def test_a_page_of_nothing():
    nothing = page.render(Summary([]), list(TABLES.values()))
    assert "Nothing was run yet" in nothing


@pytest.mark.parametrize("module", [markdown, page])
def test_a_quick_look_is_not_compared(module):
    rows = [r for r in papers_store() if r["dataset"] in ("MNIST", "TB-1M")]
    quick = [dict(r, scale=0.01, rows=10_000 if r["dataset"] == "TB-1M" else 1000) for r in rows]
    whole, shown = (
        module.render(found, list(TABLES.values())).rpartition("<body>")[2]
        for found in (Summary(rows), Summary(quick, 0.01))
    )
    words = ("agree", "higher", " lower", "σ", "faster", "beyond:", "class=agrees", "reproduce the paper")
    assert sum(word in whole for word in words) >= 5
    assert not [word for word in words if word in shown]
    assert "A quick look at the paper" in shown
    assert (
        "(--scale 0.01: 1,000 of MNIST, 10,000 of TB-1M). These figures are not to be compared with the paper." in shown
    )
    assert "67.43 ± 0.00" in shown  # ours
    assert "67.43 ± 1.55" in shown  # the paper's, for reference


def test_the_page_opens_anywhere(tmp_path):
    extra = [row("USPS", "<script>alert(1)</script>", seed=s) for s in (0, 1)]
    path = tmp_path / "index.html"
    path.write_text(page.render(Summary(papers_store(extra)), list(TABLES.values())), encoding="utf-8")
    with open_browser() as browser:
        for width, dark in ((1280, False), (1280, True), (390, False)):
            with Visit(browser, path, width=width, dark=dark) as visit:
                assert visit.troubles == []
                assert visit.requests == [path.as_uri()]
                assert visit.run("document.documentElement.scrollWidth") <= width
                assert visit.run("document.querySelectorAll('.glance td.lower').length") == 1
                assert "−13" in visit.run("document.querySelector('.glance td.lower').textContent")
                assert visit.run("document.querySelectorAll('.multiples svg').length") == 7 * 3 * 4
                goes_on = visit.run("document.querySelector('.wide').classList.contains('more')")
                assert goes_on == (width == 390)  # what is cut off has a fading edge
                visit.run("document.querySelector('.wide').scrollLeft = 1000")
                visit.page.wait_for_function("!document.querySelector('.wide').classList.contains('more')")
                heights = [box[1] for box in visit.boxes(".multiples svg")]
                assert min(heights) > 60
                curves = "document.querySelectorAll('.curve.theirs').length"
                assert visit.run(curves) == sum(len(m) for t in ("10", "11", "12") for m in drawn_methods(t))
        with Visit(browser, path) as visit:
            before = visit.run("getComputedStyle(document.body).backgroundColor")
            visit.page.click("#theme")
            assert visit.run("getComputedStyle(document.body).backgroundColor") != before
            assert visit.troubles == []


def drawn_methods(number):
    """Give the methods with a curve, for each figure and data set of a table."""
    return [m for figures in paper._paper()["curves"][f"table{number}"].values() for m in figures.values()]


def test_the_lead_answers_in_one_sentence():
    rows = papers_store()
    assert "Yes. Of 40 scores of U-SPEC and U-SENC, 39 agree with the paper (0 higher, 1 lower)." in page.lead(
        Summary(rows), Summary(rows).score_entries()
    )
    lower = [dict(r, nmi=1.0, ca=1.0) if r["method"] == "U-SPEC" else r for r in rows]
    assert page.lead(Summary(lower), Summary(lower).score_entries()).startswith("Not in all.")


def test_points_of_curves_are_compared_but_for_the_defaults():
    rows = [row("MNIST", parameters={"regularization": 0.0, "selection": s}, nmi=60.0, ca=68.0) for s in ("random",)]
    found = Summary([*rows, row("MNIST")]).curve_entries()
    assert [(e.metric, e.paper.mean, e.verdict) for e in found] == [("nmi", 60.56, "agrees"), ("ca", 68.655, "agrees")]
    (nmi, _) = Summary([row("MNIST", parameters={"regularization": 0.0, "n_neighbors": 3}, nmi=65.0)]).curve_entries()
    assert nmi.paper == Figure(68.96, 1.55)  # the deviation of K = 5
    assert nmi.verdict == "lower"


def test_declared_names_are_found_in_any_spelling():
    from ultraspec.reproduce.experiment import choose, choose_tables

    assert [m.title for m in choose(METHODS, ["usenc (LIB)", "nyström"], "method")] == ["Nystrom", "U-SENC (lib)"]
    assert [d.title for d in choose(DATASETS, ["cc-5m"], "data set")] == ["CC-5M"]
    assert [t.name for t in choose_tables(["all"])] == list(TABLES)
    assert [t.number for t in choose_tables(["10,4-5,", "Table7-table8"])] == ["4", "5", "7", "8", "10"]
    assert declarations.RUNS == 20
    assert summary.SIGMAS == 2
