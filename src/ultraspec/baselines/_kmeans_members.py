"""Members of the ensemble baselines: one column of k-means labels per member."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ultraspec.baselines._elkan import elkan_is_faster
from ultraspec.baselines._kmeans import lite_kmeans
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Rows, allocate_matrix
from ultraspec.storage.spool import matrix_columns

PARALLEL_BYTES = 2**28  # members run in parallel if they need no more memory together


def limit_base_clusters(base_clusters: tuple[int, int], n_rows: int, n_clusters: int) -> tuple[int, int]:
    """Limit the range of the members' numbers of clusters to the square root of the rows, both ends in proportion."""
    low, high = base_clusters
    root = math.isqrt(max(n_rows - 1, 0)) + 1  # rounded up
    most = min(n_rows, max(root, n_clusters))
    if high <= most:
        return low, high
    return max(1, most * low // high), most


def kmeans_members(
    rows: Rows,
    base_clusters: tuple[int, int],
    max_iter: int,
    seeds: Sequence[np.random.SeedSequence],
    engine: ThreadEngine,
) -> Any:
    """Run k-means once per seed, with numbers of clusters drawn from a range; return labels as in `allocate_matrix`.

    On small data the runs are parallel, each in one thread. On large data they follow each other, each on all threads.
    A seed gives the same labels in both cases.
    """
    low, high = base_clusters
    labels = allocate_matrix(rows, len(seeds), np.min_scalar_type(high - 1))
    columns = matrix_columns(labels)
    reporter = engine.reporter

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
