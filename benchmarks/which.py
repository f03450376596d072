"""Looks for a rule that tells from the data alone whether discretize="kmeans" or "consensus" will be better.

Fits one graph for each set and seed, finds both clusterings on it, scores them, and stores what `which_criteria` makes
of them, beside the number of clusters that eigenvalues and merge heights suggest. Results are stored after every run;
finished runs are not repeated, so it can be stopped and started again. --report prints the tables.

A rule may be chosen on the generated settings (`which_data`), the reconstructions, and PenDigits, USPS, Letters and the
sets in scikit-learn. MNIST, Covertype and the sets of the KEEL repository (--keel FOLDER: its .dat files) are for one
check of what was chosen.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import fetch, machine, store
from sklearn import datasets as small_sets
from which_criteria import agreement, criteria
from which_data import SETTINGS, make
from which_linkage import link

from ultraspec import USPEC, datasets, metrics
from ultraspec._checks import seed_sequence
from ultraspec._input import open_input
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import agreement as labelings
from ultraspec.spectral.discretize import DISCRETIZATIONS
from ultraspec.spectral.edges import Edges, connect
from ultraspec.spectral.n_clusters import CLEAR_STEP, MOST_AUTO_CLUSTERS, eigensteps, largest_eigengap
from ultraspec.spectral.neighbors import RepresentativeIndex
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import VotePartition, label_all
from ultraspec.spectral.preprocess import PreparedRows, Preprocessor
from ultraspec.spectral.representatives import count_representatives, select_representatives
from ultraspec.spectral.transfer_cut import Spectrum, reduce_graph, transfer_cut

SMALL = {
    "iris": small_sets.load_iris,
    "wine": small_sets.load_wine,
    "digits": small_sets.load_digits,
    "breast cancer": small_sets.load_breast_cancer,
}
RECONSTRUCTIONS = ("tb", "sf", "cc", "cg", "flower")
REAL = ("pendigits", "usps", "letters")
HELD_OUT = ("mnist", "covertype")
KEEL = [
    "banana",
    "bupa",
    "heart",
    "ionosphere",
    "magic",
    "movement_libras",
    "phoneme",
    "pima",
    "ring",
    "satimage",
    "segment",
    "sonar",
    "spambase",
    "texture",
    "twonorm",
    "vehicle",
    "vowel",
    "wisconsin",
    "led7digit",
    "page-blocks0",
    "shuttle-c0-vs-c4",
    "new-thyroid1",
    "segment0",
    "yeast3",
]
FAMILIES = {
    "generated": list(SETTINGS),
    "reconstructions": list(RECONSTRUCTIONS),
    "real": list(REAL),
    "scikit-learn": list(SMALL),
    "held out": list(HELD_OUT),
    "KEEL": [f"keel {name}" for name in KEEL],
}
MOST_CLUSTERS = MOST_AUTO_CLUSTERS
AGAIN = 3  # clusterings of each kind that stability is taken from
MARGIN = 1.1  # "consensus" may cut so much more than "kmeans"


def read(name: str, seed: int, keel: Path | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows, classes, and their number."""
    if name in SETTINGS:
        return *make(SETTINGS[name], 20_000, seed), SETTINGS[name].k
    if name in RECONSTRUCTIONS:
        return *datasets.generate(name, 100_000, random_state=seed), datasets.N_CLASSES[name]
    if name in SMALL or name.startswith("keel"):
        X, y = SMALL[name](return_X_y=True) if name in SMALL else read_keel(name, keel)
        X = X if name == "digits" else (X - X.mean(axis=0)) / X.std(axis=0)
    else:
        X, y = datasets.load(name)
        if name == "covertype":
            some = np.random.default_rng(seed).choice(len(X), 100_000, replace=False)
            X, y = X[some], y[some]
    y = np.unique(y, return_inverse=True)[1]
    return X.astype(np.float32), y, int(y.max()) + 1


def read_keel(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Numeric features, and classes, of a KEEL file."""
    import pandas as pd

    path = next((folder or Path()).rglob(name.removeprefix("keel ") + ".dat"))
    lines = [line.split(",") for line in path.read_text().splitlines() if line.strip() and not line.startswith("@")]
    table = pd.DataFrame([[cell.strip() for cell in line] for line in lines])
    X = table.iloc[:, :-1].apply(pd.to_numeric, errors="coerce").dropna(axis=1, how="all").fillna(0).to_numpy(float)
    return X[:, X.std(axis=0) > 0], table.iloc[:, -1].to_numpy(str)


def run(X: np.ndarray, y: np.ndarray, k: int, seed: int) -> dict[str, Any]:
    """Scores and criteria of one graph."""
    known = y >= 0
    seeds = seed_sequence(seed).spawn(4)
    rngs = [np.random.default_rng(each) for each in seeds]
    rows = open_input(USPEC(k), X, reset=True)
    result: dict[str, Any] = {"k": k, "scores": {}, "criteria": {}}
    with ThreadEngine(1) as engine:
        prepared = PreparedRows(rows, Preprocessor.fit(rows, "euclidean", rngs[0], engine))
        p = count_representatives(rows.n_rows, 1000, k, 5)
        R = select_representatives(prepared, p, "hybrid", 10, "euclidean", rngs[1], engine)
        index = RepresentativeIndex.build(R, 5, 10, False, rngs[2], engine)
        edges = connect(prepared, index, engine)
        graph = reduce_graph(edges, len(R), prepared, engine)
        spectrum = transfer_cut(graph, max(60, 2 * k), 1e-3, index.representatives)
        W, p = graph.affinity, len(R)
        weights, places = labelings.degree_shares(spectrum), index.representatives.astype(np.float64)
        own = Edges(np.arange(p, dtype=np.uint16)[:, None], np.ones((p, 1), dtype=np.float32))

        def score(how: str, partition: Any) -> Any:
            labels = np.empty(len(y), dtype=np.int32)
            partition = label_all(edges, partition, labels, engine)
            pair = metrics.nmi(y[known], labels[known]), metrics.ari(y[known], labels[known])
            result["scores"][how] = [round(100 * value, 2) for value in pair]
            return partition.label(own)

        def groups_of(how: str, chance: np.random.Generator) -> np.ndarray:
            if how == "kmeans":
                return labelings.cluster_representatives(spectrum, k, 1, 100, chance, engine)[0]
            return labelings.agreement_tree(spectrum, k, chance, engine).cut(k)

        for how in ("kmeans", "representatives", "consensus"):
            options = LabelOptions(3, 100, seeds[3])
            partition = DISCRETIZATIONS[how].divide(spectrum, edges, k, options, engine)[0]
            labels = score(how, partition)
            if how != "representatives":
                again = [groups_of(how, np.random.default_rng(i)) for i in range(AGAIN)]
                pairs = [agreement(a, b, weights) for i, a in enumerate(again) for b in again[:i]]
                result["criteria"][how] = {
                    **criteria(W, spectrum, places, labels),
                    "stability over seeds": float(np.mean(pairs)),
                }
        C = labelings.co_association(
            labelings.rough_labelings(spectrum, weights, k, np.random.default_rng(seeds[3]), engine), weights
        )
        for how in ("linked", "border"):
            score(how, VotePartition(spectrum, link(C, W, weights, k, how), k))
        result["auto"] = suggestions(
            spectrum, weights, labelings.agreement_tree(spectrum, 1, np.random.default_rng(seeds[3]), engine)
        )
    return result


def suggestions(spectrum: Spectrum, weights: np.ndarray, tree: Any) -> dict[str, int]:
    """Numbers of clusters that eigenvalues and merge heights suggest."""
    top = np.maximum(tree.heights[::-1], 0.0)[:MOST_CLUSTERS]  # the last merge first: top[j] leaves j + 1 clusters
    made, lost = top[1:], top[:-1]
    sides = np.concatenate([weights, tree.sizes])[tree.merges[::-1]][: len(lost)].min(axis=1)
    found = {
        "eigengap": largest_eigengap(spectrum.eigenvalues, 1e-3),
        "gap": 2 + int(np.argmax(made - lost)),
    }
    for add in (0.001, 0.01, 0.1, 0.3):
        growth = np.log((made + add) / (lost + add))
        found[f"ratio, {add} added"] = 2 + int(np.argmax(growth))
        if add == 0.1:
            found["ratio, 0.1 added, by mass"] = 2 + int(np.argmax(growth * np.sqrt(sides)))
    clear = eigensteps(spectrum.eigenvalues, 1e-3).max() > CLEAR_STEP
    found["eigengap if threefold, else ratio, 0.1 added"] = found["eigengap" if clear else "ratio, 0.1 added"]
    return found


def regret(runs: list[dict[str, Any]], choose: Callable[[dict[str, Any]], str]) -> str:
    """Mean and worst regret against the better of the two, NMI and ARI."""
    both = np.array([[r["scores"]["kmeans"], r["scores"]["consensus"]] for r in runs])
    taken = np.array([r["scores"][choose(r)] for r in runs])
    lost = both.max(axis=1) - taken
    mean, worst = lost.mean(axis=0), lost.max(axis=0)
    return f"{mean[0]:.1f} / {mean[1]:.1f} ({worst[0]:.0f} / {worst[1]:.0f})"


def by_criterion(name: str, margin: float = 1.0) -> Callable[[dict[str, Any]], str]:
    def choose(r: dict[str, Any]) -> str:
        a, b = (r["criteria"][how][name] for how in ("kmeans", "consensus"))
        return "consensus" if b >= a * margin else "kmeans"  # margins are for criteria below zero

    return choose


def report(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Tables in Markdown."""
    families = {title: [r for name in names for r in runs.get(name, [])] for title, names in FAMILIES.items()}
    families = {title: found for title, found in families.items() if found}
    some = next(iter(families.values()))[0]
    rules: dict[str, Callable[[dict[str, Any]], str]] = {
        'always "kmeans"': lambda _: "kmeans",
        'always "consensus"': lambda _: "consensus",
        **{name: by_criterion(name) for name in some["criteria"]["kmeans"]},
        f"cut with faint edges, within {MARGIN:g} times": by_criterion("cut with faint edges", MARGIN),
        "*linked* average, no choice": lambda _: "linked",
        "*border* linkage, no choice": lambda _: "border",
    }
    head = (
        "| | "
        + " | ".join(f"{t} ({len(f)} runs)" for t, f in families.items())
        + " |\n|"
        + "---|" * (len(families) + 1)
    )
    lines = ["Regret, NMI / ARI points, mean (worst):", "", head]
    lines += [
        f"| {name} | " + " | ".join(regret(f, rule) for f in families.values()) + " |" for name, rule in rules.items()
    ]
    lines += ["", "Mean scores, NMI / ARI:", "", head]
    for how in some["scores"]:
        means = [np.mean([r["scores"][how] for r in f], axis=0) for f in families.values()]
        lines.append(f"| {how} | " + " | ".join(f"{m[0]:.1f} / {m[1]:.1f}" for m in means) + " |")
    lines += ["", "Numbers of clusters: share found exactly, mean factor by which they are off:", "", head]
    for how in some["auto"]:
        cells = []
        for found in families.values():
            off = np.array([np.log(r["auto"][how] / r["k"]) for r in found])
            cells.append(f"{(off == 0).mean():.0%}, {np.exp(np.abs(off).mean()):.2f}")
        lines.append(f"| {how} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keel", type=Path, help="folder with the files of the KEEL repository")
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after so long; start again to go on")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    result = fetch("which")
    runs = result.setdefault("runs", {})
    if options.report:
        print(report(runs))
        return
    result["machine"], started = machine(), time.monotonic()
    names = [name for family in options.families for name in FAMILIES[family]]
    if options.keel is None:
        names = [name for name in names if not name.startswith("keel")]
    for seed in range(options.seeds):
        for name in names:
            done = runs.setdefault(name, [])
            if len(done) <= seed:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    done.append(run(*read(name, seed, options.keel), seed))
                print(name, seed, done[-1]["scores"], flush=True)
                if time.monotonic() - started > 60 * options.minutes:
                    store("which", result)
                    return
        store("which", result)
    print("done")


if __name__ == "__main__":
    main()
