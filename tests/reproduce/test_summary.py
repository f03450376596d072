"""Averages, ranks, means and verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers.reproduce_records import record
from ultraspec.reproduce import averages, markdown, page, paper_results
from ultraspec.reproduce.declarations import DATASETS, METHODS, PAPER_SETS, TABLES, plan
from ultraspec.reproduce.formatting import format_difference, score_rows
from ultraspec.reproduce.paper_results import PaperResult
from ultraspec.reproduce.summary import Entry, OurResult, Summary

COMPARISONS = [table for table in TABLES.values() if table.metric]


@pytest.mark.parametrize("table", [t for t in COMPARISONS if t.metric != "seconds"], ids=lambda table: table.name)
def test_the_papers_averages_follow_from_its_own_scores(table):
    methods = [m for m in table.methods if not m.endswith("(lib)") and m != table.reference]
    figures = {d: {m: paper_results.printed(table.metric, d, m) for m in methods} for d in PAPER_SETS}
    scores = {d: {m: f and f.mean for m, f in found.items()} for d, found in figures.items()}
    for kind, rule in (
        ("average", averages.averages),
        ("normalized", averages.normalized),
        ("rank", averages.ranks),
    ):
        found = rule(scores)
        for method in methods:
            expected = paper_results.aggregate(kind, table.metric, table.family, method)
            if expected is None:
                assert found[method] is None
            else:
                assert found[method] == pytest.approx(expected, abs=0.0051), (kind, method)


def test_a_store_of_the_papers_figures_gives_the_papers_averages():
    rows = []
    for run in plan(COMPARISONS, DATASETS, [m for m in METHODS if not m.variant_of], runs=1):
        figures = {metric: paper_results.printed(metric, run.dataset, run.method) for metric in paper_results.METRICS}
        if figures["nmi"] is None:
            rows.append(record(run.dataset, run.method, na="memory"))
        else:
            rows.append(record(run.dataset, run.method, **{metric: f.mean for metric, f in figures.items()}))
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
                expected = paper_results.aggregate(kind, table.metric, table.family, method)
                mine, theirs = getattr(ours, kind), getattr(ours, f"paper_{kind}")
                assert (mine is None) == (expected is None)
                assert expected is None or (mine == pytest.approx(expected, abs=0.0051) == theirs)
    verdicts = {entry.verdict for entry in found.score_entries()}
    assert verdicts == {"agrees", "neither"}


def test_a_variant_is_ranked_in_the_place_of_the_papers_method():
    table = TABLES["table4"]
    rows = [record("USPS", m, nmi=float(i)) for i, m in enumerate(table.methods)]
    rows += [record("USPS", "Mine", nmi=100.0)]
    found = Summary(rows)
    assert found.averages(table, "U-SENC").rank == 1
    assert found.averages(table, "U-SPEC").rank == 2
    assert found.averages(table, "U-SENC (lib)").rank == 1
    assert found.averages(table, "U-SPEC (lib)").rank == 1  # better than U-SENC with the paper's settings
    assert found.averages(table, "Mine").rank == 1
    assert found.averages(table, "SC").rank == 9
    assert found.averages(table, "SC").paper_rank == 4  # on USPS
    assert found.averages(table, "SC").rank_sets == 1
    assert found.averages(table, "SC").average is None


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "shown"),
    [
        (OurResult(20, 84.0, 1.0), PaperResult(80.0, 2.0), "agrees", "+2.0 σ"),
        (OurResult(20, 84.1, 1.0), PaperResult(80.0, 2.0), "higher", "+2.0 σ"),
        (OurResult(20, 75.0, 1.0), PaperResult(80.0, 2.0), "lower", "−2.5 σ"),
        (OurResult(20, 80.9, 1.0), PaperResult(80.0, 0.1), "agrees", "+9.0 σ"),
        (OurResult(20, 80.9, 1.0), PaperResult(80.0, 0.0), "agrees", "+0.90 pt"),
        (OurResult(20, 78.9, 1.0), PaperResult(80.0, 0.0), "lower", "−1.10 pt"),
        (OurResult(1, 80.0, None), None, "ours_only", "ours only"),
        (OurResult(1, None, None, "out of memory"), PaperResult(80.0, 2.0), "paper_only", "paper only"),
        (OurResult(1, None, None, "out of memory"), None, "neither", ""),
        (None, PaperResult(80.0, 2.0), "not_run", ""),
    ],
)
def test_verdict_and_difference(ours, theirs, verdict, shown):
    entry = Entry("USPS", "SC", "nmi", ours, theirs, True)
    assert entry.verdict == verdict
    assert format_difference(entry) == shown


def test_means_deviations_and_medians():
    found = Summary(
        [record(seed=s, nmi=70.0 + s, seconds=s, scale=1.0) for s in (0, 1, 5)] + [record(seed=9, scale=0.1)]
    )
    nmi = found.result("PenDigits", "U-SPEC", "nmi")
    assert (nmi.runs, nmi.mean) == (3, 72.0)
    assert nmi.std == pytest.approx(np.std([70, 71, 75], ddof=1))
    assert found.result("PenDigits", "U-SPEC", "seconds").mean == 1
    assert found.result("PenDigits", "U-SPEC (lib)", "nmi") is None
    some = Summary([record(seed=0), record(seed=1, na="time")])
    assert some.result("PenDigits", "U-SPEC", "nmi").runs == 1
    none = Summary([record(na="memory")]).result("PenDigits", "U-SPEC", "nmi")
    assert none.mean is None
    assert "9.1 GB" in none.reason


def test_times_of_a_shared_machine_are_cpu_times():
    alone = Summary([record(seed=0)])
    assert alone.result("PenDigits", "U-SPEC", "seconds").mean == 0.5
    assert "shared the machine" not in markdown.render(alone, [TABLES["table6"]])
    for other_work in ({"jobs": 2}, {"load": 2.5}):
        shared = Summary([record(seed=0), record(seed=1, **other_work)])
        assert shared.result("PenDigits", "U-SPEC", "seconds").mean == 0.9
        assert "50% of the runs shared the machine" in markdown.render(shared, [TABLES["table6"]])
        assert "50% of the runs shared the machine" in page.render(shared, [TABLES["table6"]])


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
def test_a_difference_is_in_points_if_the_standard_deviation_is_too_small_a_unit(ours, std, in_points):
    assert Entry("", "", "nmi", OurResult(5, ours, 1.0), PaperResult(80.0, std), True).in_points is in_points


def test_points_of_curves_are_compared_but_for_the_defaults():
    varied = record("MNIST", parameters={"regularization": 0.0, "selection": "random"}, nmi=60.0, ca=68.0)
    found = Summary([varied, record("MNIST")]).curve_entries()
    assert [(e.metric, e.paper.mean, e.verdict) for e in found] == [("nmi", 60.56, "agrees"), ("ca", 68.655, "agrees")]
    parameters = {"regularization": 0.0, "n_neighbors": 3}
    nmi, _ = Summary([record("MNIST", parameters=parameters, nmi=65.0)]).curve_entries()
    assert nmi.paper == PaperResult(68.96, 1.55)  # the deviation of K = 5
    assert nmi.verdict == "lower"


def test_runs_on_rows_of_an_earlier_generator_are_never_mixed_with_others():
    old = [record("SF-2M", m, seed=s, data="sf", nmi=10.0) for m in ("U-SPEC", "U-SENC") for s in range(3)]
    new = [record("SF-2M", "U-SPEC", seed=0, nmi=30.0), record("TB-1M", "U-SPEC", nmi=50.0)]
    for rows in (old + new, new + old):
        found = Summary(rows)
        assert found.entry("SF-2M", "U-SPEC", "nmi").ours == OurResult(1, 30.0, None)
        assert found.entry("SF-2M", "U-SENC", "nmi").ours == OurResult(3, 10.0, 0.0)
        assert found.earlier == {"SF-2M": ["U-SENC"]}
        for module in (markdown, page):
            assert "since the generator of SF-2M was corrected" in module.render(found, [TABLES["table4"]])
    assert "was corrected" not in markdown.render(Summary(new), [TABLES["table4"]])


def test_all_scores_are_shown_where_runs_have_them():
    old = [record(method="U-SPEC", seed=seed, ari=60.0) for seed in (0, 1)]
    new = record(method="U-SPEC", seed=2, ari=66.0, ami=70.0, hungarian=50.0)
    row = next(row for row in score_rows(Summary([*old, new])) if row[1] == "U-SPEC")
    assert row == ["PenDigits", "U-SPEC", "3", "80.00 ± 0.00", "84.00 ± 0.00", "70.00 (1)", "62.00 ± 3.46", "50.00 (1)"]
    assert score_rows(Summary(old))[0][5] == "–"
    for module in (markdown, page):
        shown = module.render(Summary([*old, new]), [TABLES["table4"]])
        assert "70.00 (1)" in shown
        assert "Hungarian" in shown
