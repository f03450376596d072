"""Leaves out the examples of modules whose optional dependency is missing."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("anndata") else ["src/ultraspec/tl.py"]
