"""Memory of processes and of the machine."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ultraspec.engines import memory

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
def test_memory_of_this_process():
    before = memory.resident_bytes()
    block = np.ones(2**24)
    assert memory.resident_bytes() - before > 0.9 * block.nbytes
    assert memory.peak_bytes() >= memory.resident_bytes() - 2**20
    assert memory.total_bytes() > memory.resident_bytes()


@linux
def test_a_process_that_has_ended_has_no_memory():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert memory.resident_bytes(process.pid) > 0
        process.communicate(b"\n")
    assert memory.resident_bytes(process.pid) is None


@linux
def test_containers_limit_the_available_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    free = memory.available_bytes()
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("0\n")
    assert memory.available_bytes() > 0.5 * free
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert memory.available_bytes() == 2000
    (tmp_path / "memory.current").write_text("5000\n")
    assert memory.available_bytes() == 0
