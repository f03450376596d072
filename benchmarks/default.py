"""Scores of plain ``USPEC(k)``: the paper's data sets, generated settings, noise, and integers with many repeated values.

The seeds and draws of this program were not used to choose anything. Results are stored after every run; finished runs
are not repeated. ``--report`` prints the tables.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from common import SETS, fetch, machine, read_set, scores_of, store
from which_data import SETTINGS, make

from ultraspec import USPEC, datasets, metrics

SEEDS = range(2201, 2206)
DRAW = 503  # of the generated settings
OLD = {"regularization": 1e-3}  # the former default is USPEC.paper(k, regularization=1e-3)
CANDIDATES = ("agreement", "linked", "border", "kmeans")
SCORES = ("AMI", "ARI", "NMI", "CA", "HA")  # runs before 2026-11-18 lack the last


def scores(y: np.ndarray, labels: np.ndarray) -> list[float]:
    """Return AMI, ARI, NMI (max), CA and Hungarian accuracy in % of rows of known class."""
    known = y >= 0
    y, labels = y[known], labels[known]
    values = (
        metrics.ami(y, labels),
        metrics.ari(y, labels),
        metrics.nmi(y, labels),
        metrics.majority_accuracy(y, labels),
        metrics.hungarian_accuracy(y, labels),
    )
    return [round(100 * float(value), 2) for value in values]


def fit(X: np.ndarray, y: np.ndarray, k: int, seed: int) -> dict[str, Any]:
    """Score the default, and say what it chose."""
    started = time.perf_counter()
    model = USPEC(k, random_state=seed).fit(X)
    seconds = time.perf_counter() - started
    return {
        "scores": scores(y, model.labels_[: len(y)]),
        "chosen": model.discretize_,
        "agreement": {name: round(value, 4) for name, value in model.candidates_.items()},
        "candidates": {name: scores(y, model.cut(k, discretize=name).labels_[: len(y)]) for name in CANDIDATES[:3]}
        if len(X) <= 100_000
        else {},
        "representatives": len(model.representatives_),
        "seconds": round(seconds, 2),
    }


def run_sets(runs: dict[str, Any]) -> Any:
    """Score the paper's ten data sets at full size."""
    for title, dataset, n_rows, k in SETS:
        X, y = read_set(dataset, n_rows)
        done = runs.setdefault(title, {})
        for seed in SEEDS:
            if str(seed) not in done:
                done[str(seed)] = fit(X, y, k, seed)
                print(title, seed, done[str(seed)], flush=True)
                yield


def run_settings(runs: dict[str, Any]) -> Any:
    """Score fresh draws of the generated settings, beside the two former ways."""
    for name, setting in SETTINGS.items():
        if name in runs:
            continue
        X, y = make(setting, 20_000, DRAW)
        found = fit(X, y, setting.k, DRAW)
        for way in ("kmeans", "agreement"):
            labels = USPEC.paper(setting.k, discretize=way, random_state=DRAW, **OLD).fit(X).labels_
            found[f"former {way}"] = scores(y, labels)
        runs[name] = found
        print(name, found["scores"], found["former kmeans"], found["former agreement"], flush=True)
        yield


def run_noise(runs: dict[str, Any]) -> Any:
    """Score SF and CG with a distant row, and with uniform noise; noise is left out of the scores."""
    for dataset in ("sf", "cg"):
        for seed in SEEDS:
            key = f"{dataset} {seed}"
            if key in runs:
                continue
            X, y = datasets.generate(dataset, 100_000, random_state=seed)
            k = datasets.N_CLASSES[dataset]
            random = np.random.default_rng(seed)
            variants = {"clean": X}
            for column in range(2):
                variants[f"one row at 1e4 in column {column}"] = X.copy()
                variants[f"one row at 1e4 in column {column}"][7, column] = 1e4
            for share in (0.001, 0.01):
                noise = random.uniform(X.min(axis=0), X.max(axis=0), (int(share * len(X)), 2))
                variants[f"{100 * share:g} % noise"] = np.vstack([X, noise.astype(np.float32)])
            runs[key] = {what: fit(rows, y, k, seed)["scores"] for what, rows in variants.items()}
            print(key, runs[key], flush=True)
            yield


def counts(n: int, d: int, mean: float, seed: int, k: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of small counts; one class holds 80 % of them."""
    random = np.random.default_rng(seed)
    y = random.choice(k, n, p=[0.8, *[0.2 / (k - 1)] * (k - 1)])
    means = random.gamma(1.0, mean, size=(k, d))
    return random.poisson(means[y]).astype(np.float32), y


def run_integers(runs: dict[str, Any]) -> Any:
    """Score integer columns with many repeated values, beside the paper's method."""
    for n in (10, 100, 1_000, 10_000, 60_000):
        for d, mean in ((8, 1.0), (20, 0.5), (20, 3.0), (36, 2.0)):
            key = f"{n:,} x {d}, mean {mean:g}"
            if key in runs:
                continue
            found: dict[str, list[list[float]]] = {"default": [], "paper": []}
            for seed in SEEDS:
                X, y = counts(n, d, mean, seed)
                k = min(6, n // 3)
                found["default"].append(scores(y, USPEC(k, random_state=seed).fit(X).labels_))
                found["paper"].append(scores(y, USPEC.paper(k, random_state=seed).fit(X).labels_))
            runs[key] = found
            print(key, {name: np.mean(each, axis=0).round(1).tolist() for name, each in found.items()}, flush=True)
            yield


PARTS = {"sets": run_sets, "settings": run_settings, "noise": run_noise, "integers": run_integers}


def report(result: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    lines = ["| data set | " + " | ".join(SCORES) + " | representatives | chosen |", "|---" * 8 + "|"]
    for title, done in result.get("sets", {}).items():
        columns = [scores_of([run["scores"] for run in done.values()], column) for column in range(len(SCORES))]
        cells = [f"{found.mean():.1f} ± {found.std():.1f}" if len(found) else "–" for found in columns]
        chosen = [run["chosen"] for run in done.values()]
        shares = ", ".join(f"{name} {chosen.count(name)}" for name in CANDIDATES if name in chosen)
        p = round(np.mean([run["representatives"] for run in done.values()]))
        lines.append(f"| {title} | " + " | ".join(cells) + f" | {p:,} | {shares} |")
    runs = result.get("settings", {})
    if runs:
        nmi = {
            "default": [run["scores"][2] for run in runs.values()],
            **{name: [run[name][2] for run in runs.values()] for name in ("former kmeans", "former agreement")},
        }
        better = np.maximum(nmi["former kmeans"], nmi["former agreement"])
        lost = better - nmi["default"]
        lines += ["", f"{len(runs)} generated settings, mean NMI: "]
        lines[-1] += ", ".join(f"{name} {np.mean(values):.2f}" for name, values in nmi.items())
        lines.append(f"Regret against the better of the former two: mean {lost.mean():.2f}, worst {lost.max():.1f}")
        lines.append(f"({list(runs)[int(lost.argmax())]}).")
    for title, runs in (("noise", result.get("noise", {})),):
        for dataset in ("sf", "cg"):
            found = [run for key, run in runs.items() if key.startswith(dataset)]
            if found:
                means = {what: np.mean([run[what][2] for run in found]) for what in found[0]}
                lines += ["", f"{title}, {dataset}, mean NMI: "]
                lines[-1] += ", ".join(f"{what} {value:.1f}" for what, value in means.items())
    runs = result.get("integers", {})
    if runs:
        lines += ["", "| counts | default, AMI | paper, AMI |", "|---|---|---|"]
        for key, found in runs.items():
            lines.append(f"| {key} | " + " | ".join(f"{np.mean(found[n], axis=0)[0]:.1f}" for n in found) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="*", default=list(PARTS))
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    result = fetch("default")
    if options.report:
        print(report(result))
        return
    result["machine"] = machine()
    warnings.simplefilter("ignore")
    for part in options.parts:
        for _ in PARTS[part](result.setdefault(part, {})):
            store("default", result)


if __name__ == "__main__":
    main()
