"""How commands end, and what they show meanwhile: progress, warnings, bugs, signals, full disks."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.cli_tools import Shell, circles, start, write_data
from ultraspec import USPEC
from ultraspec._checks import InvalidParameter
from ultraspec.cli._errors import naming_input, write_message
from ultraspec.cli._screen import Screen, print_message
from ultraspec.engines.progress import Console
from ultraspec.rows import NotFinite, NotNumeric

pytestmark = pytest.mark.usefixtures("few_cuts", "few_halves")
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shell(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path, circles()[0])
    return Shell(capsys, tmp_path)


class TestShown:
    def test_a_log_gets_a_line_for_every_phase(self, shell):
        code, out, err = shell("fit", "x.npy", "-k", 3, "--scale", "standard")
        assert code == 0
        names = [line.split()[1] for line in err.splitlines()]
        phases = ["survey", "pilot", "representatives", "neighbors", "graph", "eigenvectors", "labels"]
        assert names == ["scale", *phases]
        assert "\033" not in err + out
        assert "\r" not in err + out

    def test_quiet(self, shell):
        for words in (["fit", "x.csv", "-k", 3, "--model", "m.u"], ["predict", "m.u", "x.csv", "-o", "l.npy"]):
            code, out, err = shell(*words, "--quiet")
            assert (code, err) == (0, "")
            assert out

    def test_json_is_all_that_standard_output_gets(self, shell):
        words = ["fit", "x.npy", "-k", 3, "--model", "m.u", "-o", "l.npy", "--report", "r.html", "--json"]
        code, out, err = shell(*words)
        assert code == 0
        assert json.loads(out)["command"] == "fit"
        assert "survey" in err

    def test_warnings_take_one_line(self, shell):
        rng = np.random.default_rng(0)
        X = np.concatenate([rng.normal(size=(100, 2)) + 1000 * i for i in range(6)])
        np.save("far.npy", X)
        code, out, err = shell("fit", "far.npy", "-k", 2, "--seed", 0, "-q", "--json")
        assert code == 0
        lines = err.splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("ultraspec: warning: The graph has 6 connected components ")
        assert json.loads(out)["clusters"] == 2

    def test_a_terminal_sees_how_far_a_table_is_read(self, tmp_path, monkeypatch):
        from ultraspec import open_rows
        from ultraspec.rows import csv

        path = tmp_path / "long.csv"
        path.write_text("a,b\n" + "1.5,2.5\n" * 10_000)
        monkeypatch.setattr(csv, "BLOCK_BYTES", (8192,))
        moves = []
        monkeypatch.setattr(Console, "_draw", lambda bar, force=False: moves.append((bar._done, bar._total)))
        with contextlib.redirect_stderr(Terminal()) as shown, Screen().reading(path), open_rows(path) as rows:
            assert rows.n_rows == 10_000
        assert moves == [(0, 0), *((i, 1000) for i in range(1001))]
        assert "Reading  long.csv" in shown.getvalue().splitlines()[-1]
        moves.clear()
        with open_rows(path):
            assert not moves  # nobody listens any more

    def test_a_message_takes_the_place_of_the_bar(self):
        with contextlib.redirect_stderr(Terminal()) as shown, Console("USPEC").phase("graph"):
            print_message("warning: text")
        frames = shown.getvalue().split("\r\033[K")
        assert frames[2] == "ultraspec: warning: text\n"
        assert frames[3].startswith("USPEC  graph")


class TestEnds:
    def test_a_bug_asks_to_be_reported(self, shell, monkeypatch):
        def broken(*_):
            raise ZeroDivisionError("so it is")

        monkeypatch.setattr(USPEC, "fit", broken)
        code, out, err = shell("fit", "x.npy", "-k", 3, "-q")
        assert (code, out) == (1, "")
        assert err == (
            "ultraspec: error: this is a bug, please report it: ZeroDivisionError: so it is Run the command "
            "with --debug to see the traceback.\n"
        )
        code, out, err = shell("fit", "x.npy", "-k", 3, "-q", "--debug")
        assert code == 1
        assert "in broken" in err

    def test_a_wrong_type_is_a_bug_unless_the_error_says_of_what(self, shell, monkeypatch):
        monkeypatch.setattr(USPEC, "fit", lambda model, *_: model.get_params(1, 2, 3))
        assert shell("fit", "x.npy", "-k", 3, "-q")[0] == 1
        code, _, err = shell("fit", "x.npy", "-k", 3, "-q", "--ensemble", "--base-clusters", "5")
        assert (code, err.count("--base-clusters must be a pair")) == (2, 1)

    def test_what_other_libraries_refuse_is_a_bug_of_ours(self, shell, monkeypatch):
        monkeypatch.setattr(USPEC, "fit", lambda *_: json.loads("{"))
        assert shell("fit", "x.npy", "-k", 3, "-q")[0] == 1

    def test_interrupted(self, shell, monkeypatch):
        def stop(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(USPEC, "fit", stop)
        code, out, err = shell("fit", "x.npy", "-k", 3, "-o", "l.npy", "-q")
        assert (code, out, err) == (130, "", "ultraspec: interrupted\n")
        assert not (shell.folder / "l.npy").exists()

    @posix
    def test_interrupted_from_the_keyboard(self, tmp_path):
        process = start("generate", "cc", "--rows", "4e8", "-o", tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
        wait_for_scratch(tmp_path, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert err.splitlines()[-1] == "ultraspec: interrupted"
        assert out == ""
        assert os.listdir(tmp_path) == []

    @posix
    @pytest.mark.parametrize("suffix", [".npy", ".parquet", ".csv"])
    def test_killed_while_writing(self, tmp_path, suffix):
        process = start("generate", "cc", "--rows", "4e8", "-o", tmp_path / f"x{suffix}", "-q")
        wait_for_scratch(tmp_path, process)
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert all(name.endswith(".tmp") for name in os.listdir(tmp_path))
        if hasattr(os, "O_TMPFILE"):
            assert os.listdir(tmp_path) == []

    @posix
    def test_killed_while_fitting_over_an_old_file(self, tmp_path):
        write_data(tmp_path, circles(300_000)[0])
        (tmp_path / "l.npy").write_bytes(b"old")
        words = ["--ensemble", "-k", 3, "-o", tmp_path / "l.npy", "--force", "--checkpoint", tmp_path / "members"]
        process = start("fit", tmp_path / "x.npy", *words)
        while "survey" not in process.stderr.readline():
            assert process.poll() is None
        process.kill()
        process.communicate(timeout=60)
        assert (tmp_path / "l.npy").read_bytes() == b"old"

    @posix
    @pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".csv"])
    def test_a_full_disk(self, tmp_path, suffix):
        """The system refuses larger files, as a full disk does, when some of it is already written."""
        code = f"""
            import resource, sys
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
            from ultraspec.cli import main
            sys.exit(main(["generate", "cc", "--rows", "200_000", "-o", "x.npy", "--labels", "y{suffix}"]
                if {suffix == ".npz"} else ["generate", "cc", "--rows", "200_000", "-o", "x{suffix}"]))
        """
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(line.strip() for line in code.strip().splitlines())],
            cwd=tmp_path,
            # coverage could not write its file either
            env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        line = done.stderr.splitlines()[-1]
        assert line.startswith("ultraspec: error: ")
        assert "cannot be written: File too large." in line
        assert str(tmp_path) in line
        assert done.stdout == ""
        assert os.listdir(tmp_path) == []

    @posix
    @pytest.mark.parametrize("option", ["--model", "--report"])
    def test_a_full_disk_for_models_and_reports(self, shell, option):
        import resource

        shell.fine("fit", "x.npy", "-k", 3)  # whatever is compiled is written now
        before = shell.listing()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, limits[1]))
        try:
            code, out, err = shell("fit", "x.npy", "-k", 3, option, "page.html", "-q")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (code, out) == (2, "")
        assert err == f"ultraspec: error: {shell.folder / 'page.html'} cannot be written: File too large.\n"
        assert shell.listing() == before

    @posix
    def test_a_reader_that_stops_reading(self, tmp_path):
        write_data(tmp_path, circles()[0])
        process = start("fit", tmp_path / "x.npy", "-k", 3, "-q")
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=60) == 141
        assert err == ""


def scratch_sizes(folder, process):
    """Sizes of the files that a command is writing: those with a name to be replaced, and those without any."""
    yield from (path.stat().st_size for path in folder.glob(".ultraspec-*.tmp"))
    for opened in Path(f"/proc/{process.pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            if os.readlink(opened).startswith(f"{folder}/"):
                yield opened.stat().st_size


def wait_for_scratch(folder, process, n_bytes=2**20):
    """Wait until a command has written some of its output."""
    until = time.monotonic() + 60
    while not any(size > n_bytes for size in scratch_sizes(folder, process)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.01)


class TestMessages:
    def test_options_stand_for_parameters(self):
        error = NotNumeric({"c": "string"}, ["a", "b c"], Path("t.csv"))
        assert write_message(error).endswith("Choose --columns 'a,b c', which do, or convert these to numbers first.")
        error = NotNumeric({"c": "string"}, [f"x{i}" for i in range(20)], Path("t.csv"))
        assert "--columns x0,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,x11,...'" in write_message(error).replace("'x0", "x0")
        error = InvalidParameter("n_jobs", 0, "a non-zero integer", (None,))
        assert write_message(error) == "--n-jobs must be a non-zero integer, got 0."

    def test_the_file_stands_for_X(self):
        error = NotFinite(np.nan, "a", 7)
        assert write_message(error, Path("t.csv")).startswith("t.csv contains NaN in column 'a', row 7.")
        with (
            pytest.raises(ValueError, match=r"^t\.csv contains NaN.* such rows first\. --missing drop leaves them out"),
            naming_input(Path("t.csv")),
        ):
            raise error
