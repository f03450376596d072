"""Write the page of ``ultraspec reproduce`` into the site, from the runs in ``docs/reproduction/runs.jsonl``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ultraspec.reproduce import page, store
from ultraspec.reproduce.declarations import TABLES
from ultraspec.reproduce.summary import Summary


def write_page(app: Any, exception: Exception | None) -> None:
    """Write ``page.html`` beside the pages of the site, once these are complete."""
    if exception is None and app.builder.format == "html":
        rows = store.read(Path(app.srcdir, "reproduction", "runs.jsonl"))
        Path(app.outdir, "page.html").write_text(page.render(Summary(rows), list(TABLES.values())), encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("build-finished", write_page)
    return {"version": "1", "parallel_read_safe": True}
