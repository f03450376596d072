"""Engines run block functions over a row source and combine what they return, always in block order."""

from typing import Any

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows

__all__ = ["ThreadEngine", "engine_for"]


def engine_for(rows: Rows | None, n_jobs: int | None, reporter: Any = None) -> ThreadEngine:
    """The engine that goes where the rows are: Dask's for those on a cluster, else threads."""
    if rows is None or not rows.remote:
        return ThreadEngine(n_jobs, reporter)
    from ultraspec.engines.dask import DaskEngine

    return DaskEngine(n_jobs, reporter)
