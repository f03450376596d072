"""U-SENC and `consensus` against peers on the same data in the same run: times, ratios, memory.

Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import Ratio, clock, compare_all, fetch, machine, memory_above_input, ratio, read_set, store
from sklearn.cluster import KMeans, SpectralClustering

from ultraspec import USENC, consensus

RATIOS: list[Ratio] = [
    (
        "PenDigits",
        "pendigits",
        None,
        10,
        lambda k: SpectralClustering(k, affinity="nearest_neighbors", random_state=0),
        2,
    ),
    ("MNIST", "mnist", None, 10, lambda k: KMeans(k, n_init=1, random_state=0), 2.5),
    ("CG-10M", "cg", 10_000_000, 11, lambda k: KMeans(k, n_init=1, random_state=0), 1.5),
]


def consensus_alone(result: dict[str, Any], repeats: int) -> None:
    """On the labels of 10M rows by 20 members, as `base_labels_` holds them and as most clusterers give them."""
    X = read_set("cg", 1_000_000)[0]
    few = USENC(11, random_state=0).fit(X).base_labels_
    narrow = np.tile(few, (10, 1))[np.random.default_rng(0).permutation(10_000_000)]
    for name, labels in (("10M x 20, uint8", narrow), ("10M x 20, int64", narrow.astype(np.int64))):
        consensus(labels[:10_000], 11, random_state=0)
        ours, peers = [], []
        for _ in range(repeats):
            peers.append(clock(lambda: np.unique(labels[:, 0])))  # noqa: B023
            ours.append(clock(lambda: consensus(labels, 11, random_state=0)))  # noqa: B023
        result["consensus"][name] = ratio(name, "np.unique", ours, peers, 5)
        store("speed_usenc", result)


def memory(result: dict[str, Any]) -> None:
    model = "USENC({}, random_state=0)"
    sets = [("CG-10M", "cg", 10_000_000, 11, 60, 500_000_000), ("Flower-20M", "flower", 20_000_000, 13, None, 0)]
    for title, dataset, n_rows, k, bytes_a_row, constant in sets:
        found = memory_above_input(title, dataset, n_rows, model.format(k), bytes_a_row, constant)
        result["memory"][title] = found
        store("speed_usenc", result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["ratios", "consensus", "memory"])
    options = parser.parse_args()
    result = fetch("speed_usenc")
    result["machine"] = machine()
    for section in ("ratios", "consensus", "memory"):
        result.setdefault(section, {})
    if "consensus" in options.only:
        consensus_alone(result, options.repeats)
    if "ratios" in options.only:
        compare_all(USENC, RATIOS, result, "speed_usenc", options.repeats)
    if "memory" in options.only:
        memory(result)


if __name__ == "__main__":
    main()
