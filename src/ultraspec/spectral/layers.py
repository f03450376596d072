"""Number of clusters (n_clusters="auto"): the numbers at which graphs of disjoint rows agree.

Rows are divided into two halves, and each half gets a graph and trees of its own. If the data has k clusters, both
find the same ones when their trees are cut into k; with fewer or more clusters, which are merged or split is a matter
of chance. So the agreement of the halves, as a function of k, has its maximum at the number of clusters, and lower
maxima at other numbers that the data supports: these numbers are the layers. Data without structure is divided
differently by each half, whatever the number: its agreement stays below `CHANCE`, or below that of one Gaussian of the
same mean and covariance, which is looked at in case of doubt.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ultraspec._checks import warn_user
from ultraspec._kernels import agreement as kernels
from ultraspec.cluster.points import FEW_FEATURES, Labels
from ultraspec.engines.progress import MemberReporter
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows, Rows, RowSample, take_draws, take_sample
from ultraspec.spectral.candidates import TREES, build_hierarchy
from ultraspec.spectral.choice import (
    COMMON_ROWS,
    JUDGE_REPRESENTATIVES_PER_CLUSTER,
    VERY_WELL_CONNECTED,
    Judge,
    Panel,
    SmallGraph,
    connectivity_of,
    most_coarse,
    n_vectors_for,
)
from ultraspec.spectral.edges import new_edges
from ultraspec.spectral.null import draw_gaussian
from ultraspec.spectral.options import GraphOptions

LEVELS = 30, 100, 300  # clusters that trees are built for
FEW_ROWS_LEVELS = 10, 30, 100, 300  # the same for few rows
LABELINGS = 60  # rough clusterings of the graph of a half
REPRESENTATIVES_PER_CLUSTER = 10  # of the graph of a half, if it has as many rows
ROWS_PER_REPRESENTATIVE = 3  # of a half, up to the representatives of coarse graphs
FINER = 3000  # representatives of the half of well connected rows, and at most half of its rows
LEAST = 60  # representatives of a half, if it has as many rows
LEAST_HALF = 3  # rows
FEW_ROWS = 2000  # up to this number of rows, a half is divided at a second level: clusters may be small
MANY = 0.3  # share of the next level from which on clusters are compared at that level, too
SPLITS = 2  # times that the rows are divided into halves, at most
MORE_SPLITS = 4  # times that few rows are
CLEAR = 0.95  # strength of the first layer from which on one time is enough
HOPELESS = 0.3  # agreement at the best number below which one time is enough
EVERY = 60  # up to this number of clusters, every number is compared; beyond, in steps of 2 %, and then near the best
LEAST_ROWS = 4  # common rows of a cluster; smaller ones, which outliers form, join the largest
LEAST_ROW_SHARE = 1e-3  # the same as a share of the common rows
AT_ONCE = 16  # numbers of clusters by which rows are labelled before they are compared
FARTHEST = 2  # largest number of clusters that is compared, as a multiple of the level
CHANCE = 0.4  # agreement that data without structure and of one width in all directions does not reach
DOUBTFUL = 0.5  # strength of the first layer below which it is compared with that of one Gaussian like the data
MARGIN = 0.15  # of agreement, by which the data must exceed that Gaussian
WIDEST = 1000  # features of such a Gaussian
OUTVOTED = 0.1  # agreement that it costs to leave out one kind of tree
FINENESS = 0.3  # of two numbers in equal agreement, the larger is preferred: agreement counts times log(k)^0.3
MOST_LAYERS = 5
LEAST_SHARE = 0.3  # of the strength of the first layer, for the others

Floats = npt.NDArray[np.float64]


class Layer(NamedTuple):
    """A number of clusters that the data supports.

    Attributes
    ----------
    n_clusters : int
        The number.
    strength : float
        Agreement of independent graphs at this number, rescaled so that 0 is the most that data without structure
        reaches, and 1 is perfect agreement.
    """

    n_clusters: int
    strength: float


class Agreement(NamedTuple):
    """How far two halves agree on clusterings, and the mean number of their clusters, without tiny ones."""

    likeness: float
    n_clusters: float


NO_AGREEMENT = Agreement(0.0, 1.0)


def find_layers(
    pool: Rows, options: GraphOptions, seed: np.random.SeedSequence, engine: ThreadEngine
) -> tuple[list[Layer], Panel | None]:
    """Return the numbers of clusters that the data supports, the best first, and the graphs that agree on them.

    Parameters
    ----------
    pool : Rows
        Sampled rows, preprocessed, in memory.
    options : GraphOptions
        Parameters of the graphs.
    seed : SeedSequence
        Seed of the random numbers.
    engine : ThreadEngine
        Runs the passes.

    Returns
    -------
    list of Layer
        The first is the suggestion. A single layer of one cluster if there is no structure.
    Panel or None
        Graphs of halves of the rows, pair by pair; None for few rows, of which halves are too small to judge.
    """
    if pool.n_rows // 2 < LEAST_HALF:
        return [Layer(1, 0.0)], None
    is_few = pool.n_rows // 2 <= FEW_ROWS
    levels = FEW_ROWS_LEVELS if is_few else LEVELS
    best = NO_AGREEMENT
    found, found_at = 1, levels[0]
    agreements: dict[int, Agreement] = {}
    *seeds, null_seed = seed.spawn(len(levels) + 1)
    for level, level_seed in zip(levels, seeds, strict=True):
        is_first = level == levels[0]
        may_be_more = found > MANY * level or (found == 1 and level == LEVELS[1] and not is_few)
        if not (is_first or may_be_more or (is_few and level == levels[1])):
            continue
        panel, values = compare_at(pool, level, options, level_seed, engine)
        for k, value in values.items():
            agreements[k] = max(agreements.get(k, value), value)
        if is_first or max(values.values(), default=NO_AGREEMENT) > best:
            chosen, found_at = panel, level
            best = max(values.values(), default=NO_AGREEMENT)
        found = layers_of(agreements)[0].n_clusters
    layers = layers_of(agreements)
    if found > 1 and layers[0].strength < DOUBTFUL and not pool.sparse and pool.n_features <= WIDEST:
        layers = layers_of(agreements, chance_of_gaussian(pool, found_at, options, null_seed, engine))
    return layers, None if is_few else chosen


def chance_of_gaussian(
    pool: Rows, level: int, options: GraphOptions, seed: np.random.SeedSequence, engine: ThreadEngine
) -> float:
    """Return the agreement that halves of one Gaussian of the same mean and covariance may reach, at least `CHANCE`."""
    build_seed, draw_seed = seed.spawn(2)
    n = pool.n_rows
    weights = np.broadcast_to(pool.read_weights(0, n), n)
    drawn = draw_gaussian(pool.read(0, n), weights, n, options.metric, np.random.default_rng(draw_seed))
    _, values = compare_at(ArrayRows(drawn), level, options, build_seed, engine)
    return max(CHANCE, max(values.values(), default=NO_AGREEMENT).likeness + MARGIN)


def layers_of(agreements: dict[int, Agreement], chance: float = CHANCE) -> list[Layer]:
    """Return the maxima of the agreement of halves, given by number of clusters, the best first.

    `chance` is the agreement that data without structure may reach.
    """
    values = np.array([agreements[k].likeness for k in sorted(agreements)])
    numbers = np.array([agreements[k].n_clusters for k in sorted(agreements)])
    scores = values * np.log(np.maximum(numbers, 2)) ** FINENESS
    padded = np.concatenate([[-np.inf], scores, [-np.inf]])
    is_peak = (scores > padded[:-2]) & (scores >= padded[2:]) & (values > chance)
    peaks = np.flatnonzero(is_peak)
    peaks = peaks[np.argsort(-scores[peaks], kind="stable")][:MOST_LAYERS]
    strengths = {round(numbers[each]): float((values[each] - chance) / (1.0 - chance)) for each in reversed(peaks)}
    layers = [Layer(k, strength) for k, strength in reversed(strengths.items())]
    return [each for each in layers if each.strength >= LEAST_SHARE * layers[0].strength] or [Layer(1, 0.0)]


def warn_of_no_structure(layers: Sequence[Layer], compared: str = "graphs of disjoint halves of the rows") -> None:
    """Warn if the only layer is that of a single cluster; `compared` says whose agreement was looked at."""
    if layers[0].n_clusters == 1:
        warn_user(
            f"No structure found: {compared} agree on no number of clusters more than they do for data without "
            'clusters. n_clusters="auto" gives one cluster; pass n_clusters to divide the rows anyway.',
            UserWarning,
        )


def compare_at(
    pool: Rows, level: int, options: GraphOptions, seed: np.random.SeedSequence, engine: ThreadEngine
) -> tuple[Panel, dict[int, Agreement]]:
    """Divide the rows into halves, build a graph and its trees for each half, and compare the trees.

    Few rows are divided several times. Many rows are divided again unless the first halves agree clearly, or hardly at
    all. If they are well connected, finer graphs are compared then, as that of all rows will be; coarse ones judge.

    Parameters
    ----------
    pool : Rows
        Rows, preprocessed, in memory.
    level : int
        Number of clusters, about.
    options : GraphOptions
        Parameters of the graphs.
    seed : SeedSequence
        Seed of the random numbers.
    engine : ThreadEngine
        Builds the graphs.

    Returns
    -------
    Panel
        The coarse graphs, two for each time that the rows were divided for them.
    dict of int to Agreement
        Agreement of two halves, by number of clusters.
    """
    n = pool.n_rows // 2
    is_few = n <= FEW_ROWS
    splits = MORE_SPLITS if is_few else SPLITS
    chance, *seeds = seed.spawn(1 + 2 * splits)
    rng = np.random.default_rng(chance)
    common = take_draws(pool, COMMON_ROWS, rng)
    halves = [half for _ in range(splits) for half in split_rows(pool, rng)]
    tasks = list(zip(halves, seeds, strict=True))
    alone = engine.within(MemberReporter(engine.reporter), alone=True)  # graphs are counted, not their passes

    def build(task: tuple[RowSample, np.random.SeedSequence], p: int) -> Judge:
        half, own_seed = task
        graph = SmallGraph.build(take_sample(pool, half), p, n_vectors_for(level), options, own_seed, alone)
        number = int(own_seed.generate_state(1)[0])
        hierarchy = build_hierarchy(graph.graph, graph.spectrum, level, LABELINGS, number, alone)
        return Judge(hierarchy, new_edges(common, graph.index, graph.sigma), graph.index)

    def compare(judges: list[Judge]) -> dict[int, Agreement]:
        return compare_halves(judges, FARTHEST * level, engine)

    per_cluster = REPRESENTATIVES_PER_CLUSTER if pool.n_features > 1 else JUDGE_REPRESENTATIVES_PER_CLUSTER
    fine = per_cluster * level if level > FEW_ROWS_LEVELS[0] else LEAST
    p = min(n, max(min(most_coarse(pool.n_features), n // ROWS_PER_REPRESENTATIVE), fine))
    enough = len(tasks) if is_few else 2
    judges = engine.map(partial(build, p=p), tasks[:enough])
    connectivity = connectivity_of(judges)
    values = compare(judges)
    is_hopeless = max(values.values(), default=NO_AGREEMENT).likeness < HOPELESS
    is_clear = layers_of(values)[0].strength >= CLEAR
    if not (is_few or is_hopeless or is_clear):
        if pool.n_features > FEW_FEATURES and connectivity < VERY_WELL_CONNECTED:
            values = compare(engine.map(partial(build, p=max(p, min(FINER, n // 2))), tasks))
        else:
            judges += engine.map(partial(build, p=p), tasks[enough:])
            values = compare(judges)
    return Panel(judges, common, connectivity), values


def split_rows(pool: Rows, rng: np.random.Generator) -> tuple[RowSample, RowSample]:
    """Divide rows into random halves.

    A row belongs to one half, unless its weight is about twice the mean or more: its weight is then divided at random
    between both halves, as that of repeated rows would be.
    """
    order = rng.permutation(pool.n_rows)
    n = pool.n_rows // 2
    if pool.weights is None:
        return RowSample(np.sort(order[:n])), RowSample(np.sort(order[n:]))
    shares = np.zeros(pool.n_rows)
    shares[order[:n]] = 1.0
    weights = pool.read_weights(0, pool.n_rows)
    units = np.rint(weights / weights.mean()).astype(np.int64)
    heavy = units >= 2
    shares[heavy] = rng.binomial(units[heavy], 0.5) / units[heavy]
    first, second = np.flatnonzero(shares > 0), np.flatnonzero(shares < 1)
    return RowSample(first, (weights * shares)[first]), RowSample(second, (weights * (1 - shares))[second])


def compare_halves(judges: Sequence[Judge], most: int, engine: ThreadEngine) -> dict[int, Agreement]:
    """Return the agreement of two halves, by number of clusters.

    Each tree of one half is compared with each tree of the other; `most` is the largest number of clusters.
    """

    def compare(labels: Sequence[Labels]) -> Agreement:
        found = [without_crumbs(each) for each in labels]
        halves = [found[low : low + len(TREES)] for low in range(0, len(found), len(TREES))]
        tables = [
            [[likeness(a, b) for b, _ in second] for a, _ in first]
            for first, second in zip(halves[::2], halves[1::2], strict=True)
        ]
        numbers = [[number for _, number in half] for half in halves]
        return agreement_of_trees(np.mean(tables, axis=0), np.mean(numbers, axis=0))

    def compare_all(numbers: Sequence[int]) -> list[Agreement]:
        labels = [label_cuts(judge, tree, numbers) for judge in judges for tree in TREES]
        results: list[Agreement] = []
        for low in range(0, len(numbers), AT_ONCE):
            here = len(numbers[low : low + AT_ONCE])
            some = engine.map(lambda each: list(itertools.islice(each, here)), labels)  # noqa: B023
            results += engine.map(compare, list(zip(*some, strict=True)))
        return results

    return compare_numbers(compare_all, min(most, *(judge.hierarchy.n_nodes for judge in judges)))


def agreement_of_trees(likenesses: Floats, numbers: Floats) -> Agreement:
    """Return the agreement of two halves, given that of each tree of one with each tree of the other.

    One kind of tree may fail on both halves: `agreement` divides a large cluster rather than find small ones. So the
    agreement of all trees is compared with that of all but one, less `OUTVOTED`.

    Parameters
    ----------
    likenesses : ndarray of shape (t, t)
        How alike the clusters of two trees are.
    numbers : ndarray of shape (t,)
        Mean number of clusters of each kind of tree.
    """
    best = Agreement(float(likenesses.mean()), float(numbers.mean()))
    for left_out in range(len(numbers)):
        rest = np.delete(np.arange(len(numbers)), left_out)
        value = float(likenesses[np.ix_(rest, rest)].mean()) - OUTVOTED
        best = max(best, Agreement(value, float(numbers[rest].mean())))
    return best


def label_cuts(judge: Judge, tree: str, numbers: Sequence[int]) -> Iterator[Labels]:
    """Label the common rows by the cuts of a tree into these numbers of clusters, in ascending order."""
    hierarchy = judge.hierarchy
    before = np.zeros(len(hierarchy.nodes), dtype=np.int32)
    labels = np.zeros(len(judge.edges), dtype=np.int32)
    for k in numbers:
        groups = hierarchy.trees[tree].cut(k)[hierarchy.nodes]
        labels = judge.label_again(labels, before, groups)
        before = groups
        yield labels


def compare_numbers(compare: Callable[[Sequence[int]], Sequence[Agreement]], most: int) -> dict[int, Agreement]:
    """Return the results of `compare` for numbers of clusters up to `most`: all small ones, and those near the best.

    `compare` is given ascending numbers.
    """
    numbers = list(range(2, min(EVERY, most) + 1))
    while numbers and EVERY <= numbers[-1] < most:
        numbers.append(min(most, max(numbers[-1] + 1, round(1.02 * numbers[-1]))))
    agreements = dict(zip(numbers, compare(numbers), strict=True))
    if numbers and (best := max(numbers, key=agreements.__getitem__)) > EVERY:
        step = round(0.02 * best)
        near = [k for k in range(best - step, best + step + 1) if EVERY < k <= most and k not in agreements]
        agreements |= zip(near, compare(near), strict=True)
    return agreements


def without_crumbs(labels: Labels) -> tuple[Labels, int]:
    """Return labels in which clusters of very few rows have joined the largest one, and the number of clusters left."""
    joined = labels.copy()
    least = max(LEAST_ROWS, LEAST_ROW_SHARE * len(labels))
    return joined, int(kernels.join_small_clusters(joined, int(labels.max()) + 1, least))


def likeness(labels: Labels, others: Labels) -> float:
    """Return how alike two clusterings are: the adjusted Rand index times the mean Jaccard index of best matches.

    The first looks at rows, the second at clusters: it notices if one of many clusters is split or merged.
    """
    return float(kernels.likeness(labels, others, int(labels.max()) + 1, int(others.max()) + 1))
