"""The pages of the documentation: every example runs, and does what its page says."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys

import pytest

from tests.helpers.common import ROOT
from ultraspec.rows import interface

USUAL_BLOCKS = interface.LEAST_BLOCK_ROWS  # before other tests make them small: pages are about what users get
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
pytestmark = pytest.mark.usefixtures("few_cuts")  # what examples print does not depend on them
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def load_pages():
    spec = importlib.util.spec_from_file_location("docs_pages", DOCS / "pages.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages = load_pages()


@pytest.fixture
def usual_blocks(monkeypatch):
    monkeypatch.setattr(interface, "LEAST_BLOCK_ROWS", USUAL_BLOCKS)


@pytest.mark.parametrize("page", pages.with_examples(), ids=lambda page: page.stem)
def test_examples_do_what_their_page_says(page, usual_blocks):
    for example, printed, figures in pages.run(page):
        where = f"{page.relative_to(ROOT)}, line {example.line}"
        if example.shown is not None:
            assert pages.agree(example.shown, printed), f"{where} prints\n{printed}\nbut the page says\n{example.shown}"
        if example.image is not None:
            assert figures, f"{where} draws nothing"
            assert example.image.is_file(), where


def test_every_block_of_the_tutorials_runs():
    assert len(TUTORIALS) >= 7
    for page in TUTORIALS:
        blocks = re.findall(r"^```python$", page.read_text(), re.MULTILINE)
        assert blocks, page
        assert len(blocks) == sum(example.kind == "python" for example in pages.examples(page)), page


def write(folder, text):
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_a_block_sees_the_names_of_earlier_ones_and_prints_its_last_value(tmp_path):
    page = write(tmp_path, "```python\na = 2\n```\ntext\n```python\nprint(a)\na + 1\n```\n\n```output\n2\n3\n```\n")
    found = [(example.shown, printed) for example, printed, _ in pages.run(page)]
    assert found == [(None, ""), ("2\n3\n", "2\n3\n")]


def test_an_error_that_the_page_does_not_show_is_raised(tmp_path):
    page = write(tmp_path, "# Page\n\n```python\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        list(pages.run(page))
    assert caught.value.__notes__ == ["in page.md, line 3"]


def test_a_warning_that_the_page_does_not_show_fails(tmp_path):
    page = write(tmp_path, "```python\nimport warnings\nwarnings.warn('careful')\n```\n")
    with pytest.raises(AssertionError, match="warns, but the page does not show it: UserWarning: careful"):
        list(pages.run(page))


def test_commands_run_and_folders_have_another_name(tmp_path):
    page = write(tmp_path, "```console\n$ ultraspec fit x.npy -k 2\n```\n")
    ((_, printed, _),) = pages.run(page)
    assert printed == "$ ultraspec fit x.npy -k 2\nultraspec: error: There is no file /home/ada/x.npy.\n"


def test_other_programs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="is no command of ultraspec"):
        list(pages.run(write(tmp_path, "```console\n$ rm x.npy\n```\n")))


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("NMI 0.93 in 1.2 s", "NMI  0.95 in 70 s\n", True),
        ("NMI 0.93", "NMI 0.80", False),
        ("10,628, 6,674", "10,630, 6,672", True),
        ("3 clusters", "4 clusters", False),
        ("3 clusters", "3 groups", False),
        ("True", "False", False),
        ("[1.0, 2.0]", "[1.0]", False),
        ("417 MB at most", "1.2 GB at most", True),
        ("417 MB at most", "93 MB at most", True),
    ],
)
def test_agree(shown, printed, same):
    assert pages.agree(shown, printed) == same


def test_pictures_are_there_light_and_described():
    seen = set()
    for page in DOCS.rglob("*.md"):
        if "_build" in page.parts:
            continue
        for text, path in PICTURE.findall(page.read_text()):
            picture = (page.parent / path).resolve()
            assert text, f"{page}: {path} has no description"
            assert picture.stat().st_size < 220_000, picture
            seen.add(picture)
    assert len(seen) > 8


def test_write_fills_in_what_examples_print(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    page = write(
        tmp_path,
        "a\n```python\n1 + 1\n```\n\n```output\n```\nb\n```python\nint('x')\n```\n```output\nValueError\n```\n",
    )
    pages.write(page)
    assert page.read_text() == (
        "a\n```python\n1 + 1\n```\n\n```output\n2\n```\nb\n```python\nint('x')\n```\n```output\n"
        "ValueError: invalid literal for int() with base 10: 'x'\n```\n"
    )


@pytest.fixture
def benchmark(monkeypatch):
    """Import a script of benchmarks/ by name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


def test_figures_on_pages_are_those_of_the_results(benchmark):
    figures = benchmark("figures")
    names = set()
    for page in figures.pages():
        text = page.read_text(encoding="utf-8")
        stale = f"{page.relative_to(ROOT)} is stale: run python benchmarks/report.py"
        assert figures.fill(text, names) == text, stale
        assert text.count("<!-- figures:") == text.count("<!-- end -->"), page
        # Markdown ends a paragraph where a line begins with a comment
        assert not re.search(r"^ *<!-- (?:figures: \S+|end) -->.", text, re.MULTILINE), page
    assert names == set(figures.FIGURES), "figures that no page shows"


def test_results_page_is_that_of_the_results(benchmark):
    stored = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert stored == benchmark("report").text(), "RESULTS.md is stale: run python benchmarks/report.py"


def test_a_changed_figure_is_noticed(benchmark):
    figures = benchmark("figures")
    text = "It takes <!-- figures: compile -->99 s<!-- end -->.\n<!-- figures: dask-table -->\nold\n<!-- end -->\n"
    filled = figures.fill(text)
    assert "99 s" not in filled
    assert "-->\n| workers" in filled
    assert figures.fill(filled) == filled
    with pytest.raises(KeyError, match="no figure 'nothing'"):
        figures.fill("<!-- figures: nothing --><!-- end -->")


def test_values_in_comments_of_the_readme(usual_blocks):
    seen = 0
    for example, printed, _ in pages.run(ROOT / "README.md"):
        if value := re.search(r"# (0\.\d+)[^\n]*\n$", example.code):
            assert float(printed) == pytest.approx(float(value[1]), abs=0.01)
            seen += 1
    assert seen == 2


def test_readme_names_both_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("demo", "test"):
        assert f"`make {command}`" in readme
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


FENCE = re.compile(r"^ *(`{3,}|:{3,}).*?^ *\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page):
    """Return the anchors of a page: those of its headings, as Markdown forms them, and those that it names."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def broken_links(page):
    """Return the links of a page to files and headings that do not exist."""
    found = []
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            found.append(target)
    return found


def test_links_between_files_lead_somewhere():
    pages = [page for page in DOCS.rglob("*.md") if "_build" not in page.parts]
    pages += [*ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    assert {page.relative_to(ROOT).as_posix(): broken for page in pages if (broken := broken_links(page))} == {}


def test_links_to_nothing_are_noticed(tmp_path):
    (tmp_path / "other.md").write_text("# A title, with `code`\n\n(named)=\n\n## Part\n\n```\n# no heading\n```\n")
    good = "[a](other.md) [b](other.md#a-title-with-code) [c](other.md#part) [d](other.md#named) [e](#own)\n\n# Own\n"
    assert broken_links(write(tmp_path, good)) == []
    bad = ["none.md", "other.md#parts", "other.md#no-heading", "#own"]
    assert broken_links(write(tmp_path, " ".join(f"[a]({target})" for target in bad))) == bad
