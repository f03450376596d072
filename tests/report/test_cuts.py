"""The slider, the tree and all that follows them, in a real browser: compared with what the model gives."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas
import pytest
from sklearn.metrics import adjusted_mutual_info_score

from tests.helpers.browser import Visit, open_browser
from tests.helpers.common import blobs
from ultraspec import USENC, USPEC, datasets, load, metrics, report, save
from ultraspec.figures import cuts as figure_cuts
from ultraspec.figures import labeled_rows
from ultraspec.persistence.cuts import apply_cut, read_cut

pytestmark = pytest.mark.usefixtures("few_halves")

SIZES = "[...document.querySelectorAll('[data-cluster]')].map((row) => Number(row.dataset.size))"


@pytest.fixture(scope="module")
def circles():
    """Circles and Gaussians, fitted with a wrong number of clusters."""
    X, y = datasets.generate("cg", 6000, random_state=0)
    return USPEC(6, n_representatives=400, random_state=0, n_jobs=1).fit(X), X, y


@pytest.fixture(scope="module")
def cuts(circles):
    """Labels of all cuts, as the model gives them."""
    return {k: circles[0].cut(k).labels_ for k in range(2, 61)}


@pytest.fixture(scope="module")
def table():
    """Four groups with named columns; further columns describe them, with names that try to break out."""
    rng = np.random.default_rng(0)
    n = 1200
    group = rng.integers(0, 4, n)
    spread = rng.normal(size=(n, 3))
    X = pandas.DataFrame(
        {
            "age": np.array([-9.0, 0, 9, 0])[group] + spread[:, 0],
            "income": np.array([0.0, 9, 0, -9])[group] + spread[:, 1],
            HOSTILE: spread[:, 2],
        }
    )
    describe = pandas.DataFrame(
        {
            "country": np.array(["NL", "</style><b>", "FR", "=1+1"])[group],
            "</script><script>alert(1)</script>": rng.normal(size=n) + 5 * group,
            "note": np.array(["red apple", "green pear", "blue plum", "\u202ewhite fig"])[group]
            + [f" number {i}x" for i in range(n)],
            "visits": np.where(rng.random(n) < 0.1, np.nan, group * 10.0),
        }
    )
    return USPEC(4, n_representatives=150, random_state=0, n_jobs=1).fit(X), X, describe, group


HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def pages(circles, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuts")
    model, X, y = circles
    found = {"circles": report.write(model, X, folder / "circles.html", compare={"truth": y})}
    ensemble = USENC(5, n_estimators=4, n_representatives=150, random_state=0, n_jobs=1)
    found["ensemble"] = report.write(ensemble.fit(X[:2000]), X[:2000], folder / "ensemble.html")
    found["paper"] = report.write(USPEC.paper(4, random_state=0).fit(X[:2000]), X[:2000], folder / "paper.html")
    found["table"] = report.write(*table[:2], folder / "table.html", describe=table[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labeled_rows, "SAMPLE_ROWS", 2000)
        patch.setattr(labeled_rows, "LEAST_SAMPLE", 2000)
        found["raster"] = report.write(model, X, folder / "raster.html", points=2000, compare={"truth": y})
    return {"ensemble model": ensemble, **found}


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


def slide(visit, k):
    """Move the slider."""
    visit.run(
        """k => {
            const slider = document.getElementById("n-clusters");
            slider.value = k;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
        }""",
        k,
    )


def wait(visit, condition):
    """Wait until a condition holds; the page does not allow playwright to evaluate strings itself."""
    for _ in range(200):
        if visit.run(condition):
            return
        visit.page.wait_for_timeout(25)
    raise AssertionError(condition)


def repeated(visit, model):
    """Return the labels that the line of Python on the page gives."""
    scope = {"model": model}
    exec(visit.page.locator("#repeat-python").inner_text(), scope)
    return scope["labels"]


@pytest.mark.parametrize("kind", ["circles", "raster"])
def test_the_slider_shows_what_the_model_gives(browser, pages, circles, cuts, kind):
    model = circles[0]
    with Visit(browser, pages[kind]) as visit:
        assert visit.run("[Number(slider.min), Number(slider.max), slider.type]") == [2, 60, "range"]
        rows = np.array(visit.run("Array.from(drawn.rows)"), dtype=int)
        for k in range(2, 61):
            slide(visit, k)
            sizes, labels = visit.run(f"[{SIZES}, Array.from(current.labels).join()]")
            assert sizes == np.bincount(cuts[k]).tolist(), k
            assert np.array_equal(cuts[k][rows], np.array(labels.split(","), dtype=int)), k
            if k in (2, 11, 60):
                assert np.array_equal(repeated(visit, model), cuts[k])
        assert visit.troubles == []
        assert visit.requests == [pages[kind].as_uri()]


def test_the_slider_shows_what_an_ensemble_gives(browser, pages):
    model = pages["ensemble model"]
    with Visit(browser, pages["ensemble"]) as visit:
        for k in (2, 3, 5, 9, 20, 41, 60):
            slide(visit, k)
            assert visit.run(SIZES) == np.bincount(model.cut(k).labels_).tolist(), k
        visit.run("foldOrUnfold(2 * tree.L - 4)")
        assert visit.run("state.view.kind") == "nodes"
        assert visit.run(SIZES) == np.bincount(repeated(visit, model)).tolist()
        assert visit.troubles == []


def test_other_rows_are_counted_as_the_model_labels_them(browser, circles, tmp_path):
    model, _X, _ = circles
    other = datasets.generate("cg", 2500, random_state=5)[0]
    with Visit(browser, report.write(model, other, tmp_path / "other.html")) as visit:
        for k in (2, 7, 30):
            slide(visit, k)
            expected = np.bincount(model.cut(k).predict(other))
            assert sorted(visit.run(SIZES)) == sorted(expected[expected > 0].tolist())


def test_branches_are_folded_and_unfolded_alone(browser, pages, circles):
    model = circles[0]
    with Visit(browser, pages["circles"]) as visit:
        rng = np.random.default_rng(1)
        slide(visit, 9)
        seen = set()
        for _ in range(12):
            node = int(rng.integers(30, 118))
            visit.run("node => foldOrUnfold(node)", node)
            labels = repeated(visit, model)
            sizes = visit.run(SIZES)
            assert sizes == np.bincount(labels).tolist()
            assert np.array_equal(visit.run("Array.from(current.labels)"), labels)
            seen.add(len(sizes))
        assert len(seen) > 3
        # with the mouse, and one branch only: the others keep their rows but for a few at the border
        slide(visit, 11)
        visit.run("setView({kind: 'nodes', nodes: tree.treeCut(8)})")
        before = np.array(visit.run("Array.from(current.labels)"))
        split = visit.run("current.nodes.findIndex((node) => node >= tree.L)")
        node = visit.run(f"current.nodes[{split}]")
        visit.page.locator(f"#tree [data-node='{node}']").click(position={"x": 2, "y": 2})
        after = np.array(visit.run("Array.from(current.labels)"))
        assert len(visit.run(SIZES)) == 9
        others = before != split
        assert metrics.ari(before[others], after[others]) > 0.98
        assert metrics.ari(before[~others], after[~others]) < 0.98
        # by keyboard
        visit.page.locator("#choose summary").click()
        visit.page.locator("#branches button[data-fold]:not([disabled])").first.focus()
        visit.page.keyboard.press("Enter")
        assert len(visit.run(SIZES)) < 9
        visit.page.locator("#back").click()
        assert visit.run(SIZES) == np.bincount(model.labels_).tolist()
        assert visit.troubles == []


def test_the_cut_is_downloaded_and_labels_rows(browser, pages, circles, tmp_path):
    model, X, _ = circles
    with Visit(browser, pages["circles"]) as visit:
        slide(visit, 13)
        visit.run("foldOrUnfold(2 * tree.L - 5)")
        with visit.page.expect_download() as download:
            visit.page.locator("#download-cut").click()
        download.value.save_as(tmp_path / "cut.json")
        labels = repeated(visit, model)
    assert json.loads((tmp_path / "cut.json").read_text())["nodes"]
    save(model, tmp_path / "m.ultraspec")
    cut = apply_cut(load(tmp_path / "m.ultraspec"), tmp_path / "cut.json")
    assert np.array_equal(cut.predict(X), labels)
    assert np.array_equal(apply_cut(model, tmp_path / "cut.json").predict(X), labels)
    with pytest.raises(AttributeError, match="predict"):
        _ = apply_cut(model, tmp_path / "cut.json").labels_
    with pytest.raises(ValueError, match="a cut of another model"):
        apply_cut(USPEC(3, random_state=1).fit(X[:500]), tmp_path / "cut.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no cut file"),
        ('{"format": "ultraspec cut", "version": 2}', "newer version"),
        ('{"format": "ultraspec cut", "version": 1, "n_clusters": 2, "groups": ["0"]}', "damaged"),
        ('{"format": "ultraspec cut", "version": 1, "n_clusters": 2, "groups": []}', "damaged"),
    ],
)
def test_bad_cut_files_are_refused(tmp_path, text, message):
    (tmp_path / "cut.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_cut(tmp_path / "cut.json")


def test_the_wrong_number_of_clusters_is_noticed_and_the_right_one_suggested(browser, pages, circles):
    y = circles[2]
    with Visit(browser, pages["circles"]) as visit:
        best = visit.run("data.suggested[0].k")
        assert best in (10, 11)  # of eleven classes
        assert f"{best} clusters stand out more" in visit.page.locator("#verdict").inner_text()
        visit.page.locator(f"[data-suggested='{best}']").click()
        assert visit.run("Number(slider.value)") == best
        assert "stand out more" not in visit.page.locator("#verdict").inner_text()
        assert metrics.ari(visit.run("Array.from(current.labels)"), y) > 0.9


def test_heading_and_figures_follow_the_slider(browser, pages, cuts):
    shown = "[...document.querySelectorAll('[data-fact] dd:not(.sub)')].map((value) => value.textContent)"
    with Visit(browser, pages["circles"]) as visit:
        first = visit.run(shown)
        assert first[1] == "6"
        slide(visit, 9)
        sizes = np.bincount(cuts[9]) / 6000
        assert visit.run(shown)[1:4] == ["9", f"{100 * sizes.max():.1f} %", f"{100 * sizes.min():.1f} %"]
        assert visit.page.locator("h1").inner_text() == visit.page.title() == "9 clusters in 6,000 rows"
        assert "6 were fitted" in visit.page.locator("[data-fact=Clusters]").inner_text()
        visit.page.locator("#back").click()
        assert visit.run(shown) == first
        assert visit.run("document.activeElement.id") == "n-clusters"


def test_the_first_note_counts_the_verdicts_of_the_table(browser, pages, circles):
    y = circles[2]
    ring = np.bincount(y).argmax()
    with Visit(browser, pages["circles"]) as visit:
        best, *others = visit.run("data.suggested.map((each) => each.k)")
        for k in (6, *others):
            slide(visit, k)
            wait(visit, f"document.querySelectorAll('#verdicts tr').length === {k}")
            rows = visit.page.locator("#verdicts tr").all_inner_texts()
            note = visit.page.locator("#verdict").inner_text()
            said = {"Real:": r"are clearly real", " in one:": r"probably hold", " a part of": r"are parts of larger"}
            for sentence, words in said.items():
                n = sum(sentence in row for row in rows)
                match = re.search(rf"(\d+) {words}", note)
                assert n != 1  # the words are those of several
                assert n == (int(match[1]) if match else 0), note
            figures = visit.page.locator("#verdicts td:nth-child(3)").all_inner_texts()
            labels = np.array(visit.run("Array.from(current.labels)"))
            for code, row in enumerate(rows):
                if "Real:" not in row:
                    continue
                assert float(figures[code]) >= 0.85  # the figure that the verdict rests on
                mine = labels == code
                if np.bincount(y[mine]).argmax() == ring:
                    assert mine.sum() > 0.8 * (y == ring).sum()  # arcs of the large ring are parts
            is_weak = visit.page.locator("#verdicts tr.warning").count() > 0 and k in others
            assert visit.page.locator(f".chip.weak[data-suggested='{k}']").count() == is_weak
        assert visit.page.locator(f".chip.weak[data-suggested='{best}']").count() == 0


def test_branches_are_changed_by_keyboard_whatever_the_cut(browser, pages):
    with Visit(browser, pages["circles"]) as visit:
        visit.page.locator("#choose summary").click()
        k = visit.run("data.cuts.ks.find((k, at) => data.cuts.names[at] !== tree.name)")
        slide(visit, k)
        wait(visit, "!document.getElementById('branches-hint').hidden")
        assert visit.page.locator("#branches li").count() == k
        visit.page.locator("#branches button[data-unfold]:not([disabled])").first.focus()
        for n in (k + 1, k + 2):
            visit.page.keyboard.press("Enter")
            wait(visit, f"document.querySelectorAll('#branches li').length === {n}")
            assert re.match(r"(Split|Fold) cluster \d+", visit.run("document.activeElement.getAttribute('aria-label')"))
        assert visit.troubles == []


def test_rows_without_structure_are_called_so(browser, monkeypatch, tmp_path):
    monkeypatch.setattr(figure_cuts, "MOST_CLUSTERS", 12)
    X = np.random.default_rng(0).normal(size=(1200, 3))
    path = report.write(USPEC(5, n_representatives=150, random_state=0).fit(X), X, tmp_path / "noise.html")
    with Visit(browser, path) as visit:
        assert "one cloud without clusters" in visit.page.locator("#verdict").inner_text()
        assert visit.page.locator("[data-suggested]").count() == 0
        assert visit.page.locator("#verdicts tr.good").count() == 0


def test_verdicts_are_true_of_unions_parts_and_fragments(browser, monkeypatch, tmp_path):
    monkeypatch.setattr(figure_cuts, "MOST_CLUSTERS", 12)
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [9, 0], [0, 9], [9, 9]])
    y = rng.integers(0, 4, 1500)
    X = centers[y] + rng.normal(size=(1500, 2)) * 0.8
    path = report.write(USPEC(4, n_representatives=200, random_state=0).fit(X), X, tmp_path / "blobs.html")
    with Visit(browser, path) as visit:
        assert "All 4 clusters are real" in visit.page.locator("#verdict").inner_text()
        assert visit.page.locator(".chip.best").inner_text() == "4 most"
        slide(visit, 3)
        wait(visit, "document.querySelectorAll('#verdicts tr').length === 3")
        parts = [len(np.unique(y[np.array(visit.run("Array.from(current.labels)")) == code])) for code in range(3)]
        for code, n in enumerate(parts):
            sentence = visit.page.locator(f"[data-verdict='{code}'] .sentence").inner_text()
            assert ("divided into 2" in sentence) == (n == 2), sentence
        assert "4 clusters stand out more" in visit.page.locator("#verdict").inner_text()
        slide(visit, 9)
        wait(visit, "document.querySelectorAll('#verdicts tr').length === 9")
        labels = np.array(visit.run("Array.from(current.labels)"))
        for code in range(9):
            mine = labels == code
            if mine.sum() < 0.8 * (y == np.bincount(y[mine]).argmax()).sum():
                assert visit.page.locator(f"[data-verdict='{code}'].good").count() == 0


def test_a_column_without_a_difference_is_called_average(browser, pages):
    with Visit(browser, pages["table"]) as visit:
        assert visit.run("[0.05, -0.05, 0.2, -1, 2].map(directionWord)") == [
            "average",
            "average",
            "slightly high",
            "low",
            "very high",
        ]
        assert "≈ average" in visit.page.locator("#cards").inner_text()


def test_a_model_without_a_tree_says_why(browser, pages):
    with Visit(browser, pages["paper"]) as visit:
        assert visit.page.locator("#n-clusters").is_disabled()
        assert "has no tree" in visit.page.locator("#choice-text").inner_text()
        assert visit.page.locator("#download-cut").is_disabled()
        assert visit.page.locator("#repeat-python").inner_text() == "labels = model.labels_"
        assert visit.page.locator("#cards article").count() == 4
        assert visit.page.locator("[data-example]").count() > 8
        assert visit.colored("#map") > 100
        assert visit.troubles == []


# Columns


def test_every_cluster_is_described_by_its_columns(browser, pages, table):
    model, X, describe, _ = table
    with Visit(browser, pages["table"]) as visit:
        for code in range(4):
            mine = model.labels_ == code
            card = visit.page.locator(f"[data-card='{code}']")
            means = (X[mine].mean() - X.mean()) / X.std()
            strongest = means[["age", "income"]].abs().idxmax()
            line = card.locator(f"li[data-feature='{strongest}']")
            assert ("▲" if means[strongest] > 0 else "▼") in line.inner_text()
            assert float(line.locator(".value").inner_text()) == pytest.approx(X[strongest][mine].mean(), rel=2e-3)
            (country,) = set(describe["country"][mine])
            assert f"{country} 100.0 %" in card.inner_text()
            term = set(describe["note"][mine].str.split().str[1]).pop()
            assert term in card.inner_text()
        heat = visit.page.locator("#heat tbody tr").first.inner_text()
        assert "+" in heat or "−" in heat
        slide(visit, 3)
        wait(visit, "document.querySelectorAll('#cards article').length === 3")
        sizes = visit.run(SIZES)
        assert sum(sizes) == len(X)
        assert visit.troubles == []


def test_the_list_says_what_each_cluster_is_if_columns_have_names(browser, pages, table):
    model, X, describe, _ = table
    with Visit(browser, pages["table"]) as visit:
        for code in range(4):
            phrase = visit.page.locator(f"[data-cluster='{code}'] .phrase").inner_text()
            mine = model.labels_ == code
            means = (X[mine].mean() - X.mean())[["age", "income"]]
            strongest = means.abs().idxmax()
            assert re.search(rf"{'high' if means[strongest] > 0 else 'low'} {strongest}\b", phrase)
            assert f"100 % {next(iter(describe['country'][mine]))} (country)" in phrase
        slide(visit, 6)
        wait(visit, "document.querySelectorAll('#clusters .phrase').length === 6")
        slide(visit, 20)
        assert visit.page.locator("#clusters .phrase").count() == 0
    with Visit(browser, pages["circles"]) as visit:
        assert visit.page.locator(".phrase").count() == 0


def test_missing_values_do_not_count(browser, pages, table):
    model, _, describe, _ = table
    with Visit(browser, pages["table"]) as visit:
        found = visit.run("""() => {
            const j = profile.names.indexOf("visits"), found = profileOf(current.groups, 4);
            const places = [0, 1, 2, 3].map((code) => code * profile.d + j);
            return places.map((at) => [found.n[at], rawMean(j, found.mean[at])]);
        }""")
        for code, (n, mean) in enumerate(found):
            mine = describe["visits"][model.labels_ == code]
            assert n == mine.notna().sum()
            assert mean == pytest.approx(mine.mean(), abs=1e-3)


def test_examples_are_rows_of_their_clusters(browser, pages, table):
    model, X, describe, _ = table
    with Visit(browser, pages["table"]) as visit:
        found = visit.run("""() => {
            const labels = new Uint16Array(examples.n);
            vote(examples, current.groups, labels, null);
            return [examples.rows, Array.from(labels), examples.kinds, examples.values, examples.names];
        }""")
        rows, labels, kinds, values, names = found
        assert np.array_equal(model.labels_[rows], labels)
        for code in range(4):
            mine = [kind for kind, label in zip(kinds, labels, strict=True) if label == code]
            assert any("t" in kind for kind in mine)
            assert any("o" in kind for kind in mine)
        for row, line in zip(rows, values, strict=True):
            assert line[names.index("country")] == describe["country"][row]
            assert float(line[names.index("age")]) == pytest.approx(X["age"][row], rel=1e-3)
        # odd rows are farther from the middle of their group than typical ones
        middle = X.groupby(model.labels_).transform("mean")
        far = np.sqrt(((X - middle) ** 2).sum(axis=1))
        odd = [row for row, kind in zip(rows, kinds, strict=True) if kind == "o"]
        typical = [row for row, kind in zip(rows, kinds, strict=True) if kind == "t"]
        assert far[odd].mean() > 1.3 * far[typical].mean()


def test_hostile_names_stay_text(browser, pages, table):
    with Visit(browser, pages["table"]) as visit:
        slide(visit, 7)
        visit.page.locator("#color-by").select_option(label=HOSTILE)
        wait(visit, "document.querySelectorAll('#cards article').length === 7")
        assert "</style><b>" in visit.page.locator("#cards").inner_text()
        assert "</script><script>alert(1)</script>" in visit.page.locator("#cards").inner_text()
        visit.page.locator(".key").first.click()
        assert visit.run("document.images.length") == 0
        assert visit.run("document.querySelectorAll('script').length") == 2
        assert visit.run("document.querySelectorAll('#cards b b').length") == 0
        assert visit.run("getComputedStyle(document.body).marginTop") == "0px"  # the style sheet was not closed
        assert visit.troubles == []
        assert visit.requests == [pages["table"].as_uri()]


def test_columns_of_another_length_are_refused(circles, tmp_path):
    model, X, y = circles
    with pytest.raises(ValueError, match=r"describe\['a'\] must have one value for each of the 6,000 rows"):
        report.write(model, X, tmp_path / "a.html", describe={"a": [1, 2]})
    with pytest.raises(TypeError, match="describe must be a frame or a mapping"):
        report.write(model, X, tmp_path / "a.html", describe=[1, 2])
    with pytest.raises(ValueError, match="labels must have one entry"):
        report.write(model, X, tmp_path / "a.html", compare={"truth": y[:5]})


# The map


def test_colours_follow_a_column(browser, pages):
    with Visit(browser, pages["table"]) as visit:
        before = visit.image("#map")
        visit.page.locator("#color-by").select_option(label="income")
        by_income = visit.image("#map")
        assert by_income != before
        assert visit.page.locator("#scale").is_visible()
        visit.page.locator("#color-by").select_option(label="age")
        assert visit.image("#map") not in (before, by_income)
        visit.page.locator("#color-by").select_option("sure")
        visit.page.locator("#color-by").select_option("cluster")
        assert visit.image("#map") == before


@pytest.mark.parametrize("kind", ["circles", "raster"])
def test_a_lasso_selects_rows(browser, pages, circles, kind, tmp_path):
    _, X, _ = circles
    with Visit(browser, pages[kind]) as visit:
        visit.page.set_viewport_size({"width": 1100, "height": 1700})  # the whole map is in sight
        slide(visit, 11)
        box = visit.page.locator("#map").bounding_box()
        corners = visit.run(
            "[[0.3, 0.3], [0.7, 0.3], [0.7, 0.7], [0.3, 0.7]].map(([x, y]) => [mapArea.x(x), mapArea.y(y)])"
        )
        visit.page.locator("[data-tool=lasso]").click()
        mouse = visit.page.mouse
        mouse.move(box["x"] + corners[0][0], box["y"] + corners[0][1])
        mouse.down()
        for x, y in corners[1:]:
            mouse.move(box["x"] + x, box["y"] + y, steps=4)
        mouse.up()
        frame = visit.run("data.map.frame")
        low, high = np.array(frame["low"]), np.array(frame["high"])
        share = (X - low) / (high - low)
        rows = np.array(visit.run("Array.from(drawn.rows)"), dtype=int)
        inside = rows[((share[rows] > 0.3) & (share[rows] < 0.7)).all(axis=1)]
        chosen = np.array(visit.run("Array.from(drawn.rows).filter((_, i) => state.selected[i])"), dtype=int)
        assert len(np.setxor1d(inside, chosen)) <= 0.02 * len(inside)
        assert f"{len(chosen):,} rows selected" in visit.page.locator("#selection-title").inner_text()
        assert visit.page.locator("#selection-profile li").count() == 2
        with visit.page.expect_download() as download:
            visit.page.locator("#selection-csv").click()
        download.value.save_as(tmp_path / "rows.csv")
        frame = pandas.read_csv(tmp_path / "rows.csv")
        assert np.array_equal(frame["row"], chosen)
        assert np.allclose(frame[["feature 0", "feature 1"]], X[chosen], atol=1e-3)
        visit.page.locator("#selection-clear").click()
        assert visit.page.locator("#selection").is_hidden()
        assert visit.troubles == []


def test_selected_rows_have_the_columns_that_describe_them(browser, pages, table, tmp_path):
    _, X, describe, _ = table
    with Visit(browser, pages["table"]) as visit:
        visit.run("selectPolygon([[0, 0], [1e-6, 0], [0, 1e-6]])")
        assert visit.page.locator("#selection-title").inner_text() == "No rows selected"
        assert visit.page.locator("#selection-csv").is_hidden()
        visit.page.locator("#map").focus()
        visit.page.keyboard.press("Enter")
        assert "country" in visit.page.locator("#selection-described").inner_text()
        with visit.page.expect_download() as download:
            visit.page.locator("#selection-csv").click()
        download.value.save_as(tmp_path / "rows.csv")
        found = pandas.read_csv(tmp_path / "rows.csv").set_index("row")
        assert len(found) > 0.9 * len(X)
        for name in ("country", "note"):
            expected = describe[name][found.index].str.replace("=1+1", "'=1+1")
            assert found[name].tolist() == expected.tolist()


def test_columns_that_were_not_clustered_are_marked(browser, pages, table):
    mark = "not used for clustering"
    with Visit(browser, pages["table"]) as visit:
        for place in ("#heat thead th", "#examples thead th", "#color-by option"):
            for text in visit.page.locator(place).all_inner_texts():
                assert (mark in text) == (text.split("\n")[0].split(" (")[0] in table[2].columns or "</scr" in text), (
                    text
                )
        assert mark in visit.page.locator("[data-card='0'] [data-feature=visits]").inner_text()
        assert mark not in visit.page.locator("[data-card='0'] [data-feature=age]").inner_text()


def test_formulas_are_not_written_to_csv(browser, pages):
    with Visit(browser, pages["table"]) as visit:
        cells = ["=1+1", "@x", "-2.5", "-x", 'a"b', "a,b", "+3"]
        assert visit.run("cells => cells.map(csvCell)", cells) == [
            "'=1+1",
            "'@x",
            "-2.5",
            "'-x",
            '"a""b"',
            '"a,b"',
            "'+3",
        ]


@pytest.mark.parametrize("kind", ["circles", "raster"])
def test_the_map_zooms_and_moves(browser, pages, kind):
    with Visit(browser, pages[kind]) as visit:
        before = visit.image("#map")
        cells = visit.run("unitRaster && rasterLevel(unitRaster).w")
        for _ in range(5):
            visit.page.locator("#zoom-in").click()
        assert visit.image("#map") != before
        if kind == "raster":
            assert visit.run("rasterLevel(unitRaster).w") > cells  # it sharpens
        scale = visit.run("zoom.scale")
        visit.page.locator("#map").focus()
        visit.page.keyboard.press("ArrowRight")
        moved = visit.run("[zoom.x, zoom.scale]")
        visit.page.keyboard.press("+")
        assert visit.run("zoom.scale") < scale
        visit.page.keyboard.press("Enter")
        assert visit.run("state.selected !== null")
        visit.page.keyboard.press("Escape")
        visit.page.keyboard.press("0")
        assert visit.run("zoom.scale") == 1
        assert moved[0] > 0
        assert visit.image("#map") == before
        visit.page.set_viewport_size({"width": 1100, "height": 1700})  # the whole map is in sight
        box = visit.page.locator("#map").bounding_box()
        visit.page.mouse.move(box["x"] + 300, box["y"] + 200)
        visit.page.mouse.wheel(0, -400)
        wait(visit, "zoom.scale < 1")
        x = visit.run("zoom.x")
        visit.page.mouse.down()
        visit.page.mouse.move(box["x"] + 200, box["y"] + 200, steps=4)
        visit.page.mouse.up()
        assert visit.run("zoom.x") > x
        visit.page.locator("#zoom-reset").click()
        assert visit.image("#map") == before
        assert visit.troubles == []


# Comparison


@pytest.mark.parametrize("kind", ["circles", "raster"])
def test_two_labelings_are_compared(browser, pages, circles, cuts, kind):
    y = circles[2]
    with Visit(browser, pages[kind]) as visit:
        rows = np.array(visit.run("Array.from(drawn.rows)"), dtype=int)
        for k in (3, 11):
            slide(visit, k)
            visit.run("showComparison()")
            labels = cuts[k][rows]
            shown = {
                name: float(visit.page.locator(f"[data-score={name}]").inner_text()) for name in ("ari", "ami", "nmi")
            }
            assert shown["ari"] == pytest.approx(metrics.ari(y[rows], labels), abs=1e-3)
            assert shown["nmi"] == pytest.approx(metrics.nmi(y[rows], labels), abs=1e-3)
            assert shown["ami"] == pytest.approx(adjusted_mutual_info_score(y[rows], labels), abs=1e-3)
            assert visit.page.locator("#flows path").count() >= 11
            assert visit.page.locator("#compare-table tr").count() > 0
        visit.page.locator("#compare-with").select_option(label="11 clusters")
        assert visit.page.locator("[data-score=ari]").inner_text() == "1.000"
        assert visit.page.locator("#compare-none").is_visible()
        visit.page.locator("#compare-with").select_option(label="truth")
        visit.page.locator("#compare-show").click()
        assert visit.run(SIZES) == np.bincount(y).tolist()
        assert visit.troubles == []


def test_the_first_comparison_is_with_other_clusters(browser, pages):
    with Visit(browser, pages["ensemble"]) as visit:
        assert float(visit.page.locator("[data-score=ari]").inner_text()) < 1
    with Visit(browser, pages["circles"]) as visit:
        assert visit.run("document.getElementById('compare-with').selectedOptions[0].textContent") == "truth"


def test_all_parts_follow_the_slider(browser, pages):
    with Visit(browser, pages["circles"]) as visit:
        slide(visit, 17)
        wait(visit, "document.querySelectorAll('#cards article').length === 17")
        wait(visit, "document.querySelectorAll('#verdicts tr').length === 17")
        wait(visit, "document.querySelectorAll('#sizes .bar').length === 17")
        wait(visit, "document.querySelectorAll('#heat tbody tr').length === 17")
        graph = visit.image("#graph")
        slide(visit, 4)
        wait(visit, "document.querySelectorAll('#sizes .bar').length === 4")
        visit.page.wait_for_timeout(300)
        assert visit.image("#graph") != graph


def test_clusters_that_touch_have_different_colours(browser, pages):
    with Visit(browser, pages["circles"]) as visit:
        for k in (6, 14, 30, 60):
            slide(visit, k)
            colors, pairs = visit.run("[current.sizes.map((_, code) => colorOf(code)), touching()]")
            assert len(colors) == len(visit.run(SIZES))
            assert len({(color, code % 7) for code, color in enumerate(colors)}) == len(colors)  # colour and marker
            assert not [(a, b) for a, b, share in pairs if share > 0.05 and colors[a] == colors[b]]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_whatever_the_cut(browser, pages, width):
    for kind in ("circles", "table", "ensemble"):
        with Visit(browser, pages[kind], width=width) as visit:
            for k in (2, 23, 60):
                slide(visit, k)
                visit.page.wait_for_timeout(300)
                assert visit.run("document.documentElement.scrollWidth <= innerWidth"), (kind, k)
                assert visit.page.locator("#choice-text").is_visible()
            boxes = visit.run("mapArea.names")
            for i, (x, y, w, h, _) in enumerate(boxes):
                for a, b, c, d, _ in boxes[:i]:
                    assert abs(x - a) >= (w + c) / 2 - 0.01 or abs(y - b) >= (h + d) / 2 - 0.01


def test_pages_work_without_a_network(browser, pages):
    with Visit(browser, pages["table"], offline=True) as visit:
        slide(visit, 5)
        assert len(visit.run(SIZES)) == 5
        assert visit.troubles == []


# What a walk through the whole page found


def test_each_example_has_one_kind(browser, pages):
    with Visit(browser, pages["circles"]) as visit:
        for k in (2, 6, 40, 60):
            slide(visit, k)
            clusters = visit.run("""() => {
                const labels = new Uint16Array(examples.n), sure = new Uint8Array(examples.n);
                vote(examples, current.groups, labels, sure);
                return current.sizes.map((_, code) => chooseExamples(
                    Array.from(labels.keys()).filter((i) => labels[i] === code), sure));
            }""")
            for rows in clusters:
                assert len({i for _, i in rows}) == len(rows)
                assert rows[0][0] == "t"  # every cluster has a typical row, which comes first
        assert visit.run("chooseExamples([], [])") == []


def test_the_wheel_scrolls_the_page_until_the_map_is_used(browser, pages):
    with Visit(browser, pages["circles"]) as visit:
        page = visit.page
        box = page.locator("#map").bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + 100)
        page.mouse.wheel(0, -300)
        page.mouse.wheel(0, 300)
        wait(visit, "scrollY > 0")
        assert visit.run("zoom.scale") == 1
        assert page.locator("#wheel-hint").is_visible()
        assert "scroll zooms the map" in page.locator("#wheel-hint").inner_text()
        wait(visit, "document.getElementById('wheel-hint').hidden")
        visit.run("scrollTo(0, 0)")
        page.keyboard.down("Control")
        page.mouse.wheel(0, -300)
        wait(visit, "zoom.scale < 1")
        page.keyboard.up("Control")
        scale = visit.run("zoom.scale")
        page.mouse.wheel(0, -100)  # now the map is in use
        wait(visit, f"zoom.scale < {scale}")
        page.locator("#list-hint").click()  # and now it is not
        scale = visit.run("zoom.scale")
        page.mouse.move(box["x"] + 200, box["y"] + 100)
        page.mouse.wheel(0, 200)
        wait(visit, "scrollY > 0")
        assert visit.run("zoom.scale") == scale
        visit.run("scrollTo(0, 0)")
        page.locator("#zoom-reset").click()
        page.mouse.move(box["x"] + 200, box["y"] + 100)
        page.mouse.wheel(0, 200)  # the whole map is seen: the page scrolls on
        wait(visit, "scrollY > 0")
        assert visit.run("zoom.scale") == 1
        assert visit.troubles == []


def test_fingers_move_the_map_only_where_it_can_be_moved(browser, pages):
    touch = "getComputedStyle(document.getElementById('map')).touchAction"
    with Visit(browser, pages["circles"], width=390, has_touch=True) as visit:
        assert visit.run(touch) == "pan-y"
        visit.page.locator("[data-tool=lasso]").click()
        assert visit.run(touch) == "none"
        visit.page.locator("[data-tool=pan]").click()
        visit.page.locator("#zoom-in").click()
        assert visit.run(touch) == "none"
        visit.page.locator("#zoom-reset").click()
        assert visit.run(touch) == "pan-y"


def test_marks_of_right_to_left_text_turn_nothing_around_them(browser, table, tmp_path):
    model, X, _, group = table
    turning = "\u202eevil \u2067\u05d0\u05d1"
    describe = pandas.DataFrame({f"co{turning}lumn": np.array([turning, "b", "c", "\u05d0\u05d1"])[group]})
    labels = np.array([turning, "b", "c", "d"])[group]
    paths = [
        report.write(model, X, tmp_path / "a.html", describe=describe, compare={turning: labels}),
        report.write(model, X, tmp_path / "b.html", labels=labels),
    ]
    turned = """() => [...document.querySelectorAll("main *")].filter((element) => element.id !== "data")
        .filter((element) => /[\\u202a-\\u202e\\u2066-\\u2069]/.test(element.textContent + element.title))
        .map((element) => element.outerHTML)"""
    for path in paths:
        with Visit(browser, path) as visit:
            visit.page.locator(".key").first.click()
            visit.page.locator("#map").focus()
            visit.page.keyboard.press("Enter")
            assert visit.run(turned) == []
            assert visit.troubles == []
    with Visit(browser, paths[0]) as visit:
        phrase = visit.page.locator(f"[data-cluster='{model.labels_[group == 3][0]}'] .phrase")
        boxes = phrase.locator("bdi").evaluate_all("all => all.map((e) => e.textContent)")
        assert "\u05d0\u05d1" in boxes


def test_the_larger_of_two_numbers_is_suggested_if_its_clusters_are_as_real(browser, monkeypatch, tmp_path):
    monkeypatch.setattr(figure_cuts, "MOST_CLUSTERS", 14)
    X, y = datasets.generate("cg", 20_000, random_state=0)
    model = USPEC(6, random_state=0).fit(X)
    with Visit(browser, report.write(model, X, tmp_path / "cg.html")) as visit:
        assert visit.run("data.suggested[0].k") == 11
        note = "#verdict li"
        assert "11 clusters stand out more than 6" in visit.page.locator(note).inner_text()
        slide(visit, 10)
        wait(visit, "document.querySelectorAll('#verdicts tr').length === 10")
        assert "11 clusters stand out more than 10" in visit.page.locator(note).inner_text()
        slide(visit, 11)
        assert "All 11 clusters are real" in visit.page.locator(note).inner_text()
        assert metrics.ari(visit.run("Array.from(current.labels)"), y) > 0.95
        assert visit.page.locator("#stability text.strong").text_content() == "11 most"


# Notebooks


def test_a_model_shows_itself(browser, circles, tmp_path):
    model, _X, _ = circles
    assert model._repr_html_() == model._repr_mimebundle_()["text/html"]
    (tmp_path / "cell.html").write_text(f"<p>Out[1]:</p>{model._repr_html_()}", encoding="utf-8")
    with Visit(browser, tmp_path / "cell.html") as visit:
        frame = visit.page.frames[1]
        assert frame.evaluate(SIZES) == np.bincount(model.labels_).tolist()
        for k in (2, 9, 40):
            frame.locator("#n-clusters").fill(str(k))
            scope = {"model": model}
            exec(frame.locator("#repeat-python").inner_text(), scope)
            assert frame.evaluate(SIZES) == np.bincount(scope["labels"]).tolist()
        frame.locator("#back").click()
        assert frame.evaluate(SIZES) == np.bincount(model.labels_).tolist()
        assert visit.troubles == []


def test_models_without_rows_show_the_diagram(circles, tmp_path):
    assert "iframe" not in USPEC(3)._repr_html_()
    save(circles[0], tmp_path / "m.ultraspec")
    assert "iframe" not in load(tmp_path / "m.ultraspec")._repr_html_()
    assert "iframe" not in USPEC.paper(3).fit(circles[1][:500])._repr_html_()


def test_the_page_is_shown_in_a_frame(browser, table, tmp_path):
    view = report.show(*table[:2], describe=table[2], height=700)
    assert "700px" in view._repr_html_()
    assert "a notebook shows it" in repr(view)
    (tmp_path / "cell.html").write_text(view._repr_html_(), encoding="utf-8")
    with Visit(browser, tmp_path / "cell.html") as visit:
        frame = visit.page.frames[1]
        assert frame.evaluate(SIZES) == np.bincount(table[0].labels_).tolist()
        assert visit.troubles == []


def test_one_feature_gives_a_histogram(browser, tmp_path):
    X = blobs(900, k=3)[0][:, :1]
    model = USPEC(3, n_representatives=100, random_state=0).fit(X)
    with Visit(browser, report.write(model, X, tmp_path / "one.html")) as visit:
        heights = np.array(visit.run("Array.from(drawn.xy)")).reshape(-1, 2)[:, 1] / 65535
        top = visit.run("data.map.frame.high[1]")
        assert heights.max() * top == pytest.approx(np.histogram(X, bins=120)[0].max(), rel=0.4)
        slide(visit, 5)
        assert visit.run(SIZES) == np.bincount(model.cut(5).labels_).tolist()
