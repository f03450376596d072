"""The command line."""

from __future__ import annotations

import argparse
import time

import numpy as np


def demo(n_rows: int, seed: int) -> None:
    """Cluster concentric circles and say how it went."""
    from ultraspec import USPEC, datasets, metrics

    print(f"Generating {n_rows:,} points on three concentric circles ...")
    X, y = datasets.generate("cc", n_rows, random_state=seed)
    print("Compiling (once per machine) ...")
    USPEC(3, random_state=seed).fit(X[:2000])
    print("Clustering ...")
    started = time.perf_counter()
    model = USPEC(3, random_state=seed, verbose=1).fit(X)
    seconds = time.perf_counter() - started
    sizes = ", ".join(f"{size:,}" for size in sorted(np.bincount(model.labels_), reverse=True))
    truth = ", ".join(f"{size:,}" for size in sorted(np.bincount(y), reverse=True))
    print(f"Time           {seconds:.2f} s")
    print(f"NMI            {metrics.nmi(y, model.labels_):.4f}  (1 is perfect)")
    print(f"Cluster sizes  {sizes}")
    print(f"True sizes     {truth}")


def main(arguments: list[str] | None = None) -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="ultraspec", description="Ultra-scalable spectral clustering.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("demo", help="generate concentric circles, cluster them, print time and scores")
    command.add_argument("--rows", type=int, default=1_000_000, help="number of points (default: 1,000,000)")
    command.add_argument("--seed", type=int, default=0, help="seed of data and clustering (default: 0)")
    command.set_defaults(run=lambda options: demo(options.rows, options.seed))
    options = parser.parse_args(arguments)
    options.run(options)
