"""Container of a model file: safetensors arrays, and one JSON header with a checksum in their metadata.

`encode` and `decode` convert between bytes and a header with arrays; `checks` and `model_files` know what these mean.
Nothing in a file is ever executed, and nothing is allocated that the file is not long enough for.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec import __version__
from ultraspec.spectral.model_checks import InvalidModel, shown
from ultraspec.storage.atomic import digest

FORMAT = "ultraspec model"
VERSION = 3
KEY = "ultraspec"  # key of the header in the metadata
MOST_HEADER = 2**25  # characters, enough for the names of some hundred thousand features
MOST_BYTES = 2**36  # of a file
TYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64, "U16": np.uint16}

Header = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]

TREE = ("merges", "heights", "masses")  # arrays of the tree of a removed option
DEFAULTS_1 = {"n_representatives": 1000, "neighbors": "approx"}  # of the first format, where they differ from today's


def _upgrade_1(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    """Convert a file of the first format, whose estimators followed the paper.

    Parameters that it lacks had other defaults. Clusters of "representatives" and "consensus" were votes, like those of
    "agreement". Trees of `USPEC` are dropped, because its other trees are not known.
    """
    parameters, facts = header.get("parameters"), header.get("facts")
    if isinstance(parameters, dict) and isinstance(facts, dict):
        parameters = {**DEFAULTS_1, **parameters, "affinity": "paper", "n_components": None}
        if header.get("estimator") == "USENC":
            parameters.setdefault("consensus", "transfer_cut")
        else:
            parameters.setdefault("discretize", "kmeans")
            if parameters.get("discretize") in ("representatives", "consensus"):
                parameters["discretize"] = "agreement"
            arrays = {name: array for name, array in arrays.items() if name not in TREE}
    return {**header, "parameters": parameters, "facts": facts}, arrays


def _upgrade_2(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    """Convert a file of the second format, which knew neither layers nor outlier scores.

    Clusters of `USENC` with "average" were votes, like those of "auto"; their tree is dropped.
    """
    parameters, facts = header.get("parameters"), header.get("facts")
    if isinstance(facts, dict):
        facts = {"layers": None, "agreements": None, **facts}
    if isinstance(parameters, dict) and parameters.get("consensus") == "average":
        parameters = {**parameters, "consensus": "auto"}
        arrays = {name: array for name, array in arrays.items() if name.removeprefix("consensus.") not in TREE}
    return {**header, "parameters": parameters, "facts": facts}, arrays


# Functions that convert header and arrays from a version to the next. Files of these versions can be read.
UPGRADES: dict[int, Callable[[Header, Arrays], tuple[Header, Arrays]]] = {1: _upgrade_1, 2: _upgrade_2}

# First bytes of other kinds of files, and what to say if a user passes one.
OTHERS = {
    b"\x80": "It looks like a pickle, which may run any code when it is loaded, so ultraspec does not read pickles. In "
    "the process that has the model, call ultraspec.save(model, path)",
    b"PK\x03\x04": "It is a zip archive, perhaps an .npz file or a neural network",
    b"\x89HDF": "It is an HDF5 file",
    b"\x93NUMPY": "It is an .npy array",
}


def encode(header: Header, arrays: Arrays) -> bytes:
    """Return the bytes of a file; the same model gives the same bytes."""
    from safetensors.numpy import save

    header = {"format": FORMAT, "version": VERSION, "library": __version__, **header}
    header["sha256"] = _checksum(header, arrays)
    text = _canonical(header)
    if len(text) > MOST_HEADER:
        raise InvalidModel(
            f"its header has {len(text):,} characters, more than {MOST_HEADER:,}: names of features are too long"
        )
    data: bytes = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {KEY: text})
    return data


def decode(path: Path) -> tuple[Header, Arrays]:
    """Return header and arrays of a file, converted to the current version; raise InvalidModel unless it is complete.

    The checksum protects against accidents only: the author of the file may have meant harm.
    """
    from safetensors import SafetensorError, safe_open

    _check_file(path)
    try:
        with safe_open(path, framework="numpy") as file:
            header = _parse(file.metadata())
            _check_version(header)
            _check_metadata(file.metadata())
            arrays = {name: _read(file, name) for name in sorted(file.keys())}
    except SafetensorError as error:
        raise InvalidModel(f"not a model file, or a damaged one ({error}).{_hint(path)}") from error
    if header.pop("sha256", None) != _checksum(header, arrays):
        raise InvalidModel("damaged or altered: its contents do not match its checksum. Get or write the file again.")
    for version in range(header["version"], VERSION):
        header, arrays = UPGRADES[version](header, arrays)
    return header, arrays


def is_model_file(path: Path) -> bool:
    """Return whether a file has the header of an ultraspec model of any version."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            _parse(file.metadata())
    except (SafetensorError, InvalidModel):
        return False
    return True


def _check_file(path: Path) -> None:
    """Raise InvalidModel unless a path is that of a regular file of a plausible size."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise InvalidModel("a folder, not a model file.")
    if not stat.S_ISREG(status.st_mode):
        raise InvalidModel("not a regular file.")
    if status.st_size == 0:
        raise InvalidModel("an empty file.")
    if status.st_size > MOST_BYTES:
        raise InvalidModel(f"has {status.st_size:,} bytes; no model has more than {MOST_BYTES:,}.")


def _hint(path: Path) -> str:
    """Return a sentence about the kind of a file that is no model, if its first bytes are known."""
    with open(path, "rb") as file:
        start = file.read(8)
    return next((f" {hint}." for magic, hint in OTHERS.items() if start.startswith(magic)), "")


def _parse(metadata: Mapping[str, str] | None) -> Header:
    """Return the header in the metadata of a safetensors file; raise InvalidModel if there is none."""
    text = (metadata or {}).get(KEY)
    if text is None:
        raise InvalidModel("a safetensors file, but not a model of ultraspec.")
    if len(text) > MOST_HEADER:
        raise InvalidModel(f"its header has {len(text):,} characters, more than {MOST_HEADER:,}.")
    try:
        header = json.loads(text, object_pairs_hook=_refuse_repeated, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"its header cannot be read ({error}).") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidModel(f"its header does not say {FORMAT!r}.")
    return header


def _check_metadata(metadata: Mapping[str, str]) -> None:
    """Raise InvalidModel if there is more than the header, which the checksum would not protect."""
    extra = sorted(set(metadata) - {KEY})
    if extra:
        raise InvalidModel(f"its metadata has {shown(extra[0])}, which does not belong there and has no checksum.")


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; raise ValueError if a key is repeated, as the checksum covers only the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _check_version(header: Header) -> None:
    """Raise InvalidModel unless the format of a file can be read by this release."""
    version = header.get("version")
    library = header.get("library")
    if type(version) is not int or version < 1 or not isinstance(library, str):
        raise InvalidModel(f"its header has no valid version: format {shown(version)}, library {shown(library)}.")
    writer = library if re.fullmatch(r"[0-9A-Za-z.+!-]{1,40}", library) else shown(library)
    if version > VERSION:
        raise InvalidModel(
            f"written by ultraspec {writer}, format {version}; this is ultraspec {__version__}, which reads format "
            f"{VERSION}: upgrade."
        )
    if version < VERSION and version not in UPGRADES:
        raise InvalidModel(
            f"written by ultraspec {writer}, format {version}, which ultraspec {__version__} no longer reads: load it "
            "with an older release and save it again."
        )


def _read(file: Any, name: str) -> npt.NDArray[Any]:
    """Read an array into aligned, writable memory: kernels are compiled for such arrays."""
    view = file.get_slice(name)
    kind = view.get_dtype()
    shape = view.get_shape()
    if kind not in TYPES:
        raise InvalidModel(f"its array {shown(name)} has type {shown(kind)}, which no model has.")
    if len(shape) not in (1, 2) or 0 in shape:
        raise InvalidModel(f"its array {shown(name)} has shape {shown(tuple(shape))}, which no model has.")
    return np.array(file.get_tensor(name), dtype=TYPES[kind], order="C")


def _canonical(header: Header) -> str:
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(header: Header, arrays: Arrays) -> str:
    return digest(_canonical(header), arrays)
