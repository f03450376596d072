"""``ultraspec reproduce`` as users run it: processes and their limits, kills, own methods and data, bad input."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import numpy as np
import psutil
import pyarrow
import pyarrow.parquet
import pytest

from tests.helpers.cli_tools import Shell, circles, start
from ultraspec.reproduce import store
from ultraspec.reproduce.dataset_cache import read_file

MODULE = """
import os, signal, time
import numpy as np

class Fine:
    def __init__(self, n_clusters=2):
        self.n_clusters = n_clusters
    def fit_predict(self, X):
        return (X[:, 0] > X[:, 0].mean()).astype(int) % self.n_clusters

class Slow(Fine):
    def __init__(self, n_clusters=2, random_state=None):
        super().__init__(n_clusters)
    def fit_predict(self, X):
        time.sleep(0.4)
        return super().fit_predict(X)

class Hungry(Fine):
    def fit_predict(self, X):
        held = [np.ones(10_000_000) for _ in range(15)]
        time.sleep(600)

class Endless(Fine):
    def fit_predict(self, X):
        while True:
            time.sleep(0.1)

class Broken(Fine):
    def fit_predict(self, X):
        raise RuntimeError("three is no number")

class Asking(Fine):
    def fit_predict(self, X):
        raise MemoryError("Asking needs 39.2 GB")

class Killed(Fine):
    def fit_predict(self, X):
        os.kill(os.getpid(), signal.SIGKILL)

class Short(Fine):
    def fit_predict(self, X):
        return np.zeros(3)

number = 3
"""


@pytest.fixture
def shell(capsys, tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("my_module", None)
    yield Shell(capsys, tmp_path)
    sys.modules.pop("my_module", None)


TINY = ("--datasets", "TB-1M", "--methods", "k-means", "--scale", "0.001", "-q")


def stored(folder):
    """Give what was stored, but for other parameters than those of Table 4."""
    rows = store.read(folder / "reproduction" / "runs.jsonl")
    return {(r["method"], r["dataset"], r["seed"]): r for r in rows if set(r["parameters"]) <= {"regularization"}}


def test_limits_and_failures_become_reasons(shell, tmp_path):
    names = ("Fine", "Hungry", "Broken", "Asking", "Killed", "Short")
    custom = [word for name in names for word in ("--method", f"my_module:{name}")]
    limits = ("--memory-limit", "1GB", "--time-limit", "500", "--jobs", "4", "--threads", "1")
    code, out, error = shell("reproduce", "table4", *TINY, *custom, *limits, "--runs", "2", "--json")
    facts = json.loads(out)
    assert code == 2
    assert "error: Broken has no results: all of its 2 runs failed, the last with RuntimeError: three is" in error
    assert "error: Asking has no results: its only run failed with out of memory: Asking needs 39.2 GB" in error
    assert error.count("has no results") == 5
    assert facts["runs_left"] == 0
    rows = stored(tmp_path)
    assert (facts["runs_done"], facts["runs_left_out"]) == (len(rows), 3) == (11, 3)
    first = {name: row for (name, _, seed), row in rows.items() if seed == 0}
    assert {name: row["na"] for name, row in first.items()} == {
        "k-means": None,
        "Fine": None,
        "Hungry": "memory",
        "Broken": "error",
        "Asking": "memory",
        "Killed": "memory",
        "Short": "error",
    }
    assert first["Hungry"]["reason"].startswith("out of memory: it held 1.")
    assert first["Hungry"]["reason"].endswith("and the limit is 1.00 GB")
    assert first["Broken"]["reason"] == "RuntimeError: three is no number"
    assert first["Asking"]["reason"] == "out of memory: Asking needs 39.2 GB"
    assert first["Killed"]["reason"].startswith("killed by the system")
    assert "shape (3,)" in first["Short"]["reason"]
    assert first["Hungry"]["peak_bytes"] > 10**9
    # other seeds of runs that exceed a limit are skipped, those of failed runs are tried
    seconds = {name for (name, _, seed) in rows if seed == 1}
    assert {"k-means", "Fine", "Broken", "Short"} <= seconds
    assert not {"Hungry", "Asking", "Killed"} & seconds
    for name in ("k-means", "Fine"):
        row = first[name]
        assert row["rows"] == 1000
        assert row["versions"]["numpy"] == np.__version__
        assert row["machine"]["cores"] == os.cpu_count()
        assert 10**7 < row["peak_bytes"] < 10**9
        assert row["seconds"] > 0
    page, tables = (tmp_path / "reproduction" / name for name in ("page.html", "tables.md"))
    assert "three is no number" in page.read_text()
    assert "the limit is 1.00 GB" in tables.read_text()
    assert "| Fine |" in tables.read_text()
    # only failed runs are repeated
    again = json.loads(shell("reproduce", "table4", *TINY, *custom, *limits, "--runs", "2", "--json")[1])
    assert (again["runs_done"], again["runs_stored"], again["runs_failed"]) == (4, len(rows), 4)
    assert len(stored(tmp_path)) == len(rows)


def test_a_run_out_of_time(shell, tmp_path):
    words = ("reproduce", "4", "--datasets", "TB-1M", "--methods", "none", "--method", "my_module:Endless")
    code, _, error = shell(*words, "--scale", "0.001", "--runs", "2", "--time-limit", "2", "-q")
    assert code == 2
    assert "error: Endless has no results: its only run failed with out of time: the limit is 2 s" in error
    assert [record["na"] for record in stored(tmp_path).values()] == ["time"]  # the other seed is skipped
    assert "out of time: the limit is 2 s" in (tmp_path / "reproduction" / "tables.md").read_text()


def ended(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_kill_loses_one_run_at_most_and_running_again_completes(shell, tmp_path):
    words = ("reproduce", "table4", *TINY, "--method", "my_module:Slow", "--runs", "6")
    path = tmp_path / "reproduction" / "runs.jsonl"
    process = start(*words, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_bytes().count(b"\n") >= 4):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    while not all(ended(child) for child in children):  # a run does not outlive its runner
        assert time.monotonic() < deadline
        time.sleep(0.05)
    kept = len(stored(tmp_path))
    assert kept >= 4
    with open(path, "ab") as file:
        file.write(b'{"dataset": "TB-1M", "sca')  # as if the last line had been cut
    facts = shell.facts(*words)
    assert facts["runs_done"] == 12 - kept
    assert facts["runs_left"] == 0
    rows = stored(tmp_path)
    assert len(rows) == path.read_bytes().count(b"\n") == 12
    assert {seed for _, _, seed in rows} == set(range(6))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_draws_what_is_there(tmp_path):
    (tmp_path / "my_module.py").write_text(MODULE)
    path = tmp_path / "reproduction" / "runs.jsonl"
    process = start("reproduce", "4", *TINY, "--method", "my_module:Slow", "--runs", "60", cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == "ultraspec: interrupted"
    n = len(stored(tmp_path))
    assert f"{n} done now, {120 - n} left, {n} in the store" in out
    assert "run the same command again" in out
    assert "| Slow |" in (tmp_path / "reproduction" / "tables.md").read_text()
    assert "Slow" in (tmp_path / "reproduction" / "page.html").read_text()


@pytest.mark.parametrize("scale", [1e-9, 1 / 700])
def test_any_scale_is_stored_as_it_is(shell, tmp_path, scale):
    words = ("reproduce", "4", "--datasets", "TB-1M", "--methods", "k-means", "--scale", scale, "--runs", "1", "-q")
    out = shell.fine(*words)
    rows = 1000 if scale < 0.001 else 1429
    assert f"(--scale {scale}: {rows:,} of TB-1M). These results cannot be compared" in out
    assert "1 done now, 0 left" in out
    assert shell.facts(*words)["runs_done"] == 0
    assert [row["scale"] for row in stored(tmp_path).values()] == [scale]


def test_own_data_and_methods_alone(shell, tmp_path):
    np.savez(tmp_path / "my.npz", X=circles(300)[0], y=circles(300)[1])
    data, fine = ("--data", "my.npz:y"), ("--method", "my_module:Fine")
    shell.facts("reproduce", "4", *data, *fine, "--datasets", "none", "--methods", "none", "--runs", "1", "-q")
    assert set(stored(tmp_path)) == {("Fine", "my", 0)}
    shell.facts("reproduce", "4", *data, "--datasets", "my", "--methods", "k-means", "--runs", "1", "-q")
    assert set(stored(tmp_path)) == {("Fine", "my", 0), ("k-means", "my", 0)}


def test_tables_of_pandas_and_without_names(tmp_path):
    lines = [f"{i % 7},{i % 5},{i % 2}" for i in range(40)]
    (tmp_path / "plain.csv").write_text("\n".join(lines))
    (tmp_path / "pandas.csv").write_text("\n".join([",x,y,label", *(f"{i},{line}" for i, line in enumerate(lines))]))
    for name in ("plain.csv:2", "pandas.csv:label"):
        X, y = read_file(str(tmp_path / name))
        assert X.tolist() == [[i % 7, i % 5] for i in range(40)]
        assert y.tolist() == [i % 2 for i in range(40)]


def test_own_data_is_a_row(shell, tmp_path):
    X, y = circles(1200)
    words = np.array(["inner", "middle", "outer"])[y]
    table = pyarrow.table({"x": X[:, 0], "species": words, "y": X[:, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "my.parquet")
    np.savez(tmp_path / "other.npz", X=X, y=y)
    data = ("--data", "my.parquet:species", "--data", "other.npz:y")
    methods = ("--methods", "U-SPEC,k-means", "--datasets", "TB-1M", "--scale", "0.001", "-q")
    shell.facts("reproduce", "4", "13", *methods, *data, "--runs", "1", "--stop-after", "300")
    rows = stored(tmp_path)
    assert {key[1] for key in rows} == {"TB-1M", "my", "other"}
    mine, other = rows["U-SPEC", "my", 0], rows["U-SPEC", "other", 0]
    assert (mine["rows"], mine["features"], mine["clusters"]) == (1000, 2, 3)  # a scale leaves at least so many
    assert mine["nmi"] == other["nmi"] > 0
    tables = (tmp_path / "reproduction" / "tables.md").read_text()
    assert "| *my*<br>1 run |" in tables
    assert "| *other*<br>1 run |" in tables
    np.savez(tmp_path / "other.npz", X=X[::-1], y=y)  # other data under the same name
    again = shell.facts("reproduce", "4", *methods, *data, "--runs", "1")
    assert again["runs_done"] == 2
    assert stored(tmp_path)["k-means", "other", 0]["nmi"] != rows["k-means", "other", 0]["nmi"]


def test_a_budget_stops_between_runs_and_no_resume_starts_a_new_store(shell, tmp_path):
    none = shell.facts("reproduce", "table4", *TINY, "--runs", "2", "--stop-after", "0")
    assert (none["runs_done"], none["runs_left"]) == (0, 2)
    assert shell.facts("reproduce", "table4", *TINY, "--runs", "2")["runs_done"] == 2
    assert shell.facts("reproduce", "table4", *TINY, "--runs", "2", "--resume")["runs_done"] == 0
    code, _, error = shell("reproduce", "table4", "--draw-only", "-q")
    assert code == 2
    assert "are at --scale 0.001" in error
    drawn = shell.facts("reproduce", "table4", *TINY, "--runs", "3", "--draw-only")
    assert (drawn["runs_done"], drawn["runs_left"], drawn["runs_stored"]) == (0, 1, 2)
    new = shell.facts("reproduce", "table4", *TINY, "--runs", "1", "--no-resume")
    assert (new["runs_done"], new["runs_stored"]) == (1, 1)
    assert len(list((tmp_path / "reproduction").glob("runs-*.jsonl"))) == 1


def test_a_changed_module_is_another_method(shell, tmp_path):
    words = ("reproduce", "table4", *TINY, "--method", "my_module:Fine", "--runs", "1")
    assert shell.facts(*words)["runs_done"] == 2
    assert shell.facts(*words)["runs_done"] == 0
    (tmp_path / "my_module.py").write_text(MODULE + "\n# a better one\n")
    sys.modules.pop("my_module", None)
    assert shell.facts(*words)["runs_done"] == 1


def parquet(folder):
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.0, 2.0], "label": [0, 1]}), folder / "t.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"x": [1.0, 2.0], "label": [0, 0]}), folder / "one.parquet")
    words = {"x": [1.0, 2.0], "name": ["a", "b"], "label": [0, 1]}
    pyarrow.parquet.write_table(pyarrow.table(words), folder / "words.parquet")
    np.savez(folder / "two.npz", X=np.ones((3, 2)), Z=np.ones((3, 2)), y=[0, 1, 1])
    np.save(folder / "x.npy", np.ones((3, 2)))
    (folder / "failing.py").write_text('raise RuntimeError("at import")')


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table3"], "There is no table 'table3'. Choose from table4 to table16, or all."),
        (["nonsense"], "There is no table 'nonsense'"),
        (["9-4"], "There is no table '9-4': 4 is before 9. Write 4-9."),
        (["4-"], "There is no table '4-'"),
        (["4,17"], "There is no table 'table17'"),
        (["10", "--datasets", "PenDigits"], "Table 10 has the data sets MNIST, Covertype, TB-1M, SF-2M and your own"),
        (["4", "--datasets", "none"], "There is nothing to run"),
        (["13", "--method", "my_module:Fine", "--methods", "none"], "methods of your own are compared in tables 4 to"),
        (["table4", "--datasets", "Iris"], "There is no data set 'Iris'. Choose from PenDigits, USPS"),
        (["table4", "--methods", "U-SPEC,DBSCAN"], "There is no method 'DBSCAN'. Choose from k-means, SC"),
        (["table4", "--method", "no_such_module:X"], "There is no module 'no_such_module'"),
        (["table4", "--method", "my_module:Nobody"], "my_module has no estimator 'Nobody'"),
        (["table4", "--method", "my_module:number"], "my_module has no estimator 'number'"),
        (["table4", "--method", "my_module"], "Write module:Estimator"),
        (["table4", "--method", "failing:X"], "failing cannot be imported: RuntimeError: at import"),
        (["table4", "--draw-only"], "there are no runs to draw"),
        (["table4", "--method", "my_module:Fine", "--method", "my_module:Fine"], "Two methods are named 'Fine'"),
        (
            ["table4", "--data", "t.parquet:species"],
            "--data t.parquet:species: t.parquet has no column named 'species'. Its columns are 'x', 'label'.",
        ),
        (
            ["table4", "--data", "words.parquet:label"],
            "column 'name' (string) must hold numbers. In --data FILE:LABEL, all columns but LABEL are features",
        ),
        (["table4", "--data", "two.npz:y"], "In --data FILE:LABEL, all columns but LABEL are features (of an .npz"),
        (["table4", "--data", "t.parquet"], "as in my.parquet:label"),
        (["table4", "--data", "nowhere.parquet:label"], "There is no file"),
        (["table4", "--data", "one.parquet:label"], "all rows belong to one class"),
        (["table4", "--data", "x.npy:label"], "as in my.parquet:label"),
        (["table4", "--scale", "0"], "--scale must be above 0 and at most 1"),
        (["table4", "--scale", "2"], "--scale must be above 0 and at most 1"),
        (["table4", "--runs", "0"], "--runs must be at least 1"),
        (["table4", "--jobs", "0"], "--jobs must be at least 1"),
        (["table4", "--memory-limit", "much"], "'--memory-limit': it must be an amount of memory such as 16GB"),
        (["table4", "--time-limit", "-1"], "--time-limit must be a number of seconds"),
        (["table4", "--datasets", "a,,b"], "'--datasets': it must be names"),
        (["table4", "-o", "my_module.py"], "my_module.py"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_one_line(shell, tmp_path, words, message):
    parquet(tmp_path)
    assert message in shell.refused("reproduce", *words)
    assert not (tmp_path / "reproduction").exists()


def test_a_store_of_other_lines_is_refused(shell, tmp_path):
    folder = tmp_path / "reproduction"
    folder.mkdir()
    (folder / "runs.jsonl").write_text("not a store\n")
    assert "line 1, is not the result of a run" in shell.refused("reproduce", "table4", *TINY)


def test_json_rows_are_plain(shell, tmp_path):
    shell.facts("reproduce", "table7", *TINY[:2], "--methods", "LWGP", "--scale", "0.001", "-q", "--runs", "1")
    (line,) = (tmp_path / "reproduction" / "runs.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert row["consensus_seconds"] < row["seconds"]
    assert (tmp_path / "reproduction" / "cache" / "members" / "tb-0.001-0" / "members-000.npy").exists()
