"""Folders of complete files, on this machine and at URLs."""

from __future__ import annotations

import sys

import pytest

from ultraspec.storage.folders import LOCK, Folder, UrlFolder, folder_of

FSSPEC = pytest.param("file://{}", marks=pytest.mark.skipif(sys.platform == "win32", reason="paths of URLs"))


@pytest.fixture(params=["{}", FSSPEC])
def place(request, tmp_path):
    """Path or URL of a folder that does not exist."""
    if "://" in request.param:
        pytest.importorskip("fsspec")
    return request.param.format(tmp_path / "a" / "folder")


def read(folder, name):
    with folder.open(name) as file:
        return file.read()


def test_paths_and_urls_are_recognised(place, tmp_path):
    assert type(folder_of(place)) is (UrlFolder if "://" in place else Folder)
    assert isinstance(folder_of(tmp_path), Folder)


def test_files_are_written_read_and_replaced(place):
    folder = folder_of(place)
    assert not folder.has("one")  # the folder need not exist
    folder.make()
    folder.make()
    assert folder.names() == []
    folder.write("one", lambda file: file.write(b"first"))
    folder.write("two", lambda file: file.write(b"second"))
    folder.write("one", lambda file: file.write(b"third"))
    assert folder.names() == ["one", "two"]
    assert folder.has("one")
    assert read(folder, "one") == b"third"
    assert folder.path("one") == f"{place}/one"


def test_a_file_that_fails_is_not_there(place, tmp_path):
    folder = folder_of(place)
    folder.make()
    folder.write("one", lambda file: file.write(b"first"))

    def fail(file):
        file.write(b"half")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        folder.write("one", fail)
    assert read(folder, "one") == b"first"
    assert [path.name for path in (tmp_path / "a" / "folder").iterdir()] == ["one"]


def test_incomplete_files_and_locks_have_no_names(place, tmp_path):
    folder = folder_of(place)
    folder.make()
    (tmp_path / "a" / "folder" / "one.tmp").write_bytes(b"half")
    with folder.lock():
        assert folder.names() == []


def test_a_file_is_no_folder(place, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "folder").write_text("precious")
    with pytest.raises(ValueError, match=r"folder' is a file\. Pass a folder, new or of an earlier run"):
        folder_of(place).make()
    with pytest.raises(ValueError, match=r"cannot be (created|opened)"):
        folder_of(f"{place}/below").make()


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_a_folder_is_locked_once(tmp_path):
    folder = Folder(tmp_path)
    with (
        folder.lock(),
        pytest.raises(ValueError, match="Another fit is using the checkpoint folder"),
        Folder(tmp_path).lock(),
    ):
        pass
    with folder.lock():
        assert (tmp_path / LOCK).exists()


def test_home_folders_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    Folder("~/run").make()
    assert (tmp_path / "run").is_dir()


def test_urls_that_cannot_be_opened():
    pytest.importorskip("fsspec")
    with pytest.raises(ValueError, match=r"checkpoint='foo://a' cannot be opened: .*Check the URL"):
        UrlFolder("foo://a")


def test_urls_without_fsspec(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"checkpoint='s3://bucket/run' is a URL.*pip install 'ultraspec\[dask\]'"):
        UrlFolder("s3://bucket/run")
