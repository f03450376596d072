"""Finished parts of a fit in a folder, so that a killed one goes on where it stopped.

A folder holds ``ensemble.json``, which tells what run it belongs to, and one file per finished part: a member of an
ensemble, or the result of a pass over all rows. Each is whole or absent, whenever the process is killed.
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
import scipy.sparse

from ultraspec import __version__
from ultraspec._checks import seed_sequence, warn_user
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble.members import Member
from ultraspec.persistence.checks import check_member, is_entropy
from ultraspec.rows import Block, Rows, Span
from ultraspec.spectral.model import Model
from ultraspec.storage.atomic import digest
from ultraspec.storage.folders import Folder, UrlFolder, folder_of

HEADER = "ensemble.json"
FORMAT = "ultraspec checkpoint 1"

Facts = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]


class Checkpoint:
    """The folder of one run.

    Parameters
    ----------
    folder : Folder or UrlFolder
        Where the files are.
    facts : dict
        What the run is: its data, parameters and seed, as in ``ensemble.json``.
    """

    def __init__(self, folder: Folder | UrlFolder, facts: Facts) -> None:
        self._folder, self.facts = folder, facts
        self._run = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: str | os.PathLike[str], facts: Facts, seed: np.random.SeedSequence | None) -> Iterator[Any]:
        """A new or an unfinished run's folder, locked for this process; refuses that of another run.

        `seed` is None where the user gave none: an unfinished run then goes on with its own.
        """
        there = folder_of(folder)
        there.make()
        _read_header(there)  # refuses folders of other things before anything is written there
        with there.lock():
            found = _read_header(there)
            entropy = found.get("seed") if found is not None and seed is None else _entropy(seed)
            facts = {"format": FORMAT, "library": __version__, **facts, "seed": entropy}
            if found is None or not any(name.endswith(".npz") for name in there.names()):
                there.write(HEADER, lambda file: file.write(json.dumps(facts, indent=1).encode()))
            elif found != facts:
                differences = "; ".join(_differences(found, facts))
                raise ValueError(
                    f"The checkpoint folder {str(folder)!r} belongs to another run: {differences}. "
                    "Pass another folder, or delete this one to start anew."
                )
            yield cls(there, facts)

    @property
    def seed(self) -> np.random.SeedSequence:
        """The run's seed."""
        return np.random.SeedSequence(self.facts["seed"])

    def save_member(self, number: int, member: Member) -> None:
        """Write a member, whole or not at all."""
        labels = {} if member.labels is None else {"labels": member.labels}
        self._save(f"member-{number:04d}", str(number), {**labels, **member.model.arrays()})

    def load_member(self, number: int) -> Member | None:
        """A member, or None where it is not there or damaged."""
        data = self.facts["data"]
        has_labels = "where" not in data

        def read(arrays: Arrays) -> Member:
            check_member(arrays, data["rows"], data["features"], has_labels=has_labels)
            return Member(Model.from_arrays(arrays), arrays.get("labels"))

        return self._load(f"member-{number:04d}", str(number), read, "this member is made anew")

    def stage(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """Arrays that a pass over all rows gives: those that an earlier run has kept, else what `make` gives now."""
        found: Arrays | None = self._load(name, name, lambda arrays: arrays, "this pass is made again")
        if found is None:
            found = make()
            self._save(name, name, found)
        return found

    def _save(self, name: str, part: str, arrays: Arrays) -> None:
        arrays = {**arrays, "digest": np.array(self._digest(part, arrays))}
        self._folder.write(f"{name}.npz", lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    def _load(self, name: str, part: str, read: Callable[[Arrays], Any], otherwise: str) -> Any:
        """What `read` makes of the arrays of a file, or None where it is not there or damaged."""
        if f"{name}.npz" not in self._folder.names():
            return None
        try:
            with self._folder.open(f"{name}.npz") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            if str(arrays.pop("digest", "")) == self._digest(part, arrays):
                return read(arrays)
            what = "its contents do not match its checksum"
        except (OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
            what = str(error)
        except ValueError:  # NumPy's words are about pickles
            what = "it does not hold arrays"
        path = self._folder.path(f"{name}.npz")
        warn_user(f"The checkpoint file {path!r} is damaged ({what}); {otherwise}.", UserWarning)
        return None

    def _digest(self, part: str, arrays: Arrays) -> str:
        """Checksum of arrays that holds for this run and this part of it only."""
        return digest(f"{self._run} {part}", arrays)


def is_begun(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder has a run in it."""
    return folder_of(folder).has(HEADER)


class NoCheckpoint:
    """Keeps nothing: where the user named no folder."""

    def stage(self, name: str, make: Callable[[], Arrays]) -> Arrays:  # noqa: ARG002
        """What `make` gives."""
        return make()

    def save_member(self, number: int, member: Member) -> None:
        """Do nothing."""

    def load_member(self, number: int) -> None:  # noqa: ARG002
        """There is none."""
        return


@contextlib.contextmanager
def resume(folder: Any, random_state: Any, rows: Rows, parameters: Facts, engine: ThreadEngine) -> Iterator[Any]:
    """The seed of a fit, and its checkpoint."""
    if folder is None:
        yield seed_sequence(random_state), NoCheckpoint()
        return
    seed = None if random_state is None else seed_sequence(random_state)
    with engine.reporter.phase("checkpoint"):
        facts = {"data": describe_data(rows, engine), "parameters": parameters}
    with Checkpoint.open(folder, facts, seed) as checkpoint:
        yield checkpoint.seed, checkpoint


def describe_data(rows: Rows, engine: ThreadEngine) -> Facts:
    """Shape, type and checksum of all rows."""

    def checksum_of(block: Block, span: Span) -> bytes:  # noqa: ARG001
        arrays = (block.indptr, block.indices, block.data) if scipy.sparse.issparse(block) else (block,)
        checksum = hashlib.sha256()  # processors have instructions for it
        for array in arrays:
            checksum.update(array.dtype.str.encode())
            checksum.update(np.ascontiguousarray(array).data)
        return checksum.digest()

    content = hashlib.sha256(b"".join(engine.map_rows(rows, checksum_of)))
    kind = f"{'sparse ' if rows.sparse else ''}{rows.read(0, 1).dtype}"
    where = {"where": "on a cluster"} if rows.remote else {}
    return {"rows": rows.n_rows, "features": rows.n_features, "type": kind, "content": content.hexdigest(), **where}


def _entropy(seed: np.random.SeedSequence | None) -> Any:
    return (seed if seed is not None else np.random.SeedSequence()).entropy


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
            found = json.loads(file.read())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path!r} cannot be read ({error}). Delete the folder to start anew, or pass another."
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path!r} is not of this version's checkpoints. Pass another folder.")
    if not is_entropy(found.get("seed")):
        raise ValueError(f"{path!r} has no valid seed. Delete the folder to start anew, or pass another.")
    return found


def _differences(found: Facts, facts: Facts) -> Iterator[str]:
    for name in facts:
        there, here = found.get(name), facts[name]
        if there == here:
            continue
        if isinstance(here, dict):
            there = there if isinstance(there, dict) else {}
            changed = [key for key in here if there.get(key) != here[key]]
            yield from (f"{key} was {there.get(key)!r} and is {here[key]!r}" for key in changed if key != "content")
            if changed == ["content"]:
                yield "the values of X" + (" or its chunks" if "where" in here else "") + " differ"
        elif name == "seed":
            yield "random_state differs"
        else:
            yield f"{name} was {there!r} and is {here!r}"
