"""Standard input for tests."""

from __future__ import annotations

import io


def piped(monkeypatch, data):
    """Let standard input be a pipe with these bytes."""

    class Stdin:
        buffer = io.BufferedReader(io.BytesIO(data))

        @staticmethod
        def isatty():
            return False

    monkeypatch.setattr("sys.stdin", Stdin())
