"""The table of file formats: what it says is what files, documentation and the command line have."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest

from tests.helpers.common import blobs
from tests.helpers.row_files import FORMATS as FILES
from tests.helpers.row_files import TABLES, write
from ultraspec import open_rows
from ultraspec.rows import FORMATS, OptionNotApplicable, Rows, find_format, open_file
from ultraspec.rows.formats import Format

X = blobs(300, 3, 3, seed=1)[0]
SUFFIXES = [suffix for kind in FORMATS for suffix in kind.suffixes]


def table_of(docstring):
    """Rows of the table in a docstring, as pairs of cells; a continued cell is one."""
    lines = docstring.split("\n    =====", 1)[1].rsplit("\n    =====", 1)[0].splitlines()[1:]
    cells = []
    for line in lines:
        left, right = line[4:].rstrip()[:50].strip(), line[4:].rstrip()[50:].strip()
        if left:
            cells.append([left, right])
        else:
            cells[-1][1] += f" {right}"
    return cells


def test_the_documentation_lists_all_formats():
    expected = [[", ".join(f"``{suffix}``" for suffix in kind.plain_suffixes), kind.description] for kind in FORMATS]
    assert table_of(open_rows.__doc__) == expected


def test_the_help_of_the_command_line_lists_all_formats():
    from ultraspec.cli import _options

    text = _options.Data.__metadata__[0].help
    assert all(kind.suffixes[0] in text for kind in FORMATS)
    assert set(re.findall(r"\.[a-z0-9]+\b", text)) <= set(SUFFIXES)


def test_suffixes_and_options():
    assert len(set(SUFFIXES)) == len(SUFFIXES)
    assert all(suffix == suffix.lower() for suffix in SUFFIXES)
    parameters = inspect.signature(open_rows).parameters
    assert {option for kind in FORMATS for option in kind.options} == set(parameters) - {"path", "columns", "scale"}


@pytest.mark.parametrize("name", FILES)
def test_files_are_of_one_format(tmp_path, name):
    path = write(tmp_path, name, X)
    kind = find_format(path)
    assert sum(name.endswith(other.suffixes) for other in FORMATS) == ("folder" not in name)
    rows = kind.open(path, None)
    assert np.array_equal(rows.read(0, len(X)), X)
    assert (rows.names is not None) == (name in TABLES)
    if name not in ("dense.h5ad", "compressed.h5ad", "anndata.zarr"):  # whose variables have names
        assert kind.is_table == (name in (*TABLES, "numbers.csv", "spaces.txt"))
    for option in {"array", "header", "delimiter"} - set(kind.options):
        with pytest.raises(OptionNotApplicable):
            open_rows(path, **{option: "x"})
    copy = pickle.loads(pickle.dumps(rows))
    assert np.array_equal(copy.read(5, 9), X[5:9])
    assert copy.options() == rows.options()


class Ones(Rows):
    """A new format: as many rows of ones as the file has bytes."""

    def __init__(self, path, columns):
        assert columns is None
        self.n_rows = path.stat().st_size
        self.n_features = 2

    def read(self, start, stop):
        return np.ones((stop - start, 2))

    def take(self, indices):
        return np.ones((len(indices), 2))


def test_an_entry_is_all_that_a_new_format_needs(tmp_path, monkeypatch):
    monkeypatch.setattr("ultraspec.rows.formats.FORMATS", (*FORMATS, Format("Ones", (".ones",), Ones, "ones")))
    (tmp_path / "x.ONES").write_bytes(b"12345")
    assert open_file(tmp_path / "x.ONES").shape == open_rows(str(tmp_path / "x.ONES")).shape == (5, 2)
    with pytest.raises(OptionNotApplicable, match=r"array='a' does not apply to .*x\.ONES"):
        open_rows(tmp_path / "x.ONES", array="a")
