"""The tables as Markdown, the page and its charts."""

from __future__ import annotations

import re

import pytest

from tests.helpers.browser import Visit, open_browser
from tests.helpers.common import ROOT
from tests.helpers.reproduce_records import papers_store, record
from ultraspec.reproduce import markdown, page, paper_results, store
from ultraspec.reproduce.charts import Point, Series, draw_bars, draw_lines
from ultraspec.reproduce.declarations import TABLES
from ultraspec.reproduce.formatting import GENERATED, method_title
from ultraspec.reproduce.summary import Summary


def test_bold_is_where_the_paper_has_it():
    """The method for reference is left out: k-means, the fastest of Table 6; U-SPEC, the best on SF-2M in Table 8."""
    shown = markdown.render(Summary(papers_store()), [TABLES["table6"], TABLES["table8"]])
    pendigits = next(line for line in shown.splitlines() if line.startswith("| *PenDigits*"))
    assert "| 0.06<br>" in pendigits
    assert pendigits.count("**") == 2
    assert "| **0.49**<br>" in pendigits  # LSC-R
    sf = [line for line in shown.splitlines() if line.startswith("| *SF-2M†*")][1]
    assert "| 93.60 ± 0.00<br>" in sf
    assert "| **93.46 ± 0.00**<br>" in sf
    sums = [line for line in shown.splitlines() if line.startswith(("| Avg.", "| N-Avg."))]
    assert [re.findall(r"\*\*(.*?)\*\*", line) for line in sums] == [["81.68"], ["100.00"], ["1.00"]]


def test_markdown_has_the_papers_layout_and_both_results():
    found = Summary(papers_store([record("mine", "SC"), record("USPS", "My<Own>", nmi=99.0)]))
    shown = markdown.render(found, list(TABLES.values()))
    lines = shown.splitlines()
    for number in range(4, 17):
        assert sum(line.startswith(f"## Table {number}:") for line in lines) == 1
    head = next(line for line in lines if line.startswith("| Data set | k-means"))
    assert [part.strip() for part in head.split("|")][2:-1] == [*map(method_title, TABLES["table4"].methods), "My<Own>"]
    usps = next(line for line in lines if line.startswith("| *USPS*"))
    assert "50.00 ± 0.00<br>*73.89 ± 1.82*<br>−13.1 σ" in usps
    assert "**99.00**" in usps
    assert any(line.startswith("| *mine*") for line in lines)
    assert "| *Flower-20M†*<br>" in shown
    assert GENERATED in shown
    assert "out of memory: it held 9.1 GB" in shown
    assert all(line.count(" | ") == lines[i - 1].count(" | ") for i, line in enumerate(lines) if line.startswith("| *"))


def test_what_stands_out_says_which_sets_are_generated():
    found = Summary([record(name, "U-SPEC", seed=s, nmi=10.0) for name in ("PenDigits", "SF-2M") for s in (0, 1)])
    shown = page.render(found, list(TABLES.values()))
    assert "on PenDigits NMI 10.00 ± 0.00 in 2 runs (paper 80.30 ± 2.18); SF-2M† NMI 10.00 ± 0.00 in 2 runs" in shown


def test_axes_of_scores_end_at_100():
    series = [Series("U-SPEC", 0, [Point(99.0, 3.0), Point(98.0, 0.1)], [Point(99.5, 0.6), Point(97.0, None)])]
    for chart in (draw_lines(["1", "2"], series, "%"), draw_bars(["H", "R"], series, "%")):
        ticks = [float(found) for found in re.findall(r'text-anchor="end">([\d.]+)<', chart)]
        assert max(ticks) == 100
        assert min(float(found) for found in re.findall(r' y[12]?="([-\d.]+)"', chart)) >= 0
        assert not re.findall(r"M[\d.]+ -", chart)


def test_the_tables_in_the_docs_are_those_of_the_store():
    folder = ROOT / "docs" / "reproduction"
    runs = Summary(store.read(folder / "runs.jsonl"))
    assert len(runs.records) >= 4597
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
    words = ("agree", "higher", " lower", "σ", "faster", "ours only", "class=agrees", "reproduce the paper")
    assert sum(word in whole for word in words) >= 5
    assert not [word for word in words if word in shown]
    assert "A quick look at the paper" in shown
    assert "(--scale 0.01: 1,000 of MNIST, 10,000 of TB-1M). These results cannot be compared" in shown
    assert "67.43 ± 0.00" in shown  # ours
    assert "67.43 ± 1.55" in shown  # the paper's, for reference


def test_the_page_opens_anywhere(tmp_path):
    extra = [record("USPS", "<script>alert(1)</script>", seed=s) for s in (0, 1)]
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
    """Give the methods with a curve, for each metric and data set of a table."""
    return [m for figures in paper_results._paper()["curves"][f"table{number}"].values() for m in figures.values()]


def test_the_lead_answers_in_one_sentence():
    rows = papers_store()
    assert "Yes. Of 40 scores of U-SPEC and U-SENC, 39 agree with the paper (0 higher, 1 lower)." in page.lead(
        Summary(rows), Summary(rows).score_entries()
    )
    lower = [dict(r, nmi=1.0, ca=1.0) if r["method"] == "U-SPEC" else r for r in rows]
    assert page.lead(Summary(lower), Summary(lower).score_entries()).startswith("Only in part.")
