"""Input, options and outputs that cannot be: one line, exit code 2, nothing written."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse

from tests.helpers.cli_tools import Shell, circles, write_data
from tests.helpers.common import python
from ultraspec import USPEC, save
from ultraspec.cli import main
from ultraspec.storage.locks import claim


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Good and bad files."""
    folder = tmp_path_factory.mktemp("data")
    X, y = circles(600)
    write_data(folder, X)
    np.save(folder / "y.npy", y)
    np.save(folder / "flat.npy", X[:, 0])
    np.save(folder / "nan.npy", np.where(np.arange(len(X))[:, None] == 77, np.nan, X))
    np.save(folder / "zeros.npy", np.where(np.arange(len(X))[:, None] == 5, 0.0, X))
    np.save(folder / "huge.npy", X.astype(float) * 1e300)
    for suffix in ("npy", "npz", "h5", "parquet"):
        (folder / f"garbage.{suffix}").write_bytes(b"garbage")
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:-100])
    for name in ("empty.npy", "empty.csv", "empty.parquet"):
        (folder / name).touch()
    (folder / "nothing").mkdir()
    (folder / "ragged.csv").write_text("a,b\n1,2\n3\n4,5\n")
    (folder / "text.csv").write_text("a,b,c\n1,cat,2\n3,dog,4\n")
    (folder / "semicolons.csv").write_text("a;b\n1;2\n3;4\n")
    (folder / "x.xyz").write_text("1,2\n")
    _tables(folder)
    scipy.sparse.save_npz(folder / "sparse.npz", scipy.sparse.random_array((300, 40), density=0.2, rng=0))
    model = USPEC(3, random_state=0).fit(pyarrow.parquet.read_table(folder / "x.parquet").to_pandas())
    save(model, folder / "m.u")
    data = bytearray((folder / "m.u").read_bytes())
    data[len(data) // 2] ^= 255
    (folder / "broken.u").write_bytes(data)
    (folder / "half.u").write_bytes(data[: len(data) // 2])
    save(USPEC(2, random_state=0).fit(np.c_[X, X]), folder / "four.u")
    return folder


def _tables(folder: Path) -> None:
    def write(name, **columns):
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / name)

    write("dates.parquet", a=[1.0, 2.0], when=[datetime.datetime(2020, 1, 1)] * 2)
    write("nulls.parquet", a=[1.0, 2.0, None, 4.0] * 50, b=[1.0] * 200)
    write("one.parquet", x0=[1.0, 2.0, 3.0])
    write("labels.parquet", label=[0, 1, None], when=[datetime.date(2020, 1, 1)] * 3)
    (folder / "parts").mkdir()
    write("parts/0.parquet", a=[1.0], b=[1.0])
    write("parts/1.parquet", a=[1.0], c=[1.0])


@pytest.fixture
def shell(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return Shell(capsys, folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing.npy", "no file"),
        ("nothing", "without Zarr, Parquet, CSV files"),
        ("empty.npy", "empty.npy is empty"),
        ("empty.csv", "empty.csv is empty"),
        ("empty.parquet", "empty.parquet is empty"),
        ("garbage.npy", "garbage.npy cannot be read"),
        ("cut.npy", "cut.npy is incomplete"),
        ("flat.npy", "2-d"),
        ("ragged.csv", "Expected 2 columns, got 1"),
        ("text.csv", "column 'b' (string) must hold numbers. Choose --columns a,c"),
        ("semicolons.csv", "--delimiter"),
        ("dates.parquet", "column 'when' (timestamp[us]) must hold numbers"),
        ("nulls.parquet", "nulls.parquet contains NaN in column 'a', row 2"),
        ("nan.npy", "nan.npy contains NaN in column 0, row 77"),
        ("parts", "must have the same columns"),
        ("x.xyz", "unknown format"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--scale", "standard"]], ids=["plain", "scaled"])
def test_bad_data(shell, name, says, more):
    line = shell.refused("fit", name, "-k", 2, "-o", "out.parquet", "--model", "out.u", "--report", "out.html", *more)
    assert says in line
    assert Path(name).stem in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["x.npy", "-k", "601"], "x.npy has 600 rows, too few for -k 601."),
        (["x.npy", "-k", "0"], "-k must be an integer >= 1 or 'auto', got 0."),
        (["x.npy", "-k", "some"], "10_000_000 or 1e6, or 'auto', got 'some'"),
        (["x.npy", "-k", "-3"], "-k must be an integer >= 1 or 'auto', got -3."),
        (
            ["x.npy", "-k", "3", "--ensemble", "--base-clusters", "60,20"],
            "--base-clusters must be a pair (fewest, most)",
        ),
        (["x.npy", "-k", "2.5"], "'-k' / '--n-clusters': it must be an integer"),
        (["x.npy"], "'-k'"),
        (["-k", "3"], "DATA"),
        (["x.npy", "-k", "3", "--what"], "--what"),
        (["x.npy", "-k", "3", "--seed", "-1"], "--seed must be at least 0"),
        (["x.npy", "-k", "3", "--seed", "x"], "--seed"),
        (["x.npy", "-k", "3", "--metric", "manhattan"], "'--metric': it must be one of 'euclidean', 'cosine'"),
        (["x.npy", "-k", "3", "--selection", "best"], "'--selection': it must be one of"),
        (
            ["x.npy", "-k", "3", "-p", "100", "--n-neighbors", "200"],
            "n_neighbors=200 is more than n_representatives",
        ),
        (["x.npy", "-k", "3", "--ensemble", "-p", "0"], "--n-representatives must be an integer >= 1 and <= 6"),
        (["x.npy", "-k", "3", "--n-jobs", "0"], "--n-jobs must be a non-zero integer (-1 uses all cores), got 0."),
        (["x.npy", "-k", "3", "--scale", "fancy"], "--scale must be 'none' or 'standard'"),
        (["x.npy", "-k", "3", "--n-estimators", "3"], "--n-estimators is for ensembles: pass --ensemble too."),
        (["x.npy", "-k", "3", "--ensemble", "--discretize", "border"], "--discretize is not for ensembles"),
        (["x.npy", "-k", "3", "--discretize", "magic"], "'--discretize': it must be one of"),
        (["x.npy", "-k", "3", "--ensemble", "--consensus", "magic"], "'--consensus': it must be one of"),
        (["x.npy", "-k", "3", "--ensemble", "--base-clusters", "5"], "--base-clusters must be a pair"),
        (["x.npy", "-k", "3", "--ensemble", "--checkpoint", "x.npy"], "checkpoint='x.npy' is a file"),
        (["x.npy", "-k", "3", "--columns", "0,7"], "no column 7"),
        (["x.npy", "-k", "3", "--columns", "a"], "no column names, so 'a' cannot be found"),
        (["x.npy", "-k", "3", "--columns", ","], "'--columns': it must be names"),
        (["x.parquet", "-k", "3", "--columns", "x0,zz"], "no column named 'zz'"),
        (["x.npy", "-k", "3", "--array", "X"], "--array X does not apply"),
        (["zeros.npy", "-k", "3", "--metric", "cosine"], "Row 5 of zeros.npy is all zeros"),
        (["sparse.npz", "-k", "3", "--scale", "standard"], "sparse"),
        (["huge.npy", "-k", "3", "--scale", "standard"], "The values of column 0 are too large"),
    ],
)
def test_bad_options(shell, words, says):
    assert says in shell.refused("fit", *words)


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "missing.npy", "-k", "3"],
        ["fit", "x.npy", "-k", "some"],
        ["fit", "x.npy", "-k", "3", "-o", "no/labels.npy"],
        ["fit", "x.npy", "-k", "3", "--scale", "fancy"],
        ["predict", "missing.u", "x.npy", "-o", "l.npy"],
        ["predict", "m.u", "missing.npy", "-o", "l.npy"],
        ["report", "m.u", "x.npy", "-o", "r.pdf"],
        ["evaluate", "missing.npy", "y.npy"],
        ["demo", "--rows", "none"],
    ],
)
def test_trivial_mistakes_are_told_before_anything_slow_is_imported(folder, words):
    code = f"""
        import json, os, sys
        os.chdir({str(folder)!r})
        from ultraspec.cli import main
        code = main({words!r})
        print(json.dumps([code, [name for name in ("numba", "scipy", "sklearn", "pandas") if name in sys.modules]]))
    """
    assert python(code) == [2, []]


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "garbage.npz", "-k", "3"],
        ["fit", "garbage.h5", "-k", "3"],
        ["fit", "garbage.parquet", "-k", "3"],
        ["fit", "nan.npy", "-k", "3"],
        ["fit", "x.npy", "-k", "3", "--columns", "0,0"],
        ["fit", "x.npy", "-k", "3", "-p", "1.5"],
        ["fit", "x.npy", "-k", "3", "--regularization", "much"],
        ["predict", "four.u", "x.npy", "-o", "l.npy"],
        ["predict", "m.u", "one.parquet", "-o", "l.npy"],
        ["predict", "m.u", "x.npy", "--columns", "0", "-o", "l.npy"],
    ],
)
def test_messages_are_free_of_python(shell, words):
    line = shell.refused(*words)
    assert not re.search(r"Error|BadZipFile|ArrowInvalid|sklearn|open_rows|USPEC|\bX\b|Input should|n_\w+|=\[", line), (
        line
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-o", "labels.txt"], "-o labels.txt is of an unknown type. Known types are .parquet"),
        (["-o", "labels"], "unknown type"),
        (["-o", "no/labels.npy"], "there is no folder"),
        (["-o", "x.npy"], "-o x.npy is an input file"),
        (["-o", "x.npy", "--force"], "-o x.npy is an input file"),
        (["-o", "./nothing/../x.npy", "--force"], "is an input file"),
        (["-o", "y.npy"], "-o y.npy exists. Pass --force to replace it."),
        (["--model", "m.u"], "--model m.u exists"),
        (["--model", "nothing"], "--model nothing is a folder"),
        (["--report", "r.pdf"], "--report r.pdf is of an unknown type. Known types are .html"),
        (["-o", "a.npy", "--model", "./a.npy"], "name the same file"),
    ],
)
def test_bad_outputs_are_found_before_the_fit(shell, monkeypatch, words, says):
    monkeypatch.setattr(USPEC, "fit", lambda *_: pytest.fail("the fit was started"))
    assert says in shell.refused("fit", "x.npy", "-k", 3, *words)


@pytest.mark.parametrize("option", ["-o", "--model", "--report"])
@pytest.mark.parametrize("more", [[], ["--force"]])
def test_nothing_is_written_into_a_folder_that_is_read(shell, monkeypatch, option, more):
    monkeypatch.setattr(USPEC, "fit", lambda *_: pytest.fail("the fit was started"))
    name = {"-o": "labels.parquet", "--model": "m.u", "--report": "r.html"}[option]
    line = shell.refused("fit", "parts", "--columns", "a", "-k", 1, option, f"parts/{name}", *more)
    assert line.startswith(f"{option} parts/{name} is in the input folder {shell.folder / 'parts'}.")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write to")
def test_a_folder_that_cannot_be_written_to(shell):
    assert "cannot write to the folder /proc" in shell.refused("fit", "x.npy", "-k", 3, "-o", "/proc/labels.npy")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(shell, tmp_path):
    tmp_path.chmod(0o500)
    assert "Permission denied" in shell.refused("fit", "x.npy", "-k", 3, "-o", tmp_path / "labels.npy")


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="needs device files")
def test_devices_are_not_replaced(shell, tmp_path):
    (tmp_path / "null.npy").symlink_to("/dev/null")
    line = shell.refused("fit", "x.npy", "-k", 3, "-o", tmp_path / "null.npy", "--force")
    assert "not a regular file" in line
    assert not Path("/dev/null").is_file()


def test_an_existing_file_stays_unless_forced(shell, tmp_path):
    target = tmp_path / "labels.csv"
    target.write_text("mine")
    shell.refused("fit", "x.npy", "-k", 3, "-o", target)
    assert target.read_text() == "mine"
    shell.fine("fit", "x.npy", "-k", 3, "-o", target, "--force")
    assert target.read_text().startswith("label,confidence\n")


@pytest.mark.parametrize(
    ("model", "data", "says"),
    [
        ("missing.u", "x.npy", "missing.u: there is no such file."),
        ("nothing", "x.npy", "nothing: a folder"),
        ("broken.u", "x.npy", "broken.u: damaged or altered"),
        ("half.u", "x.npy", "half.u"),
        ("x.npy", "x.npy", "x.npy: not a model file"),
        (
            "m.u",
            "one.parquet",
            "no column named 'x1'. Choose by name or number from 'x0'. The model was fitted on 'x0', 'x1'.",
        ),
        ("four.u", "x.npy", "x.npy has 2 features, but the model is expecting 4"),
        ("m.u", "nan.npy", "nan.npy contains NaN in column 'x0', row 77"),
        ("m.u", "missing.npy", "no file"),
        ("m.u", "empty.csv", "empty.csv is empty"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "report"])
def test_bad_models_and_data_that_do_not_fit_them(shell, command, model, data, says):
    suffix = {"predict": "parquet", "report": "html"}[command]
    assert says in shell.refused(command, model, data, "-o", f"out.{suffix}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["missing.npy", "y.npy"], "no file missing.npy"),
        (["nothing", "y.npy"], "nothing is a folder"),
        (["empty.npy", "y.npy"], "empty.npy is empty"),
        (["garbage.npy", "y.npy"], "garbage.npy cannot be read"),
        (["x.xyz", "y.npy"], "x.xyz has an unknown format for labels"),
        (["x.npy", "y.npy"], "x.npy has the shape (600, 2)"),
        (["flat.npy", "y.npy"], "Labels are integers or strings"),
        (["y.npy:label", "y.npy"], "no column 'label'"),
        (["x.parquet", "y.npy"], "x.parquet has the columns 'x0', 'x1'. Say which one"),
        (["x.parquet:zz", "y.npy"], "no column named 'zz'"),
        (["labels.parquet", "y.npy"], "1 missing labels, the first in row 2"),
        (["labels.parquet:when", "y.npy"], "not labels"),
        (["ragged.csv:a", "y.npy"], "ragged.csv cannot be read"),
        (["y.npy", "text.csv:b"], "y.npy has 600 labels and text.csv:b has 2"),
        (["y.npy"], "TRUTH"),
    ],
)
def test_bad_label_files(shell, words, says):
    assert says in shell.refused("evaluate", *words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["generate", "zz", "-o", "g.npy"], "SET must be one of tb, sf, cc, cg, flower, got 'zz'."),
        (["generate", "cc", "-o", "g.h5"], "unknown type"),
        (["generate", "cc", "--rows", "1.5", "-o", "g.npy"], "'--rows': it must be an integer"),
        (["generate", "cc", "--rows", "0", "-o", "g.npy"], "--rows must be at least 1"),
        (["generate", "cc", "--seed", "-1", "-o", "g.npy"], "--seed must be at least 0"),
        (["generate", "cc", "-o", "g.npy", "--labels", "g.npy"], "name the same file"),
        (["generate", "cc"], "'-o'"),
        (["bench", "--rows", "5"], "--rows must be at least 1,000"),
        (["bench", "--repeats", "0"], "--repeats must be at least 1"),
        (["demo", "--rows", "many"], "'--rows': it must be an integer"),
        (["demo", "--report", "page.txt"], "unknown type"),
        (["nonsense"], "nonsense"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_other_mistakes(shell, words, says):
    assert says in shell.refused(*words)


def test_mistakes_name_the_help_that_explains(shell):
    assert shell.refused("fit", "x.npy").endswith("(see ultraspec fit --help)")


def test_an_extra_that_is_missing_is_named_before_the_fit(shell, monkeypatch):
    import importlib.util

    usual = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in ("pyarrow", "safetensors") else usual(name, *a)
    )
    monkeypatch.setattr(USPEC, "fit", lambda *_: pytest.fail("the fit was started"))
    assert "pip install 'ultraspec[cli]'" in shell.refused("fit", "x.npy", "-k", 3, "-o", "l.parquet")
    assert "pip install 'ultraspec[cli]'" in shell.refused("fit", "x.npy", "-k", 3, "--model", "l.u")


def test_arguments_may_be_left_to_the_process(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ultraspec", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("ultraspec ")


@pytest.mark.skipif(os.name != "posix", reason="needs locks")
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_two_runs_that_write_one_file(shell, monkeypatch, command):
    """The second one says so before it computes, with --force too."""
    words = ["fit", "x.npy", "-k", 3] if command == "fit" else ["predict", "m.u", "x.npy"]
    monkeypatch.setattr(USPEC, "fit", lambda *_: pytest.fail("the fit was started"))
    with claim([shell.folder / "labels.npy"]):
        for more in ([], ["--force"]):
            line = shell.refused(*words, "-o", "labels.npy", *more)
            assert line.startswith(f"Another run of ultraspec is going to write {shell.folder / 'labels.npy'}.")
