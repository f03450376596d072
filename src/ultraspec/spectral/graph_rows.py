"""The rows that a graph is built from: all of them, or a sample that is preprocessed and held in memory.

A graph of a thousand representatives does not change any more when it has two million rows. So larger data is sampled:
the sample is read once, the graph is built from it, and then all rows are labelled in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse

from ultraspec._checks import check_integer
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import (
    ArrayRows,
    Block,
    Rows,
    RowSample,
    RowWeights,
    Span,
    SparseRows,
    cut_span,
    sample_indices,
    take_sample,
)
from ultraspec.spectral.preprocess import PreparedRows, Preprocessor, UnseenRows, prepare_rows
from ultraspec.storage.checkpoint import Checkpoint, NoCheckpoint

MOST_ROWS = 2_000_000  # of "auto"
LEAST_ROWS = 200_000  # of "auto" for rows of very many features: twenty for each of 10,000 representatives
SAMPLE_VALUES = 2**26  # values of a sample in memory, about: fewer rows of many features are taken
SURVEYED_VALUES = 2**25  # values of a part of a larger sample, which scale and principal components are fitted to
SURVEYED_ROWS = 10_000  # of that part, at least


def check_graph_rows(graph_rows: Any, n_clusters: Any) -> None:
    """Raise ValueError or TypeError unless the parameter `graph_rows` is valid."""
    if graph_rows is None or (isinstance(graph_rows, str) and graph_rows == "auto"):
        return
    check_integer("graph_rows", graph_rows, least=1, alternatives=("auto", None))
    if n_clusters != "auto" and graph_rows < n_clusters:
        raise ValueError(
            f"graph_rows={graph_rows} rows cannot form n_clusters={n_clusters} clusters. Raise graph_rows, or pass "
            "None to use all rows."
        )


def sample_graph_rows(
    n_rows: int,
    n_features: int,
    weights: RowWeights | None,
    graph_rows: int | Literal["auto"] | None,
    seed: np.random.SeedSequence,
) -> RowSample | None:
    """Return the rows that the graph is built from, sampled evenly or by weight, None for all."""
    if graph_rows is None:
        return None
    if graph_rows == "auto":
        graph_rows = min(MOST_ROWS, max(LEAST_ROWS, SAMPLE_VALUES // max(1, n_features)))
    if graph_rows >= n_rows:
        return None
    sample_seed = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
    rng = np.random.default_rng(sample_seed)
    if weights is not None:
        return weights.sample(int(graph_rows), rng)
    return RowSample(sample_indices(n_rows, int(graph_rows), rng))


def survey(
    rows: Rows,
    sample: RowSample | None,
    metric: str,
    n_components: int | Literal["auto"] | None,
    rng: np.random.Generator,
    names: Sequence[str] | None,
    checkpoint: Checkpoint | NoCheckpoint,
    engine: ThreadEngine,
    *,
    prepare: bool = False,
) -> tuple[Preprocessor, Rows]:
    """Check the rows, fit the preprocessor, and return it with the preprocessed rows that the graph is built from.

    Parameters
    ----------
    rows : Rows
        Raw rows.
    sample : RowSample or None
        The rows that the graph is built from; None for all. Only these are checked.
    metric : str
        Distance between rows.
    n_components : int, "auto" or None
        Number of principal components.
    rng : numpy.random.Generator
        Source of randomness.
    names : sequence of str, or None
        Names of the features, for messages.
    checkpoint : Checkpoint or NoCheckpoint
        Stores the preprocessor.
    engine : ThreadEngine
        Runs the passes.
    prepare : bool, default=False
        Whether small rows are preprocessed once in any case, for many passes; else only if they are projected.
    """
    fits = sample is None or len(sample.indices) * rows.n_features <= SAMPLE_VALUES
    part = sample
    if sample is not None and not fits:
        size = max(SURVEYED_ROWS, SURVEYED_VALUES // rows.n_features)
        part = sample.take(sample_indices(len(sample.indices), size, np.random.default_rng(0)))
    raw = rows if part is None else _read_sample(rows, part, engine)
    preprocessor = checkpoint.run(
        "space",
        Preprocessor.fit,
        *(raw, metric, rng, engine, names, None if part is None else part.indices, n_components),
        restore=partial(Preprocessor.from_arrays, metric),
    )
    if sample is not None and not fits:
        return preprocessor, _prepare_sample(UnseenRows(rows, preprocessor, names), sample, engine)
    if preprocessor.projects or prepare:
        return preprocessor, prepare_rows(raw, preprocessor, engine)
    return preprocessor, PreparedRows(raw, preprocessor)


def _read_sample(rows: Rows, sample: RowSample, engine: ThreadEngine) -> Rows:
    """Read raw rows into memory, with their weights; threads share those of a file."""
    if rows.in_memory or rows.remote:
        return take_sample(rows, sample)
    spans = cut_span((0, len(sample.indices)), rows.block_rows)
    return sample.weigh(_rows_of(engine.map(lambda span: rows.take(sample.indices[slice(*span)]), spans)))


def _prepare_sample(rows: UnseenRows, sample: RowSample, engine: ThreadEngine) -> Rows:
    """Read sampled rows into memory, preprocessed; of raw rows, only some blocks are in memory at a time."""
    indices = sample.indices
    if rows.remote:
        return sample.weigh(_rows_of(rows.gather(indices, _identity)))
    spans = cut_span((0, len(indices)), rows.block_rows)
    if rows.sparse:
        return sample.weigh(_rows_of(engine.map(lambda span: rows.take(indices[slice(*span)]), spans)))
    array = np.empty((len(indices), rows.n_features), dtype=np.float32)

    def fill(span: Span) -> None:
        array[slice(*span)] = rows.take(indices[slice(*span)])

    engine.map(fill, spans)
    return sample.weigh(ArrayRows(array))


def _rows_of(parts: Sequence[Block]) -> Rows:
    """Return blocks as one row source."""
    if scipy.sparse.issparse(parts[0]):
        return SparseRows(scipy.sparse.vstack(parts, format="csr"))
    return ArrayRows(np.concatenate(parts))


def _identity(block: Block) -> Block:
    return block
