"""Output files of the commands: check before the work starts that they can be written."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ultraspec.cli._screen import format_bytes

LEFT_FREE = 2**26  # bytes that stay free on a disk; for small files a twentieth of their size
TEXT_BYTES = {"label": 4, "confidence": 11}  # of a value in a CSV file, about, with its delimiter
TABLES = (".parquet", ".pq", ".csv")
LABELS = (*TABLES, ".npy", ".npz")
PAGES = (".html", ".htm")

# Bytes in a file per byte in memory, about: numbers take more space as text, and slightly more in a table.
GROWTH = {".csv": 3.0, ".parquet": 1.1, ".pq": 1.1}


def check_fit_outputs(
    labels: Path | None, model: Path | None, report: Path | None, data: Path, *, force: bool, with_input: bool = False
) -> dict[str, Path]:
    """Check the outputs of `fit`; return their absolute paths by option."""
    check_with_input(labels, with_input)
    if model is not None:
        check_installed("safetensors", "--model")
    outputs = {"-o": (labels, LABELS), "--model": (model, ()), "--report": (report, PAGES)}
    return check_outputs(outputs, [data], force=force)


def check_with_input(labels: Path | None, with_input: bool) -> None:
    """Raise if the columns of the input cannot be written to the file of labels."""
    if not with_input:
        return
    if labels is None:
        raise ValueError("--with-input is for the file of labels: pass -o too.")
    if labels.suffix.lower() not in TABLES:
        raise ValueError(f"--with-input needs a table: write -o {labels.with_suffix('.parquet')} or .csv.")


def check_obs(data: Path, name: str | None, *, force: bool) -> None:
    """Raise unless labels can be written into the obs of the input."""
    if name is None:
        return
    check_installed("anndata", "--obs", "scanpy")
    from ultraspec.tl import check_obs_target

    check_obs_target(data.expanduser(), name, overwrite=force)


def check_demo_report(report: Path | None, *, force: bool) -> Path:
    """Check the report of `demo`; return its absolute path. The default file may replace an earlier report."""
    path = Path("demo-report.html") if report is None else report
    if report is None and path.is_file() and not force:
        from ultraspec.report import is_page

        force = is_page(path)
    return check_outputs({"--report": (path, PAGES)}, [], force=force)["--report"]


def check_model(path: Path) -> None:
    """Raise if there is no such model file."""
    check_installed("safetensors", "Reading model files")
    if not path.expanduser().exists():
        raise FileNotFoundError(f"{path}: there is no such file.")


def check_outputs(
    outputs: Mapping[str, tuple[Path | None, tuple[str, ...]]], inputs: Iterable[Path], *, force: bool
) -> dict[str, Path]:
    """Raise unless every output can be written; return their absolute paths by option.

    `outputs` has paths (or None) and allowed suffixes (empty: any) by option. Existing files may be replaced with
    `force`, but `inputs`, which are read, must not be. A symbolic link is replaced, not what it points to.
    """
    from ultraspec.storage.atomic import own_path

    checked: dict[str, Path] = {}
    read = {os.path.realpath(path.expanduser()) for path in inputs}
    for option, (path, suffixes) in outputs.items():
        if path is None:
            continue
        _check_suffix(option, path, suffixes)
        real = Path(os.path.realpath(path.expanduser()))
        if str(real) in read:
            raise ValueError(f"{option} {path} is an input file. Write to another file.")
        around = [folder for folder in read if real.is_relative_to(folder)]
        if around:
            raise ValueError(f"{option} {path} is in the input folder {around[0]}. Write to another folder.")
        own = own_path(path)
        twice = [other for other, taken in checked.items() if taken == own]
        if twice:
            raise ValueError(f"{twice[0]} and {option} name the same file, {path}.")
        _check_place(option, path, own, force)
        checked[option] = own
    return checked


def _check_suffix(option: str, path: Path, suffixes: tuple[str, ...]) -> None:
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"{option} {path} is of an unknown type. Known types are {', '.join(suffixes)}.")
    if suffixes and path.suffix.lower() in TABLES:
        check_installed("pyarrow", f"Writing {path.suffix} files")


def _check_place(option: str, path: Path, own: Path, force: bool) -> None:
    if own.is_dir():
        raise ValueError(f"{option} {path} is a folder. Name a file.")
    if own.exists() and not own.is_file():
        raise ValueError(f"{option} {path} is not a regular file.")
    if not own.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {own.parent}. Create it first.")
    if os.path.lexists(own) and not force:
        raise ValueError(f"{option} {path} exists. Pass --force to replace it.")
    try:
        with tempfile.TemporaryFile(dir=own.parent):
            pass
    except OSError as error:
        raise ValueError(f"{option} {path}: cannot write to the folder {own.parent}: {error.strerror}.") from error


def keep_aside(path: Path, *, force: bool) -> Path:
    """Return a path that can still be written, with a warning if another program has taken `path` meanwhile."""
    from ultraspec.storage.atomic import free_path

    free = path if force else free_path(path)
    warn_if_aside(path, free)
    return free


def warn_if_aside(path: Path, written: Path) -> None:
    """Warn that a file was written under another name, if it was."""
    from ultraspec._checks import warn_user

    if written != path:
        warn_user(f"{path} was written by another program meanwhile. The result of this run is in {written}.")


def label_bytes(path: Path, n_rows: int, *, confidence: bool) -> float:
    """Estimate the bytes that labels need on the disk, for `check_disk_space`."""
    names = ["label", "confidence"] if confidence else ["label"]
    if path.suffix.lower() == ".csv":
        return n_rows * sum(TEXT_BYTES[name] for name in names) / GROWTH[".csv"]
    if path.suffix.lower() == ".npy":
        return n_rows * 4.0  # the labels alone
    waiting = path.suffix.lower() == ".npz" and confidence  # in a temporary file, until the labels are complete
    return n_rows * 4.0 * (len(names) + waiting)


def check_disk_space(sizes: Mapping[Path, float]) -> None:
    """Raise unless the disks have space for files; `sizes` are the bytes of their values in memory."""
    needed: dict[int, tuple[Path, float]] = {}
    for path, n_bytes in sizes.items():
        disk = path.parent.stat().st_dev
        before = needed[disk][1] if disk in needed else 0.0
        needed[disk] = path, before + n_bytes * GROWTH.get(path.suffix.lower(), 1.0)
    for path, total in needed.values():
        free = shutil.disk_usage(path.parent).free
        if free < total + min(total / 20, LEFT_FREE):
            raise OSError(
                f"{path} needs about {format_bytes(total)}, but the disk of {path.parent} has only "
                f"{format_bytes(free)} left."
            )


def check_installed(module: str, what: str, extra: str = "cli") -> None:
    """Raise unless an optional module is installed."""
    if importlib.util.find_spec(module) is None:
        raise ImportError(f"{what} needs {module}: pip install 'ultraspec[{extra}]'")
