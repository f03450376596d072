"""Commands and their options. Each command returns a function that does the work and imports what it needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ultraspec import __version__
from ultraspec.cli import _options as o
from ultraspec.cli import _outputs
from ultraspec.cli._input import DataFile
from ultraspec.cli._parameters import NJobs, Seed, stray_options, with_estimator_options
from ultraspec.cli._reproduce import reproduce
from ultraspec.cli._screen import Screen

Job = Callable[[], None]


def examples(*commands: str) -> str:
    """Format examples for the end of a help page, one on each line."""
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

SETS = ("tb", "sf", "cc", "cg", "flower")  # datasets.SYNTHETIC, whose import takes longer than showing the help


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    debug: Annotated[  # noqa: ARG001 - removed by `main`
        bool, typer.Option("--debug", help="Show the traceback of errors; also accepted after a command.")
    ] = False,
) -> None:
    """Cluster millions of rows into clusters of any shape: U-SPEC and U-SENC on files."""
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
    rows: Annotated[int, o.rows_option("1_000_000")] = 1_000_000,
    seed: o.FixedSeed = 0,
    report: o.ReportOut = None,
    no_report: Annotated[bool, o.option("--no-report", panel=o.OUTPUT, help="Write no report.")] = False,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> Job:
    """Cluster a million points on concentric circles; print time and scores.

    The report is written to demo-report.html in the current folder unless
    --report names another file.
    """

    def job() -> None:
        o.check_least("--rows", rows, 3)
        o.check_least("--seed", seed, 0)
        page = None if no_report else _outputs.check_demo_report(report, force=force)
        from ultraspec.cli import demo as command

        command.run(rows, seed, page, force=force, screen=Screen(json, quiet))

    return job


@app.command(
    epilog=examples(
        "ultraspec fit data.parquet -k 10 -o labels.parquet",
        "ultraspec fit data.csv -k auto --columns x,y --scale standard --report r.html",
        "ultraspec fit data.npy -k 10 --ensemble --checkpoint runs -o labels.parquet",
        "ultraspec fit texts.npz -k 50 --metric cosine --model texts.ultraspec --seed 0",
    )
)
@with_estimator_options
def fit(
    data: o.Data,
    output: o.Labels = None,
    model: o.ModelOut = None,
    report: o.ReportOut = None,
    describe: o.Describe = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    columns: o.Columns = None,
    array: o.Array = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    decimal: o.DecimalCharacter = None,
    scale: o.Scale = "none",
    ensemble: o.Ensemble = False,
    **parameters: Any,
) -> Job:
    """Cluster the rows of a file, which may be larger than memory.

    Labels are integers from 0, one per row, in the order of the rows. With
    --ensemble the confidence of each label is written, too.
    """

    def job() -> None:
        source = DataFile(data, columns, array, header, delimiter, decimal, describe)
        if describe is not None and report is None:
            raise ValueError("--describe is for the report: pass --report too.")
        if scale not in ("none", "standard"):
            raise ValueError(f"--scale must be 'none' or 'standard', got {scale!r}.")
        o.check_least("--seed", parameters["random_state"], 0)
        for name in stray_options(parameters, ensemble):
            what = "not for ensembles: leave --ensemble out" if ensemble else "for ensembles: pass --ensemble too"
            raise ValueError(f"{name} is {what}.")
        source.check()
        outputs = _outputs.check_fit_outputs(output, model, report, data, force=force)
        from ultraspec.cli import fit as command

        screen = Screen(json, quiet)
        command.run(source, outputs, parameters, ensemble=ensemble, scale=scale, force=force, screen=screen)

    return job


@app.command(
    epilog=examples(
        "ultraspec fit january.parquet -k 10 --model m.ultraspec",
        "ultraspec predict m.ultraspec february.parquet -o labels.parquet",
        "ultraspec predict m.ultraspec february.parquet --cut cut.json -o labels.parquet",
    )
)
def predict(
    model: o.Model,
    data: o.Data,
    output: o.RequiredLabels,
    cut: o.CutFile = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    columns: o.Columns = None,
    array: o.Array = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    decimal: o.DecimalCharacter = None,
    n_jobs: NJobs = None,
) -> Job:
    """Label the rows of a file with a saved model.

    The fitted rows get the labels that `fit` gave them. If the model has
    feature names, columns are selected by these names, in any order; they are
    scaled as in `fit`. An ensemble adds the confidence of each label.
    """

    def job() -> None:
        source = DataFile(data, columns, array, header, delimiter, decimal)
        _outputs.check_model(model)
        source.check()
        target = _outputs.check_labels(output, [model, data, *([cut] if cut else [])], force=force)
        from ultraspec.cli import predict as command

        command.run(model, source, target, cut=cut, n_jobs=n_jobs, force=force, screen=Screen(json, quiet))

    return job


LABEL_FILE = "FILE or FILE:COLUMN; .parquet, .csv, .npy or .npz. Labels may be strings."


@app.command(
    epilog=examples(
        "ultraspec evaluate labels.parquet truth.npy",
        "ultraspec evaluate labels.parquet:label animals.csv:species --json",
    )
)
def evaluate(
    labels: Annotated[str, typer.Argument(metavar="LABELS", help=f"Labels: {LABEL_FILE}", show_default=False)],
    truth: Annotated[str, typer.Argument(metavar="TRUTH", help=f"True classes: {LABEL_FILE}", show_default=False)],
    column: Annotated[
        str | None,
        o.option(
            "--column",
            panel=o.INPUT,
            metavar="NAME",
            help="Column of files that are given without :COLUMN.",
            default="the only column, or 'label'",
        ),
    ] = None,
    delimiter: o.Delimiter = None,
    json: o.Json = False,
) -> Job:
    """Score labels against true classes: NMI, accuracies, ARI."""

    def job() -> None:
        from ultraspec.cli import evaluate as command

        command.run(labels, truth, column, delimiter, Screen(json))

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
        Path,
        o.option("-o", "--output", panel=o.OUTPUT, metavar="FILE", help="File for the rows: .npy, .parquet or .csv."),
    ],
    rows: Annotated[int | None, o.rows_option("as in the paper")] = None,
    labels: Annotated[
        Path | None,
        o.option(
            "--labels",
            panel=o.OUTPUT,
            metavar="FILE",
            help="File for the classes of the rows: .parquet, .csv, .npy or .npz.",
        ),
    ] = None,
    seed: Seed = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> Job:
    """Write one of the synthetic data sets of the paper, of any size.

    Two bananas (tb), smiling face (sf), concentric circles (cc), circles and
    Gaussians (cg), flower. They are reconstructed from the figures of the
    paper, because the original generators were never published.
    """

    def job() -> None:
        o.check_least("--rows", rows, 1)
        o.check_least("--seed", seed, 0)
        from ultraspec.cli import generate as command

        command.run(name, rows, output, labels, seed=seed, force=force, screen=Screen(json, quiet))

    return job


@app.command(
    epilog=examples(
        "ultraspec report m.ultraspec data.parquet -o report.html",
    )
)
def report(
    model: o.Model,
    data: o.Data,
    output: o.RequiredReport,
    title: Annotated[
        str | None, o.option("--title", panel=o.OUTPUT, metavar="TEXT", help="Heading of the page.")
    ] = None,
    describe: o.Describe = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    columns: o.Columns = None,
    array: o.Array = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    decimal: o.DecimalCharacter = None,
    n_jobs: NJobs = None,
) -> Job:
    """Write a report on a saved model and the rows of a file: one HTML page."""

    def job() -> None:
        source = DataFile(data, columns, array, header, delimiter, decimal, describe)
        _outputs.check_model(model)
        source.check()
        target = _outputs.check_outputs({"-o": (output, _outputs.PAGES)}, [model, data], force=force)["-o"]
        from ultraspec.cli import report as command

        command.run(model, source, target, title=title, n_jobs=n_jobs, force=force, screen=Screen(json, quiet))

    return job


@app.command(
    epilog=examples(
        "ultraspec bench --quick",
        "ultraspec bench --rows 1e7 --json",
    )
)
def bench(
    quick: Annotated[bool, o.option("--quick", panel=o.RUN, help="Fit 100_000 rows, once.")] = False,
    rows: Annotated[int | None, o.rows_option("1_000_000")] = None,
    repeats: Annotated[
        int | None,
        o.option(
            "--repeats",
            panel=o.RUN,
            metavar="N",
            parser=o.parse_integer,
            help="Number of fits of each method; medians are shown.",
            default="3",
        ),
    ] = None,
    seed: o.FixedSeed = 0,
    n_jobs: NJobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> Job:
    """Time U-SPEC against scikit-learn's KMeans on this machine.

    Both cluster the data set 'cg' alternately, in one run. Memory is what a
    fit uses in addition to the data.
    """

    def job() -> None:
        o.check_least("--rows", rows, 1000)
        o.check_least("--repeats", repeats, 1)
        o.check_least("--seed", seed, 0)
        from ultraspec.cli import bench as command

        n_rows = rows or (100_000 if quick else 1_000_000)
        n_repeats = repeats or (1 if quick else 3)
        command.run(n_rows, n_repeats, seed, n_jobs, Screen(json, quiet))

    return job


app.command(
    epilog=examples(
        "ultraspec reproduce table4 --datasets PenDigits --runs 5",
        "ultraspec reproduce all --scale 0.01 --runs 1 --time-limit 60",
        "ultraspec reproduce 4-9 --method my_module:MyEstimator --methods U-SPEC,LSC-K",
        "ultraspec reproduce 4,5 --data my.parquet:label --datasets none",
    )
)(reproduce)
