"""Each way to divide the graph against scikit-learn on the same data in the same run, and the step that makes the tree.

Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from common import clock, fetch, machine, ratio, read_set, store
from sklearn.cluster import KMeans

from ultraspec import USPEC
from ultraspec._estimator import fitted
from ultraspec.engines.threads import ThreadEngine
from ultraspec.rows import ArrayRows
from ultraspec.spectral.candidates import JUDGE_LABELINGS, build_hierarchy
from ultraspec.spectral.edges import connect
from ultraspec.spectral.preprocess import PreparedRows
from ultraspec.spectral.transfer_cut import reduce_graph

# what, parameters, at most so many times the time of KMeans(11, n_init=1)
VARIANTS: list[tuple[str, dict[str, Any], float]] = [
    ('"auto"', {}, 0.35),
    ('"kmeans"', {"discretize": "kmeans"}, 0.5),
    ('"agreement"', {"discretize": "agreement"}, 0.35),
    ('"auto", graph_rows=1_000_000', {"graph_rows": 1_000_000}, 0.35),
]


def variants(result: dict[str, Any], repeats: int) -> None:
    X = read_set("cg", 10_000_000)[0]
    for _, options, _ in VARIANTS:
        USPEC(11, random_state=0, **options).fit(X[:50_000])
    peers: list[float] = []
    ours: dict[str, list[float]] = {name: [] for name, *_ in VARIANTS}
    for seed in range(repeats):
        peers.append(clock(lambda: KMeans(11, n_init=1, random_state=0).fit(X)))
        for name, options, _ in VARIANTS:
            model = USPEC(11, random_state=seed, **options)
            ours[name].append(clock(lambda: model.fit(X)))  # noqa: B023
    result["ratios"] = {name: ratio(name, "KMeans", ours[name], peers, limit) for name, _, limit in VARIANTS}
    store("speed_variants", result)


def tree(result: dict[str, Any]) -> None:
    """Time of the trees of p = 1000 representatives on one core."""
    X = read_set("cg", 200_000)[0]
    state = fitted(USPEC(11, random_state=0).fit(X))
    rows = PreparedRows(ArrayRows(X), state.preprocessor)
    index = state.members[0].index
    with ThreadEngine(1) as engine:
        graph = reduce_graph(
            connect(rows, index, engine, affinity="robust"), rows, len(index.representatives), engine, 0.5
        )
        arguments = graph, state.partition.spectrum, 11, JUDGE_LABELINGS, 0, engine
        seconds = [clock(lambda: build_hierarchy(*arguments)) for _ in range(8)]
    result["tree"] = {"seconds": statistics.median(seconds[1:]), "limit": 0.15}
    print(f"Trees of 1000 representatives on one core: {result['tree']['seconds']:.3f} s (<= 0.15)")
    store("speed_variants", result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    result = {**fetch("speed_variants"), "machine": machine()}
    tree(result)
    variants(result, options.repeats)


if __name__ == "__main__":
    main()
