"""A fitted model, rows, and the cluster of each row: what all figures are computed from.

Labels come from the user, from the model (for the rows it was fitted on), or they are predicted block by block. No
array made here is as large as the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ultraspec._estimator import fitted
from ultraspec._input import open_input
from ultraspec.engines.progress import reporter_for
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.members import base_columns, first_columns
from ultraspec.ensemble.transfer_cut import edges_of_columns
from ultraspec.rows import Block, Span, check_finite, cut_span, is_lazy, missing_of, sample_indices
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.model import Model
from ultraspec.spectral.outliers import distances_of_edges
from ultraspec.spectral.partition import VotePartition
from ultraspec.storage.cached import cached_attribute
from ultraspec.usenc import USENC
from ultraspec.uspec import USPEC

SAMPLE_ROWS = 20_000  # smaller data is drawn row by row
SAMPLE_VALUES = 2**26  # rows with many features have a smaller sample
LEAST_SAMPLE = 2_000
CHECKED_ROWS = 500  # whose labels show whether the rows are those that were fitted
SPREAD_ROWS = 2_000
BLOCK_ROWS = 65_536
MOST_CLUSTERS = 500

Selection = slice | npt.NDArray[np.int64]
Integers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabeledBlock:
    """Some rows with their clusters, and what else was requested.

    Attributes
    ----------
    codes : ndarray of shape (n,), int32
        Cluster of each row, counted from zero.
    points : ndarray of shape (n, d), float64, or None
        The rows as the user passed them.
    edges : Edges or None
        Edges of the rows to representatives.
    base_clusters : ndarray of shape (n, m), int32, or None
        Base cluster of each row in each member of an ensemble, numbered through all members.
    values : ndarray of shape (n, c), float64, or None
        Some columns of the rows, before scaling.
    distances : ndarray of shape (n,), float32, or None
        Mean distance of each row to its representatives, relative to what is usual for these: the outlier score of
        the models is a function of it.
    """

    codes: Integers
    points: Floats | None = None
    edges: Edges | None = None
    base_clusters: Integers | None = None
    values: Floats | None = None
    distances: npt.NDArray[np.float32] | None = None

    @classmethod
    def concatenate(cls, blocks: list[LabeledBlock]) -> LabeledBlock:
        """Return one block with the rows of all."""

        def join(arrays: list[Any]) -> Any:
            return None if arrays[0] is None else np.concatenate(arrays)

        edges = [block.edges for block in blocks if block.edges is not None]
        return cls(
            join([block.codes for block in blocks]),
            join([block.points for block in blocks]),
            Edges(join([each.ids for each in edges]), join([each.weights for each in edges])) if edges else None,
            join([block.base_clusters for block in blocks]),
            join([block.values for block in blocks]),
            join([block.distances for block in blocks]),
        )


@contextmanager
def open_labeled_rows(
    model: Any,
    X: Any = None,
    labels: Any = None,
    most_points: int | None = None,
    *,
    phase: str | None = "figures",
) -> Iterator[LabeledRows]:
    """Open rows; passes over them run on as many threads as the fit and are reported like its phases.

    All of them are one `phase`; None if the caller divides them into phases.
    """
    if not isinstance(model, (USPEC, USENC)):
        raise TypeError(f"model must be a fitted USPEC or USENC, got {type(model).__name__}.")
    reporter = reporter_for(type(model).__name__, verbose=bool(model.verbose))
    whole = nullcontext() if phase is None else reporter.phase(phase)
    with ThreadEngine(model.n_jobs, reporter) as engine, whole:
        yield LabeledRows(model, X, labels, engine, most_points)


class LabeledRows:
    """A fitted model with rows and their clusters.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows. None: only what the model stores about the rows it was fitted on.
    labels : array-like of shape (n_samples,), optional
        Clusters to show instead of those of the model.
    engine : ThreadEngine
        Runs the passes.
    most_points : int, optional
        Number of rows up to which the sample has all rows. By default that of the sample of larger data.

    Attributes
    ----------
    state : Fitted
        State of the fitted model.
    n_rows, n_features : int
        Shape of the data.
    cluster_names : list of str
        Names of the clusters.
    is_training_data : bool
        Whether the rows are those that the model was fitted on.
    has_model_labels : bool
        Whether the clusters are those of the model.
    passed_labels : LabelCodes or None
        The labels that the user passed.
    """

    def __init__(
        self, model: USPEC | USENC, X: Any, labels: Any, engine: ThreadEngine, most_points: int | None = None
    ) -> None:
        self.state = fitted(model)
        self.model = model
        self.engine = engine
        self.rows = None if X is None else open_input(model, X, reset=False, drop=True)
        fitted_labels: Any = getattr(model, "labels_", None)
        if (self.rows is not None and self.rows.remote) or (self.rows is None and is_lazy(fitted_labels)):
            raise TypeError(
                "The rows are on a cluster, but figures need rows on this machine. Pass some of them, such as "
                "X[::100].compute(), or open_rows of their files."
            )
        if is_lazy(fitted_labels):
            fitted_labels = None
        if self.rows is None and fitted_labels is None:
            raise ValueError("This model holds no labels because it comes from a file. Pass the rows X.")
        self.n_rows = self.rows.n_rows if self.rows is not None else self.state.n_rows
        self._missing = self.state.missing if self.rows is None else missing_of(self.rows)
        labels = self.without_missing(labels)
        fitted_labels = self.without_missing(fitted_labels)
        self.n_features = int(model.n_features_in_)
        self._most_points = most_points
        self.has_model_labels = labels is None
        self._labels: LabelCodes | None = None  # None: predict them
        self.passed_labels: LabelCodes | None = None
        self.is_training_data = False  # until it is known, nothing stored in the model is used
        self.is_training_data = fitted_labels is not None and self._predicts(fitted_labels)
        if labels is not None:
            self._labels = LabelCodes.of(labels, self.n_rows)
            self.passed_labels = self._labels
        elif self.is_training_data:
            self._labels = LabelCodes(fitted_labels, np.arange(model.n_clusters_))
        values = np.arange(model.n_clusters_) if self._labels is None else self._labels.values
        self.cluster_names = [str(value) for value in values.tolist()]
        if len(values) > MOST_CLUSTERS:
            raise ValueError(f"{len(values):,} clusters are too many to draw: at most {MOST_CLUSTERS}.")

    def without_missing(self, values: Any) -> Any:
        """Return values of all rows without those of rows that were left out because values are missing."""
        if values is None or self._missing is None or len(values) != self.n_rows + len(self._missing):
            return values
        return np.delete(np.asarray(values), self._missing, axis=0)

    @property
    def is_ensemble(self) -> bool:
        """Whether the model is a `USENC`."""
        return isinstance(self.model, USENC)

    @property
    def first_member(self) -> Model:
        """The model whose representatives are drawn: the U-SPEC model, or the first member of an ensemble."""
        return self.state.members[0]

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, or "feature 0" and so on; it is said if they are scaled."""
        names = self.column_names
        return names if self.model.scaling_ is None else [f"{name}, scaled" for name in names]

    @property
    def column_names(self) -> list[str]:
        """Names of the features as the user gave them, or "feature 0" and so on."""
        given = getattr(self.model, "feature_names_in_", None)
        return [f"feature {i}" for i in range(self.n_features)] if given is None else [str(name) for name in given]

    @cached_attribute
    def sample(self) -> npt.NDArray[np.int64]:
        """Indices of the rows in the sample: all rows of small data."""
        most = SAMPLE_ROWS
        if self._most_points is not None:
            most = self._most_points if self.n_rows <= self._most_points else min(self._most_points, SAMPLE_ROWS)
        size = max(LEAST_SAMPLE, min(most, SAMPLE_VALUES // max(self.n_features, 1)))
        return sample_indices(self.n_rows, size, np.random.default_rng(0))

    @property
    def is_small(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.sample) == self.n_rows

    def read_sample(self, **needs: Any) -> LabeledBlock:
        """Return the rows of the sample, with what `read` takes as `needs`."""
        return self.read_rows(self.sample, **needs)

    def read_rows(self, indices: npt.NDArray[np.int64], **needs: Any) -> LabeledBlock:
        """Return the rows at sorted, distinct indices, with what `read` takes as `needs`."""
        step = self.rows.block_rows if self.rows is not None else BLOCK_ROWS
        chunks = [indices[low : low + step] for low in range(0, len(indices), step)]
        return LabeledBlock.concatenate(self.engine.map(lambda chunk: self.read(chunk, **needs), chunks))

    def blocks(self) -> list[Span]:
        """Return ranges that cover all rows."""
        return self.rows.blocks() if self.rows is not None else cut_span((0, self.n_rows), BLOCK_ROWS)

    def read(
        self,
        where: Selection,
        *,
        points: bool = False,
        edges: bool = False,
        base_clusters: bool = False,
        columns: npt.NDArray[np.intp] | None = None,
        distances: bool = False,
    ) -> LabeledBlock:
        """Return some rows with their clusters; what the model stores about its training data is not computed."""
        block = _RawBlock(self, where)
        row_edges: Any = None
        row_base_clusters: Any = None
        predicts = self._labels is None
        # new rows get a cluster by their base clusters, or else by their edges to representatives
        by_base_clusters = self.is_ensemble and not isinstance(self.state.partition, VotePartition)
        if edges or distances or (predicts and not by_base_clusters):
            row_edges = self._edges(block, where)
        if base_clusters or (predicts and by_base_clusters):
            row_base_clusters = self._base_clusters(block, where)
        if self._labels is not None:
            codes = self._labels[where]
        else:
            found = edges_of_columns(row_base_clusters) if by_base_clusters else row_edges
            codes = self.state.partition.label(found)
        return LabeledBlock(
            codes,
            block.points if points else None,
            row_edges if edges else None,
            row_base_clusters if base_clusters else None,
            None if columns is None else self._unscaled(block.checked, columns),
            self._distances(block.prepared, row_edges) if distances else None,
        )

    def _unscaled(self, block: Block, columns: npt.NDArray[np.intp]) -> Floats:
        """Return some columns of rows as a dense array, before scaling."""
        part = block[:, columns]
        values = np.asarray(part.toarray() if scipy.sparse.issparse(part) else part, dtype=np.float64)
        scaling = self.model.scaling_
        return values if scaling is None else values * scaling.deviation[columns] + scaling.mean[columns]

    def _distances(self, prepared: Block, edges: Edges) -> npt.NDArray[np.float32]:
        """Return how far preprocessed rows lie from their representatives, relative to what is usual for these."""
        model = self.first_member
        R = np.asarray(model.index.representatives)
        squares = np.empty(edges.ids.shape, dtype=np.float32)
        is_sparse = scipy.sparse.issparse(prepared)
        lengths = np.asarray(prepared.multiply(prepared).sum(axis=1)).ravel() if is_sparse else None
        for a, ids in enumerate(edges.ids.T):
            if lengths is None:
                squares[:, a] = np.square(prepared - R[ids]).sum(axis=1)
            else:
                products = np.asarray(prepared.multiply(R[ids]).sum(axis=1)).ravel()
                squares[:, a] = np.maximum(lengths - 2 * products + np.square(R[ids]).sum(axis=1), 0.0)
        distances = distances_of_edges(Edges(edges.ids, squares))
        return (distances / model.usual_distances[edges.ids].mean(axis=1)).astype(np.float32)

    def _edges(self, block: _RawBlock, where: Selection) -> Edges:
        """Return the edges of rows to the representatives of the first member."""
        stored = self.state.stored_edges if self.is_training_data else None
        return stored[where] if stored is not None else self.first_member.edges(block.prepared)

    def _base_clusters(self, block: _RawBlock, where: Selection) -> Integers:
        """Return the base clusters of rows, numbered through all members."""
        members = self.state.members
        stored = vars(self.model).get("base_labels_") if self.is_training_data else None
        if stored is None and self.rows is None:
            stored = getattr(self.model, "base_labels_", None)  # which reads the fitted rows
        if stored is None:
            return base_columns(members, block.prepared)
        return stored[where].astype(np.int32) + first_columns(members)

    def _predicts(self, labels: npt.NDArray[np.int32]) -> bool:
        """Return whether these are the predicted labels of some rows, as is the case for the training data."""
        if self.rows is None or len(labels) != self.n_rows:
            return len(labels) == self.n_rows
        checked = sample_indices(self.n_rows, CHECKED_ROWS, np.random.default_rng(0))
        return bool(np.array_equal(self.read(checked).codes, labels[checked]))

    def feature_spread(self) -> Floats:
        """Return the standard deviation of each feature in a part of the sample."""
        block = self.raw(self.sample[:: -(-len(self.sample) // SPREAD_ROWS)])
        if scipy.sparse.issparse(block):
            mean = np.asarray(block.mean(axis=0)).ravel()
            return np.sqrt(np.maximum(np.asarray(block.multiply(block).mean(axis=0)).ravel() - mean**2, 0.0))
        return np.asarray(block, dtype=np.float64).std(axis=0)

    def prepared(self, where: Selection) -> Block:
        """Return some rows preprocessed for the model."""
        return _RawBlock(self, where).prepared

    def raw(self, where: Selection) -> Block:
        """Return some rows as the user passed them."""
        if self.rows is None:
            raise ValueError("This figure needs the rows. Pass X.")
        return self.rows.read(where.start, where.stop) if isinstance(where, slice) else self.rows.take(where)


class _RawBlock:
    """Some rows that are read and preprocessed at most once, and only if they are needed."""

    def __init__(self, rows: LabeledRows, where: Selection) -> None:
        self._rows = rows
        self._where = where
        self._indices = np.arange(where.start, where.stop) if isinstance(where, slice) else where

    @cached_attribute
    def checked(self) -> Block:
        """The rows as the user passed them, without NaN and infinity."""
        block = self._rows.raw(self._where)
        check_finite(block, self._indices, getattr(self._rows.model, "feature_names_in_", None))
        return block

    @cached_attribute
    def prepared(self) -> Block:
        """The rows preprocessed for the model."""
        return self._rows.state.preprocessor.prepare_new(self.checked, self._indices)

    @property
    def points(self) -> Floats:
        """The rows as a dense float64 array."""
        block = self.checked
        return np.asarray(block.toarray() if scipy.sparse.issparse(block) else block, dtype=np.float64)


@dataclass(frozen=True)
class LabelCodes:
    """Labels of all rows and their distinct values; an index gives codes, the positions of labels among the values.

    Examples
    --------
    >>> labels = LabelCodes.of(["b", "a", "b"], 3)
    >>> labels[:].tolist(), labels.values.tolist()
    ([1, 0, 1], ['a', 'b'])
    """

    labels: npt.NDArray[Any]
    values: npt.NDArray[Any]

    @classmethod
    def of(cls, labels: Any, n_rows: int) -> LabelCodes:
        """Check labels that a user passed, integers or strings, and find their values."""
        array = np.asarray(labels)
        if array.shape != (n_rows,):
            raise ValueError(f"labels must have one entry for each of the {n_rows:,} rows, got shape {array.shape}.")
        if array.dtype.kind not in "iubUSO":
            raise TypeError(f"labels must be integers or strings, got {array.dtype}.")
        values = _sortable(array[:0])
        for low in range(0, n_rows, BLOCK_ROWS):
            values = np.union1d(values, _sortable(array[low : low + BLOCK_ROWS]))
            if len(values) > MOST_CLUSTERS:
                raise ValueError(f"labels have more than {MOST_CLUSTERS} distinct values, too many clusters to draw.")
        return cls(array, values)

    def __getitem__(self, where: Selection) -> Integers:
        return np.searchsorted(self.values, _sortable(self.labels[where])).astype(np.int32)


def _sortable(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return objects as strings, other labels as they are."""
    return labels.astype(str) if labels.dtype.kind == "O" else labels
