"""Checksum of all rows, to recognise the data of an unfinished fit."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse

from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span


def describe_data(rows: Rows, engine: ThreadEngine) -> dict[str, Any]:
    """Return shape, type and checksum of all rows, in one pass."""
    checksums = engine.map_rows(rows, _checksum)
    facts = {
        "rows": rows.n_rows,
        "features": rows.n_features,
        "type": f"{'sparse ' if rows.sparse else ''}{rows.read(0, 1).dtype}",
        "content": hashlib.sha256(b"".join(checksums)).hexdigest(),
    }
    if rows.weights is not None:
        facts["weights"] = rows.weights.checksum()
    return facts | ({"where": "on a cluster"} if rows.remote else {})


def _checksum(block: Block, span: Span) -> bytes:  # noqa: ARG001
    arrays = (block.indptr, block.indices, block.data) if scipy.sparse.issparse(block) else (block,)
    checksum = hashlib.sha256()  # fast: processors have instructions for it
    for array in arrays:
        checksum.update(array.dtype.str.encode())
        checksum.update(np.ascontiguousarray(array).data)
    return checksum.digest()
