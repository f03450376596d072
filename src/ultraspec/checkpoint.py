"""Finished members of an ensemble on disk, so that a killed fit goes on where it stopped.

A folder holds ``ensemble.json``, which tells what run it belongs to, and one file per finished member. Files are
written under another name, flushed and renamed: each is whole or absent, whenever the process is killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ultraspec._files import digest, write_whole
from ultraspec._model_checks import check_member, is_entropy
from ultraspec._validation import seed_sequence, warn_user
from ultraspec._version import __version__
from ultraspec.engines import ThreadEngine
from ultraspec.members import Member, Recipe
from ultraspec.phases import Model
from ultraspec.rows import Rows

HEADER = "ensemble.json"
FORMAT = "ultraspec checkpoint 1"

Facts = dict[str, Any]


class Checkpoint:
    """The folder of one run.

    Parameters
    ----------
    folder : Path
        Where the files are.
    facts : dict
        What the run is: its data, parameters and seed, as in ``ensemble.json``.
    """

    def __init__(self, folder: Path, facts: Facts) -> None:
        self._folder, self.facts = folder, facts
        self._run = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: str | os.PathLike[str], facts: Facts, seed: np.random.SeedSequence | None) -> Iterator[Any]:
        """A new or an unfinished run's folder, locked for this process; refuses that of another run.

        `seed` is None where the user gave none: an unfinished run then goes on with its own.
        """
        path = Path(folder).expanduser()
        if path.exists() and not path.is_dir():
            raise ValueError(f"checkpoint={str(folder)!r} is a file. Pass a folder, new or of an earlier run.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"The checkpoint folder {str(folder)!r} cannot be made: {error.strerror}.") from error
        _read_header(path)  # refuses folders of other things before anything is written there
        with _lock(path):
            found = _read_header(path)
            entropy = found.get("seed") if found is not None and seed is None else _entropy(seed)
            facts = {"format": FORMAT, "library": __version__, **facts, "seed": entropy}
            if found is None or not any(path.glob("member-*.npz")):
                _write(path / HEADER, lambda file: file.write(json.dumps(facts, indent=1).encode()))
            elif found != facts:
                differences = "; ".join(_differences(found, facts))
                raise ValueError(
                    f"The checkpoint folder {str(folder)!r} belongs to another run: {differences}. "
                    "Pass another folder, or delete this one to start anew."
                )
            yield cls(path, facts)

    @property
    def seed(self) -> np.random.SeedSequence:
        """The run's seed."""
        return np.random.SeedSequence(self.facts["seed"])

    def save(self, number: int, member: Member) -> None:
        """Write a member, whole or not at all."""
        arrays: dict[str, Any] = {"labels": member.labels, **member.model.arrays()}
        arrays["digest"] = np.array(self._digest(number, arrays))
        _write(self._path(number), lambda file: np.savez(file, **arrays))

    def load(self, number: int) -> Member | None:
        """A member, or None where it is not there or damaged."""
        path = self._path(number)
        if not path.exists():
            return None
        try:
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            if str(arrays.pop("digest", "")) == self._digest(number, arrays):
                check_member(arrays, self.facts["data"]["rows"], self.facts["data"]["features"])
                return Member(Model.of_arrays(arrays), arrays["labels"])
            what = "its contents do not match its checksum"
        except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
            what = str(error)
        warn_user(f"The checkpoint file {str(path)!r} is damaged ({what}); this member is made anew.", UserWarning)
        return None

    def _path(self, number: int) -> Path:
        return self._folder / f"member-{number:04d}.npz"

    def _digest(self, number: int, arrays: dict[str, Any]) -> str:
        """Checksum of a member's arrays that holds for this run and this member only."""
        return digest(f"{self._run} {number}", arrays)


@contextlib.contextmanager
def resume(folder: Any, random_state: Any, rows: Rows, recipe: Recipe, engine: ThreadEngine) -> Iterator[Any]:
    """The seed of a fit, and its checkpoint, or None where there is no folder."""
    if folder is None:
        yield seed_sequence(random_state), None
        return
    seed = None if random_state is None else seed_sequence(random_state)
    with engine.reporter.phase("checkpoint"):
        facts = {"data": describe_data(rows, engine), "parameters": recipe.describe()}
    with Checkpoint.open(folder, facts, seed) as checkpoint:
        yield checkpoint.seed, checkpoint


def describe_data(rows: Rows, engine: ThreadEngine) -> Facts:
    """Shape, type and checksum of all rows."""

    def checksum_of(span: tuple[int, int]) -> bytes:
        block = rows.read(*span)
        arrays = (block.indptr, block.indices, block.data) if scipy.sparse.issparse(block) else (block,)
        checksum = hashlib.blake2b(digest_size=32)
        for array in arrays:
            checksum.update(array.dtype.str.encode())
            checksum.update(np.ascontiguousarray(array).data)
        return checksum.digest()

    content = hashlib.sha256(b"".join(engine.map(checksum_of, rows.blocks())))
    kind = f"{'sparse ' if rows.sparse else ''}{rows.read(0, 1).dtype}"
    return {"rows": rows.n_rows, "features": rows.n_features, "type": kind, "content": content.hexdigest()}


def _entropy(seed: np.random.SeedSequence | None) -> Any:
    return (seed if seed is not None else np.random.SeedSequence()).entropy


def _read_header(folder: Path) -> Facts | None:
    path = folder / HEADER
    if not path.exists():
        others = [name for name in os.listdir(folder) if name != "lock" and not name.endswith(".tmp")]
        if others:
            raise ValueError(
                f"The folder {str(folder)!r} has files ({', '.join(sorted(others)[:3])}) but is no checkpoint. "
                "Pass a new or an empty folder."
            )
        return None
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} cannot be read ({error}). Delete the folder to start anew, or pass another."
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{str(path)!r} is not of this version's checkpoints. Pass another folder.")
    if not is_entropy(found.get("seed")):
        raise ValueError(f"{str(path)!r} has no valid seed. Delete the folder to start anew, or pass another.")
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
                yield "the values of X differ"
        elif name == "seed":
            yield "random_state differs"
        else:
            yield f"{name} was {there!r} and is {here!r}"


def _write(path: Path, fill: Any) -> None:
    """Write a file, whole or not at all; the folder is this process's alone, so one other name will do."""
    write_whole(path, fill, scratch=path.with_name(path.name + ".tmp"))


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep other processes out; the system lifts the lock when this one ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with open(folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"Another fit is using the checkpoint folder {str(folder)!r} right now.") from error
        yield
