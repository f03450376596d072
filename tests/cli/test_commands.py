"""The commands, from files to files."""

from __future__ import annotations

import html
import json
import os
import re
import shlex

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.helpers.cli_tools import Shell, circles, read_columns, write_data
from tests.helpers.common import python
from ultraspec import USENC, USPEC, datasets, load, metrics
from ultraspec._estimator import fitted as internal
from ultraspec.cli import _labelling
from ultraspec.engines.progress import Reporter
from ultraspec.persistence.cuts import model_key
from ultraspec.rows import ArrayRows

pytestmark = pytest.mark.usefixtures("few_cuts", "few_halves")


@pytest.fixture(scope="module")
def data():
    return circles()


@pytest.fixture
def shell(capsys, tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path, data[0])
    np.save(tmp_path / "y.npy", data[1])
    return Shell(capsys, tmp_path)


@pytest.fixture(scope="module")
def fitted(data):
    return USPEC(3, random_state=0).fit(data[0])


@pytest.fixture(scope="module")
def fitted_ensemble(data):
    return USENC(3, n_estimators=4, random_state=0).fit(data[0])


class TestFit:
    @pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npy", ".npz"])
    def test_labels_are_those_of_the_library(self, shell, fitted, suffix):
        shell.fine("fit", "x.npy", "-k", 3, "--seed", 0, "-o", f"labels{suffix}")
        found = read_columns(shell.folder / f"labels{suffix}")
        assert list(found) == (["label"] if suffix == ".npy" else ["label", "confidence"])
        np.testing.assert_array_equal(found["label"], fitted.labels_)
        if suffix != ".npy":
            np.testing.assert_array_equal(found["confidence"].astype(np.float32), fitted.confidence_)
        if suffix != ".csv":
            assert [column.dtype for column in found.values()] == [np.int32, np.float32][: len(found)]

    @pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npz", ".npy"])
    def test_an_ensemble_gives_confidence_too(self, shell, fitted_ensemble, suffix):
        words = ["fit", "x.npy", "-k", 3, "--ensemble", "--n-estimators", 4, "--seed", 0, "-o", f"labels{suffix}"]
        facts = shell.facts(*words)
        found = read_columns(shell.folder / f"labels{suffix}")
        np.testing.assert_array_equal(found["label"], fitted_ensemble.labels_)
        if suffix != ".npy":
            np.testing.assert_array_equal(found["confidence"].astype(np.float32), fitted_ensemble.confidence_)
        assert facts["mean_confidence"] == pytest.approx(fitted_ensemble.confidence_.mean(), abs=1e-5)

    @pytest.mark.parametrize("name", ["x.npy", "x.parquet", "x.csv"])
    def test_formats_of_the_data_make_no_difference(self, shell, fitted, name):
        shell.fine("fit", name, "-k", 3, "--seed", 0, "-o", "labels.npy")
        np.testing.assert_array_equal(np.load("labels.npy"), fitted.labels_)

    def test_result(self, shell, fitted):
        facts = shell.facts("fit", "x.npy", "-k", 3, "--seed", 0, "-o", "l.npy", "--model", "m.u")
        sizes = np.bincount(fitted.labels_).tolist()
        assert (facts["rows"], facts["features"], facts["clusters"], facts["sizes"]) == (1000, 2, 3, sizes)
        assert facts["sizes"] == np.bincount(np.load("l.npy")).tolist()  # in the order of the labels
        assert facts["outputs"] == {"labels": str(shell.folder / "l.npy"), "model": str(shell.folder / "m.u")}
        out = shell.fine("fit", "x.npy", "-k", 3, "--seed", 0)
        assert re.search(r"^Sizes +" + ", ".join(f"{n:,}" for n in sorted(sizes, reverse=True)), out, re.M)
        assert "not written" in out

    def test_a_seed_that_was_not_given_is_shown_and_repeats_the_run(self, shell):
        seed = shell.facts("fit", "x.npy", "-k", 3, "-o", "a.npy")["seed"]
        shell.fine("fit", "x.npy", "-k", 3, "-o", "b.npy", "--seed", seed)
        np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))

    def test_auto(self, shell, data):
        facts = shell.facts("fit", "x.npy", "-k", "auto", "--seed", 0)
        assert facts["clusters"] == USPEC("auto", random_state=0).fit(data[0]).n_clusters_

    def test_columns_by_name_and_by_number(self, shell, data):
        np.savetxt("bare.csv", data[0], delimiter=",", fmt="%.9g")
        for name, columns in (("x.parquet", "x1,x0"), ("x.csv", "x1,x0"), ("x.npy", "1,0"), ("bare.csv", "1,0")):
            shell.fine("fit", name, "--columns", columns, "-k", 3, "--seed", 0, "-o", "l.npy", "--force")
            expected = USPEC(3, random_state=0).fit_predict(data[0][:, ::-1])
            np.testing.assert_array_equal(np.load("l.npy"), expected)

    def test_csv_of_other_habits(self, shell, data, fitted):
        lines = [";".join(f"{x:.9g}".replace(".", ",") for x in row) for row in data[0]]
        (shell.folder / "t.csv").write_text("\n".join(lines))
        words = ["fit", "t.csv", "-k", 3, "--seed", 0, "-o", "l.npy", "--report", "r.html"]
        line = shell.refused(*words)
        assert line.endswith("Try --delimiter ';' and --decimal ','.")
        code, _, err = shell(*words, "--delimiter", ";", "--decimal", ",")
        assert code == 0
        assert "warning" not in err
        np.testing.assert_array_equal(np.load("l.npy"), fitted.labels_)
        page = (shell.folder / "r.html").read_text(encoding="utf-8")
        assert "--delimiter ';' --decimal ," not in page
        assert "--delimiter ';' --decimal ," in html.unescape(page)

    def test_guesses_about_a_csv_are_told(self, shell):
        (shell.folder / "t.csv").write_text("\n".join(["2019,2020", *(f"{i % 7},{i % 5}" for i in range(50))]))
        assert "If that is wrong, pass --header; if it is right, --no-header" in shell("fit", "t.csv", "-k", 2)[2]
        (shell.folder / "t.csv").write_text("\n".join([",x,y", *(f"{i},{i % 7},{i % 5}" for i in range(50))]))
        assert "choose columns by number, as in --columns 0,1." in shell("fit", "t.csv", "-k", 2)[2]
        assert shell.facts("fit", "t.csv", "-k", 2)["features"] == 2
        assert shell.facts("fit", "t.csv", "-k", 2, "--columns", "0,1,2")["features"] == 3

    def test_an_array_of_an_archive(self, shell, data, fitted):
        np.savez("two.npz", other=np.zeros((5, 2)), mine=data[0])
        shell.fine("fit", "two.npz", "--array", "mine", "-k", 3, "--seed", 0, "-o", "l.npy")
        np.testing.assert_array_equal(np.load("l.npy"), fitted.labels_)

    def test_checkpoint(self, shell, fitted_ensemble):
        words = ["fit", "x.npy", "-k", 3, "--ensemble", "-m", 4, "--seed", 0, "--checkpoint", "members"]
        shell.fine(*words, "-o", "a.npy")
        assert len(list(shell.folder.glob("members/member-*.npz"))) == 4
        shell.fine(*words, "-o", "b.npy")
        np.testing.assert_array_equal(np.load("a.npy"), fitted_ensemble.labels_)
        np.testing.assert_array_equal(np.load("b.npy"), fitted_ensemble.labels_)

    def test_a_checkpoint_without_a_seed_shows_one_and_goes_on_with_it(self, shell):
        words = ["fit", "x.npy", "-k", 3, "--ensemble", "-m", 4]
        seed = shell.facts(*words, "--checkpoint", "members", "-o", "a.npy")["seed"]
        (shell.folder / "members" / "member-0002.npz").unlink()
        assert f"Seed        {seed}\n" in shell.fine(*words, "--checkpoint", "members", "-o", "b.npy")
        shell.fine(*words, "--seed", seed, "-o", "c.npy")
        np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
        np.testing.assert_array_equal(np.load("a.npy"), np.load("c.npy"))

    @pytest.mark.parametrize(
        "words",
        [
            ["--discretize", "linked", "--graph-rows", "1_500", "--n-components", "none"],
            ["--ensemble", "-m", 4, "--consensus", "transfer_cut"],
        ],
    )
    def test_other_ways_to_find_clusters(self, shell, data, words):
        shell.fine("fit", "x.npy", "-k", 3, "--seed", 0, *words, "-o", "a.npy", "--report", "r.html")
        if "--ensemble" in words:
            model = USENC(3, n_estimators=4, consensus="transfer_cut", random_state=0)
        else:
            model = USPEC(3, discretize="linked", graph_rows=1500, n_components=None, random_state=0)
        np.testing.assert_array_equal(np.load("a.npy"), model.fit_predict(data[0]))
        again = re.search(r"ultraspec fit x\.npy[^<\n]*", (shell.folder / "r.html").read_text(encoding="utf-8"))
        shell.fine(*shlex.split(again[0])[1:], "-o", "b.npy")
        np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))

    def test_the_report_of_other_rows_does_not_name_them_as_the_fitted_ones(self, shell, data):
        np.save("some.npy", data[0][:500])
        shell.fine("fit", "x.npy", "-k", 3, "--seed", 0, "--model", "m.u")
        for name, fitted in (("x.npy", True), ("some.npy", False)):
            shell.fine("report", "m.u", name, "-o", "r.html", "--force")
            page = (shell.folder / "r.html").read_text(encoding="utf-8")
            assert (f"ultraspec fit {name} -k 3" in page) == fitted
            assert ("# DATA: the 1,000 rows that were fitted" in page) != fitted

    def test_the_report_tells_the_command_that_repeats_the_run(self, shell):
        import html

        words = ["fit", "x.parquet", "-k", 4, "--neighbors", "exact", "--n-neighbors", 6, "--columns", "x1,x0"]
        words += ["--scale", "standard", "--regularization", 0.01]
        shell.fine(*words, "-o", "a.npy", "--report", "r.html")
        page = html.unescape((shell.folder / "r.html").read_text(encoding="utf-8"))
        again = re.search(r"ultraspec fit x\.parquet[^<\n]*", page)
        shell.fine(*shlex.split(again[0])[1:], "-o", "b.npy")
        np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))


def test_names_of_the_synthetic_sets():
    from ultraspec.cli import _app

    assert _app.SETS == datasets.SYNTHETIC


class TestPredict:
    @pytest.mark.parametrize("more", [[], ["--scale", "standard"], ["--ensemble", "-m", 4]], ids=str)
    @pytest.mark.parametrize("other", ["x.npy", "x.csv"])
    def test_fitted_rows_get_the_labels_that_they_had(self, shell, more, other):
        shell.fine("fit", "x.parquet", "-k", 3, "--seed", 0, "-o", "a.npy", "--model", "m.u", *more)
        facts = shell.facts("predict", "m.u", other, "-o", "b.npy")
        labels = np.load("a.npy")
        np.testing.assert_array_equal(np.load("b.npy"), labels)
        assert facts["sizes"] == np.bincount(labels).tolist()

    def test_a_scaled_model_takes_raw_rows_in_python_too(self, shell, data):
        X = data[0] * [1000.0, 1.0] + [5.0, 0.0]
        np.save("wide.npy", X)
        shell.fine("fit", "wide.npy", "-k", 3, "--seed", 0, "--scale", "standard", "-o", "a.npy", "--model", "m.u")
        labels = np.load("a.npy")
        assert metrics.nmi(data[1], labels) > 0.95
        assert metrics.nmi(data[1], USPEC(3, random_state=0).fit_predict(X)) < 0.5
        np.testing.assert_array_equal(load("m.u").predict(X), labels)

    def test_columns_are_found_by_name(self, shell, data):
        shell.fine("fit", "x.parquet", "-k", 3, "--seed", 0, "-o", "a.npy", "--model", "m.u")
        X = data[0]
        table = pyarrow.table({"id": ["n"] * len(X), "x1": X[:, 1], "x0": X[:, 0]})
        pyarrow.parquet.write_table(table, "other.parquet")
        shell.fine("predict", "m.u", "other.parquet", "-o", "b.npy")
        np.testing.assert_array_equal(np.load("b.npy"), np.load("a.npy"))

    def test_no_more_than_a_few_blocks_are_read_ahead_of_what_is_written(self, fitted, data):
        class Counted(ArrayRows):
            n_read = 0

            def read(self, start, stop):
                self.n_read += 1
                return super().read(start, stop)

        rows = Counted(np.tile(data[0], (40, 1)))
        model = USPEC(3, random_state=0, n_jobs=1).fit(data[0])
        blocks = _labelling.label_blocks(model, rows, Reporter())
        first = next(blocks)
        assert rows.n_read <= _labelling.BLOCKS_PER_THREAD < len(rows.blocks())
        rest = list(blocks)
        labels, confidence = (np.concatenate(column) for column in zip(first, *rest, strict=True))
        np.testing.assert_array_equal(labels, np.tile(fitted.labels_, 40))
        np.testing.assert_array_equal(confidence, np.tile(fitted.confidence_, 40))

    @pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npz"])
    def test_an_ensemble_tells_its_confidence(self, shell, suffix):
        shell.fine("fit", "x.npy", "-k", 3, "--ensemble", "-m", 4, "--seed", 0, "-o", f"a{suffix}", "--model", "m.u")
        shell.fine("predict", "m.u", "x.npy", "-o", f"b{suffix}")
        there, again = read_columns(shell.folder / f"a{suffix}"), read_columns(shell.folder / f"b{suffix}")
        assert list(there) == list(again) == ["label", "confidence"]
        for name in there:
            np.testing.assert_array_equal(there[name], again[name])


class TestEvaluate:
    def test_scores(self, shell, data):
        labels = np.random.default_rng(0).integers(4, size=len(data[1]))
        np.save("l.npy", labels)
        facts = shell.facts("evaluate", "l.npy", "y.npy")
        for name in ("nmi", "majority_accuracy", "hungarian_accuracy", "ari"):
            assert facts[name] == getattr(metrics, name)(data[1], labels)
        assert (facts["rows"], facts["clusters"], facts["classes"]) == (1000, 4, 3)
        assert f"NMI                 {facts['nmi']:.4f}" in shell.fine("evaluate", "l.npy", "y.npy")

    def test_words_and_columns(self, shell, data):
        words = np.array(["ant", "bee", "cow"])[data[1]]
        table = pyarrow.table({"row": np.arange(len(words)), "species": words, "label": data[1]})
        pyarrow.parquet.write_table(table, "t.parquet")
        pyarrow.csv.write_csv(table, "t.csv")
        np.savez("t.npz", X=data[0], y=words)
        for truth in ("t.parquet:species", "t.csv:species", "t.parquet", "t.npz", "t.npz:y"):
            assert shell.facts("evaluate", "y.npy", truth)["ari"] == 1.0
        assert shell.facts("evaluate", "t.parquet", "t.csv", "--column", "species")["ari"] == 1.0

    @pytest.mark.parametrize(("sign", "word"), [(";", ";"), ("\t", "\\t"), ("\t", "tab")])
    def test_other_delimiters(self, shell, data, sign, word):
        (shell.folder / "t.csv").write_text("\n".join([f"a{sign}label", *(f"x{sign}{n}" for n in data[1])]))
        assert shell.facts("evaluate", "y.npy", "t.csv", "--delimiter", word)["ari"] == 1.0
        assert "must be one character" in shell.refused("evaluate", "y.npy", "t.csv", "--delimiter", ";;")

    def test_lengths_must_agree(self, shell):
        np.save("short.npy", np.zeros(7, int))
        assert shell.refused("evaluate", "short.npy", "y.npy").startswith("short.npy has 7 labels and y.npy has 1,000")


class TestGenerate:
    @pytest.mark.parametrize("suffix", [".npy", ".parquet", ".csv"])
    def test_points_are_those_of_the_library(self, shell, suffix):
        facts = shell.facts(
            "generate", "flower", "--rows", "1_000", "--seed", 5, "-o", f"g{suffix}", "--labels", f"c{suffix}"
        )
        X, y = datasets.generate("flower", 1000, random_state=5)
        if suffix == ".npy":
            found = np.load("g.npy")
        else:
            columns = read_columns(shell.folder / f"g{suffix}")
            assert list(columns) == ["x0", "x1"]
            found = np.column_stack(list(columns.values())).astype(np.float32)
        np.testing.assert_array_equal(found, X)
        np.testing.assert_array_equal(read_columns(shell.folder / f"c{suffix}")["label"], y)
        assert "our generator" in facts["note"]

    def test_several_blocks(self, shell, monkeypatch):
        monkeypatch.setattr("ultraspec.datasets.synthetic.stream.__defaults__", (None, 300))
        shell.fine("generate", "tb", "--rows", "1e3", "--seed", 5, "-o", "g.npy", "--labels", "c.npz")
        blocks = list(datasets.stream("tb", 1000, 5, chunk_rows=300))
        np.testing.assert_array_equal(np.load("g.npy"), np.concatenate([X for X, _ in blocks]))
        np.testing.assert_array_equal(np.load("c.npz")["label"], np.concatenate([y for _, y in blocks]))

    def test_says_whose_generator_it_is(self, shell):
        assert "our generator" in shell.fine("generate", "cc", "--rows", "50", "-o", "g.npy")

    def test_looks_for_room_on_the_disk_first(self, shell):
        assert "needs about" in shell.refused("generate", "cc", "--rows", "1e14", "-o", "g.npy")


class TestOthers:
    def test_report(self, shell):
        shell.fine("fit", "x.parquet", "-k", 3, "--seed", 0, "--model", "m.u", "--scale", "standard")
        shell.fine("report", "m.u", "x.parquet", "-o", "r.html", "--title", "Rings & things")
        page = (shell.folder / "r.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert "Rings &amp; things" in page
        assert "ultraspec fit x.parquet -k 3 --seed 0 --scale standard" in page

    def test_demo(self, shell):
        out = shell.fine("demo", "--rows", "1e3")
        assert re.search(r"^NMI +0\.\d{4}|^NMI +1\.0000", out, re.M)
        for name in ("Time", "Cluster sizes", "True sizes", "Report"):
            assert re.search(rf"^{name} +\S", out, re.M)
        assert (shell.folder / "demo-report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
        shell.fine("demo", "--rows", "1e3")  # its own page is drawn anew
        assert "exists" in shell.refused("demo", "--rows", "1e3", "--report", "demo-report.html")
        (shell.folder / "demo-report.html").write_text("my own")
        assert "exists. Pass --force to replace it." in shell.refused("demo", "--rows", "1e3")
        assert (shell.folder / "demo-report.html").read_text(encoding="utf-8") == "my own"
        shell.fine("demo", "--rows", "1e3", "--force")

    def test_demo_without_a_page(self, shell):
        facts = shell.facts("demo", "--rows", "3_000", "--no-report")
        assert not list(shell.folder.glob("*.html"))
        assert sum(facts["sizes"]) == sum(facts["true_sizes"]) == 3000

    def test_bench(self, shell):
        facts = shell.facts("bench", "--quick", "--rows", "2000")
        times = {name: found["seconds"] for name, found in facts["methods"].items()}
        assert facts["ratio"] == pytest.approx(times["U-SPEC"] / times["KMeans"], abs=1e-4)
        assert {"seconds", "runs", "peak_bytes", "nmi"} == set(facts["methods"]["U-SPEC"])
        out = shell.fine("bench", "--quick", "--rows", "2000")
        assert [line.split()[0] for line in out.splitlines()] == ["time", "U-SPEC", "KMeans", "Ratio"]


def test_help_loads_nothing_heavy():
    found = python(
        """
        import contextlib, io, json, sys
        from ultraspec.cli import main
        with contextlib.redirect_stdout(io.StringIO()) as out:
            codes = [main(words) for words in (["--help"], [], ["fit", "--help"], ["--version"], ["fit", "x"])]
        heavy = [name for name in ("numpy", "sklearn", "numba", "pyarrow", "scipy") if name in sys.modules]
        print(json.dumps([codes, heavy, "Examples:" in out.getvalue()]))
        """
    )
    assert found == [[0, 0, 0, 0, 2], [], True]


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "evaluate", "generate", "report", "bench"])
def test_every_help_has_examples(shell, command):
    out = shell.fine(command, "--help")
    assert re.search(rf"Examples:\s+ultraspec {command}|Examples:\s+ultraspec fit", out)


def test_without_typer_the_line_says_what_to_install():
    found = python(
        """
        import contextlib, io, json, sys
        sys.modules["typer"] = None
        from ultraspec.cli import main
        with contextlib.redirect_stderr(io.StringIO()) as err:
            code = main(["demo"])
        print(json.dumps([code, err.getvalue()]))
        """
    )
    assert found == [2, "ultraspec: error: the command line needs typer: pip install 'ultraspec[cli]'\n"]


def test_shell_completion(shell, monkeypatch):
    monkeypatch.setenv("_ULTRASPEC_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "ultraspec generate f")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit):
        shell("generate")
    assert shell._capsys.readouterr().out.split() == ["flower"]


class TestCutsAndColumns:
    def test_predict_takes_a_cut_of_the_report(self, shell, fitted, data):
        shell.fine("fit", "x.npy", "-k", 3, "--seed", 0, "--model", "m.ultraspec")
        model = load("m.ultraspec")
        groups = internal(fitted.cut(5)).partition.groups
        cut = {
            "format": "ultraspec cut",
            "version": 1,
            "model": model_key(model),
            "n_clusters": 5,
            "groups": groups.tolist(),
        }
        (shell.folder / "cut.json").write_text(json.dumps(cut))
        facts = shell.facts("predict", "m.ultraspec", "x.npy", "--cut", "cut.json", "-o", "labels.npy")
        assert facts["clusters"] == 5
        np.testing.assert_array_equal(np.load("labels.npy"), fitted.cut(5).labels_)
        (shell.folder / "bad.json").write_text(json.dumps({**cut, "model": "other"}))
        words = ["predict", "m.ultraspec", "x.npy", "-o", "l.npy", "--cut"]
        assert shell.refused(*words, "bad.json").startswith("bad.json is a cut of another model.")
        (shell.folder / "bad.json").write_text(json.dumps({**cut, "groups": [0, 1]}))
        assert shell.refused(*words, "bad.json").startswith("bad.json is damaged")
        assert "none.json" in shell.refused(*words, "none.json")

    def test_the_report_describes_columns_that_are_not_clustered(self, shell, data):
        X = data[0][:600]
        country = np.where(X[:, 0] > 0, "east", "west")
        table = pyarrow.table({"a": X[:, 0], "country": country, "b": X[:, 1], "age": np.arange(600)})
        pyarrow.parquet.write_table(table, "t.parquet")
        pyarrow.csv.write_csv(table, "t.csv")
        for name in ("t.parquet", "t.csv"):
            facts = shell.facts(
                "fit", name, "-k", 3, "--seed", 0, "--describe", "country,age", "--report", "r.html", "--force"
            )
            assert facts["features"] == 2
            page = (shell.folder / "r.html").read_text(encoding="utf-8")
            assert '"name":"country","categories":["' in page
            assert '"names":["a","b","age"]' in page or '"names":["b","a","age"]' in page
            assert "--describe country,age" in page
        assert "no column 'x'" in shell.refused("fit", "t.csv", "-k", 3, "--describe", "x", "--report", "s.html")
        assert "pass --report too" in shell.refused("fit", "t.csv", "-k", 3, "--describe", "age")
        shell.fine("fit", "t.csv", "-k", 3, "--columns", "a,b", "--model", "m.ultraspec")
        shell.fine("report", "m.ultraspec", "t.csv", "-o", "q.html", "--describe", "age")
        assert '"age"' in (shell.folder / "q.html").read_text(encoding="utf-8")


def test_files_that_another_program_writes_meanwhile_stay_and_nothing_is_lost(shell, monkeypatch):
    usual = USPEC.fit

    def fit(self, X):
        for name in ("l.npy", "n.u", "r.html"):
            (shell.folder / name).write_text("another's")
        return usual(self, X)

    monkeypatch.setattr(USPEC, "fit", fit)
    outputs = ["-o", "l.npy", "--model", "n.u", "--report", "r.html"]
    code, out, err = shell("fit", "x.npy", "-k", 3, *outputs, "--json")
    assert code == 0
    assert err.count("was written by another program meanwhile") == 3
    names = {"labels": "l-2.npy", "model": "n-2.u", "report": "r-2.html"}
    assert json.loads(out)["outputs"] == {key: str(shell.folder / name) for key, name in names.items()}
    assert all((shell.folder / name).read_text() == "another's" for name in ("l.npy", "n.u", "r.html"))
    assert len(np.load(shell.folder / "l-2.npy")) == 1000


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize("option", ["-o", "--model", "--report"])
def test_links_are_replaced_not_what_they_point_to(shell, option):
    name = {"-o": "link.npy", "--model": "link.u", "--report": "link.html"}[option]
    target, link = shell.folder / "target", shell.folder / name
    link.symlink_to("target")
    assert "exists. Pass --force" in shell.refused("fit", "x.npy", "-k", 3, option, name)  # it points to nothing yet
    target.write_text("precious")
    assert "exists. Pass --force" in shell.refused("fit", "x.npy", "-k", 3, option, name)
    shell.fine("fit", "x.npy", "-k", 3, option, name, "--force")
    assert target.read_text() == "precious"
    assert not link.is_symlink()
    link.unlink()
    link.symlink_to("x.npy")
    assert "is an input file" in shell.refused("fit", "x.npy", "-k", 3, option, name, "--force")
