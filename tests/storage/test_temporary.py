"""Files that are read and written at any offset, and temporary ones."""

from __future__ import annotations

import errno
import gc
import os
import tempfile

import numpy as np
import pytest

from ultraspec.storage import temporary
from ultraspec.storage.temporary import RandomAccessFile, TemporaryFile, free_bytes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(params=["system", "windows"])
def any_system(request, monkeypatch):
    """With and without calls that read and write at an offset."""
    if request.param == "windows":
        monkeypatch.delattr(os, "preadv", raising=False)
        monkeypatch.delattr(os, "pwrite", raising=False)


@pytest.mark.parametrize("at_once", [2**30, 7])
def test_reading_and_writing(folder, any_system, at_once, monkeypatch):
    monkeypatch.setattr(temporary, "MOST_AT_ONCE", at_once)
    file = TemporaryFile("A test")
    for array, offset in ((np.arange(10.0), 80), (np.arange(10.0) - 10, 0)):
        file.write_from(array, offset)
    values = np.empty((4, 5))
    file.read_into(values, 0)
    assert values.reshape(-1).tolist() == list(range(-10, 10))
    with pytest.raises(EOFError):
        file.read_into(values, 8)
    file.read_into(np.empty(0), 10**9)


def test_files_of_known_size_are_complete_at_once(folder):
    file = TemporaryFile("A test", 40)
    values = np.ones(5)
    file.read_into(values, 0)
    assert (values == 0).all()
    with pytest.raises(EOFError):
        file.read_into(values, 8)


def test_appending(folder, monkeypatch):
    file = TemporaryFile("A test")
    checked = []
    monkeypatch.setattr(file, "_require", checked.append)
    monkeypatch.setattr(temporary, "CHECK_BYTES", 100)
    for number in range(10):
        file.append(np.full(5, number))
    assert file.map(np.int64, 0, (50,)).tolist() == np.repeat(range(10), 5).tolist()
    assert 2 <= len(checked) <= 5


def test_files_are_deleted_when_nothing_refers_to_them(folder):
    file = TemporaryFile("A test", 8)
    fd = file.fileno()
    mapped = file.map(np.int64, 0, (1,))
    file.write_from(np.array([5]), 0)
    del file
    gc.collect()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(fd)
    assert mapped.tolist() == [5]
    assert not list(folder.iterdir())


def test_too_little_space(folder, monkeypatch):
    usage = type("Usage", (), {"free": 1000})()
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    assert free_bytes() == 1000
    TemporaryFile("A test", 950)  # a twentieth is left free
    with pytest.raises(OSError, match=r"A test needs 0.00 GB in the folder for temporary files, .*TMPDIR") as caught:
        TemporaryFile("A test", 960)
    assert caught.value.errno == errno.ENOSPC
    assert str(folder) in str(caught.value)
    with pytest.raises(OSError, match=r"A test needs 0\.07 GB"):
        TemporaryFile("A test").append(np.zeros(1))


@pytest.mark.parametrize(("number", "message"), [(errno.ENOSPC, "of free space"), (errno.EFBIG, "fails in the folder")])
def test_writes_that_fail_name_the_folder(folder, number, message, monkeypatch):
    file = TemporaryFile("A test")

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(OSError, match=rf"A test .*{message}.*TMPDIR") as caught:
        file.write_from(np.zeros(1), 0)
    assert caught.value.errno == number
    assert str(folder) in str(caught.value)


def test_files_are_closed_with_the_object(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"12345678")
    opened = open(path, "rb", buffering=0)  # noqa: SIM115
    file = RandomAccessFile(opened)
    value = np.empty(4, dtype=np.uint8)
    file.read_into(value, 4)
    assert value.tobytes() == b"5678"
    del file
    gc.collect()
    assert opened.closed
