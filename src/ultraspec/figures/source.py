"""What figures are drawn from: a fitted model, rows, and the cluster of each row.

`Source` hides where things come from: labels that the user gives, labels that the model holds for the rows it was
fitted on, or labels predicted block by block for any other rows. Nothing of the size of the data is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from ultraspec.rows import Block, Rows, check_finite, cut_span, is_lazy, sample_indices
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.model import Model
from ultraspec.spectral.partition import Partition, VotePartition
from ultraspec.spectral.preprocess import Preprocessor
from ultraspec.storage.cached import cached_attribute
from ultraspec.usenc import USENC
from ultraspec.uspec import USPEC

SAMPLE_ROWS = 20_000  # data no larger is drawn row by row
SAMPLE_VALUES = 2**26  # of a sample of many features: it has fewer rows then
LEAST_SAMPLE = 2_000
CHECKED_ROWS = 500  # whose labels tell whether rows are those that were fitted
MOST_CLUSTERS = 500

Where = slice | npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """Some rows: their clusters, and what else was asked for.

    Attributes
    ----------
    codes : ndarray of shape (n,), int32
        Cluster of each row, counted from zero.
    points : ndarray of shape (n, d), float64, or None
        Their own coordinates, where there are at most two features.
    edges : Edges or None
        Their ties to representatives.
    columns : ndarray of shape (n, m), int32, or None
        Their base clusters, numbered through all members of an ensemble.
    """

    codes: Codes
    points: Floats | None = None
    edges: Edges | None = None
    columns: Codes | None = None


class Source:
    """A fitted model with rows to draw.

    Parameters
    ----------
    model : USPEC or USENC
        A fitted model.
    X : array-like, sparse matrix, frame or Rows, optional
        Rows. None: only what the model holds of the rows it was fitted on.
    labels : array-like of shape (n_samples,), optional
        What to draw as clusters instead of the model's own labels.
    engine : ThreadEngine
        Runs the passes.

    Attributes
    ----------
    n_rows, n_features : int
        Shape of the data.
    names : list of str
        What clusters are called.
    fitted : bool
        Whether the rows are those that the model was fitted on.
    own : bool
        Whether the labels are the model's.
    """

    def __init__(self, model: Any, X: Any, labels: Any, engine: ThreadEngine) -> None:
        if not isinstance(model, (USPEC, USENC)):
            raise TypeError(f"model must be a fitted USPEC or USENC, got {type(model).__name__}.")
        self.state = fitted(model)
        self.model = model
        self.engine = engine
        self.rows = None if X is None else open_input(model, X, reset=False)
        kept: Any = getattr(model, "labels_", None)
        if (self.rows is not None and self.rows.remote) or (self.rows is None and is_lazy(kept)):
            raise TypeError(
                "The rows are on a cluster, and figures are drawn from rows of this machine. Pass some of them, such "
                "as X[::100].compute(), or open_rows of their files."
            )
        kept = None if is_lazy(kept) else kept
        if self.rows is None and kept is None:
            raise ValueError("This model holds no labels: it came from a file. Pass the rows X.")
        self.n_rows = self.rows.n_rows if self.rows is not None else len(kept)
        self.n_features = int(model.n_features_in_)
        self.own = labels is None
        self.fitted = False  # until it is known, all is predicted
        self._clusters: Clusters | None = None
        self.fitted = kept is not None and len(kept) == self.n_rows and self._agrees(kept)
        if labels is not None:
            self._clusters = Clusters.of(labels, self.n_rows)
        elif self.fitted:
            self._clusters = Clusters(kept, np.arange(model.n_clusters_))
        self.names = self._clusters.names if self._clusters is not None else list(map(str, range(model.n_clusters_)))
        if len(self.names) > MOST_CLUSTERS:
            raise ValueError(f"{len(self.names):,} clusters are too many to draw: at most {MOST_CLUSTERS}.")

    @property
    def is_ensemble(self) -> bool:
        """Whether the model is a `USENC`."""
        return isinstance(self.model, USENC)

    @property
    def graph(self) -> Model:
        """The model whose representatives are drawn: of an ensemble, its first member."""
        return self.state.members[0]

    @property
    def partition(self) -> Partition:
        """What places rows in clusters."""
        return self.state.partition

    @property
    def feature_names(self) -> list[str]:
        """The features' names, or "feature 0" and so on."""
        given = getattr(self.model, "feature_names_in_", None)
        names = [f"feature {i}" for i in range(self.n_features)] if given is None else [str(name) for name in given]
        return names if self.model.scaling_ is None else [f"{name}, scaled" for name in names]

    @cached_attribute
    def sample(self) -> npt.NDArray[np.int64]:
        """Numbers of the rows that stand for all: every row of small data."""
        size = max(LEAST_SAMPLE, min(SAMPLE_ROWS, SAMPLE_VALUES // max(self.n_features, 1)))
        return sample_indices(self.n_rows, size, np.random.default_rng(0))

    @property
    def is_small(self) -> bool:
        """Whether the sample has every row."""
        return len(self.sample) == self.n_rows

    @cached_attribute
    def first_columns(self) -> Codes:
        """The number of each member's first base cluster."""
        return first_columns(self.state.members)

    def sampled(self, *, points: bool = False, edges: bool = False, columns: bool = False) -> Part:
        """The sample's rows."""
        step = self.rows.block_rows if self.rows is not None else 65536
        chunks = [self.sample[low : low + step] for low in range(0, len(self.sample), step)]
        wanted = {"points": points, "edges": edges, "columns": columns}
        return join(self.engine.map(lambda chunk: self._part(chunk, lambda: self.take(chunk), **wanted), chunks))

    def block(self, span: tuple[int, int], *, points: bool = False, edges: bool = False, columns: bool = False) -> Part:
        """The rows of a range."""
        return self._part(slice(*span), lambda: self._read(span), points=points, edges=edges, columns=columns)

    def take(self, indices: npt.NDArray[np.int64]) -> Block:
        """The user's own values of some rows."""
        return self._open.take(indices)

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges that cover all rows."""
        if self.rows is not None:
            return self.rows.blocks()
        return cut_span((0, self.n_rows), 65536)

    def _part(self, where: Where, read: Callable[[], Block], *, points: bool, edges: bool, columns: bool) -> Part:
        """What is asked for, from what the model keeps of fitted rows if it can be, else from the rows themselves."""
        rows = _Reading(self.model, self.state.preprocessor, where, read)
        stored_edges = self.state.stored_edges if self.fitted else None
        kept_columns = getattr(self.model, "base_labels_", None) if self.fitted else None
        predicted = self._clusters is None
        by_columns = self.is_ensemble and not isinstance(self.partition, VotePartition)
        ties = base = None
        if edges or (predicted and not by_columns):
            ties = stored_edges[where] if stored_edges is not None else self.graph.edges(rows.prepared)
        if (columns and self.is_ensemble) or (predicted and by_columns):
            if kept_columns is not None:
                base = kept_columns[where].astype(np.int32) + self.first_columns
            else:
                base = base_columns(self.state.members, rows.prepared)
        if self._clusters is not None:
            codes = self._clusters[where]
        else:
            codes = self.partition.label(edges_of_columns(base) if by_columns else ties)  # type: ignore[arg-type]
        return Part(codes, rows.coordinates if points else None, ties if edges else None, base if columns else None)

    def _agrees(self, kept: npt.NDArray[np.int32]) -> bool:
        """Whether some rows get the labels that the model holds, as they do bit for bit if they are the same rows."""
        if self.rows is None:
            return True
        some = sample_indices(self.n_rows, CHECKED_ROWS, np.random.default_rng(0))
        found = self._part(some, lambda: self.take(some), points=False, edges=False, columns=False)
        return bool(np.array_equal(found.codes, kept[some]))

    def _read(self, span: tuple[int, int]) -> Block:
        return self._open.read(*span)

    @property
    def _open(self) -> Rows:
        if self.rows is None:
            raise ValueError("This figure needs the rows: pass X.")
        return self.rows


class _Reading:
    """A block that is read and prepared at most once, and only if it is needed."""

    def __init__(self, model: Any, preprocessor: Preprocessor, where: Where, read: Callable[[], Block]) -> None:
        self._model = model
        self._preprocessor = preprocessor
        self._where = where
        self._read = read

    @cached_attribute
    def raw(self) -> Block:
        """The user's own values, checked."""
        block = self._read()
        check_finite(block, self._numbers, getattr(self._model, "feature_names_in_", None))
        return block

    @cached_attribute
    def prepared(self) -> Block:
        """The rows as the model sees them."""
        return self._preprocessor.prepare_new(self.raw, self._numbers)

    @property
    def _numbers(self) -> npt.NDArray[np.int64]:
        where = self._where
        return np.arange(where.start, where.stop) if isinstance(where, slice) else where

    @property
    def coordinates(self) -> Floats:
        """Dense float64 values."""
        dense = self.raw.toarray() if scipy.sparse.issparse(self.raw) else self.raw
        return np.asarray(dense, dtype=np.float64)


@contextmanager
def open_source(model: Any, X: Any = None, labels: Any = None) -> Iterator[Source]:
    """A `Source` whose passes run on as many threads as the model's, and are shown where its fit was."""
    title = type(model).__name__
    reporter = reporter_for(title, verbose=bool(getattr(model, "verbose", False)))
    with ThreadEngine(getattr(model, "n_jobs", None), reporter) as engine, reporter.phase("figures"):
        yield Source(model, X, labels, engine)


def join(parts: list[Part]) -> Part:
    """Parts one after another."""

    def together(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    edges = None
    if parts[0].edges is not None:
        pieces = [part.edges for part in parts if part.edges is not None]
        edges = Edges(np.concatenate([e.ids for e in pieces]), np.concatenate([e.weights for e in pieces]))
    return Part(together("codes"), together("points"), edges, together("columns"))


@dataclass(frozen=True)
class Clusters:
    """Labels of all rows, as they are, and their distinct values.

    Examples
    --------
    >>> found = Clusters.of(["b", "a", "b"], 3)
    >>> found[:].tolist(), found.names
    ([1, 0, 1], ['a', 'b'])
    """

    labels: npt.NDArray[Any]
    values: npt.NDArray[Any]

    @classmethod
    def of(cls, labels: Any, n_rows: int) -> Clusters:
        """Labels that a user gives: any integers or strings."""
        array = np.asarray(labels)
        if array.shape != (n_rows,):
            raise ValueError(f"labels must have one entry for each of the {n_rows:,} rows, got shape {array.shape}.")
        if array.dtype.kind not in "iubUSO":
            raise TypeError(f"labels must be integers or strings, got {array.dtype}.")
        values = _plain(array[:0])
        for low in range(0, n_rows, 65536):
            values = np.union1d(values, _plain(array[low : low + 65536]))
            if len(values) > MOST_CLUSTERS:
                raise ValueError(f"labels have more than {MOST_CLUSTERS} distinct values, too many clusters to draw.")
        return cls(array, values)

    @property
    def names(self) -> list[str]:
        """The values as text."""
        return [str(value) for value in self.values.tolist()]

    def __getitem__(self, where: Where) -> Codes:
        return np.searchsorted(self.values, _plain(self.labels[where])).astype(np.int32)


def _plain(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return labels.astype(str) if labels.dtype.kind == "O" else labels
