"""What the estimators share, and the one read-only view of a fitted estimator that all tools use, `fitted`."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ultraspec._checks import check_choice, check_clusters, check_integer, check_jobs, check_number, seed_sequence
from ultraspec._input import open_further, open_input, with_weights
from ultraspec.engines.callbacks import CallbackReporter, CallbackSupport
from ultraspec.engines.fingerprint import describe_data
from ultraspec.engines.finite import counting_not_finite
from ultraspec.engines.progress import Reporter, reporter_for
from ultraspec.engines.threads import ThreadEngine, engine_for
from ultraspec.metrics.distances import silhouette
from ultraspec.rows import (
    Block,
    LocalWeights,
    Rows,
    RowView,
    RowWeights,
    Scaling,
    Span,
    WeightedRows,
    like_rows,
    missing_of,
    spread,
    take_draws,
)
from ultraspec.spectral.choice import COMMON_ROWS
from ultraspec.spectral.edges import Edges, LazyEdges
from ultraspec.spectral.explanation import Findings, explain, overlaps_of
from ultraspec.spectral.layers import Layer
from ultraspec.spectral.model import Model, RowModel
from ultraspec.spectral.options import GraphOptions
from ultraspec.spectral.outliers import QUANTILES
from ultraspec.spectral.partition import Partition, VotePartition, embed_all
from ultraspec.spectral.preprocess import METRICS, GappyRows, Preprocessor, UnseenRows, apply_to_complete
from ultraspec.spectral.representatives import MOST_REPRESENTATIVES
from ultraspec.spectral.stability import Stability, measure_stability, resampled_judges
from ultraspec.spectral.sums import GraphSums
from ultraspec.storage.checkpoint import Checkpoint, NoCheckpoint
from ultraspec.storage.spool import ArrayTuple

ROWS_REMEMBERED = 32  # at each end, to recognise the fitted rows
LEAST_ROWS = 60  # that can be resampled
LEAST_EQUAL = 0.75  # share of them that must be equal: another processor may round a tie the other way

SET_ON_INPUT = ("n_features_in_", "feature_names_in_", "scaling_")  # attributes that change before a fit succeeds

F = TypeVar("F", bound=Callable[..., Any])


def all_or_nothing(fit: F) -> F:
    """Decorate `fit`: one that fails or is interrupted leaves the estimator as it was, fitted before or not."""

    @functools.wraps(fit)
    def careful_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = vars(self)
        before = {name: state[name] for name in SET_ON_INPUT if name in state}
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            for name in SET_ON_INPUT:
                state.pop(name, None)
            state.update(before)
            raise

    return careful_fit  # type: ignore[return-value]


@dataclass(frozen=True)
class Fitted:
    """State of a fitted estimator: a read-only view for model files, figures, reports and the command line.

    Attributes
    ----------
    model : Model or EnsembleModel
        Labels and embeds preprocessed rows.
    preprocessor : Preprocessor
        Turns raw rows into preprocessed rows.
    n_rows : int
        Number of rows that were fitted.
    n_iter : int
        Iterations of the k-means that gave the labels.
    labels_seed : SeedSequence
        Seed of the labels, for other cuts.
    fingerprint : ndarray of uint16, or None
        Marks of the first and the last rows, to recognise them.
    edges : Edges, LazyEdges or None
        Edges of the fitted rows of `USPEC`. Neither pickles nor model files store them.
    consensus : ConsensusMethod or None
        What `USENC` computes for the fitted rows. Neither pickles nor model files store it.
    source : Rows or None
        The fitted rows of `USENC`. Neither pickles nor model files store them.
    agreements : dict of str to float, or None
        Agreement of each candidate with other graphs, the largest first, if one was chosen by it.
    layers : list of Layer, or None
        Numbers of clusters that the data supports, the best first, if they were asked for.
    outlier_quantiles : ndarray of float32, or None
        Quantiles of the outlier scores of the fitted rows.
    outlier_scores : ndarray of float32, or None
        Outlier scores of the fitted rows, if these are in memory. Neither pickles nor model files store them.
    missing : ndarray of int64, or None
        Numbers of the rows that were left out, see the parameter `missing`. What has a value per row above has none for
        them. Neither pickles nor model files store them.
    weights : RowWeights or None
        Weights of the fitted rows; None if all count alike. Neither pickles nor model files store them.
    sums : GraphSums or None
        Sums of the graph of `USPEC`, to which rows can be added; files of older releases lack them.
    """

    model: RowModel
    preprocessor: Preprocessor
    n_rows: int
    n_iter: int
    labels_seed: np.random.SeedSequence
    fingerprint: npt.NDArray[np.uint16] | None = None
    edges: Edges | LazyEdges | None = None
    consensus: Any = None
    source: Rows | None = None
    agreements: dict[str, float] | None = None
    layers: list[Layer] | None = None
    outlier_quantiles: npt.NDArray[np.float32] | None = None
    outlier_scores: npt.NDArray[np.float32] | None = None
    missing: npt.NDArray[np.int64] | None = None
    weights: RowWeights | None = None
    sums: GraphSums | None = None

    @property
    def partition(self) -> Partition:
        """Clusters of what the rows have edges to."""
        return self.model.partition

    @property
    def members(self) -> Sequence[Model]:
        """The U-SPEC models: one of `USPEC`, all members of `USENC`."""
        return self.model.members

    @property
    def seed(self) -> int | None:
        """The integer that repeats the fit as `random_state`, also if that was None; None for a generator."""
        entropy = self.labels_seed.entropy
        return entropy if isinstance(entropy, int) else None

    @property
    def stored_edges(self) -> Edges | None:
        """Edges of the fitted rows to the first model's representatives, if they are in memory."""
        return self.edges if isinstance(self.edges, Edges) else None

    @property
    def voting_edges(self) -> Edges | LazyEdges | None:
        """Edges of the fitted rows to the first model's representatives, if this state holds them."""
        return self.edges if self.consensus is None else getattr(self.consensus, "edges", None)

    @property
    def common_edges(self) -> Edges | None:
        """Edges of sampled rows to the first model's representatives, if clusterings were compared on them."""
        choice = self.members[0].choice
        return choice.own.edges if choice is not None and len(choice.own.edges) else None

    def embed_fitted_rows(self, engine: ThreadEngine) -> npt.NDArray[np.float32]:
        """Embed the fitted rows without searching their neighbours again."""
        if self.edges is not None:
            return embed_all(self.edges, self.partition, engine)
        embedding: npt.NDArray[np.float32] = self.consensus.embed(self.partition, engine)
        return embedding

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what grows with the rows, for pickles."""
        left_out = ("edges", "consensus", "source", "outlier_scores", "missing", "weights")
        return {**vars(self), **dict.fromkeys(left_out)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def fitted(model: RowEstimator) -> Fitted:
    """Return the state of a fitted estimator; raise NotFittedError if it is not fitted."""
    check_is_fitted(model)
    return model._fitted


def open_gappy(
    model: RowEstimator, rows: Rows, function: Callable[[Block], Any]
) -> tuple[UnseenRows, Callable[[Any], Any]]:
    """Return rows to label, and the function of their blocks; it skips rows with missing values if they are dropped."""
    state = fitted(model)
    names = getattr(model, "feature_names_in_", None)
    if model.missing != "drop":
        return UnseenRows(rows, state.preprocessor, names), function
    return GappyRows(rows, state.preprocessor, names), functools.partial(apply_to_complete, function)


def check_parameters(model: RowEstimator) -> None:
    """Raise ValueError or TypeError unless the parameters of an estimator are valid."""
    model._check_parameters()


def restore_fitted(
    model: RowEstimator, state: Fitted, n_features: int, names: Sequence[str] | None, scaling: Scaling | None
) -> None:
    """Make an estimator a fitted one, from the parts that model files store."""
    model.n_features_in_ = n_features
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.scaling_ = scaling
    model._set_fitted(state)


def with_groups(model: RowEstimator, groups: npt.NDArray[np.int32], n_clusters: int) -> RowEstimator:
    """Return a fitted copy of an estimator whose clusters are groups (p,) of representatives, by which rows vote.

    It labels rows, but has no labels of the fitted rows, like a model from a file.
    """
    state = fitted(model)
    other = copy.copy(model)
    for name in (*other._per_row, "fit_profile_"):
        other.__dict__.pop(name, None)
    other.n_clusters = n_clusters
    partition = VotePartition(state.members[0].partition.spectrum, groups, n_clusters)
    changes: dict[str, Any] = {"partition": partition}
    if hasattr(state.model, "majority"):  # of the clusters that were fitted
        changes["majority"] = None
    other._set_fitted(replace(state, model=replace(state.model, **changes), agreements=None))  # type: ignore[type-var]
    return other


class RowClusterer(CallbackSupport, ClusterMixin, BaseEstimator):
    """Base of all estimators, baselines too: progress, and checks of their input."""

    def _least_clusters(self, rows: Rows) -> int:
        """Return `n_clusters`, or 1 if it is "auto"; raise ValueError if there are fewer rows."""
        n_clusters = 1 if self.n_clusters == "auto" else int(self.n_clusters)
        if rows.n_counted < n_clusters:
            raise ValueError(
                f"n_samples={rows.n_counted} rows cannot form n_clusters={n_clusters} clusters. "
                "Pass more rows or a smaller n_clusters."
            )
        return n_clusters

    def _console(self) -> Reporter:
        """Return the reporter that `report_to` or `verbose` chooses."""
        return reporter_for(type(self).__name__, verbose=bool(self.verbose))

    def _reporter(self) -> Reporter:
        """Return the reporter of a fit, which informs the callbacks of scikit-learn, too."""
        reporter = self._console()
        if getattr(self, "_skl_callbacks", None) or hasattr(self, "_parent_callback_ctx"):
            return CallbackReporter(self, self._init_callback_context(max_subtasks=None), reporter)
        return reporter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _votes(model: Any) -> bool:
    """Return whether rows of a fitted estimator vote, so that they have memberships; raise AttributeError if not."""
    if model._is_fitted() and not isinstance(model._fitted.partition, VotePartition):
        raise AttributeError(
            f"This {type(model).__name__} has no predict_proba: rows are assigned to the nearest centre, not by votes. "
            "Fit with the default of discretize or consensus."
        )
    return True


def _label_inliers(label: Callable[[Block], Any], model: RowModel, threshold: float, block: Block) -> Any:
    """Label preprocessed rows, -1 if their outlier score is beyond a threshold."""
    labels = label(block)
    is_outlier = model.outlier_scores(block) > threshold
    if isinstance(labels, tuple):
        return np.where(is_outlier, np.int32(-1), labels[0]), labels[1]
    return np.where(is_outlier, np.int32(-1), labels)


def row_confidence(model: RowModel, block: Block) -> npt.NDArray[np.float32]:
    """Return the confidence in the labels of preprocessed rows."""
    return model.label_with_confidence(block)[1]


def row_membership(model: RowModel, block: Block) -> npt.NDArray[np.float32]:
    """Return the membership of preprocessed rows in their own clusters."""
    assert isinstance(model.partition, VotePartition)
    return model.partition.membership(model.edges(block))


class RowEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowClusterer):
    """Base of the estimators that label and embed new rows."""

    _per_row: ClassVar[tuple[str, ...]] = ("labels_",)  # fitted attributes that grow with the rows, and are stored
    _refreshed: ClassVar[tuple[str, ...]] = ()  # fitted attributes that `_refresh` computes when they are needed
    _fitted: Fitted
    n_features_in_: int
    scaling_: Scaling | None

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name: str) -> Any:
            """Raise an informative AttributeError for fitted attributes that model files do not store."""
            if name in self._refreshed and "_stale" in vars(self):
                self._refresh()
                return getattr(self, name)
            if name in (*self._per_row, "fit_profile_") and "n_clusters_" in vars(self):
                instead = {"labels_": "predict(X)", "fit_profile_": "fit(X)"}
                raise AttributeError(
                    f"This {type(self).__name__} comes from a file, and model files do not store {name}. With the "
                    f"rows that were fitted, call model.{instead.get(name, f'cut({self.n_clusters_}, X).{name}')}.",
                    name=name,
                    obj=self,
                )
            return object.__getattribute__(self, name)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show: a small live page about a fitted model, or the diagram of scikit-learn."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        page = self._small_page() if "text/html" in bundle else None
        return bundle if page is None else {**bundle, "text/html": page}

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """HTML for notebooks that do not ask for a bundle; AttributeError if scikit-learn is to show text only."""
        diagram: Callable[[], str] = super()._repr_html_
        return lambda: self._small_page() or diagram()

    def _small_page(self) -> str | None:
        """Return a small live page about a fitted model in a frame; None if it is not fitted or holds no rows."""
        if not self._is_fitted() or not hasattr(self, "labels_"):
            return None
        try:  # by name, because tools lie above the estimators
            notebook = importlib.import_module("ultraspec.report.notebook")
            page: str | None = notebook.small_page(self)
        except ImportError:  # without Jinja2
            return None
        framed: str | None = None if page is None else notebook.in_frame(page, notebook.SMALL_HEIGHT)
        return framed

    def _is_fitted(self) -> bool:
        return "_fitted" in vars(self) or "_stale" in vars(self)

    def _refresh(self) -> None:
        """Compute the fitted attributes after rows were added; estimators with `partial_fit` define it."""
        raise NotImplementedError

    def __getstate__(self) -> Any:
        """Return the state for copies and pickles, without anything that is to be computed later."""
        if "_stale" in vars(self):
            self._refresh()
        return super().__getstate__()

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise ValueError or TypeError unless all parameters are valid."""

    def _check_graph_parameters(self) -> None:
        """Check the number of clusters and the parameters that define the graph of rows and representatives."""
        check_clusters(self.n_clusters)
        if self.n_representatives != "auto":
            check_integer(
                "n_representatives", self.n_representatives, least=1, most=MOST_REPRESENTATIVES, alternatives=("auto",)
            )
        check_integer("n_neighbors", self.n_neighbors, least=1)
        if self.n_components not in ("auto", None):
            check_integer("n_components", self.n_components, least=1, alternatives=("auto", None))
        if self.n_representatives != "auto" and self.n_neighbors > self.n_representatives:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than n_representatives={self.n_representatives}: each row has "
                "edges to its nearest representatives. Lower n_neighbors or raise n_representatives."
            )
        for name in ("candidate_factor", "neighborhood_factor", "n_init", "max_iter"):
            check_integer(name, getattr(self, name), least=1)
        check_choice("selection", self.selection, ("hybrid", "random", "kmeans"))
        check_choice("neighbors", self.neighbors, ("auto", "approx", "exact"))
        check_choice("affinity", self.affinity, ("robust", "paper"))
        check_choice("missing", self.missing, ("error", "drop"))
        check_choice("metric", self.metric, METRICS)
        check_number("regularization", self.regularization, least=0.0)
        check_jobs(self.n_jobs)

    def _check_cut(self, n_clusters: Any, *, leaves: int | None) -> None:
        """Raise ValueError if the model has too few leaves of a tree, or eigenvectors if that is None."""
        check_integer("n_clusters", n_clusters, least=1)
        n_vectors = self._fitted.partition.spectrum.vectors.shape[1]
        most, what = (n_vectors, "eigenvectors") if leaves is None else (leaves, "leaves of its trees")
        if n_clusters > most:
            raise ValueError(
                f"This model has {most} {what}, too few for n_clusters={n_clusters}. "
                f"Fit again with n_clusters={n_clusters}."
            )

    @contextlib.contextmanager
    def _open_run(
        self, rows: Rows, parameters: dict[str, Any]
    ) -> Iterator[tuple[ThreadEngine, Checkpoint | NoCheckpoint, np.random.SeedSequence]]:
        """Open what a fit runs on: the engine, the checkpoint and the seed.

        `parameters` are those that determine the results: a checkpoint is valid for these only.
        """
        reporter = self._reporter()
        reporter.profile = {}  # one that `report_to` gave may have served other fits before
        with engine_for(rows, self.n_jobs, reporter) as engine:
            if self.checkpoint is None:
                yield engine, NoCheckpoint(), seed_sequence(self.random_state)
            else:
                seed = None if self.random_state is None else seed_sequence(self.random_state)
                with reporter.phase("checkpoint"):
                    facts = {"data": describe_data(rows, engine), "parameters": parameters}
                with Checkpoint.open(self.checkpoint, facts, seed) as checkpoint:
                    yield engine, checkpoint, checkpoint.seed
            reporter.close()

    def _open_fitted(self, X: Any, sample_weight: Any = None) -> Rows:
        """Return the row source of the rows that were fitted; raise ValueError if X holds other rows.

        Their weights are `sample_weight`, or those that were fitted, if this model holds them.
        """
        rows = open_input(self, X, reset=False, drop=True)
        self._check_fitted_rows(rows)
        weights = self._fitted.weights
        if sample_weight is not None:
            return with_weights(rows, sample_weight, self.n_jobs)[0]
        if isinstance(weights, LocalWeights) and not rows.remote:
            return WeightedRows(rows, weights)
        return rows

    def _check_fitted_rows(self, rows: Rows) -> None:
        """Raise ValueError if a row source holds other rows than those that were fitted."""
        state = self._fitted
        if rows.n_rows != state.n_rows:
            raise ValueError(f"X has {rows.n_rows} rows, but {state.n_rows} rows were fitted. Pass the same rows.")
        if state.fingerprint is not None:
            equal = self._fingerprint(rows, state) == state.fingerprint
            if equal.all(axis=1).mean() < LEAST_EQUAL:
                raise ValueError(
                    "X does not hold the rows that were fitted. Pass the same rows in the same order; predict labels "
                    "other rows."
                )

    def _fingerprint(self, rows: Rows, state: Fitted) -> npt.NDArray[np.uint16]:
        """Return the marks of the first and the last rows, which recognise them."""
        n = rows.n_rows
        ends = (0, min(n, ROWS_REMEMBERED)), (max(0, n - ROWS_REMEMBERED), n)
        unseen = self._unseen(rows, state.preprocessor)
        return np.concatenate([state.model.marks(unseen.read(*span)) for span in ends]).astype(np.uint16)

    def predict(self, X: Any, *, return_confidence: bool = False, outliers: float | None = None) -> Any:
        """Label the rows of X, which need not have been fitted.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.
        return_confidence : bool, default=False
            Also return the confidence in each label, like `confidence_` for fitted rows.
        outliers : float or None, default=None
            Label rows -1 whose outlier score is beyond this quantile of the scores of the fitted rows, such as 0.99.
            None labels every row.

        Returns
        -------
        ndarray of shape (n_samples,), int32, or a tuple of it and an ndarray of shape (n_samples,), float32
            Cluster of each row, and the confidence in it. For a DataArray of xarray, DataArrays with its coordinates.
        """
        check_is_fitted(self)
        rows = open_input(self, X, reset=False)
        model = self._fitted.model
        label = model.label_with_confidence if return_confidence else model.label
        types: Any = [np.int32, np.float32] if return_confidence else np.int32
        if outliers is not None:
            label = functools.partial(_label_inliers, label, model, self._outlier_threshold(outliers))
        return like_rows(X, self._map_rows(rows, label, types))

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Cluster the rows of X and return their labels.

        Parameters
        ----------
        X : array-like, sparse matrix, table or frame of shape (n_samples, n_features)
            Rows.
        y : Ignored
            Present for compatibility with scikit-learn.
        **options : any
            Further arguments of `fit`, such as `sample_weight`.

        Returns
        -------
        ndarray of shape (n_samples,), int32
            Cluster of each row, `labels_`. For a DataArray of xarray a DataArray with its coordinates.
        """
        return like_rows(X, super().fit_predict(X, y, **options))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Compute the simplified silhouette of the labels that `predict` gives the rows of X, for model selection.

        Distances are measured in the space of the model: scaled, normalised or projected, if the model does so. See
        `ultraspec.metrics.silhouette`; it prefers round clusters, whereas n_clusters="auto" does not.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        float
            Between -1 and 1; larger is better. 0 for a single cluster.
        """
        labels = np.asarray(self.predict(X))
        if len(np.unique(labels[labels >= 0])) < 2:
            return 0.0
        rows = self._unseen(open_input(self, X, reset=False), self._fitted.preprocessor)
        return silhouette(rows, labels, n_jobs=self.n_jobs)

    def _outlier_threshold(self, quantile: float) -> float:
        """Return the outlier score at a quantile of the fitted rows."""
        check_number("outliers", quantile, least=0.0, most=1.0)
        quantiles = self._fitted.outlier_quantiles
        if quantiles is None:
            raise ValueError("This model comes from a file of an older release, which did not store outlier scores.")
        return float(np.interp(quantile, np.linspace(0.0, 1.0, QUANTILES), quantiles))

    @available_if(_votes)
    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Compute the membership of the rows of X in each cluster.

        It is the share of each cluster in the edges of a row to its representatives: 1 deep inside of a cluster, less
        near its border. The cluster with the largest share is that of `predict`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters), float32
            Memberships; those of a row add up to one.
        """
        check_is_fitted(self)
        rows = open_input(self, X, reset=False)
        return self._map_rows(rows, self._fitted.model.memberships, np.float32, self._fitted.partition.n_clusters)

    def outlier_score(self, X: Any) -> npt.NDArray[np.float32]:
        """Compute how far the rows of X lie from what their representatives stand for.

        The score is 1 - 1 / r, where r is the mean distance of a row to its representatives, relative to the median
        distance between representatives of the same cluster; it is 0 if r is below one. So a score of 0.5 means twice
        as far out as that.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,), float32
            Scores from 0 to 1; outliers have large ones.
        """
        check_is_fitted(self)
        return self._map_rows(open_input(self, X, reset=False), self._fitted.model.outlier_scores, np.float32)

    @property
    def outlier_scores_(self) -> npt.NDArray[np.float32]:
        """Outlier scores of the fitted rows, see `outlier_score`."""
        self._check_has("outlier_scores_")
        if self._fitted.outlier_scores is not None:
            return spread(self._fitted.outlier_scores, self._fitted.missing)
        return self._of_source("outlier_scores_", "outlier_score(X)", self._fitted.model.outlier_scores)

    @property
    def cluster_confidence_(self) -> npt.NDArray[np.float64]:
        """Mean confidence in the rows of each cluster."""
        self._check_has("cluster_confidence_")
        return self._judged_partition("cluster_confidence_").cluster_confidence()

    @property
    def probabilities_(self) -> npt.NDArray[np.float32]:
        """Membership of each fitted row in its own cluster: the largest entry of `predict_proba`."""
        self._check_has("probabilities_")
        partition = self._fitted.partition
        if not isinstance(partition, VotePartition):
            raise AttributeError(
                "probabilities_ needs rows that vote. Fit with the default of discretize or consensus."
            )
        return self._of_edges("probabilities_", "predict_proba(X)", partition.membership, row_membership)

    def _judged_partition(self, name: str) -> VotePartition:
        """Return the partition; raise AttributeError unless other graphs have judged it."""
        partition = self._fitted.partition
        if not isinstance(partition, VotePartition) or partition.trust is None:
            raise AttributeError(
                f"This {type(self).__name__} has no {name}: no other graphs have judged its clusters. Fit with the "
                "default of discretize or consensus."
            )
        return partition

    def _of_edges(
        self, name: str, instead: str, function: Callable[[Edges], Any], of_block: Callable[[Any, Block], Any]
    ) -> Any:
        """Apply a function of edges to those of the fitted rows; `of_block` is for rows whose edges are not stored."""
        edges = self._fitted.voting_edges
        if not isinstance(edges, Edges):
            return self._of_source(name, instead, functools.partial(of_block, self._fitted.model))
        out = np.empty(len(edges), dtype=np.float32)

        def fill(part: Edges, span: Span) -> None:
            out[slice(*span)] = function(part)

        with ThreadEngine(self.n_jobs) as engine:
            edges.map(fill, engine)
        return spread(out, self._fitted.missing)

    def explain(self) -> str:
        """Say in one paragraph how many clusters there are and why, and what is plausible, doubtful or odd."""
        check_is_fitted(self)
        state = self._fitted
        partition = state.partition
        labels = vars(self).get("labels_")
        findings = Findings(
            n_clusters=partition.n_clusters,
            n_rows=state.n_rows,
            sizes=np.bincount(labels[labels >= 0]) if isinstance(labels, np.ndarray) else None,
            layers=state.layers,
            agreements=state.agreements,
        )
        if isinstance(partition, VotePartition):
            if partition.trust is not None:
                findings = replace(findings, confidence=partition.cluster_confidence())
            common = state.common_edges
            if common is not None:
                findings = replace(findings, overlaps=overlaps_of(partition.memberships(common)))
        return explain(replace(findings, outlier_quantiles=state.outlier_quantiles))

    def stability(
        self, X: Any = None, *, n_graphs: int = 6, sample_weight: Any = None, random_state: Any = 0
    ) -> Stability:
        """Measure how far independent graphs find the clusters again, compared with rows without structure.

        With X, `n_graphs` graphs are built from resampled rows: each from a random half of the rows, or of 50,000, with
        representatives of its own. Without X, the graphs are those that judged the clusters in the fit. Each graph is
        divided into `n_clusters_` clusters in all ways that `USPEC` knows. A cluster of this model is as stable as its
        Jaccard index with the most similar of theirs. The same is measured for rows from one normal distribution with
        the covariance of the data. Clusters that are no more stable than those are no evidence of structure; of rows
        without structure, about a tenth of the clusters stand out all the same.

        The cost hardly depends on the number of rows: samples are read, also from files and from a cluster.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features), optional
            Rows, those that were fitted or others.
        n_graphs : int, default=6
            Number of resampled graphs, if X is given.
        sample_weight : array-like of shape (n_samples,), row source of one column, or str, optional
            Weights of the rows of X.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the random numbers.

        Returns
        -------
        Stability
            Stability of each cluster, agreement of the whole, and both for rows without structure.

        Examples
        --------
        >>> from ultraspec import USPEC, datasets
        >>> X, _ = datasets.generate("cc", 5_000, random_state=0)
        >>> found = USPEC(3, random_state=0).fit(X).stability(X, n_graphs=3)
        >>> found.clusters.min() > 0.9, found.stands_out.tolist()
        (np.True_, [True, True, True])
        """
        check_is_fitted(self)
        check_integer("n_graphs", n_graphs, least=1)
        state = self._fitted
        n_clusters = state.partition.n_clusters
        if n_clusters < 2:
            raise ValueError("This model has a single cluster, which any graph finds again. Cut it into two or more.")
        options = GraphOptions.of(self)
        if X is None:
            choice = state.model.choice
            if choice is None or not choice.judges or not isinstance(state.partition, VotePartition):
                raise ValueError(
                    "No other graphs judge the clusters of this model. Pass rows: stability(X) builds graphs of them."
                )
            labels = choice.own.label(state.partition.groups)
            with ThreadEngine(self.n_jobs, self._console()) as engine:
                args = labels, n_clusters, choice.judges, state.members[0], state.n_rows, options, False
                return measure_stability(*args, engine)
        rows = self._unseen(open_further(self, X, sample_weight, 1.0), state.preprocessor)
        if rows.n_counted < LEAST_ROWS:
            raise ValueError(f"X has {rows.n_counted} rows, too few to resample: at least {LEAST_ROWS} are needed.")
        seeds = seed_sequence(random_state).spawn(2)
        reporter = self._console()
        with engine_for(rows, self.n_jobs, reporter) as engine, reporter.phase("stability"):
            common = take_draws(rows, COMMON_ROWS, np.random.default_rng(seeds[0]))
            labels = state.model.label(common)
            judges = resampled_judges(rows, common, n_graphs, n_clusters, options, seeds[1], engine)
            args = labels, n_clusters, judges, state.members[0], rows.n_counted, options, True
            return engine.apply(measure_stability, *args)

    def _check_has(self, name: str) -> None:
        """Raise AttributeError as for any attribute of an estimator that is not fitted."""
        if not self._is_fitted():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _of_source(self, name: str, instead: str, function: Callable[[Block], Any]) -> Any:
        """Apply a function of preprocessed rows to the fitted ones, which are read again."""
        edges = self._fitted.voting_edges
        source = self._fitted.source
        if isinstance(edges, LazyEdges) and isinstance(edges.rows, RowView):
            source = edges.rows.rows
        if source is None:
            raise AttributeError(
                f"This {type(self).__name__} does not hold its rows: it came from a file or is a copy. With the rows "
                f"that were fitted, call model.{instead} instead of {name}.",
                name=name,
                obj=self,
            )
        return self._map_rows(source, function, np.float32)

    @abstractmethod
    def _set_fitted(self, state: Fitted) -> None:
        """Set the state and all fitted attributes that do not grow with the rows."""

    def _finish_fit(self, state: Fitted, rows: Rows, reporter: Reporter) -> None:
        """Set the state, with the fingerprint of the rows, and the profile of the fit."""
        marks = self._fingerprint(rows, state)
        self._set_fitted(replace(state, fingerprint=marks, missing=missing_of(rows), weights=rows.weights))
        self.fit_profile_ = {name: dict(facts) for name, facts in reporter.profile.items()}

    @property
    def _n_features_out(self) -> int:
        """Dimensions of the embedding, for scikit-learn."""
        return self._fitted.partition.n_vectors

    def _unseen(self, rows: Rows, preprocessor: Preprocessor) -> UnseenRows:
        """Return rows that may not have been fitted, checked and preprocessed as they are read."""
        return UnseenRows(rows, preprocessor, getattr(self, "feature_names_in_", None))

    def _map_rows(
        self, rows: Rows, function: Callable[[Block], Any], dtype: Any, width: int | None = None, *, every: bool = True
    ) -> Any:
        """Apply `function` to preprocessed rows, block by block: it returns a value or `width` values per row.

        Return an array, or for rows on a cluster a Dask array that is computed when it is needed. If `dtype` is a list
        of types, `function` returns a tuple of values, and the result is a tuple of arrays. If `every`, rows that were
        left out because values are missing have results, too: -1 or NaN.
        """
        if rows.remote:
            from ultraspec.rows.dask import all_rows, map_lazily  # needs Dask, which is optional

            unseen, function = open_gappy(self, all_rows(rows) if every else rows, function)
            return map_lazily(unseen, function, dtype, width, type(self).__name__.lower())
        unseen, function = open_gappy(self, rows, function)
        types = dtype if isinstance(dtype, list) else [dtype]
        shape = rows.n_rows if width is None else (rows.n_rows, width)
        arrays = [np.empty(shape, dtype=each) for each in types]
        out: Any = ArrayTuple(*arrays) if isinstance(dtype, list) else arrays[0]

        def run(block: Block, span: Span) -> None:
            out[slice(*span)] = function(block)

        names = getattr(self, "feature_names_in_", None)
        with counting_not_finite(rows, self.n_jobs, names), ThreadEngine(self.n_jobs) as engine:
            engine.map_rows(unseen, run)
        if every:
            arrays = [spread(array, missing_of(rows)) for array in arrays]
        return tuple(arrays) if isinstance(dtype, list) else arrays[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "drop"
        tags.transformer_tags.preserves_dtype = []  # the embedding is float32
        return tags
