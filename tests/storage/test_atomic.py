"""Files that are complete or absent, and checksums of arrays."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from ultraspec.storage.atomic import check_target, digest, write_atomically


@pytest.fixture(params=["system", "no unnamed files", "no links to them", "no links"])
def any_system(request, monkeypatch):
    """Systems and file systems that can do less than this one."""

    def refuse(*_, **__):
        raise OSError(errno.EPERM, "not permitted")

    link = os.link
    if request.param == "no unnamed files":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif request.param == "no links to them":
        monkeypatch.setattr(os, "link", lambda *a, **k: refuse() if "src_dir_fd" in k else link(*a, **k))
    elif request.param == "no links":
        monkeypatch.setattr(os, "link", refuse)


def test_files_are_written_and_replaced(tmp_path, any_system):
    path = tmp_path / "x"
    for content in (b"first", b"second"):
        write_atomically(path, lambda file, content=content: file.write(content))
        assert path.read_bytes() == content
        assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_what_is_interrupted_leaves_nothing(tmp_path, any_system, error):
    path = tmp_path / "x"

    def fail(file):
        file.write(b"half")
        raise error

    with pytest.raises(error):
        write_atomically(path, fail)
    assert os.listdir(tmp_path) == []
    path.write_bytes(b"old")
    with pytest.raises(error):
        write_atomically(path, fail)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_files_are_not_replaced_against_the_will(tmp_path, any_system):
    path = tmp_path / "x"
    write_atomically(path, lambda file: file.write(b"new"), overwrite=False)
    assert path.read_bytes() == b"new"
    with pytest.raises(FileExistsError) as caught:
        write_atomically(path, lambda file: file.write(b"newer"), overwrite=False)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x"]


def test_a_scratch_file_of_an_earlier_run_is_no_obstacle(tmp_path, any_system):
    scratch = tmp_path / "x.tmp"
    scratch.write_bytes(b"left behind")
    write_atomically(tmp_path / "x", lambda file: file.write(b"new"), scratch=scratch)
    assert (tmp_path / "x").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x"]


def test_folders_that_do_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "no" / "x", lambda file: None)


class TestTarget:
    def check(self, path, overwrite=None, read=()):
        return check_target(path, "page", overwrite=overwrite, is_ours=lambda p: p.read_bytes() == b"ours", read=read)

    def test_new_files_and_our_own(self, tmp_path):
        path = tmp_path / "x"
        assert self.check(path) == self.check(path, False) == path
        path.touch()
        assert self.check(path) == path
        path.write_bytes(b"ours")
        assert self.check(path) == path
        (tmp_path / "link").symlink_to(path)
        assert self.check(tmp_path / "link") == tmp_path / "link"  # which is replaced, not the file
        with pytest.raises(FileExistsError, match="overwrite is False"):
            self.check(path, False)

    def test_other_files(self, tmp_path):
        path = tmp_path / "x"
        path.write_bytes(b"other")
        assert self.check(path, True) == path
        with pytest.raises(FileExistsError, match="no page of ultraspec; pass overwrite=True"):
            self.check(path)
        with pytest.raises(ValueError, match="the file that the rows are read from"):
            self.check(path, True, read=[path])

    def test_folders(self, tmp_path):
        with pytest.raises(IsADirectoryError, match="The path of a page is a folder"):
            self.check(tmp_path)
        with pytest.raises(FileNotFoundError, match="The folder of the page does not exist"):
            self.check(tmp_path / "no" / "x")


def test_digests_depend_on_everything_but_the_byte_order():
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.ones(2)}
    expected = digest("text", arrays)
    assert digest("text", dict(reversed(arrays.items()))) == expected
    assert digest("text", {**arrays, "a": arrays["a"].astype(">i8")}) == expected
    assert digest("text", {**arrays, "a": np.asfortranarray(arrays["a"])}) == expected
    others = [
        digest("other", arrays),
        digest("text", {**arrays, "a": arrays["a"].reshape(3, 2)}),
        digest("text", {**arrays, "a": arrays["a"].astype(np.int32)}),
        digest("text", {"a": arrays["a"], "c": arrays["b"]}),
        digest("text", {**arrays, "b": np.zeros(2)}),
    ]
    assert len({expected, *others}) == 6
