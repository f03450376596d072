"""What the estimators share: parameter checks, progress, and passes over the rows that a user gives."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from ultraspec._checks import check_choice, check_clusters, check_integer, check_jobs, check_number
from ultraspec._input import open_input
from ultraspec.engines.callbacks import CallbackSupport, report_to_callbacks
from ultraspec.engines.progress import Console, Reporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral.preprocess import NewRows, Preprocessor, survey
from ultraspec.storage.spool import Together

MOST_REPRESENTATIVES = 2**16 - 1  # ids are uint16; the p x p matrix would need 34 GB by then


ROWS_LOOKED_AT = 32  # at either end, to know the fitted rows again
LEAST_ALIKE = 0.75  # of them: another processor may round a tie the other way

SET_ON_INPUT = ("n_features_in_", "feature_names_in_", "scaling_")  # attributes that change before a fit succeeds

F = TypeVar("F", bound=Callable[..., Any])


def all_or_nothing(fit: F) -> F:
    """Let a fit that fails, or is interrupted, leave the estimator as it was: fitted before or not."""

    @functools.wraps(fit)
    def careful(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = vars(self)
        before = {name: state[name] for name in SET_ON_INPUT if name in state}
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            for name in SET_ON_INPUT:
                state.pop(name, None)
            state.update(before)
            raise

    return careful  # type: ignore[return-value]


class RowClusterer(CallbackSupport, ClusterMixin, BaseEstimator):
    """Base of all estimators: progress, and the input they take."""

    _scales_new_rows: ClassVar[bool] = (
        False  # whether there are methods that take new rows, and scale them as the fitted
    )

    _takes_dask: ClassVar[bool] = False

    def _wanted_clusters(self, rows: Rows) -> int:
        """`n_clusters`, or 1 where it is "auto"; raises if there are fewer rows."""
        wanted = 1 if self.n_clusters == "auto" else int(self.n_clusters)
        if rows.n_rows < wanted:
            raise ValueError(
                f"n_samples={rows.n_rows} rows cannot make n_clusters={wanted} clusters. "
                "Pass more rows or a smaller n_clusters."
            )
        return wanted

    def _console(self) -> Reporter:
        return Console(type(self).__name__) if self.verbose else Reporter()

    def _reporter(self) -> Reporter:
        return report_to_callbacks(self, self._console())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class RowEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowClusterer):
    """Base of the estimators that label and embed new rows, too."""

    _scales_new_rows: ClassVar[bool] = True
    _takes_dask: ClassVar[bool] = True
    _per_row: ClassVar[tuple[str, ...]] = ("labels_",)  # fitted attributes that grow with the rows
    _space: Preprocessor
    _n_rows: int
    _labels_seed: np.random.SeedSequence

    if not TYPE_CHECKING:  # a type checker would let any name pass

        def __getattr__(self, name: str) -> Any:
            """Say of what a model file leaves out how to get it; raise for other names what was raised before."""
            if name in (*self._per_row, "fit_profile_") and "n_clusters_" in vars(self):
                instead = {"labels_": "predict(X)", "fit_profile_": "fit(X)"}
                raise AttributeError(
                    f"This {type(self).__name__} comes from a file, and model files keep nothing of a fit's rows and "
                    f"run, so there is no {name}. With the rows that were fitted, call "
                    f"model.{instead.get(name, f'cut({self.n_clusters_}, X).{name}')}.",
                    name=name,
                    obj=self,
                )
            return object.__getattribute__(self, name)

    def _check_graph_parameters(self) -> None:
        """Check the number of clusters and the parameters that choose the graph of rows and representatives."""
        check_clusters(self.n_clusters)
        check_integer("n_representatives", self.n_representatives, least=1, most=MOST_REPRESENTATIVES)
        check_integer("n_neighbors", self.n_neighbors, least=1)
        if self.n_neighbors > self.n_representatives:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than n_representatives={self.n_representatives}: each row is "
                "tied to its nearest representatives. Lower n_neighbors or raise n_representatives."
            )
        for name in ("candidate_factor", "neighborhood_factor", "n_init", "max_iter"):
            check_integer(name, getattr(self, name), least=1)
        check_choice("selection", self.selection, ("hybrid", "random", "kmeans"))
        check_choice("neighbors", self.neighbors, ("approx", "exact"))
        check_choice("metric", self.metric, ("euclidean", "cosine"))
        check_number("regularization", self.regularization, least=0.0)
        check_jobs(self.n_jobs)

    def _check_cut(self, n_clusters: Any, most: int, what: str = "eigenvectors") -> None:
        """Refuse more clusters than there is of what they are made of."""
        check_integer("n_clusters", n_clusters, least=1)
        if n_clusters > most:
            raise ValueError(
                f"This model keeps {most} {what}, too few for n_clusters={n_clusters}. "
                f"Fit anew with n_clusters={n_clusters}" + (" and more of them." if what != "eigenvectors" else ".")
            )

    def _open_fitted(self, X: Any) -> Rows:
        """Row source of the rows that were fitted."""
        rows = open_input(self, X, reset=False)
        if rows.n_rows != self._n_rows:
            raise ValueError(f"X has {rows.n_rows} rows, but {self._n_rows} rows were fitted. Pass the same rows.")
        kept = vars(self).get("_fingerprint")
        if kept is not None and (self._look_at(rows) == kept).all(axis=1).mean() < LEAST_ALIKE:
            raise ValueError(
                "X does not hold the rows that were fitted, but others. Pass the same rows in the same order; of other "
                "rows, predict gives the clusters."
            )
        return rows

    @abstractmethod
    def _marks(self, block: Block) -> npt.NDArray[Any]:
        """What tells prepared rows from others, a few whole numbers for each."""

    def _look_at(self, rows: Rows) -> npt.NDArray[np.uint16]:
        """What the model sees in the first and the last rows: others, however like them, look different."""
        n = rows.n_rows
        spans = (0, min(n, ROWS_LOOKED_AT)), (max(0, n - ROWS_LOOKED_AT), n)
        return np.concatenate([self._marks(self._prepare_new(rows, span)) for span in spans]).astype(np.uint16)

    @property
    def _seed(self) -> int | None:
        """The number that repeats the fit as `random_state`, also where that was None; None for a generator."""
        entropy = self._labels_seed.entropy
        return entropy if isinstance(entropy, int) else None

    def _survey(
        self,
        rows: Rows,
        seed: np.random.SeedSequence,
        engine: ThreadEngine,
        numbers: npt.NDArray[np.int64] | None = None,
    ) -> Preprocessor:
        names = getattr(self, "feature_names_in_", None)
        return survey(rows, self.metric, np.random.default_rng(seed), engine, names, numbers)

    def _new_rows(self, rows: Rows, space: Preprocessor) -> NewRows:
        """Rows that may not have been surveyed, checked and prepared as they are read."""
        return NewRows(rows, space, getattr(self, "feature_names_in_", None))

    def _prepare_new(self, rows: Rows, span: tuple[int, int]) -> Block:
        """A block of rows that may not have been fitted, checked and prepared."""
        return self._new_rows(rows, self._space).read(*span)

    def _map_rows(self, rows: Rows, function: Callable[[Block], Any], dtype: Any, width: int | None = None) -> Any:
        """What `function` makes of prepared rows, block by block: a value or `width` values for each.

        An array, or for rows on a cluster a Dask array that is computed when it is asked for. A list of types stands
        for as many values, and arrays.
        """
        new = self._new_rows(rows, self._space)
        if rows.remote:
            from ultraspec.rows.dask import map_lazily

            return map_lazily(new, function, dtype, width, type(self).__name__.lower())
        many = dtype if isinstance(dtype, list) else [dtype]
        arrays = [np.empty(rows.n_rows if width is None else (rows.n_rows, width), dtype=each) for each in many]
        out: Any = Together(*arrays) if isinstance(dtype, list) else arrays[0]

        def run(block: Block, span: Span) -> None:
            out[slice(*span)] = function(block)

        with ThreadEngine(self.n_jobs) as engine:
            engine.map_rows(new, run)
        return tuple(arrays) if isinstance(dtype, list) else out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # the embedding is float32
        return tags
