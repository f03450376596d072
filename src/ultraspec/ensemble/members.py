"""The members of U-SENC's ensemble: takes rows, gives one U-SPEC model and one column of labels per member.

Every member has a seed of its own, from which its number of clusters, its representatives and its labels follow: so
members may run at once or one after another, and a killed run may go on where it stopped. All see the rows through one
`Preprocessor`: rows are surveyed once and, where they fit, prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ultraspec._checks import warn_user
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Block, Rows, Span
from ultraspec.spectral import discretize, representatives
from ultraspec.spectral.edges import Edges
from ultraspec.spectral.model import GraphOptions, Model, embed
from ultraspec.spectral.partition import CenterPartition, label_all
from ultraspec.spectral.preprocess import PreparedRows, Preprocessor
from ultraspec.storage.spool import as_array, columns_of, matrix_for

if TYPE_CHECKING:
    from ultraspec.storage.checkpoint import Checkpoint, NoCheckpoint

BASE_CLUSTERS = (20, 60)
ROWS_PER_BASE_CLUSTER = 180  # on small data: finer members differ by chance
PREPARED_BYTES = 2**28  # rows whose float32 form is no larger are prepared once for all members
PARALLEL_BYTES = 2**28  # members that need no more together while they run may run at once

Column = npt.NDArray[Any]  # unsigned integers


@dataclass(frozen=True)
class Recipe:
    """What the members have in common.

    Attributes
    ----------
    options : GraphOptions
        Parameters of their graphs.
    asked : tuple of two int
        Fewest and most clusters of a member, as the user asked for.
    base_clusters : tuple of two int
        The same, cut where rows are few.
    max_iter : int
        Iterations of their k-means.
    """

    options: GraphOptions
    asked: tuple[int, int]
    base_clusters: tuple[int, int]
    max_iter: int

    @classmethod
    def of(cls, estimator: Any, n_rows: int, n_clusters: int) -> Recipe:
        """That of an estimator; warns where a range of base clusters that is the user's own was cut."""
        options, asked = GraphOptions.of(estimator), (int(estimator.base_clusters[0]), int(estimator.base_clusters[1]))
        found = cut_range(asked, n_rows, n_clusters, options.n_representatives, options.n_neighbors)
        if found != asked and asked != BASE_CLUSTERS:
            warn_user(
                f"Members have {found[0]} to {found[1]} clusters instead of {asked[0]} to {asked[1]}: {n_rows:,} "
                "rows make no finer ones that are more than chance.",
                UserWarning,
            )
        return cls(options, asked, found, int(estimator.base_max_iter))

    def describe(self) -> dict[str, Any]:
        """What decides the members, for a checkpoint."""
        facts = {**asdict(self.options), "base_clusters": list(self.asked), "base_max_iter": self.max_iter}
        return facts | {"members have": "{} to {} clusters".format(*self.base_clusters)}

    @property
    def label_type(self) -> npt.DTypeLike:
        """The smallest type that holds every member's labels."""
        return np.min_scalar_type(self.base_clusters[1] - 1)


@dataclass(frozen=True)
class Member:
    """A finished member: what labels further rows, and the labels of the rows that were fitted."""

    model: Model
    labels: Column | None


def cut_range(
    base_clusters: tuple[int, int], n_rows: int, n_clusters: int, n_representatives: int, n_neighbors: int
) -> tuple[int, int]:
    """The range that members draw their number of clusters from: cut in proportion where rows are few."""
    low, high = base_clusters
    p = representatives.count(n_rows, n_representatives, 1, n_neighbors)
    most = min(p if p == n_representatives else p // 2, max(n_rows // ROWS_PER_BASE_CLUSTER, 2 * n_clusters))
    most = max(1, most)
    if high <= most:
        return low, high
    return min(most, max(1, most * low // high, n_clusters)), most


def prepare(rows: Rows, space: Preprocessor, engine: ThreadEngine) -> Rows:
    """The rows as members read them: dense ones prepared now where they are small, others when a block is read."""
    prepared = PreparedRows(rows, space)
    if rows.sparse or rows.remote or rows.n_rows * rows.n_features * 4 > PREPARED_BYTES:
        return prepared
    array = np.empty((rows.n_rows, rows.n_features), dtype=np.float32)

    def fill(block: Block, span: Span) -> None:
        array[slice(*span)] = block

    engine.map_rows(prepared, fill)
    return ArrayRows(array, in_memory=rows.in_memory)


def gather_members(
    rows: Rows,
    recipe: Recipe,
    seeds: Sequence[np.random.SeedSequence],
    checkpoint: Checkpoint | NoCheckpoint,
    engine: ThreadEngine,
) -> tuple[list[Model], Any]:
    """Models and labels, as in `matrix_for`, of all members: of those in the checkpoint, and of those made now.

    There are no labels where the rows are on a cluster.
    """
    models: dict[int, Model] = {}
    labels = None if rows.remote else matrix_for(rows, len(seeds), recipe.label_type)
    columns = columns_of(labels)

    def keep(number: int, member: Member) -> None:
        models[number] = member.model
        if labels is not None:
            columns[number][:] = member.labels

    def keep_new(number: int, member: Member) -> None:
        checkpoint.save_member(number, member)
        keep(number, member)

    for number in range(len(seeds)):
        member = checkpoint.load_member(number)
        if member is not None:
            keep(number, member)
    missing = {number: seed for number, seed in enumerate(seeds) if number not in models}
    run_members(rows, recipe, missing, keep_new, engine)
    return [models[number] for number in range(len(seeds))], labels


def label_members(models: Sequence[Model], block: Block) -> npt.NDArray[np.int32]:
    """Labels (n, m) of prepared rows by each member."""
    labels = np.empty((block.shape[0], len(models)), dtype=np.int32)
    for j, model in enumerate(models):
        labels[:, j] = model.label(block)
    return labels


def small_labels(models: Sequence[Model], dtype: npt.DTypeLike, block: Block) -> npt.NDArray[Any]:
    """The same in a small type."""
    return label_members(models, block).astype(dtype)


def base_labels(models: Sequence[Model], rows: Rows, dtype: npt.DTypeLike, engine: ThreadEngine) -> npt.NDArray[Any]:
    """Labels (n, m) of all prepared rows by each member."""
    out = matrix_for(rows, len(models), dtype)

    def run(block: Block, span: Span) -> None:
        out[slice(*span)] = label_members(models, block)

    engine.map_rows(rows, run)
    return as_array(out)


def base_columns(models: Sequence[Model], block: Block) -> npt.NDArray[np.int32]:
    """Base clusters of prepared rows, numbered through all members."""
    sizes = [model.partition.n_clusters for model in models]
    return label_members(models, block) + np.cumsum([0, *sizes[:-1]], dtype=np.int32)


def run_members(
    rows: Rows,
    recipe: Recipe,
    seeds: Mapping[int, np.random.SeedSequence],
    keep: Callable[[int, Member], None],
    engine: ThreadEngine,
) -> None:
    """Run the members that `seeds` numbers and hand each to `keep`, perhaps from several threads at once.

    Small data, and data on a cluster: members run at once, each in one thread, so that no core idles while another
    takes eigenvectors. Large data: one after another on all threads, with one set of edges for all rows.
    """
    n, options, reporter = rows.n_rows, recipe.options, engine.reporter
    n_bytes = 6 * n * options.n_neighbors + 24 * options.n_representatives * rows.n_features
    numbers = sorted(seeds)
    inner = MemberReporter(reporter)
    if engine.n_jobs > 1 and (rows.remote or n_bytes * engine.n_jobs <= PARALLEL_BYTES):
        alone = engine.within(inner, alone=True)
        engine.map(lambda number: keep(number, run_member(rows, recipe, seeds[number], alone)), numbers)
        return
    edges: Edges | None = None
    reporter.begin_pass(len(numbers))
    for number in numbers:
        member, edges = _run(rows, recipe, seeds[number], engine.within(inner, alone=False), edges)
        keep(number, member)
        reporter.advance()


def run_member(rows: Rows, recipe: Recipe, seed: np.random.SeedSequence, engine: ThreadEngine) -> Member:
    """One member."""
    return _run(rows, recipe, seed, engine, None)[0]


def _run(
    rows: Rows, recipe: Recipe, seed: np.random.SeedSequence, engine: ThreadEngine, room: Edges | None
) -> tuple[Member, Edges | None]:
    """One member, and its edges, which the next may overwrite."""
    seeds = seed.spawn(4)
    low, high = recipe.base_clusters
    k = int(np.random.default_rng(seeds[0]).integers(low, high + 1))
    found = embed(rows, recipe.options, high, k, seeds[1:3], engine, room)
    with engine.reporter.phase("labels"):
        points = discretize.points_of(found.edges, found.spectrum.vectors[:, :k])
        chance = np.random.default_rng(seeds[3])
        centers = discretize.rough_kmeans(points, k, 1, recipe.max_iter, chance, engine).centers
        labels = found.edges.room(recipe.label_type)
        partition = label_all(found.edges, CenterPartition(found.spectrum, centers), labels, engine)
    room = found.edges if isinstance(found.edges, Edges) else None
    return Member(Model(found.index, found.sigma, partition), as_array(labels)), room
