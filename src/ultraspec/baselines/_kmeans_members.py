"""Members of the ensembles that are compared with U-SENC: takes rows, gives one column of k-means labels per member."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ultraspec.baselines._elkan import elkan_is_faster
from ultraspec.baselines._kmeans import lite_kmeans
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows
from ultraspec.storage.spool import columns_of, matrix_for

PARALLEL_BYTES = 2**28  # members that need no more together while they run may run at once


def limit_base_clusters(base_clusters: tuple[int, int], n_rows: int, n_clusters: int) -> tuple[int, int]:
    """The range that members draw their number of clusters from: up to the root of the rows, cut in proportion."""
    low, high = base_clusters
    most = min(n_rows, max(math.isqrt(max(n_rows - 1, 0)) + 1, n_clusters))
    if high <= most:
        return low, high
    return max(1, most * low // high), most


def kmeans_members(
    rows: Rows,
    base_range: tuple[int, int],
    max_iter: int,
    seeds: Sequence[np.random.SeedSequence],
    engine: ThreadEngine,
) -> Any:
    """Labels, as in `matrix_for`, of one k-means run per seed, each with a number of clusters of its own.

    Small data: runs go side by side, each in one thread. Large data: one after another, on all threads. A seed gives
    the same labels either way.
    """
    low, high = base_range
    labels = matrix_for(rows, len(seeds), np.min_scalar_type(high - 1))
    columns, reporter = columns_of(labels), engine.reporter

    def run(number: int, inner: ThreadEngine) -> None:
        random = np.random.default_rng(seeds[number])
        k = int(random.integers(low, high + 1))
        columns[number][:] = lite_kmeans(rows, k, max_iter=max_iter, random=random, engine=inner).labels

    per_row = 12 + 4 * high if elkan_is_faster(rows, high, max_iter) else 8
    n_bytes = rows.n_rows * per_row + 4 * rows.block_rows * (rows.n_features + high)
    if engine.n_jobs > 1 and n_bytes * engine.n_jobs <= PARALLEL_BYTES:
        alone = engine.within(MemberReporter(reporter), alone=True)
        engine.map(lambda number: run(number, alone), range(len(seeds)))
        return labels
    reporter.begin_pass(len(seeds))
    inner = engine.within(MemberReporter(reporter), alone=False)
    for number in range(len(seeds)):
        run(number, inner)
        reporter.advance()
    return labels
