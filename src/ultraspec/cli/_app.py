"""Commands and their options. The commands import what they need when they run, so that help pages appear at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ultraspec import __version__
from ultraspec.cli import _options as o
from ultraspec.cli import _outputs
from ultraspec.cli._input import DELIMITER, DataFile
from ultraspec.cli._parameters import Missing, NJobs, Seed, deferred, stray_options
from ultraspec.cli._reproduce import reproduce
from ultraspec.cli._screen import Screen

F = TypeVar("F", bound=Callable[..., Any])


def examples(*commands: str) -> str:
    """Format examples for the end of a help page, one on each line."""
    return "\n\n".join(["Examples:", *commands])


def command(*commands: str) -> Callable[[F], F]:
    """Make a decorator that adds a command, with examples."""

    def add(function: F) -> F:
        app.command(epilog=examples(*commands))(deferred(function))
        return function

    return add


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


@command("ultraspec demo", "ultraspec demo --rows 1e7 --report circles.html")
def demo(
    rows: Annotated[int, o.rows_option("1_000_000")] = 1_000_000,
    seed: o.FixedSeed = 0,
    report: o.ReportOut = None,
    no_report: Annotated[bool, o.option("--no-report", o.OUTPUT, "Write no report.")] = False,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Cluster a million points on concentric circles; print time and scores.

    The report is written to demo-report.html in the current folder unless
    --report names another file.
    """
    o.check_least("--rows", rows, 3)
    o.check_least("--seed", seed, 0)
    page = None if no_report else _outputs.check_demo_report(report, force=force)
    from ultraspec.cli import demo as program

    program.run(rows, seed, page, force=force, screen=Screen(json, quiet))


@command(
    "ultraspec fit data.parquet -k 10 -o labels.parquet",
    "ultraspec fit data.csv -k auto --columns x,y --scale standard --report r.html",
    "ultraspec fit data.npy -k 10 --ensemble --checkpoint runs -o labels.parquet",
    "ultraspec fit cells.parquet -k 8 --weight count -o labels.parquet",
    "ultraspec fit texts.npz -k 50 --metric cosine --model texts.ultraspec --seed 0",
)
def fit(
    output: o.Labels = None,
    model: o.ModelOut = None,
    report: o.ReportOut = None,
    describe: o.Describe = None,
    with_input: o.WithInput = False,
    obs: o.Obs = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    *,
    source: DataFile,
    scale: o.Scale = "none",
    weight: o.Weight = None,
    ensemble: o.Ensemble = False,
    **parameters: Any,
) -> None:
    """Cluster the rows of a file, which may be larger than memory.

    Labels are integers from 0, one per row, in the order of the rows. With
    --ensemble the confidence of each label is written, too.
    """
    if describe is not None and report is None:
        raise ValueError("--describe is for the report: pass --report too.")
    source = source.describing(describe).weighing(weight)
    if scale not in ("none", "standard"):
        raise ValueError(f"--scale must be 'none' or 'standard', got {scale!r}.")
    o.check_least("--seed", parameters["random_state"], 0)
    for name in stray_options(parameters, ensemble):
        what = "not for ensembles: leave --ensemble out" if ensemble else "for ensembles: pass --ensemble too"
        raise ValueError(f"{name} is {what}.")
    source.check()
    outputs = _outputs.check_fit_outputs(output, model, report, source.path, force=force, with_input=with_input)
    _outputs.check_obs(source.path, obs, force=force)
    from ultraspec.cli import fit as program

    program.run(
        source,
        outputs,
        parameters,
        ensemble=ensemble,
        scale=scale,
        force=force,
        screen=Screen(json, quiet),
        with_input=with_input,
        obs=obs,
    )


@command(
    "ultraspec fit january.parquet -k 10 --model m.ultraspec",
    "ultraspec predict m.ultraspec february.parquet -o labels.parquet",
    "ultraspec predict m.ultraspec february.parquet --cut cut.json -o labels.parquet",
)
def predict(
    model: o.Model,
    output: o.RequiredLabels,
    cut: o.CutFile = None,
    with_input: o.WithInput = False,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    *,
    source: DataFile,
    missing: Missing = None,
    n_jobs: NJobs = None,
) -> None:
    """Label the rows of a file with a saved model.

    The fitted rows get the labels that `fit` gave them. If the model has
    feature names, columns are selected by these names, in any order; they are
    scaled as in `fit`. An ensemble adds the confidence of each label.
    """
    _outputs.check_model(model)
    source.check()
    _outputs.check_with_input(output, with_input)
    target = _outputs.check_outputs(
        {"-o": (output, _outputs.LABELS)}, [model, source.path, *([cut] if cut else [])], force=force
    )["-o"]
    from ultraspec.cli import predict as program

    options = {"missing": missing, "n_jobs": n_jobs}
    screen = Screen(json, quiet)
    program.run(model, source, target, cut=cut, options=options, with_input=with_input, force=force, screen=screen)


@command(
    "ultraspec cut m.ultraspec data.parquet -k 12 -o labels.parquet",
    "ultraspec cut m.ultraspec data.parquet -k 12 --model m12.ultraspec",
)
def cut(
    model: o.Model,
    n_clusters: Annotated[int, o.option("-k --n-clusters N", o.METHOD, "Number of clusters.", parser=o.parse_integer)],
    output: o.Labels = None,
    new_model: o.ModelOut = None,
    with_input: o.WithInput = False,
    obs: o.Obs = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    *,
    source: DataFile,
    weight: o.Weight = None,
    n_jobs: NJobs = None,
) -> None:
    """Cut a saved model into another number of clusters, without a new fit.

    DATA holds the rows that were fitted. The labels are those of
    `model.cut` in Python; --model saves the model with these clusters.
    """
    o.check_least("-k", n_clusters, 1)
    _outputs.check_model(model)
    source.check()
    if output is None and new_model is None and obs is None:
        raise ValueError("There is nothing to write: pass -o, --model or --obs.")
    _outputs.check_with_input(output, with_input)
    wanted = {"-o": (output, _outputs.LABELS), "--model": (new_model, ())}
    outputs = _outputs.check_outputs(wanted, [model, source.path], force=force)
    _outputs.check_obs(source.path, obs, force=force)
    from ultraspec.cli import cut as program

    program.run(
        model,
        source.weighing(weight),
        outputs,
        n_clusters,
        n_jobs=n_jobs,
        screen=Screen(json, quiet),
        with_input=with_input,
        obs=obs,
        force=force,
    )


LABEL_FILE = "FILE or FILE:COLUMN; .parquet, .csv, .npy or .npz. Labels may be strings."


@command(
    "ultraspec evaluate labels.parquet truth.npy", "ultraspec evaluate labels.parquet:label animals.csv:species --json"
)
def evaluate(
    labels: Annotated[str, o.argument("LABELS", f"Labels: {LABEL_FILE}")],
    truth: Annotated[str, o.argument("TRUTH", f"True classes: {LABEL_FILE}")],
    column: Annotated[
        str | None,
        o.option(
            "--column NAME", o.INPUT, "Column of files that are given without :COLUMN.", "the only column, or 'label'"
        ),
    ] = None,
    delimiter: Annotated[Any, DELIMITER] = None,
    json: o.Json = False,
) -> None:
    """Score labels against true classes: NMI, accuracies, ARI."""
    from ultraspec.cli import evaluate as program

    program.run(labels, truth, column, delimiter, Screen(json))


@command(
    "ultraspec generate cg --rows 10_000_000 -o cg.npy --labels y.npy",
    "ultraspec generate flower --rows 1e6 --seed 0 -o flower.parquet",
)
def generate(
    name: Annotated[
        str,
        o.argument("SET", f"One of {', '.join(SETS)}.", autocompletion=lambda: list(SETS)),
    ],
    output: Annotated[Path, o.option("-o --output FILE", o.OUTPUT, "File for the rows: .npy, .parquet or .csv.")],
    rows: Annotated[int | None, o.rows_option("as in the paper")] = None,
    labels: Annotated[
        Path | None,
        o.option("--labels FILE", o.OUTPUT, "File for the classes of the rows: .parquet, .csv, .npy or .npz."),
    ] = None,
    seed: Seed = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Write one of the synthetic data sets of the paper, of any size.

    Two bananas (tb), smiling face (sf), concentric circles (cc), circles and
    Gaussians (cg), flower. They are drawn by our own generators,
    which agree with 100,000 rows of each of the authors' sets.
    """
    o.check_least("--rows", rows, 1)
    o.check_least("--seed", seed, 0)
    from ultraspec.cli import generate as program

    program.run(name, rows, output, labels, seed=seed, force=force, screen=Screen(json, quiet))


@command("ultraspec report m.ultraspec data.parquet -o report.html")
def report(
    model: o.Model,
    output: o.RequiredReport,
    title: Annotated[str | None, o.option("--title TEXT", o.OUTPUT, "Heading of the page.")] = None,
    describe: o.Describe = None,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
    *,
    source: DataFile,
    n_jobs: NJobs = None,
) -> None:
    """Write a report on a saved model and the rows of a file: one HTML page."""
    source = source.describing(describe)
    _outputs.check_model(model)
    source.check()
    source = source.describing(describe)
    target = _outputs.check_outputs({"-o": (output, _outputs.PAGES)}, [model, source.path], force=force)["-o"]
    from ultraspec.cli import report as program

    program.run(model, source, target, title=title, n_jobs=n_jobs, force=force, screen=Screen(json, quiet))


@command("ultraspec bench --quick", "ultraspec bench --rows 1e7 --json")
def bench(
    quick: Annotated[bool, o.option("--quick", o.RUN, "Fit 100_000 rows, once.")] = False,
    rows: Annotated[int | None, o.rows_option("1_000_000")] = None,
    repeats: Annotated[
        int | None,
        o.option(
            "--repeats N", o.RUN, "Number of fits of each method; medians are shown.", "3", parser=o.parse_integer
        ),
    ] = None,
    seed: o.FixedSeed = 0,
    n_jobs: NJobs = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Time U-SPEC against scikit-learn's KMeans on this machine.

    Both cluster the data set 'cg' alternately, in one run. Memory is what a
    fit uses in addition to the data.
    """
    o.check_least("--rows", rows, 1000)
    o.check_least("--repeats", repeats, 1)
    o.check_least("--seed", seed, 0)
    from ultraspec.cli import bench as program

    n_rows = rows or (100_000 if quick else 1_000_000)
    n_repeats = repeats or (1 if quick else 3)
    program.run(n_rows, n_repeats, seed, n_jobs, Screen(json, quiet))


command(
    "ultraspec reproduce table4 --datasets PenDigits --runs 5",
    "ultraspec reproduce all --scale 0.01 --runs 1 --time-limit 60",
    "ultraspec reproduce 4-9 --method my_module:MyEstimator --methods U-SPEC,LSC-K",
    "ultraspec reproduce 4,5 --data my.parquet:label --datasets none",
)(reproduce)
