"""The report: what is in the page, and that a real browser shows it."""

from __future__ import annotations

import base64
import copy
import html
import json
import re
from dataclasses import replace

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits

from tests.helpers.browser import Visit, open_browser
from tests.helpers.common import blobs, documents
from ultraspec import USENC, USPEC, datasets, metrics, open_rows, report
from ultraspec.figures import RowCounts, compute_figures, eigengap, labeled_rows
from ultraspec.report import _script_data
from ultraspec.report._diagnostics import diagnose
from ultraspec.report._provenance import code_lines
from ultraspec.report._script_data import variable_length

pytestmark = pytest.mark.usefixtures("few_cuts", "few_halves")

FIGURES = {
    "#eigen": "circle",
    "#sizes": ".bar",
    "#confidence-all": ".bar",
    "#confidence-by-cluster": "circle",
    "#agreement": ".bar",
}


def page_data(path):
    """Return the data inside a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(encoding="utf-8"))
    return json.loads(found[1])


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


@pytest.fixture(scope="module")
def rings():
    X = datasets.generate("cc", 1500, random_state=0)[0]
    return USPEC(3, n_representatives=300, random_state=0).fit(X), X


@pytest.fixture(scope="module")
def ensemble():
    X = datasets.generate("flower", 4000, random_state=0)[0]
    return USENC(13, n_estimators=6, n_representatives=250, random_state=0).fit(X), X


@pytest.fixture(scope="module")
def pages(rings, ensemble, tmp_path_factory):
    """Write pages of all kinds: points, a raster, a drawing of many features, a histogram, one cluster, sixty."""
    folder = tmp_path_factory.mktemp("pages")
    found = {"points": report.write(*rings, folder / "points.html")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labeled_rows, "SAMPLE_ROWS", 1500)
        patch.setattr(labeled_rows, "LEAST_SAMPLE", 1500)
        found["raster"] = report.write(*ensemble, folder / "raster.html", points=1500)
    X = documents(600)[0]
    model = USENC(4, n_estimators=4, metric="cosine", random_state=0).fit(X)
    found["many features"] = report.write(model, X, folder / "many.html")
    X = blobs(500, k=3)[0][:, :1]
    found["one feature"] = report.write(USPEC(3, random_state=0).fit(X), X, folder / "one.html")
    X = np.random.default_rng(0).normal(size=(9, 2))
    found["one cluster"] = report.write(USPEC(1, random_state=0).fit(X), X, folder / "few.html")
    X = np.random.default_rng(0).normal(size=(1000, 3))
    model = USPEC(60, n_representatives=300, random_state=0).fit(X)
    found["sixty clusters"] = report.write(model, X, folder / "sixty.html")
    return found


KINDS = ["points", "raster", "many features", "one feature", "one cluster", "sixty clusters"]


# The file


def test_the_file_is_replaced_whole(rings, tmp_path):
    path = tmp_path / "report.html"
    assert report.write(*rings, path) == path
    first = path.read_text(encoding="utf-8")
    report.write(*rings, str(path))
    assert path.read_text(encoding="utf-8") == first
    with pytest.raises(TypeError):
        report.write("no model", rings[1], path)
    assert path.read_text(encoding="utf-8") == first
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_bad_paths_are_refused(rings, tmp_path):
    (tmp_path / "there.html").write_text("mine")
    assert not report.is_page(tmp_path / "there.html")
    with pytest.raises(FileExistsError, match="overwrite is False"):
        report.write(*rings, tmp_path / "there.html", overwrite=False)
    with pytest.raises(FileExistsError, match="is no report of ultraspec; pass overwrite=True"):
        report.write(*rings, tmp_path / "there.html")
    assert (tmp_path / "there.html").read_text() == "mine"
    report.write(*rings, tmp_path / "there.html", overwrite=True)
    assert report.is_page(tmp_path / "there.html")
    assert report.write(*rings, tmp_path / "there.html", title="Again")  # a page replaces a page
    assert "Again" in (tmp_path / "there.html").read_text(encoding="utf-8")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        report.write(*rings, tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        report.write(*rings, tmp_path / "nowhere" / "report.html")


@pytest.mark.parametrize("opened", [np.load, lambda path, mmap_mode: open_rows(path)], ids=["memmap", "rows"])
def test_the_file_of_the_rows_is_never_replaced(rings, tmp_path, opened):
    model, X = rings
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "link.html").symlink_to("x.npy")
    rows = opened(tmp_path / "x.npy", mmap_mode="r")
    for name in ("x.npy", "link.html"):
        with pytest.raises(ValueError, match="is the file that the rows are read from"):
            report.write(model, rows, tmp_path / name, overwrite=True)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)


def test_a_page_is_small_and_refers_to_nothing(pages):
    for path in pages.values():
        text = path.read_text(encoding="utf-8")
        assert len(text) < 900_000
        assert not re.search(
            r"""\b(src|href)\s*=\s*(?!"data:,"|"#)|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", text
        )
        assert not re.search(r"\{\{ ?\w+ ?\}\}|\{% ", text)


def test_points_are_in_the_page(rings, pages):
    model, X = rings
    data = page_data(pages["points"])
    frame = data["map"]["frame"]
    shares = unpacked(data["drawn"]["xy"], "<u2").reshape(-1, 2) / 65535
    low, high = np.array(frame["low"]), np.array(frame["high"])
    np.testing.assert_allclose(low + shares * (high - low), X, atol=1e-4)
    assert data["cuts"]["sizes"][data["cuts"]["own"]] == np.bincount(model.labels_).tolist()


def test_a_raster_is_in_the_page_instead_of_points(ensemble, pages):
    model, X = ensemble
    data = page_data(pages["raster"])
    assert data["drawn"]["n"] == 1500
    raster = data["raster"]
    keys = np.cumsum(decode(unpacked(raster["steps"], np.uint8)))
    counts = np.expm1(unpacked(raster["counts"], np.uint8) / 255 * np.log1p(raster["most"]))
    n = data["units"]
    groups = unpacked(data["cuts"]["groups"], "<u2").reshape(-1, n)[data["cuts"]["own"]]
    sums = np.bincount(groups[keys % n], counts, minlength=13)
    np.testing.assert_allclose(sums, np.bincount(model.labels_), rtol=0.03)
    w, h = raster["cells"]
    assert max(w, h) == 1024
    low, high = np.array(data["map"]["frame"]["low"]), np.array(data["map"]["frame"]["high"])
    at = np.floor((X - low) / (high - low) * [w, h]).astype(int)
    assert np.array_equal(np.unique(keys // n), np.unique(at[:, 1] * w + at[:, 0]))


def test_a_fine_raster_is_coarsened_until_it_fits(monkeypatch, ensemble, tmp_path):
    model, X = ensemble
    monkeypatch.setattr(labeled_rows, "SAMPLE_ROWS", 1500)
    monkeypatch.setattr(labeled_rows, "LEAST_SAMPLE", 1500)
    monkeypatch.setattr(_script_data, "MOST_ENTRIES", 2500)
    raster = page_data(report.write(model, X, tmp_path / "a.html", points=1500))["raster"]
    counts = np.expm1(unpacked(raster["counts"], np.uint8) / 255 * np.log1p(raster["most"]))
    assert len(counts) <= 2500
    assert counts.sum() == pytest.approx(len(X), rel=0.02)
    assert max(raster["cells"]) < 1024


def decode(stream):
    """Decode integers of seven bits per byte."""
    numbers, value, shift = [], 0, 0
    for byte in stream.tolist():
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(value)
            value = shift = 0
    return np.array(numbers)


def test_numbers_of_any_size_are_packed():
    numbers = np.array([0, 1, 127, 128, 16383, 16384, 2**21, 2**34, 5])
    assert np.array_equal(decode(variable_length(numbers)), numbers)
    assert len(variable_length(np.array([], dtype=np.int64))) == 0


def test_what_users_name_is_escaped(tmp_path):
    hostile = "</script><script>alert(1)</script>"
    X = pandas.DataFrame(np.random.default_rng(0).normal(size=(60, 2)) * [1, 1e6], columns=[hostile, "<img src=x>"])
    labels = np.where(np.arange(60) < 30, hostile, '" onclick="alert(2)')
    text = report.write(
        USPEC(2, random_state=0).fit(X), X, tmp_path / "a.html", labels=labels, title=hostile, code=hostile
    ).read_text(encoding="utf-8")
    assert hostile not in text
    assert "<img" not in text
    assert '"Cluster " onclick' not in text
    assert text.count("<script") == 2


def test_the_page_says_what_the_fit_took(rings, tmp_path):
    model = copy.copy(rings[0])
    model.fit_profile_ = {
        "neighbors": {"seconds": 75.0, "resident_bytes": 3 * 2**30},
        "labels": {"seconds": 0.25, "resident_bytes": None},
    }
    text = report.write(model, rings[1], tmp_path / "a.html").read_text(encoding="utf-8")
    for expected in ("neighbors", "1 min 15 s", "3.00 GB", "250 ms"):
        assert expected in text
    model.fit_profile_ = {}
    assert "has no <code>fit_profile_</code>" in report.write(model, rings[1], tmp_path / "a.html").read_text("utf-8")


def test_the_code_repeats_the_run(ensemble):
    model, X = ensemble
    scope = {"X": X}
    exec(code_lines(model), scope)
    assert np.array_equal(scope["labels"], model.labels_)


@pytest.mark.parametrize("scale", [None, "standard"])
@pytest.mark.parametrize("columns", [None, ["b", "a"]])
def test_the_code_opens_the_file_and_scales_it(tmp_path, scale, columns):
    X, _ = datasets.generate("cc", 600, random_state=1)
    np.savetxt(tmp_path / "x.csv", X * [1, 50], delimiter=";", header="a;b", comments="")
    rows = open_rows(tmp_path / "x.csv", columns, delimiter=";", scale=scale)
    model = USPEC(3).fit(rows)  # its seed must be written
    page = report.write(model, rows, tmp_path / "page.html").read_text(encoding="utf-8")
    code = html.unescape(re.search(r"<code>(from.*?)</code>", page, re.DOTALL)[1])
    assert ("scale='standard'" in code) == (scale is not None)
    scope = {}
    exec(code, scope)
    np.testing.assert_array_equal(scope["labels"], model.labels_)
    if scale is not None:
        scope = {"X": rows.rows.read(0, len(rows))}  # the same rows in memory
        exec(code_lines(model, scope["X"]), scope)
        assert metrics.ari(scope["labels"], model.labels_) > 0.99


def test_the_code_does_not_name_other_rows_as_the_fitted_ones(rings, tmp_path):
    model, X = rings
    np.save(tmp_path / "x.npy", X[:-5])
    text = code_lines(model, open_rows(tmp_path / "x.npy"))
    assert "x.npy" not in text
    assert f"# X: the {len(X):,} rows that were fitted, not those of this page" in text
    assert "# X:" not in code_lines(model, X)


def test_code_of_many_parameters():
    model = USPEC(4, metric="cosine", n_representatives=np.int64(50), n_neighbors=3, selection="random", n_jobs=2)
    model.set_params(random_state=np.random.default_rng(0), max_iter=7, n_init=1, neighbors="exact")
    text = code_lines(model.fit(blobs(60)[0]))
    assert "n_representatives=50,\n" in text
    assert "n_jobs" not in text
    assert "# random_state was a Generator, which cannot be written here\n" in text
    compile(text, "report", "exec")


def test_the_page_says_how_the_number_of_clusters_was_chosen(tmp_path):
    X = load_digits().data
    model = USPEC("auto", n_representatives=300, discretize="agreement", random_state=1).fit(X)
    assert "where halves of the rows agree" in report.write(model, X, tmp_path / "page.html").read_text("utf-8")
    model = USPEC(9, n_representatives=300, discretize="agreement", random_state=1).fit(X)
    assert "as requested" in report.write(model, X, tmp_path / "page.html").read_text("utf-8")


def test_own_code_stands_in_the_page(rings, tmp_path):
    text = report.write(*rings, tmp_path / "a.html", code="ultraspec fit x.npy > y").read_text(encoding="utf-8")
    assert "<code>ultraspec fit x.npy &gt; y</code>" in text


# The notes


def notes_of(model, X, labels=None):
    figures = compute_figures(model, X, labels)
    return [(note.kind, note.text) for note in diagnose(model, figures, eigengap(model))]


def test_a_clear_result_has_good_news_only(rings):
    assert [kind for kind, _ in notes_of(*rings)] == ["good"]


def test_tiny_clusters_are_named(rings):
    model, X = rings
    labels = np.where(np.arange(len(X)) < 2, "Rare", model.labels_.astype(str))
    (text,) = (text for kind, text in notes_of(model, X, labels) if kind == "warning")
    assert text.startswith("Cluster Rare is tiny (2 rows in total)")


def test_a_choice_without_a_gap_is_called_one(rings):
    k = 4 + int(eigengap(rings[0]).ratios[3:10].argmin())
    texts = " ".join(text for _, text in notes_of(rings[0].cut(k), rings[1]))
    assert f"There is no clear eigengap after {k}" in texts
    assert f"Compare {eigengap(rings[0]).largest} clusters" in texts


def test_uneven_features_and_no_seed_are_told():
    X = blobs(300, k=2, d=3)[0] * [1, 1, 1e4]
    texts = " ".join(text for _, text in notes_of(USPEC(2).fit(X), X))
    assert "The spread of feature 2 is" in texts
    assert "random_state was not set" in texts


def test_low_confidence_is_told(ensemble):
    model, X = ensemble
    figures = compute_figures(model, X)
    levels = np.zeros((13, 21), dtype=np.int64)
    levels[:, 4] = 100
    levels[:, 20] = 200
    uncertain = replace(figures, counts=RowCounts(figures.counts.sizes, figures.counts.outside, levels))
    warnings = [note.text for note in diagnose(model, uncertain, eigengap(model)) if note.kind == "warning"]
    assert any(text.startswith("For 33.3 % of the rows, at most half of the members") for text in warnings)


def test_other_rows_are_told_from_those_that_were_fitted(rings):
    model, X = rings
    assert any("It predicted their labels" in text for _, text in notes_of(model, X[:500]))


# The browser


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_drawn(browser, pages, kind, look):
    with Visit(browser, pages[kind], width=360 if look == "phone" else 1100, dark=look == "dark") as visit:
        ensemble = page_data(pages[kind])["levels"] is not None
        for canvas in ("#map", "#graph"):
            assert visit.colored(canvas) > 100, canvas
        for place, mark in FIGURES.items():
            boxes = visit.boxes(f"{place} {mark}")
            assert len(boxes) > 0 or (place not in ("#eigen", "#sizes") and not ensemble), place
            assert sum(width * height > 0 for width, height in boxes) >= min(len(boxes), 1), place
        assert visit.run("document.documentElement.scrollWidth <= innerWidth")
        assert visit.troubles == []
        assert visit.requests == [pages[kind].as_uri()]


COLORFUL = """() => { // the last cluster whose colour is not nearly grey
    const isColorful = (code) => Math.max(...rgb(colorOf(code))) - Math.min(...rgb(colorOf(code))) > 60;
    return [...current.sizes.keys()].filter(isColorful).pop();
}"""


@pytest.mark.parametrize("kind", KINDS)
def test_choosing_a_cluster_shows_it_alone(browser, pages, kind):
    with Visit(browser, pages[kind]) as visit:
        page, n = visit.page, visit.run("current.sizes.length")
        before = {canvas: (visit.image(canvas), visit.colored(canvas)) for canvas in ("#map", "#graph")}
        code = visit.run(COLORFUL)
        key = page.locator(".key").nth(code)
        key.click()
        assert key.get_attribute("aria-pressed") == "true"
        assert page.locator(".key[aria-pressed=true]").count() == 1
        assert page.locator("#only").inner_text().startswith(f"Only cluster {code} is shown")
        assert page.locator("#sizes g.off").count() == n - 1
        for canvas, (_, colored) in before.items():
            assert 0 < visit.colored(canvas) <= colored * (1.0 if n == 1 else 0.75)
        key.click()
        assert page.locator("#only").is_hidden()
        assert page.locator("#clusters .off, #sizes .off, #cards .off").count() == 0
        for canvas, (image, _) in before.items():
            assert visit.image(canvas) == image
        assert visit.troubles == []


def test_a_cluster_can_be_chosen_by_keyboard_and_on_the_figures(browser, pages):
    with Visit(browser, pages["points"]) as visit:
        page = visit.page
        page.locator(".key").nth(1).focus()
        page.keyboard.press("Enter")
        assert page.locator(".key[aria-pressed=true]").get_attribute("data-code") == "1"
        page.keyboard.press("Escape")
        assert page.locator(".key[aria-pressed=true]").count() == 0
        page.locator("#sizes g[data-code='2']").click()
        assert page.locator(".key[aria-pressed=true]").get_attribute("data-code") == "2"
        page.get_by_role("button", name="Show all").click()
        assert page.locator(".key[aria-pressed=true]").count() == 0
        x, y = visit.run("[drawn.xy[0] / 65535, drawn.xy[1] / 65535]")
        at = visit.run("([x, y]) => [mapArea.x(x), mapArea.y(y)]", [x, y])
        page.locator("#map").click(position={"x": at[0], "y": at[1]})
        chosen = page.locator(".key[aria-pressed=true]").get_attribute("data-code")
        assert int(chosen) == visit.run("current.labels[0]")
        assert page.locator("#tip").inner_text().startswith("Cluster " + chosen)


def test_confidence_is_a_view_of_the_map(browser, pages):
    with Visit(browser, pages["many features"]) as visit:
        before = visit.image("#map")
        visit.page.locator("#color-by").select_option("confidence")
        assert visit.image("#map") != before
        assert visit.page.locator("#scale").is_visible()
        visit.page.locator("#color-by").select_option("cluster")
        assert visit.image("#map") == before
    with Visit(browser, pages["points"]) as visit:
        assert visit.page.locator("#color-by option[value=confidence]").count() == 0


def test_dark_colours_follow_the_system_and_the_button(browser, pages):
    paper = "getComputedStyle(document.body).backgroundColor"
    with Visit(browser, pages["points"]) as light, Visit(browser, pages["points"], dark=True) as dark:
        assert light.run(paper) != dark.run(paper)
        assert light.image("#map") != dark.image("#map")
        light.page.locator("#theme").click()
        assert light.run(paper) == dark.run(paper)
        assert light.image("#map") == dark.image("#map")
        dark.page.locator("#theme").click()
        assert dark.run(paper) != light.run(paper)


CONTRAST = """() => {
    const parse = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const shade = color => color.slice(0, 3).map(v => linear(v / 255)).reduce(
        (sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => {
        for (let e = element; e; e = e.parentElement) {
            const color = parse(getComputedStyle(e).backgroundColor);
            if (color.length < 4 || color[3] > 0) return color;
        }
        return [255, 255, 255];
    };
    const poor = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.textContent, element = walker.currentNode.parentElement;
        if (!text.trim() || !element.getBoundingClientRect().width) continue;
        if (element.closest("script, title, noscript, .hidden")) continue;
        const style = getComputedStyle(element);
        let faint = 1;
        for (let e = element; e; e = e.parentElement) faint *= Number(getComputedStyle(e).opacity);
        const back = behind(element), front = parse(element instanceof SVGElement ? style.fill : style.color);
        const mixed = front.slice(0, 3).map((v, i) => faint * v + (1 - faint) * back[i]);
        const [low, high] = [shade(mixed), shade(back)].sort((a, b) => a - b), ratio = (high + 0.05) / (low + 0.05);
        if (ratio < 4.5) poor.push([text, ratio]);
    }
    return poor;
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_in_both_themes(browser, pages, dark):
    with Visit(browser, pages["raster"], dark=dark, reduced_motion="reduce") as visit:
        visit.page.locator("summary").first.click()
        assert visit.run(CONTRAST) == []
        visit.page.locator(".key").nth(2).click()
        assert visit.run(CONTRAST) == []


def test_names_are_shown_as_they_are(browser, tmp_path):
    hostile = "<img src=x onerror=alert(1)>"
    X = pandas.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=[hostile, "a" * 300])
    labels = np.where(np.arange(80) < 40, hostile, "b" * 200)
    model = USPEC(2, random_state=0).fit(X)
    path = report.write(model, X, tmp_path / "a.html", labels=labels, title=hostile * 5, code=hostile)
    with Visit(browser, path, width=360) as visit:
        assert visit.page.locator("h1").inner_text().startswith(hostile)
        assert visit.page.title().startswith(hostile)
        assert hostile in visit.page.locator("pre#code").inner_text()
        assert visit.run("document.images.length") == 0
        assert visit.run("document.documentElement.scrollWidth <= innerWidth")
        visit.page.locator(".key").first.click()
        assert visit.page.locator("#only").inner_text().startswith("Only cluster " + hostile.lower())
        assert visit.run("document.documentElement.scrollWidth <= innerWidth")
        assert visit.troubles == []


@pytest.mark.parametrize("width", [1280, 390])
def test_many_clusters_stay_readable(browser, pages, width):
    with Visit(browser, pages["sixty clusters"], width=width) as visit:
        boxes = visit.run("mapArea.names")  # middle, width, height and cluster of every name on the map
        assert 15 <= len(boxes) <= 60
        for i, (x, y, w, h, _) in enumerate(boxes):
            for a, b, c, d, _ in boxes[:i]:
                assert abs(x - a) >= (w + c) / 2 - 0.01 or abs(y - b) >= (h + d) / 2 - 0.01  # none lies on another
        heights = visit.run(
            "(() => { const k = document.querySelector('.keys'); return [k.scrollHeight, k.clientHeight] })()"
        )
        assert heights[0] <= heights[1]  # the whole list is seen without scrolling in it
        assert all(w > 100 and h >= 30 for w, h in visit.boxes(".key"))
        alone = visit.run("(() => { select(59); return mapArea.names.map((box) => box[4]) })()")
        assert alone == [59]


def test_names_stand_beside_compact_clusters(browser, tmp_path):
    X, _ = blobs(2000, k=20, d=8)
    path = report.write(USPEC(20, n_representatives=200, random_state=0).fit(X), X, tmp_path / "compact.html")
    with Visit(browser, path) as visit:
        assert len(visit.run("mapArea.names")) == 20
        hidden = visit.run("""() => mapArea.names.map(([x, y, w, h, code]) => {
            let all = 0, under = 0;
            current.labels.forEach((other, i) => {
                if (other !== code) return;
                all++;
                const a = mapArea.x(drawn.xy[2 * i] / 65535), b = mapArea.y(drawn.xy[2 * i + 1] / 65535);
                under += Math.abs(a - x) < w / 2 && Math.abs(b - y) < h / 2;
            });
            return under / all;
        })""")
        assert max(hidden) < 0.25


def test_a_list_of_very_many_clusters_says_that_it_scrolls(browser, tmp_path):
    X = np.random.default_rng(0).normal(size=(900, 2))
    model = USPEC(3, n_representatives=100, random_state=0).fit(X)
    with Visit(browser, report.write(model, X, tmp_path / "r.html", labels=np.arange(900) % 130)) as visit:
        assert visit.page.locator("#clusters").get_attribute("class") == "keys long many"
        assert "Scroll to see all 130." in visit.page.locator("#list-hint").inner_text()
        assert visit.run("current.sizes") == np.bincount(np.arange(900) % 130).tolist()


def test_the_code_can_be_copied(browser, pages, rings):
    with Visit(browser, pages["points"], permissions=["clipboard-read", "clipboard-write"]) as visit:
        visit.page.locator("#copy").click()
        visit.page.get_by_text("Copied").wait_for()
        assert visit.run("navigator.clipboard.readText()").strip() == code_lines(rings[0])


def test_printing_is_in_light_colours_and_restores_the_page(browser, pages):
    with Visit(browser, pages["points"], dark=True) as visit:
        before = visit.image("#map")
        assert len(visit.page.pdf()) > 10_000
        assert visit.image("#map") == before
        visit.run("dispatchEvent(new Event('beforeprint'))")
        assert visit.image("#map") != before
        visit.run("dispatchEvent(new Event('afterprint'))")
        assert visit.image("#map") == before
        assert visit.troubles == []


def test_a_page_fits_after_the_window_changed(browser, pages):
    with Visit(browser, pages["raster"], width=1200) as visit:
        visit.page.set_viewport_size({"width": 360, "height": 700})
        visit.page.wait_for_function("document.querySelector('#map').clientWidth < 360")
        visit.page.wait_for_function("document.querySelector('#sizes svg').viewBox.baseVal.width < 360")
        assert visit.run("document.documentElement.scrollWidth <= innerWidth")
        assert visit.colored("#map") > 100
