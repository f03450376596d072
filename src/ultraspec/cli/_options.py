"""Options of the commands, and the conversion of what users write to values.

The options for the parameters of the estimators are in `ultraspec.cli._parameters`, those of `open_rows` in
`ultraspec.cli._input`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

INPUT, OUTPUT, METHOD, ENSEMBLE, RUN = "Input", "Output", "Clustering", "Ensemble", "Run"
PANELS = (None, METHOD, ENSEMBLE, INPUT, OUTPUT, RUN)  # in the order of the help; arguments have none
MOST_DIGITS = 60


def option(usage: str, panel: str, help: str, default: str | None = None, **more: Any) -> Any:
    """Build a typer option in one of the panels of the help; `default` is only shown.

    The usage has the names of the option and the placeholder of its value, if it has one: "-o --output FILE".
    """
    if default is not None:
        help += f" \\[default: {default}]"  # a bracket without a backslash would start a tag of rich
    names = [word for word in usage.split() if word.startswith("-")]
    metavar = next((word for word in usage.split() if word not in names), None)
    return typer.Option(*names, metavar=metavar, rich_help_panel=panel, help=help, show_default=False, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """Build a typer argument."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **more)


def parse_integer(text: str | int, strings: Sequence[str] = ()) -> int:
    """Convert an integer, with separators or a power of ten; `strings` are other values that the message names.

    Examples
    --------
    >>> parse_integer("10_000_000"), parse_integer("1e6"), parse_integer("2,000")
    (10000000, 1000000, 2000)
    """
    digits = str(text).strip().replace(",", "").replace("_", "")
    try:
        number = Decimal(digits if digits.isascii() else "")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or number.adjusted() >= MOST_DIGITS or number != int(number):
        other = "".join(f", or {string!r}" for string in strings)
        raise typer.BadParameter(f"it must be an integer such as 1000, 10_000_000 or 1e6{other}, got {text!r}.")
    return int(number)


def parse_integers(text: str) -> tuple[int, ...]:
    """Convert integers that commas or colons separate.

    Examples
    --------
    >>> parse_integers("20,60")
    (20, 60)
    """
    return tuple(map(parse_integer, re.split(r"[,:]", text)))


def parse_number(text: str) -> float:
    """Convert a number.

    Examples
    --------
    >>> parse_number("1e-3")
    0.001
    """
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"it must be a number, got {text!r}.") from None


def parse_names(text: str) -> list[str]:
    """Convert names that commas separate; a name with a comma stands in double quotes.

    Examples
    --------
    >>> parse_names('a,"b,c", d')
    ['a', 'b,c', 'd']
    """
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(names) or not names:
        raise typer.BadParameter(f"it must be names with commas between them, got {text!r}.")
    return names


def format_names(names: Iterable[str]) -> str:
    """Write names as `parse_names` reads them.

    Examples
    --------
    >>> format_names(["a", "b,c"])
    'a,"b,c"'
    """
    return ",".join(f'"{name}"' if "," in name else name for name in names)


def parse_delimiter(text: str) -> str:
    r"""Convert a delimiter; a tab may be written as tab or \\t.

    Examples
    --------
    >>> parse_delimiter(";"), parse_delimiter("tab")
    (';', '\t')
    """
    return "\t" if text in ("\\t", "tab") else text


def check_least(name: str, value: int | None, least: int) -> None:
    """Raise if the value of an option is less than `least`."""
    if value is not None and value < least:
        raise ValueError(f"{name} must be at least {least:,}, got {value:,}.")


Data = Annotated[
    Path,
    argument(
        "DATA",
        "File with the rows: .npy, .npz, .h5, .h5ad, .zarr, .parquet, .arrow, .csv or .jsonl; a folder of .parquet or "
        ".csv files; - for standard input.",
    ),
]
Model = Annotated[Path, argument("MODEL", "Model file, written by `fit --model`.")]
Scale = Annotated[
    str,
    option(
        "--scale NAME",
        INPUT,
        "'standard' scales each column to mean 0 and variance 1; `predict` then scales new rows in the same way.",
        "none",
        autocompletion=lambda: ["none", "standard"],
    ),
]

WEIGHT = "Column with the weight of each row, which is then not clustered: weight 2 counts as two rows."
Weight = Annotated[str | None, option("--weight NAME", INPUT, WEIGHT)]

LABEL_FORMATS = "File for the labels: .parquet, .csv, .npy or .npz."
Labels = Annotated[Path | None, option("-o --output FILE", OUTPUT, LABEL_FORMATS)]
RequiredLabels = Annotated[Path, option("-o --output FILE", OUTPUT, LABEL_FORMATS)]
ModelOut = Annotated[Path | None, option("--model FILE", OUTPUT, "Model file, for `predict` and `report`.")]
PAGE = "Report on the clusters: one .html page."
ReportOut = Annotated[Path | None, option("--report FILE", OUTPUT, PAGE)]
RequiredReport = Annotated[Path, option("-o --output FILE", OUTPUT, PAGE)]
DESCRIBED = "Columns that the report describes but that are not clustered: numbers, categories or texts."
Describe = Annotated[Any, option("--describe A,B,C", OUTPUT, DESCRIBED, parser=parse_names)]
CutFile = Annotated[Path | None, option("--cut FILE", INPUT, "Clusters that were chosen in a report: its cut.json.")]
WITH_INPUT = "Write all columns of the input to the file of labels, too (.parquet or .csv)."
WithInput = Annotated[bool, option("--with-input", OUTPUT, WITH_INPUT)]
OBS = "Also write the labels into DATA, an AnnData (.h5ad or .zarr), as a column of obs with this name."
Obs = Annotated[str | None, option("--obs NAME", OUTPUT, OBS)]
Force = Annotated[bool, option("--force", OUTPUT, "Replace existing files.")]
Json = Annotated[bool, option("--json", OUTPUT, "Print the result as one JSON object.")]
Quiet = Annotated[bool, option("-q --quiet", OUTPUT, "Show no progress.")]

Ensemble = Annotated[bool, option("--ensemble", ENSEMBLE, "Use U-SENC: combine many clusterings of the rows into one.")]
FixedSeed = Annotated[
    int, option("--seed --random-state N", RUN, "Seed of the data and of the clustering.", "0", parser=parse_integer)
]


def rows_option(default: str) -> Any:
    """Build the option --rows."""
    return option("--rows N", RUN, "Number of rows.", default, parser=parse_integer)
