"""Settings of pytest: examples of modules whose optional dependency is missing do not run."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("anndata") else ["src/ultraspec/tl.py"]
