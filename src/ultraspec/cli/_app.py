"""The commands and their options. Each returns the work to do, which imports what it needs when it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ultraspec import __version__
from ultraspec.cli import _options as o
from ultraspec.cli import _targets
from ultraspec.cli._input import Input
from ultraspec.cli._reproduce import reproduce
from ultraspec.cli._screen import Screen

Job = Callable[[], None]


def examples(*commands: str) -> str:
    """Commands to stand below a help, one on each line."""
    return "\n\n".join(["Examples:", *commands])


app = typer.Typer(
    name="ultraspec",
    rich_markup_mode="rich",
    epilog=examples(
        "ultraspec demo",
        "ultraspec fit data.parquet -k 10 -o labels.parquet",
        "ultraspec fit --help",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)

SETS = ("tb", "sf", "cc", "cg", "flower")  # datasets.SYNTHETIC, whose import would take longer than showing the help


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where errors come from; also after a command.")] = False,  # noqa: ARG001 - taken out by `main`
) -> None:
    """Clusters of any shape, in millions of rows: U-SPEC and U-SENC on files."""
    if version:
        typer.echo(f"ultraspec {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit()


@app.command(
    epilog=examples(
        "ultraspec demo",
        "ultraspec demo --rows 1e7 --report circles.html",
    )
)
def demo(
    rows: Annotated[
        str, o.option("--rows", panel=o.RUN, metavar="N", help="Number of points. Default 1_000_000.")
    ] = "1e6",
    seed: o.FixedSeed = 0,
    report: o.ReportOut = None,
    no_report: Annotated[bool, o.option("--no-report", panel=o.OUTPUT, help="Write no page.")] = False,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> Job:
    """Cluster a million points on concentric circles; print time and scores.

    Writes a page about it, demo-report.html in this folder unless another is named.
    """

    def job() -> None:
        n_rows = o.whole(rows, "--rows", 3)
        o.check_seed(seed)
        page = None if no_report else _targets.check_demo(report, force=force)
        from ultraspec.cli import demo as command

        command.run(n_rows, seed, page, force=force, screen=Screen(json, quiet))

    return job


@app.command(
    epilog=examples(
        "ultraspec fit data.parquet -k 10 -o labels.parquet",
        "ultraspec fit data.csv -k auto --columns x,y --scale standard --report r.html",
        "ultraspec fit data.npy -k 10 --ensemble --checkpoint runs -o labels.parquet",
        "ultraspec fit words.npz -k 50 --cosine --model words.ultraspec --seed 0",
    )
)
def fit(
    data: o.Data,
    clusters: o.Clusters,
    output: o.Labels = None,
    model: o.ModelOut = None,
    report: o.ReportOut = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    columns: o.Columns = None,
    array: o.Array = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    scale: o.Scale = "none",
    representatives: o.Representatives = None,
    neighbors: o.Neighbors = None,
    exact: o.Exact = False,
    metric: o.Metric = None,
    cosine: o.Cosine = False,
    selection: o.Selection = None,
    candidate_factor: o.CandidateFactor = None,
    neighborhood_factor: o.NeighborhoodFactor = None,
    starts: o.Starts = None,
    iterations: o.Iterations = None,
    regularization: o.Regularization = None,
    discretize: o.Discretize = None,
    graph_rows: o.GraphRows = None,
    ensemble: o.Ensemble = False,
    estimators: o.Estimators = None,
    base_clusters: o.BaseClusters = None,
    member_iterations: o.MemberIterations = None,
    consensus: o.Consensus = None,
    checkpoint: o.Checkpoint = None,
    seed: o.Seed = None,
    jobs: o.Jobs = None,
) -> Job:
    """Cluster the rows of a file, which may be larger than memory.

    Labels are whole numbers from 0, one per row, in the order of the rows.
    An ensemble adds the confidence of each.
    """

    def job() -> None:
        if cosine and metric not in (None, "cosine"):
            raise ValueError(f"--cosine and --metric {metric} contradict each other.")
        options = {
            "clusters": o.cluster_count(clusters),
            "representatives": representatives,
            "neighbors": neighbors,
            "exact": "exact" if exact else None,
            "metric": "cosine" if cosine else metric,
            "selection": selection,
            "candidate_factor": candidate_factor,
            "neighborhood_factor": neighborhood_factor,
            "starts": starts,
            "iterations": iterations,
            "regularization": regularization,
            "discretize": discretize,
            "graph_rows": None if graph_rows is None else o.whole(graph_rows, "--graph-rows"),
            "consensus": consensus,
            "estimators": estimators,
            "base_clusters": None if base_clusters is None else o.pair(base_clusters, "--base-clusters"),
            "member_iterations": member_iterations,
            "checkpoint": checkpoint,
            "seed": seed,
            "jobs": jobs,
        }
        source = Input(data, o.names(columns), array, header, delimiter, decimal)
        o.check_fit(ensemble, scale, options)
        source.check()
        targets = _targets.check_fit(output, model, report, data, force=force)
        from ultraspec.cli import fit as command

        screen = Screen(json, quiet)
        command.run(source, targets, options, ensemble=ensemble, scale=scale, force=force, screen=screen)

    return job


@app.command(
    epilog=examples(
        "ultraspec fit january.parquet -k 10 --model m.ultraspec",
        "ultraspec predict m.ultraspec february.parquet -o labels.parquet",
    )
)
def predict(
    model: o.Model,
    data: o.Data,
    output: o.LabelsWanted,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    columns: o.Columns = None,
    array: o.Array = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    jobs: o.Jobs = None,
) -> Job:
    """Label the rows of a file by a saved model.

    Rows that were fitted get the labels that they had. Columns are found by
    their names if the model has names, and scaled as the fitted ones were.
    An ensemble adds the confidence of each label.
    """

    def job() -> None:
        source = Input(data, o.names(columns), array, header, delimiter, decimal)
        _targets.check_model(model)
        source.check()
        target = _targets.check_labels(output, [model, data], force=force)
        from ultraspec.cli import predict as command

        command.run(model, source, target, jobs=jobs, force=force, screen=Screen(json, quiet))

    return job


LABELS = "FILE or FILE:COLUMN; .parquet, .csv, .npy or .npz. Labels may be words."


@app.command(
    epilog=examples(
        "ultraspec evaluate labels.parquet truth.npy",
        "ultraspec evaluate labels.parquet:label animals.csv:species --json",
    )
)
def evaluate(
    labels: Annotated[str, typer.Argument(metavar="LABELS", help=f"Found labels: {LABELS}", show_default=False)],
    truth: Annotated[str, typer.Argument(metavar="TRUTH", help=f"Known classes: {LABELS}", show_default=False)],
    column: Annotated[
        str | None, o.option("--column", panel=o.INPUT, metavar="NAME", help="Column of a file that names none itself.")
    ] = None,
    delimiter: o.Delimiter = None,
    json: o.Json = False,
) -> Job:
    """Score labels against known classes: NMI, accuracies, ARI.

    Without a column, a file's only one is taken, or the one named 'label'.
    """

    def job() -> None:
        from ultraspec.cli import evaluate as command

        command.run(labels, truth, column, o.sign(delimiter), Screen(json))

    return job


@app.command(
    epilog=examples(
        "ultraspec generate cg --rows 10_000_000 -o cg.npy --labels y.npy",
        "ultraspec generate flower --rows 1e6 --seed 0 -o flower.parquet",
    )
)
def generate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SET", help=f"One of {', '.join(SETS)}.", autocompletion=lambda: list(SETS), show_default=False
        ),
    ],
    output: Annotated[
        Path, o.option("-o", "--output", panel=o.OUTPUT, metavar="FILE", help="Rows: .npy, .parquet or .csv.")
    ],
    rows: Annotated[
        str | None, o.option("--rows", panel=o.RUN, metavar="N", help="Number of rows. Default: as in the paper.")
    ] = None,
    labels: Annotated[
        Path | None, o.option("--labels", panel=o.OUTPUT, metavar="FILE", help="Classes of the rows, in another file.")
    ] = None,
    seed: o.Seed = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> Job:
    """Write one of the paper's synthetic sets, of any size.

    Two bananas (tb), smiling face (sf), concentric circles (cc), circles and
    gaussians (cg), flower. They are reconstructions from the paper's figures:
    its own generators were never published.
    """

    def job() -> None:
        from ultraspec.cli import generate as command

        n_rows = None if rows is None else o.whole(rows, "--rows")
        command.run(name, n_rows, output, labels, seed=seed, force=force, screen=Screen(json, quiet))

    return job


@app.command(
    epilog=examples(
        "ultraspec report m.ultraspec data.parquet -o report.html",
    )
)
def report(
    model: o.Model,
    data: o.Data,
    output: o.ReportWanted,
    title: Annotated[
        str | None, o.option("--title", panel=o.OUTPUT, metavar="TEXT", help="Heading of the page.")
    ] = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    columns: o.Columns = None,
    array: o.Array = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    jobs: o.Jobs = None,
) -> Job:
    """Draw a saved model and the rows of a file: one page that opens anywhere."""

    def job() -> None:
        source = Input(data, o.names(columns), array, header, delimiter, decimal)
        _targets.check_model(model)
        source.check()
        target = _targets.check({"-o": (output, _targets.PAGES)}, [model, data], force=force)["-o"]
        from ultraspec.cli import report as command

        command.run(model, source, target, title=title, jobs=jobs, force=force, screen=Screen(json, quiet))

    return job


@app.command(
    epilog=examples(
        "ultraspec bench --quick",
        "ultraspec bench --rows 1e7 --json",
    )
)
def bench(
    quick: Annotated[bool, o.option("--quick", panel=o.RUN, help="100_000 rows, once.")] = False,
    rows: Annotated[
        str | None, o.option("--rows", panel=o.RUN, metavar="N", help="Number of rows. Default 1_000_000.")
    ] = None,
    repeats: Annotated[
        int | None, o.option("--repeats", panel=o.RUN, metavar="N", help="Fits of each; medians are shown. Default 3.")
    ] = None,
    seed: o.FixedSeed = 0,
    jobs: o.Jobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> Job:
    """Time U-SPEC against scikit-learn's KMeans on this machine.

    Both cluster the set 'cg' by turns, in one run. Memory is what a fit takes
    beyond the data.
    """

    def job() -> None:
        from ultraspec.cli import bench as command

        n_rows = o.whole(rows or ("1e5" if quick else "1e6"), "--rows", 1000)
        n_repeats = repeats if repeats is not None else 1 if quick else 3
        if n_repeats < 1:
            raise ValueError(f"--repeats must be at least 1, got {n_repeats}.")
        command.run(n_rows, n_repeats, seed, jobs, Screen(json, quiet))

    return job


app.command(
    epilog=examples(
        "ultraspec reproduce table4 --datasets PenDigits --runs 5",
        "ultraspec reproduce all --scale 0.01 --runs 1 --time-limit 60",
        "ultraspec reproduce 4-9 --method my_module:MyEstimator --methods U-SPEC,LSC-K",
        "ultraspec reproduce 4,5 --data my.parquet:label --datasets none",
    )
)(reproduce)
