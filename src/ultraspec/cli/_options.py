"""The options of the commands: their names, their help, and how what users write becomes values.

An option that is not given is None, and the estimator's own default holds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

# Option to parameter: to build an estimator, to say in messages, and to write down how a run can be repeated.
PARAMETERS = {
    "clusters": "n_clusters",
    "estimators": "n_estimators",
    "base_clusters": "base_clusters",
    "member_iterations": "base_max_iter",
    "checkpoint": "checkpoint",
    "representatives": "n_representatives",
    "neighbors": "n_neighbors",
    "selection": "selection",
    "candidate_factor": "candidate_factor",
    "exact": "neighbors",
    "neighborhood_factor": "neighborhood_factor",
    "metric": "metric",
    "starts": "n_init",
    "iterations": "max_iter",
    "regularization": "regularization",
    "discretize": "discretize",
    "graph_rows": "graph_rows",
    "consensus": "consensus",
    "seed": "random_state",
    "jobs": "n_jobs",
}
OF_ENSEMBLES = ("estimators", "base_clusters", "member_iterations", "consensus")
OF_SINGLES = ("discretize", "graph_rows")

INPUT, OUTPUT, METHOD, ENSEMBLE, RUN = "Input", "Output", "Clustering", "Ensemble", "Run"


def option(*names: str, panel: str, help: str, **more: Any) -> Any:
    """A typer option in one of the panels of the help."""
    return typer.Option(*names, rich_help_panel=panel, help=help, show_default=False, **more)


def among(*choices: str) -> dict[str, Any]:
    """What completes the choices of an option in a shell."""
    return {"metavar": "NAME", "autocompletion": lambda: list(choices)}


DATA = "File or folder of rows: .npy, .npz, .csv, .tsv, .parquet (or a folder of them), .h5, .zarr."

Data = Annotated[Path, typer.Argument(metavar="DATA", help=DATA, show_default=False)]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file that `fit --model` wrote.", show_default=False)
]
Columns = Annotated[
    str | None,
    option("--columns", panel=INPUT, metavar="A,B,C", help="Columns to read: names, or numbers where it has none."),
]
Array = Annotated[
    str | None, option("--array", panel=INPUT, metavar="NAME", help="Which array of an .npz, HDF5 or Zarr file.")
]
Header = Annotated[
    bool | None,
    option(
        "--header/--no-header", panel=INPUT, help="Whether a CSV file begins with names. By default it is looked at."
    ),
]
Delimiter = Annotated[
    str | None, option("--delimiter", panel=INPUT, metavar="SIGN", help="Between values of a CSV file. Default ','.")
]
Decimal = Annotated[
    str | None, option("--decimal", panel=INPUT, metavar="SIGN", help="Decimal sign of a CSV file. Default '.'.")
]
Scale = Annotated[
    str,
    option(
        "--scale",
        panel=INPUT,
        **among("none", "standard"),
        help="'standard': columns to mean 0 and variance 1, also of rows to come. Default none.",
    ),
]

Labels = Annotated[
    Path | None,
    option("-o", "--output", panel=OUTPUT, metavar="FILE", help="Labels: .parquet, .csv, .npy or .npz."),
]
LabelsWanted = Annotated[
    Path, option("-o", "--output", panel=OUTPUT, metavar="FILE", help="Labels: .parquet, .csv, .npy or .npz.")
]
ModelOut = Annotated[
    Path | None, option("--model", panel=OUTPUT, metavar="FILE", help="Model file, for `predict` and `report`.")
]
ReportOut = Annotated[
    Path | None, option("--report", panel=OUTPUT, metavar="FILE", help="Page about what was found, .html.")
]
ReportWanted = Annotated[
    Path, option("-o", "--output", panel=OUTPUT, metavar="FILE", help="Page about what was found, .html.")
]
Force = Annotated[bool, option("--force", panel=OUTPUT, help="Replace files that exist.")]
Json = Annotated[bool, option("--json", panel=OUTPUT, help="Print the result as one JSON object.")]
Quiet = Annotated[bool, option("-q", "--quiet", panel=OUTPUT, help="Show no progress.")]

Clusters = Annotated[
    str, option("-k", "--clusters", panel=METHOD, metavar="K|auto", help="Number of clusters; 'auto' looks for it.")
]
Representatives = Annotated[
    int | None,
    option(
        "--representatives",
        "-p",
        panel=METHOD,
        metavar="P",
        help="More see finer structure in large data. Default 1000.",
    ),
]
Neighbors = Annotated[
    int | None,
    option("--neighbors", panel=METHOD, metavar="K", help="Nearest representatives that a row is tied to. Default 5."),
]
Exact = Annotated[bool, option("--exact", panel=METHOD, help="Search nearest representatives exactly.")]
Metric = Annotated[
    str | None,
    option(
        "--metric",
        panel=METHOD,
        **among("euclidean", "cosine"),
        help="Distance: euclidean or cosine. Default euclidean.",
    ),
]
Cosine = Annotated[bool, option("--cosine", panel=METHOD, help="The same as --metric cosine.")]
Selection = Annotated[
    str | None,
    option(
        "--selection",
        panel=METHOD,
        **among("hybrid", "random", "kmeans"),
        help="Of representatives: hybrid, random or kmeans. Default hybrid.",
    ),
]
CandidateFactor = Annotated[
    int | None,
    option(
        "--candidate-factor", panel=METHOD, metavar="N", help="Sampled rows per representative (hybrid). Default 10."
    ),
]
NeighborhoodFactor = Annotated[
    int | None,
    option(
        "--neighborhood-factor", panel=METHOD, metavar="N", help="How far the fast search looks around. Default 10."
    ),
]
Starts = Annotated[
    int | None,
    option("--starts", panel=METHOD, metavar="N", help="Starts of the last k-means; the best is kept. Default 3."),
]
Iterations = Annotated[
    int | None, option("--iterations", panel=METHOD, metavar="N", help="Its iterations, at most. Default 100.")
]
Regularization = Annotated[
    float | None,
    option(
        "--regularization", panel=METHOD, metavar="T", help="Joins pieces of the graph; 0 leaves them. Default 0.001."
    ),
]
Discretize = Annotated[
    str | None,
    option(
        "--discretize",
        panel=METHOD,
        **among("kmeans", "representatives", "consensus"),
        help="How the embedding becomes clusters: kmeans, representatives or consensus. Default kmeans.",
    ),
]
GraphRows = Annotated[
    str | None,
    option("--graph-rows", panel=METHOD, metavar="N", help="Build the graph from a sample of so many rows."),
]

Ensemble = Annotated[
    bool, option("--ensemble", panel=ENSEMBLE, help="U-SENC: cluster many times, keep what most agree on.")
]
Estimators = Annotated[
    int | None, option("--estimators", "-m", panel=ENSEMBLE, metavar="M", help="Members of the ensemble. Default 20.")
]
BaseClusters = Annotated[
    str | None,
    option("--base-clusters", panel=ENSEMBLE, metavar="LOW,HIGH", help="Clusters of members. Default 20,60."),
]
MemberIterations = Annotated[
    int | None,
    option("--member-iterations", panel=ENSEMBLE, metavar="N", help="Iterations of their k-means. Default 5."),
]
Consensus = Annotated[
    str | None,
    option(
        "--consensus",
        panel=ENSEMBLE,
        **among("transfer_cut", "average"),
        help="How members are joined: transfer_cut or average. Default transfer_cut.",
    ),
]
Checkpoint = Annotated[
    str | None,
    option(
        "--checkpoint",
        panel=RUN,
        metavar="FOLDER",
        help="Keeps finished members, or passes over data that is not in memory; a killed run goes on.",
    ),
]

Seed = Annotated[
    int | None,
    option(
        "--seed", panel=RUN, metavar="S", help="The same seed gives the same result. Default a new one, which is shown."
    ),
]
FixedSeed = Annotated[int, option("--seed", panel=RUN, metavar="S", help="Seed of data and clustering. Default 0.")]
Jobs = Annotated[
    int | None,
    option("--jobs", "-j", panel=RUN, metavar="J", help="Threads. Default all cores; the result is the same."),
]


def whole(text: str, name: str, least: int = 1) -> int:
    """A whole number as people write it.

    Examples
    --------
    >>> whole("10_000_000", "--rows"), whole("1e6", "--rows"), whole("2,000", "--rows")
    (10000000, 1000000, 2000)
    """
    plain = text.strip().replace(",", "").replace("_", "")
    if not re.fullmatch(r"\d{1,18}(\.\d{1,18})?([eE]\+?\d{1,2})?", plain, re.ASCII):
        raise ValueError(f"{name} must be a whole number such as 1000, 10_000_000 or 1e6, got {text!r}.")
    digits, _, power = plain.lower().partition("e")
    front, _, behind = digits.partition(".")
    shift = int(power or 0) - len(behind.rstrip("0"))
    if shift < 0:
        raise ValueError(f"{name} must be a whole number such as 1000, 10_000_000 or 1e6, got {text!r}.")
    number = int(front + behind.rstrip("0")) * 10**shift
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {text!r}.")
    return number


def cluster_count(text: str) -> int | str:
    """Number of clusters, or "auto".

    Examples
    --------
    >>> cluster_count("12"), cluster_count("AUTO")
    (12, 'auto')
    """
    if text.strip().lower() == "auto":
        return "auto"
    if not text.strip()[:1].isdigit():
        raise ValueError(f"-k must be a whole number of at least 1, or 'auto', got {text!r}.")
    return whole(text, "-k")


def sign(text: str | None) -> str | None:
    """A sign, or a tab as people write it in a shell.

    Examples
    --------
    >>> sign(";"), sign("tab") == sign(chr(92) + "t") == chr(9)
    (';', True)
    """
    return "\t" if text in ("\\t", "tab") else text


def check_fit(ensemble: bool, scale: str, options: dict[str, Any]) -> None:
    """Raise for options of `fit` that contradict each other or have no meaning."""
    if scale not in ("none", "standard"):
        raise ValueError(f"--scale must be 'none' or 'standard', got {scale!r}.")
    check_seed(options["seed"])
    stray = [name for name in (OF_SINGLES if ensemble else OF_ENSEMBLES) if options[name] is not None]
    if stray:
        what = "not for ensembles: leave --ensemble out" if ensemble else "for ensembles: pass --ensemble too"
        raise ValueError(f"--{stray[0].replace('_', '-')} is {what}.")


def check_seed(seed: int | None) -> None:
    """Raise unless it is a seed or none."""
    if seed is not None and seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}.")


def pair(text: str, name: str) -> tuple[int, int]:
    """Two whole numbers.

    Examples
    --------
    >>> pair("20,60", "--base-clusters")
    (20, 60)
    """
    parts = re.split(r"[,:]", text)
    if len(parts) != 2:
        raise ValueError(f"{name} must be two numbers such as 20,60, got {text!r}.")
    return whole(parts[0], name), whole(parts[1], name)


def names(text: str | None, option: str = "--columns") -> list[str] | None:
    """Names that commas separate; a name with a comma stands in double quotes.

    Examples
    --------
    >>> names('a,"b,c", d')
    ['a', 'b,c', 'd']
    """
    if text is None:
        return None
    import csv

    found = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(found) or not found:
        raise ValueError(f"{option} must be names with commas between them, got {text!r}.")
    return found
