from __future__ import annotations

import os

import pytest

from tests.helpers.common import python
from ultraspec.storage.locks import claim

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs flock")


def test_a_claim_excludes_others_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    with claim([a]):
        with pytest.raises(ValueError, match=r"Another run of ultraspec is going to write .*a\.npy"), claim([b, a]):
            pass
        with claim([b]):  # the failed claim has released it
            pass
    with claim([a, b]):
        pass
    (folder,) = tmp_path.iterdir()
    assert list(folder.iterdir()) == []


def test_a_claim_ends_with_its_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = "import os; from pathlib import Path; from ultraspec.storage.locks import claim\n"
    python(code + f"with claim([Path({str(tmp_path / 'a')!r})]): print(1, flush=True), os._exit(0)")
    with claim([tmp_path / "a"]):
        pass


def test_no_locks_no_claims(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    with claim([tmp_path / "a"]), claim([tmp_path / "a"]):
        pass
