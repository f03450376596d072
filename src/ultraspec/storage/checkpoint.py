"""Checkpoints: named results of a fit in a folder, so that a killed fit continues where it stopped.

A folder holds ``checkpoint.json``, which describes the run it belongs to, and one file per finished result. A file is
complete or absent, whenever the process is killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ultraspec import __version__
from ultraspec._checks import is_entropy, warn_user
from ultraspec.storage.atomic import digest
from ultraspec.storage.folders import Folder, UrlFolder, folder_of

HEADER = "checkpoint.json"
FORMAT = "ultraspec checkpoint 2"

CHECKSUMS = ("content", "weights")

Facts = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]


class Checkpoint:
    """Folder that keeps the results of one run; `facts` are the data, parameters and seed of ``checkpoint.json``."""

    def __init__(self, folder: Folder | UrlFolder, facts: Facts) -> None:
        self.facts = facts
        self._folder = folder
        self._run_id = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, path: str | os.PathLike[str], facts: Facts, seed: np.random.SeedSequence | None
    ) -> Iterator[Checkpoint]:
        """Open a new folder or that of an unfinished run, locked for this process; refuse that of another run.

        If `seed` is None, an unfinished run continues with the seed that it started with.
        """
        folder = folder_of(path)
        folder.make()
        _read_header(folder)  # refuses other folders before anything is written to them
        with folder.lock():
            header = _read_header(folder)
            if header is not None and seed is None:
                entropy = header.get("seed")
            else:
                entropy = (seed if seed is not None else np.random.SeedSequence()).entropy
            facts = {"format": FORMAT, "library": __version__, **facts, "seed": entropy}
            if header is None or not any(name.endswith(".npz") for name in folder.names()):
                folder.write(HEADER, lambda file: file.write(json.dumps(facts, indent=1).encode()))
            elif header != facts:
                differences = "; ".join(_differences(header, facts))
                raise ValueError(
                    f"The checkpoint folder {str(path)!r} belongs to another run: {differences}. "
                    "Pass another folder, or delete this one to start again."
                )
            yield cls(folder, facts)

    @property
    def seed(self) -> np.random.SeedSequence:
        """Seed of the run."""
        return np.random.SeedSequence(self.facts["seed"])

    def run(
        self, name: str, function: Callable[..., Any], *args: Any, restore: Callable[[Arrays], Any] | None = None
    ) -> Any:
        """Return the stored result of ``function(*args)``, or compute and store it under `name`.

        The result is an array, or an object whose ``arrays()`` gives its state as a dictionary of arrays. `restore`
        turns such a dictionary back into an object. If it raises ValueError, the arrays are not valid, and the result
        is computed again.
        """
        stored = self._load(name, _single_array if restore is None else restore)
        if stored is not None:
            return stored
        result = function(*args)
        arrays = {"array": result} if isinstance(result, np.ndarray) else result.arrays()
        arrays = {**arrays, "digest": np.array(self._digest(name, arrays))}
        self._folder.write(f"{name}.npz", lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
        return result

    def _load(self, name: str, restore: Callable[[Arrays], Any]) -> Any:
        """Return a stored result, or None if it is absent or damaged."""
        if f"{name}.npz" not in self._folder.names():
            return None
        try:
            with self._folder.open(f"{name}.npz") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            if str(arrays.pop("digest", "")) == self._digest(name, arrays):
                return restore(arrays)
            reason = "its contents do not match its checksum"
        except (OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
            reason = str(error)
        except ValueError:  # from `restore`, or from NumPy, whose message is about pickles
            reason = "it does not hold valid arrays"
        path = self._folder.path(f"{name}.npz")
        warn_user(f"The checkpoint file {path!r} is damaged ({reason}); its result is computed again.", UserWarning)
        return None

    def _digest(self, name: str, arrays: Arrays) -> str:
        """Return a checksum of arrays that is valid for this run and this result only."""
        return digest(f"{self._run_id} {name}", arrays)


class NoCheckpoint:
    """Checkpoint that stores nothing, for fits without a folder."""

    def run(
        self, name: str, function: Callable[..., Any], *args: Any, restore: Callable[[Arrays], Any] | None = None
    ) -> Any:
        """Return ``function(*args)``."""
        return function(*args)


def is_begun(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder has a run in it."""
    return folder_of(path).has(HEADER)


def _single_array(arrays: Arrays) -> npt.NDArray[Any]:
    if set(arrays) != {"array"}:
        raise ValueError(f"expected one array, got {sorted(arrays)}")
    return arrays["array"]


def _read_header(folder: Folder | UrlFolder) -> Facts | None:
    names = folder.names()
    if HEADER not in names:
        if names:
            raise ValueError(
                f"The folder {folder.shown!r} has files ({', '.join(names[:3])}) but is no checkpoint. "
                "Pass a new or an empty folder."
            )
        return None
    path = folder.path(HEADER)
    try:
        with folder.open(HEADER) as file:
            header = json.loads(file.read())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path!r} cannot be read ({error}). Delete the folder to start again, or pass another."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path!r} was not written by this version's checkpoints. Pass another folder.")
    if not is_entropy(header.get("seed")):
        raise ValueError(f"{path!r} has no valid seed. Delete the folder to start again, or pass another.")
    return header


def _differences(header: Facts, facts: Facts) -> Iterator[str]:
    """Describe what differs between the run of a folder and this run."""
    for name, now in facts.items():
        before = header.get(name)
        if before == now:
            continue
        if isinstance(now, dict):
            before = before if isinstance(before, dict) else {}
            changed = [key for key in {**now, "weights": None} if before.get(key) != now.get(key)]
            yield from (f"{key} was {before.get(key)!r} and is {now[key]!r}" for key in changed if key not in CHECKSUMS)
            if "weights" in changed:
                yield "the weights of the rows differ"
            if changed == ["content"]:
                yield "the values of X" + (" or its chunks" if "where" in now else "") + " differ"
        elif name == "seed":
            yield "random_state differs"
        else:
            yield f"{name} was {before!r} and is {now!r}"
