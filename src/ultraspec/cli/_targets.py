"""Files that a command will write: checked before the work starts, written whole or not at all."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ultraspec.cli._screen import memory

LEFT_FREE = 2**26  # a disk is not filled to its last byte, but for a twentieth of a small file
DIGITS = {"label": 4, "confidence": 11}  # of a value in a text, about, with what separates it
TABLES = (".parquet", ".pq", ".csv")
ARRAYS = (".npy", ".npz")
PAGES = (".html", ".htm")

# Bytes of a file per byte in memory, about: numbers take more room as text, and a little more in a table.
GROWTH = {".csv": 3.0, ".parquet": 1.1, ".pq": 1.1}


def check_fit(
    labels: Path | None, model: Path | None, report: Path | None, data: Path, *, force: bool
) -> dict[str, Path]:
    """Real paths of what a fit writes by option, after all checks."""
    if model is not None:
        need("safetensors", "--model", "cli")
    wanted = {"-o": (labels, TABLES + ARRAYS), "--model": (model, ()), "--report": (report, PAGES)}
    return check(wanted, [data], force=force)


def check_demo(report: Path | None, *, force: bool) -> Path:
    """Real path of the demo's page, after all checks; one that the user names must not exist."""
    path = Path("demo-report.html") if report is None else report
    if report is None and path.is_file() and not force:
        from ultraspec.report._page import is_page

        force = is_page(path)
    return check({"--report": (path, PAGES)}, [], force=force)["--report"]


def check_labels(labels: Path, inputs: Iterable[Path], *, force: bool) -> Path:
    """Real path of labels, after all checks."""
    return check({"-o": (labels, TABLES + ARRAYS)}, inputs, force=force)["-o"]


def check_model(path: Path) -> None:
    """Raise where there is no model file."""
    need("safetensors", "Reading model files", "cli")
    if not path.expanduser().exists():
        raise FileNotFoundError(f"{path}: there is no such file.")


def check(
    outputs: Mapping[str, tuple[Path | None, tuple[str, ...]]], inputs: Iterable[Path], *, force: bool
) -> dict[str, Path]:
    """Raise unless every output can be written where it is wanted; gives their real paths by option.

    Parameters
    ----------
    outputs : dict
        Path (or None) and allowed endings (none: any) by option.
    inputs : iterable of Path
        What is read, and so must not be replaced.
    force : bool
        Whether existing files may be replaced.
    """
    found: dict[str, Path] = {}
    read = {os.path.realpath(path.expanduser()) for path in inputs}
    for option, (path, endings) in outputs.items():
        if path is None:
            continue
        _check_ending(option, path, endings)
        real = Path(os.path.realpath(path.expanduser()))
        if str(real) in read:
            raise ValueError(f"{option} {path} is a file that is read. Write to another one.")
        around = [folder for folder in read if real.is_relative_to(folder)]
        if around:
            raise ValueError(f"{option} {path} is within {around[0]}, the folder that is read. Write to another one.")
        twice = [other for other, taken in found.items() if taken == real]
        if twice:
            raise ValueError(f"{twice[0]} and {option} name the same file, {path}.")
        _check_place(option, path, real, force)
        found[option] = real
    return found


def _check_ending(option: str, path: Path, endings: tuple[str, ...]) -> None:
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{option} {path} is of an unknown kind. Known are {', '.join(endings)}.")
    if endings and path.suffix.lower() in TABLES:
        need("pyarrow", f"Writing {path.suffix} files", "cli")


def _check_place(option: str, path: Path, real: Path, force: bool) -> None:
    if real.is_dir():
        raise ValueError(f"{option} {path} is a folder. Name a file.")
    if real.exists() and not real.is_file():
        raise ValueError(f"{option} {path} is not a regular file.")
    if not real.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {real.parent}. Create it first.")
    if real.exists() and not force:
        raise ValueError(f"{option} {path} exists. Pass --force to replace it.")
    try:
        with tempfile.TemporaryFile(dir=real.parent):
            pass
    except OSError as error:
        raise ValueError(f"{option} {path}: cannot write to the folder {real.parent}: {error.strerror}.") from error


def label_room(path: Path, n_rows: int, *, confidence: bool) -> float:
    """Bytes that labels would take in memory if they were such numbers as `check_room` takes them for."""
    names = ["label", "confidence"] if confidence else ["label"]
    if path.suffix.lower() == ".csv":
        return n_rows * sum(DIGITS[name] for name in names) / GROWTH[".csv"]
    if path.suffix.lower() == ".npy":
        return n_rows * 4.0  # the labels alone
    waiting = path.suffix.lower() == ".npz" and confidence  # in a temporary file, until the labels are complete
    return n_rows * 4.0 * (len(names) + waiting)


def check_room(sizes: Mapping[Path, float]) -> None:
    """Raise unless the disks have room for files whose values take so many bytes in memory."""
    wanted: dict[int, tuple[Path, float]] = {}
    for path, n_bytes in sizes.items():
        disk, more = path.parent.stat().st_dev, n_bytes * GROWTH.get(path.suffix.lower(), 1.0)
        wanted[disk] = path, more + (wanted[disk][1] if disk in wanted else 0.0)
    for path, total in wanted.values():
        free = shutil.disk_usage(path.parent).free
        if free < total + min(total / 20, LEFT_FREE):
            raise OSError(
                f"{path} would need about {memory(total)}, and the disk of {path.parent} has {memory(free)} left."
            )


def need(module: str, what: str, extra: str) -> None:
    """Raise unless an optional module is installed."""
    if importlib.util.find_spec(module) is None:
        raise ImportError(f"{what} needs {module}: pip install 'ultraspec[{extra}]'")
