"""What the tests of the command line share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from ultraspec import datasets
from ultraspec.cli import main

SEED = 3


def circles(n=1_000):
    """Give points on circles and their classes."""
    return datasets.generate("cc", n, random_state=SEED)


def write_data(folder: Path, X) -> None:
    """Write the same rows in three formats; tables call their columns x0, x1, ..."""
    np.save(folder / "x.npy", X)
    table = pyarrow.table({f"x{j}": column for j, column in enumerate(np.asarray(X).T)})
    pyarrow.parquet.write_table(table, folder / "x.parquet")
    pyarrow.csv.write_csv(table, folder / "x.csv")


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """Read a file of labels by means of its own library."""
    if path.suffix == ".npy":
        return {"label": np.load(path)}
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    table = pyarrow.parquet.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    return {name: table.column(name).to_numpy() for name in table.column_names}


class Shell:
    """Runs commands in this process, in a folder."""

    def __init__(self, capsys, folder: Path) -> None:
        self._capsys, self.folder = capsys, folder

    def __call__(self, *words: object) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        self._capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = self._capsys.readouterr()
        return code, out, err

    def fine(self, *words: object) -> str:
        """Standard output of a command that must succeed."""
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def facts(self, *words: object) -> dict:
        """What a command prints with --json."""
        out = self.fine(*words, "--json")
        assert out.count("\n") == 1
        return json.loads(out)

    def refused(self, *words: object) -> str:
        """The one line that a command ends with; nothing may have been written, and nothing printed."""
        before = self.listing()
        code, out, err = self(*words)
        assert code == 2, (code, err)
        assert out == ""
        assert self.listing() == before
        last = err.splitlines()[-1]
        assert last.startswith("ultraspec: error: "), err
        assert "Traceback" not in err
        assert err.count("ultraspec: error") == 1
        return last.removeprefix("ultraspec: error: ")

    def listing(self) -> list[tuple[str, int]]:
        """All files in the folder and their time of change."""
        return sorted((str(p), p.stat().st_mtime_ns) for p in self.folder.rglob("*") if p.is_file())


def start(*words: object, **options) -> subprocess.Popen:
    """Start a command in a process of its own."""
    # Tests that run in the background ignore Ctrl-C, and what they start would do so, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [sys.executable, "-m", "ultraspec", *map(str, words)]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **options)
