"""Files that are no models, damaged or altered on purpose: each is refused, by one kind of error."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.helpers.common import blobs
from tests.helpers.model_files import SMALL, X, fitted, packed, parts, refused, rewrite, same, write
from ultraspec import USENC, USPEC, load, save
from ultraspec.persistence.model_files import ModelFileError, ModelFileNotFoundError
from ultraspec.spectral import neighbors
from ultraspec.spectral.candidates import CANDIDATES
from ultraspec.spectral.neighbors import ProbeIndex

KINDS = ("USPEC", "USENC", "auto", "ensemble")


@pytest.fixture(params=["USPEC", "USENC"])
def model(request):
    return fitted(request.param)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def saved(model, path):
    save(model, path)
    return path


# Files that are no models


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("trap"),)


TERABYTES = {"representatives": {"dtype": "F32", "shape": [2**20, 2**20], "data_offsets": [0, 2**42]}}
NOT_MODELS = {
    "empty": (b"", "an empty file"),
    "one byte": (b"\0", "not a model file, or a damaged one"),
    "zeros": (bytes(1000), "not a model file"),
    "text": (b"n_clusters = 3\n" * 10, "not a model file"),
    "pickle": (pickle.dumps(Trap()), "a pickle, which may run any code.*ultraspec.save"),
    "old pickle": (pickle.dumps(Trap(), protocol=2), "a pickle"),
    "zip": (b"PK\x03\x04" + bytes(100), "a zip archive"),
    "header of terabytes": (struct.pack("<Q", 2**50) + b"{}", "not a model file"),
    "header of gigabytes": (struct.pack("<Q", 2**31) + b"{}", "not a model file"),
    "longest header": (struct.pack("<Q", 2**64 - 1) + b"{}", "not a model file"),
    "header beyond the end": (struct.pack("<Q", 1000) + b"{}", "not a model file"),
    "arrays of terabytes": (packed(TERABYTES), "not a model file"),
    "nested header": (packed(b"[" * 100_000), "not a model file"),
    "not UTF-8": (packed(b'{"\xff\xfe": 1}'), "not a model file"),
    "no arrays": (packed({}), "but not a model of ultraspec"),
    "nested": (packed({"__metadata__": {"ultraspec": "[" * 10**6}}), "header cannot be read"),
    "not JSON": (packed({"__metadata__": {"ultraspec": "x"}}), "header cannot be read"),
    "NaN": (packed({"__metadata__": {"ultraspec": '{"format": NaN}'}}), "header cannot be read.*NaN"),
    "endless number": (packed({"__metadata__": {"ultraspec": "9" * 10**5}}), "header cannot be read"),
    "long": (packed({"__metadata__": {"ultraspec": " " * (2**25 + 1)}}), "more than 33,554,432"),
    "a number": (packed({"__metadata__": {"ultraspec": "1"}}), "does not say 'ultraspec model'"),
    "a list": (packed({"__metadata__": {"ultraspec": "[]"}}), "does not say 'ultraspec model'"),
    "no format": (packed({"__metadata__": {"ultraspec": "{}"}}), "does not say 'ultraspec model'"),
    "no version": (packed({"__metadata__": {"ultraspec": '{"format": "ultraspec model"}'}}), "no valid version"),
}


@pytest.mark.parametrize("case", NOT_MODELS)
def test_files_of_other_kinds(case, path, monkeypatch):
    monkeypatch.chdir(path.parent)
    content, match = NOT_MODELS[case]
    path.write_bytes(content)
    refused(path, match)
    assert not Path("trap").exists()


def test_arrays_of_other_kinds(path, tmp_path):
    np.savez(path.with_suffix(".npz"), X)
    refused(path.with_suffix(".npz"), "a zip archive")
    np.save(path.with_suffix(".npy"), X)
    refused(path.with_suffix(".npy"), r"an \.npy array")
    network = {"layers.0.weight": np.zeros((64, 64), np.float16), "layers.0.bias": np.zeros(64, np.float16)}
    for metadata in (None, {"format": "pt"}):
        save_file(network, path, metadata)
        refused(path, "a safetensors file, but not a model of ultraspec")


def test_metadata_that_the_checksum_does_not_protect(saved):
    with safe_open(saved, "numpy") as file:
        metadata, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(arrays, saved, metadata)
    load(saved)
    save_file(arrays, saved, {**metadata, "note": "anything"})
    refused(saved, "metadata has 'note', which does not belong there")
    save_file(arrays, saved, {"ultraspec": '{"estimator": "other", ' + metadata["ultraspec"][1:]})
    refused(saved, "a key is repeated")


def test_places_without_a_file(tmp_path):
    refused(tmp_path, "a folder, not a model file")
    refused(tmp_path / "nowhere" / "model", "there is no such file")
    with pytest.raises(FileNotFoundError) as raised:
        load(tmp_path / "nowhere")
    assert raised.type is ModelFileNotFoundError
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "model")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_are_not_waited_for(path):
    os.mkfifo(path)
    refused(path, "not a regular file")


@pytest.mark.skipif(sys.platform == "win32", reason="needs sparse files")
def test_a_huge_file_is_not_read(saved):
    with open(saved, "r+b") as file:
        file.truncate(2**36 + 1)
    refused(saved, "no model has more than")


# Files that are damaged, by accident


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A file of a few KB, its bytes, its model and rows."""
    folder = tmp_path_factory.mktemp("tiny")
    rows, _ = blobs(90, k=2, d=2)
    files = {}
    small = {"n_representatives": 8, "n_neighbors": 2, "random_state": 0}
    members = {"n_estimators": 2, "base_clusters": (2, 3)}
    for name, model in {
        "USPEC": USPEC.paper(2, regularization=1e-3, **small),
        "USENC": USENC.paper(2, regularization=1e-3, **members, **small),
        "auto": USPEC(2, **small),
        "ensemble": USENC(2, **members, **small),
    }.items():
        save(model.fit(rows), folder / name)
        files[name] = (folder / name).read_bytes(), model, rows
    return folder / "damaged", files


def load_or_none(path):
    """The model, or None where the file is refused, which is all that may happen."""
    with contextlib.suppress(ModelFileError):
        return load(path)
    return None


def equal_or_refused(path, model, rows):
    other = load_or_none(path)
    if other is not None:
        same(model, other, rows)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(data=st.data())
def test_a_flipped_byte_is_noticed(tiny, kind, data):
    path, (content, model, rows) = tiny[0], tiny[1][kind]
    at, bits = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(1, 255))
    path.write_bytes(content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :])
    equal_or_refused(path, model, rows)


@pytest.mark.parametrize("kind", KINDS)
def test_every_flip_in_the_header_is_noticed(tiny, kind):
    """Flips of the lowest and of the sixth bit, which turns letters to capitals, in every 13th byte."""
    path, (content, model, rows) = tiny[0], tiny[1][kind]
    end = 8 + int.from_bytes(content[:8], "little")
    for at in range(KINDS.index(kind), end, 13):  # others in each kind of file
        for bits in (1, 32):
            path.write_bytes(content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :])
            equal_or_refused(path, model, rows)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80)
@given(data=st.data())
def test_a_part_of_a_file_is_refused(tiny, kind, data):
    path, content = tiny[0], tiny[1][kind][0]
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    refused(path, "empty file|not a model file")
    path.write_bytes(content + data.draw(st.binary(min_size=1, max_size=20)))
    refused(path, "not a model file")


@given(content=st.binary(max_size=200))
def test_any_bytes_are_refused(tiny, content):
    path = tiny[0]
    path.write_bytes(content)
    refused(path, "empty file|not a model")
    path.write_bytes(packed(content))
    refused(path, "not a model")


# Files that are altered on purpose: their checksums are right


def test_rewriting_alone_changes_nothing(model, saved):
    rewrite(saved)
    same(model, load(saved), X)


def put(name, value):
    return lambda place: place.__setitem__(name, value)


def drop(name):
    return lambda place: place.pop(name)


def edit(name, change):
    """Change an array in place, or put what the change returns."""

    def apply(arrays):
        array = arrays[name].copy()
        changed = change(array)
        arrays[name] = np.ascontiguousarray(array if changed is None else changed)

    return apply


def fill(value, at=0):
    return lambda array: array.reshape(-1).__setitem__(at, value)


HEADERS = {
    "future": (put("version", 9), "written by ultraspec 0.1.0, format 9; this is .*, which reads format 3: upgrade"),
    "past": (put("version", 0), "no valid version: format 0"),
    "true": (put("version", True), "no valid version"),
    "fraction": (put("version", 1.0), "no valid version"),
    "library": (put("library", None), "no valid version"),
    "extra": (put("code", "import os"), "its header has 'code'"),
    "lacking": (drop("facts"), "its header lacks facts"),
    "facts": (put("facts", []), r"its facts is no mapping but \[\]"),
    "class": (put("estimator", "os.system"), "an unknown estimator, 'os.system'; this ultraspec knows USENC, USPEC"),
    "escape": (put("estimator", "\x1b[2J" + "x" * 10**5), r"an unknown estimator, '\\x1b\[2Jxxx"),
    "no class": (put("estimator", ["USPEC"]), "an unknown estimator"),
    "no parameters": (put("parameters", None), "parameters are no mapping"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_altered_headers(case, saved):
    change, match = HEADERS[case]
    rewrite(saved, header=change)
    refused(saved, match)


def test_names_of_other_writers_do_not_reach_the_screen(saved):
    rewrite(saved, header=lambda header: header.update(version=9, library="\x1b[2J9"))
    refused(saved, r"written by ultraspec '\\x1b\[2J9', format 9")


PARAMETER_CHANGES = {
    "unknown": (put("__class__", 1), "has no parameter '__class__' in this release"),
    "path": (put("../../etc/passwd", 1), "has no parameter '../../etc/passwd'"),
    "kind": (put("n_clusters", {"a": 1}), "parameter n_clusters has an unknown kind of value"),
    "nested": (put("n_clusters", [[3]]), "parameter n_clusters has an unknown kind of value"),
    "list": (put("n_clusters", [3]), "not valid. n_clusters must be an integer"),
    "word": (put("n_clusters", "many"), "not valid. n_clusters must be"),
    "negative": (put("n_neighbors", -1), "not valid. n_neighbors must be"),
    "true": (put("n_init", True), "not valid. n_init must be"),
    "huge": (put("max_iter", 2**70), "parameter max_iter is too large"),
    "choice": (put("selection", "eval"), "not valid. selection must be one of"),
    "metric": (put("metric", None), "not valid. metric must be"),
    "number": (put("regularization", "1"), "not valid. regularization must be"),
    "huge number": (put("regularization", 1e308 * 10), None),
    "negative seed": (put("random_state", -1), "parameter random_state must be"),
    "seed": (put("random_state", "0"), "parameter random_state must be"),
    "long seed": (put("random_state", 2**5000), "parameter random_state must be"),
    "verbose": (put("verbose", "loud"), "parameter verbose must be"),
    "threads": (put("n_jobs", 10**9), "parameter n_jobs is too large"),
    "no threads": (put("n_jobs", 0), "not valid. n_jobs must be a non-zero integer"),
}
ENSEMBLE_PARAMETER_CHANGES = {
    "folder": (put("checkpoint", "/home/you/.ssh"), "parameter checkpoint names a folder"),
    "range": (put("base_clusters", [9, 3]), "not valid. base_clusters"),
    "numbers": (put("base_clusters", [2, 3, 4]), "not valid. base_clusters must be a pair"),
    "word": (put("base_clusters", "ab"), "not valid. base_clusters"),
    "consensus": (put("consensus", "magic"), "not valid. consensus must be"),
    "another consensus": (put("consensus", "auto"), "says 'auto', but it holds centres"),
}


@pytest.mark.parametrize("case", PARAMETER_CHANGES)
def test_altered_parameters(case, saved):
    change, match = PARAMETER_CHANGES[case]
    if match is None:
        with pytest.raises(ValueError, match="Out of range"):  # JSON has no infinity
            rewrite(saved, parameters=change)
        return
    rewrite(saved, parameters=change)
    refused(saved, match)


@pytest.mark.parametrize("case", ENSEMBLE_PARAMETER_CHANGES)
def test_altered_parameters_of_ensembles(case, path):
    save(fitted("USENC"), path)
    change, match = ENSEMBLE_PARAMETER_CHANGES[case]
    rewrite(path, parameters=change)
    refused(path, match)


def inside(name, change):
    return lambda facts: change(facts[name])


FACT_CHANGES = {
    "extra": (put("callback", "print"), "its facts has 'callback'"),
    "lacking": (drop("n_rows"), "its facts lacks n_rows"),
    "no rows": (put("n_rows", 0), "n_rows must be an integer"),
    "few rows": (put("n_rows", 2), r"cluster_centers has shape \(\d, \d\), for \d+ vectors and 2 rows"),
    "half a row": (put("n_rows", 1.5), "n_rows must be an integer"),
    "features": (put("n_features", 4), "offset has 3 entries for 4 features"),
    "many features": (put("n_features", 2**40), "n_features must be an integer from 1 to"),
    "iterations": (put("n_iter", -1), "n_iter must be an integer"),
    "names": (put("feature_names", ["a", "b"]), "2 names for 3 features"),
    "no names": (put("feature_names", ["a", "b", 3]), "feature_names must be a list of strings"),
    "a name": (put("feature_names", "abc"), "feature_names must be a list of strings"),
    "seed": (put("labels_seed", 3), "labels_seed is no mapping"),
    "entropy": (inside("labels_seed", put("entropy", -3)), "its seed is not valid"),
    "no entropy": (inside("labels_seed", put("entropy", [])), "its seed is not valid"),
    "much entropy": (inside("labels_seed", put("entropy", [1] * 1000)), "its seed is not valid"),
    "key": (inside("labels_seed", put("spawn_key", [2**40])), "spawn_key of its seed is not valid"),
    "keys": (inside("labels_seed", put("spawn_key", 3)), "spawn_key of its seed is not valid"),
    "metric": (put("metric", "manhattan"), "metric is unknown"),
    "cosine": (put("metric", "cosine"), "under the cosine metric"),
    "scale": (put("scale", 3.0), "scale must be a power of two"),
    "negative scale": (put("scale", -2.0), "scale must be a power of two"),
    "zero scale": (put("scale", 0.0), "scale must be a power of two"),
    "least scale": (put("scale", 2.0**-1060), "scale must be a power of two"),
    "whole scale": (put("scale", 1), "scale must be a power of two"),
    "great scale": (put("scale", 2.0**1023), "too large for its scale"),
}
SINGLE_FACT_CHANGES = {
    "sigma": (inside("model", put("sigma", 0.0)), "sigma must be a positive number"),
    "negative sigma": (inside("model", put("sigma", -1.0)), "sigma must be a positive number"),
    "tiny sigma": (inside("model", put("sigma", 1e-300)), "sigma must be a positive number"),
    "sigma as a word": (inside("model", put("sigma", "1")), "sigma must be a positive number"),
    "K": (inside("model", put("n_neighbors", 10**6)), "n_neighbors must be 1 to"),
    "no K": (inside("model", put("n_neighbors", 0)), "n_neighbors must be 1 to"),
    "exact": (inside("model", put("exact", 1)), "exact must be true or false"),
    "extra": (inside("model", put("lists", 1)), "its model entry has 'lists'"),
    "members": (put("members", []), "its facts has 'members'"),
    "no model": (put("model", None), "its model entry is no mapping"),
}
ENSEMBLE_FACT_CHANGES = {
    "no members": (put("members", []), "members must be a list"),
    "many members": (put("members", [{}] * 10**5), "members must be a list"),
    "more members": (lambda facts: facts["members"].append(facts["members"][0]), "'member.03.*is missing"),
    "fewer members": (lambda facts: facts["members"].pop(), "has an array 'member.02.*does not belong"),
    "a member": (lambda facts: facts["members"].__setitem__(1, 3), "its member.01 entry is no mapping"),
    "sigma": (lambda facts: facts["members"][1].update(sigma=0.0), "member.01.sigma must be"),
    "type": (put("base_label_type", "object"), "base_label_type must be"),
    "types": (put("base_label_type", ["uint8"]), "base_label_type must be"),
}


@pytest.mark.parametrize("case", FACT_CHANGES)
def test_altered_facts(case, saved):
    change, match = FACT_CHANGES[case]
    rewrite(saved, facts=change)
    refused(saved, match)


@pytest.mark.parametrize("case", SINGLE_FACT_CHANGES)
def test_altered_facts_of_a_model(case, path):
    save(fitted("USPEC"), path)
    rewrite(path, facts=SINGLE_FACT_CHANGES[case][0])
    refused(path, SINGLE_FACT_CHANGES[case][1])


@pytest.mark.parametrize("case", ENSEMBLE_FACT_CHANGES)
def test_altered_facts_of_an_ensemble(case, path):
    save(fitted("USENC"), path)
    rewrite(path, facts=ENSEMBLE_FACT_CHANGES[case][0])
    refused(path, ENSEMBLE_FACT_CHANGES[case][1])


def swap(array):
    array[:, [0, 1]] = array[:, [1, 0]]


ARRAY_CHANGES = {
    "missing": (drop("lists"), "its array 'lists' is missing"),
    "extra": (put("../../evil", np.zeros(1, np.float32)), "has an array '../../evil', which does not belong"),
    "half floats": (edit("vectors", lambda a: a.astype(np.float16)), "'vectors' has type 'F16', which no model has"),
    "bytes": (edit("lists", lambda a: a.astype(np.uint8)), "'lists' has type 'U8', which no model has"),
    "doubles": (edit("vectors", lambda a: a.astype(np.float64)), "vectors must be of type float32, not float64"),
    "signed": (edit("lists", lambda a: a.astype(np.int64)), "lists must be of type uint16, not int64"),
    "three axes": (edit("vectors", lambda a: a[None]), "'vectors' has shape .*, which no model has"),
    "no entries": (edit("vectors", lambda a: a[:0]), "'vectors' has shape .*, which no model has"),
    "one axis": (edit("lists", lambda a: a[0]), "lists must have 2 axes"),
    "two axes": (edit("starts", lambda a: a[None]), "starts must have 1 axes"),
    "NaN": (edit("representatives", fill(np.nan)), "representatives holds NaN or infinity"),
    "infinity": (edit("cluster_centers", fill(np.inf)), "cluster_centers holds NaN or infinity"),
    "NaN offset": (edit("offset", fill(np.nan)), "offset holds NaN or infinity"),
    "offset": (edit("offset", lambda a: a[:2]), "offset has 2 entries for 3 features"),
    "far offset": (edit("offset", fill(1.7e308)), None),
    "large": (edit("representatives", fill(1e30)), "representatives holds values that are too large"),
    "large centers": (edit("centers", fill(-1e30)), "centers holds values that are too large"),
    "features": (edit("representatives", lambda a: a[:, :2]), "do not have 3 features"),
    "features of centers": (edit("centers", lambda a: a[:, :2]), "do not have 3 features"),
    "fewer representatives": (edit("representatives", lambda a: a[:-1]), "starts does not divide 39"),
    "more representatives": (edit("representatives", lambda a: np.repeat(a, 2000, axis=0)), "80,000 representatives"),
    "starts late": (edit("starts", fill(1)), "starts does not divide"),
    "starts end early": (edit("starts", fill(39, -1)), "starts does not divide"),
    "starts end late": (edit("starts", fill(41, -1)), "starts does not divide"),
    "starts fall": (edit("starts", fill(-5, 1)), "starts does not divide"),
    "starts wrap": (edit("starts", fill(-(2**63), 1)), "starts does not divide"),
    "empty group": (edit("starts", fill(0, 1)), "starts does not divide"),
    "groups": (edit("centers", lambda a: a[:-1]), "starts does not divide"),
    "ids beyond": (edit("lists", fill(40, 1)), "lists has ids beyond the 40 representatives"),
    "ids far beyond": (edit("lists", fill(65535, -1)), "lists has ids beyond the 40 representatives"),
    "fewer lists": (edit("lists", lambda a: a[:-1]), "lists has ids beyond .*, or another length"),
    "long lists": (edit("lists", lambda a: np.hstack([a, a])), "lists has ids beyond .*, or another length"),
    "short lists": (edit("lists", lambda a: a[:, :3]), "n_neighbors must be 1 to 3"),
    "others first": (edit("lists", swap), "lists does not list the neighbours of each"),
    "twice": (edit("lists", lambda a: a.__setitem__((0, 2), a[0, 1])), "lists does not list the neighbours of each"),
    "fewer vectors": (edit("vectors", lambda a: a[:-1]), r"vectors has shape \(39, \d+\), for 40 points"),
    "fewer columns": (edit("vectors", lambda a: a[:, :-1]), "vectors has shape"),
    "large vectors": (edit("vectors", fill(3e38)), "vectors holds values that are too large"),
    "eigenvalues": (edit("eigenvalues", lambda a: a[:-1]), "vectors has shape"),
    "eigenvalue": (edit("eigenvalues", fill(1.5)), "eigenvalues does not fall from 1 to 0"),
    "negative eigenvalue": (edit("eigenvalues", fill(-0.1, -1)), "eigenvalues does not fall from 1 to 0"),
    "eigenvalues rise": (edit("eigenvalues", lambda a: a[::-1]), "eigenvalues does not fall from 1 to 0"),
    "wide centers": (edit("cluster_centers", lambda a: np.tile(a, 50)), "cluster_centers has shape"),
    "many centers": (edit("cluster_centers", lambda a: np.tile(a, (500, 1))), "for .* vectors and 600 rows"),
    "large cluster centers": (edit("cluster_centers", fill(9.0)), "cluster_centers holds values that are too large"),
}


@pytest.mark.parametrize("case", ARRAY_CHANGES)
def test_altered_arrays(case, path):
    save(fitted("USPEC"), path)
    change, match = ARRAY_CHANGES[case]
    rewrite(path, arrays=change)
    if match is None:
        load(path).predict(X)
    else:
        refused(path, match)


VOTE_CHANGES = {
    "degrees": (edit("degrees", lambda a: a[:-1]), "degrees does not weigh 40 points"),
    "negative degree": (edit("degrees", fill(-1.0)), "degrees does not weigh 40 points"),
    "no degrees": (edit("degrees", lambda a: 0 * a), "degrees does not weigh 40 points"),
    "fewer groups": (edit("groups", lambda a: a[:-1]), "groups does not give each of 40 representatives"),
    "group beyond": (edit("groups", fill(40)), "groups does not give each of 40 representatives"),
    "group below": (edit("groups", fill(-1)), "groups does not give each of 40 representatives"),
    "empty group": (edit("groups", lambda a: a + 1), "groups leaves one of 5 clusters without"),
    "centres too": (put("cluster_centers", np.zeros((4, 4), np.float32)), "has an array 'cluster_centers'"),
    "no groups": (drop("groups"), "discretize says 'auto', but it holds centres"),
    "numbers too": (put("cluster_numbers", np.arange(4, dtype=np.int32)), "has an array 'cluster_numbers'"),
    "a tree too": (put("merges", np.zeros((39, 2), np.int64)), "has an array 'merges'"),
}


@pytest.mark.parametrize("case", VOTE_CHANGES)
def test_altered_votes(case, path):
    save(fitted("auto"), path)
    rewrite(path, arrays=VOTE_CHANGES[case][0])
    refused(path, VOTE_CHANGES[case][1])


# The trees of all candidates, and the other graphs
CHOICE_CHANGES = {
    "no first graph": (drop("own.nodes"), "which does not belong there"),
    "no nodes of a judge": (drop("judge0.nodes"), "has an array 'judge0.*does not belong there"),
    "no nodes of the last judge": (drop("judge1.nodes"), "has an array 'judge1.*does not belong there"),
    "a judge too many": (put("judge2.nodes", np.zeros(9, np.int32)), "its array 'judge2.* is missing"),
    "a judge by another name": (put("judge9.nodes", np.zeros(9, np.int32)), "has an array 'judge9.nodes'"),
    "fewer nodes": (edit("own.nodes", lambda a: a[:-1]), "own.nodes does not give each of 40 representatives a leaf"),
    "no node": (edit("own.nodes", lambda a: a[:0]), "'own.nodes' has shape .*, which no model has"),
    "node beyond": (edit("judge0.nodes", fill(2**31 - 1)), "judge0.nodes does not give each of 40"),
    "node below": (edit("own.nodes", fill(-(2**31))), "own.nodes does not give each of 40"),
    "node without representatives": (edit("own.nodes", lambda a: a + 1), "own.nodes does not give each of 40"),
    "a single node": (edit("own.nodes", lambda a: 0 * a), "has an array 'own.agreement.heights'"),
    "nodes as floats": (edit("own.nodes", lambda a: a.astype(np.float32)), "own.nodes must be of type int32"),
    "nodes of two axes": (edit("own.nodes", lambda a: a[None]), "own.nodes must have 1 axes"),
    "no seed": (drop("own.seed"), "'own.seed' is missing"),
    "some sums": (drop("sums.counts"), "'sums.counts' is missing"),
    "sums of fewer rows": (edit("sums.starts", lambda a: a[:-1]), "sums.starts does not divide .* sums into 40 rows"),
    "sums beyond the end": (edit("sums.starts", lambda a: a + 1), "sums.starts does not divide"),
    "sums in disorder": (edit("sums.starts", lambda a: np.r_[a[0], a[-2:0:-1], a[-1]]), "sums.starts does not divide"),
    "columns beyond": (edit("sums.columns", fill(40)), "not the upper triangle of a graph of 40"),
    "lower triangle": (edit("sums.columns", lambda a: 0 * a), "not the upper triangle"),
    "signed columns": (edit("sums.columns", lambda a: a.astype(np.int32)), "sums.columns must be of type uint16"),
    "fewer sums": (edit("sums.values", lambda a: a[:-1]), "sums.starts does not divide"),
    "negative sum": (edit("sums.values", fill(-1.0)), "sums.values and sums.counts do not weigh"),
    "NaN sum": (edit("sums.values", fill(np.nan)), "sums.values holds NaN or infinity"),
    "huge sum": (edit("sums.values", fill(1e300)), "sums.values and sums.counts do not weigh"),
    "no sums": (edit("sums.values", lambda a: 0 * a), "sums.values and sums.counts do not weigh"),
    "fewer counts": (edit("sums.counts", lambda a: a[:-1]), "sums.values and sums.counts do not weigh"),
    "no rows": (edit("sums.counts", lambda a: 0 * a), "sums.values and sums.counts do not weigh"),
    "no totals": (edit("sums.totals", lambda a: a[:-1]), "sums.totals is not valid"),
    "negative mass": (edit("sums.totals", lambda a: -a), "sums.totals is not valid"),
    "negative seed": (edit("own.seed", fill(-1)), "own.seed is no seed"),
    "seeds": (edit("judge1.seed", lambda a: np.tile(a, 9)), "judge1.seed is no seed"),
    "no edges": (drop("own.ids"), "'own.ids' is missing"),
    "no edges of a judge": (drop("judge1.ids"), "'judge1.ids' is missing"),
    "no weights": (drop("judge0.weights"), "'judge0.weights' is missing"),
    "edges of no rows": (edit("judge0.ids", lambda a: a[:0]), "'judge0.ids' has shape .*, which no model has"),
    "edges of fewer rows": (edit("judge0.ids", lambda a: a[:-1]), "judge0.ids and judge0.weights are not the edges of"),
    "narrow edges": (edit("own.ids", lambda a: a[:, :1]), "own.ids and own.weights are not the edges of 600 rows"),
    "ids beyond": (edit("own.ids", fill(40)), "no edges to 40 representatives"),
    "ids far beyond": (edit("judge1.ids", fill(65535, -1)), "judge1.* no edges to 40 representatives"),
    "signed ids": (edit("own.ids", lambda a: a.astype(np.int32)), "own.ids must be of type uint16"),
    "NaN weight": (edit("own.weights", fill(np.nan)), "own.weights holds NaN or infinity"),
    "huge weight": (edit("judge0.weights", fill(3e38)), "judge0.* no edges to"),
    "negative weight": (edit("own.weights", fill(-1.0)), "own.* no edges to"),
    "no vectors": (drop("judge0.vectors"), "'judge0.vectors' is missing"),
    "fewer vectors": (
        edit("judge0.vectors", lambda a: a[:-1]),
        r"judge0.vectors has shape \(39, 40\)",
    ),
    "more representatives": (edit("judge0.vectors", lambda a: np.tile(a, (2000, 1))), "it has 80,000 representatives"),
    "NaN vectors": (edit("judge1.vectors", fill(np.nan)), "judge1.vectors holds NaN"),
    "huge vectors": (edit("judge1.vectors", fill(1e30)), "judge1.vectors holds values that are too large"),
    "eigenvalues rise": (edit("judge0.eigenvalues", lambda a: a[::-1]), "judge0.eigenvalues does not fall"),
    "no degrees": (edit("judge0.degrees", lambda a: 0 * a), "judge0.degrees does not weigh 40 points"),
    "negative degree": (edit("judge0.degrees", fill(-1.0)), "judge0.degrees does not weigh 40 points"),
    "vectors of the first graph": (put("own.vectors", np.ones((40, 3), np.float32)), "has an array 'own.vectors'"),
}
for graph in ("own", "judge1"):
    for tree in ("agreement", "linked", "border"):
        at = f"{graph}.{tree}"
        CHOICE_CHANGES |= {
            f"{at}: no merges": (drop(f"{at}.merges"), f"'{at}.merges' is missing"),
            f"{at}: no heights": (drop(f"{at}.heights"), f"'{at}.heights' is missing"),
            f"{at}: no masses": (drop(f"{at}.masses"), f"'{at}.masses' is missing"),
            f"{at}: short": (edit(f"{at}.merges", lambda a: a[:-1]), "is not of a tree of"),
            f"{at}: long": (edit(f"{at}.merges", lambda a: np.vstack([a, a[-1:]])), "is not of a tree of"),
            f"{at}: three columns": (edit(f"{at}.merges", lambda a: np.hstack([a, a[:, :1]])), "is not of a tree of"),
            f"{at}: heights": (edit(f"{at}.heights", lambda a: a[:-1]), "is not of a tree of"),
            f"{at}: masses": (edit(f"{at}.masses", lambda a: a[:-1]), "is not of a tree of"),
            f"{at}: NaN": (edit(f"{at}.heights", fill(np.nan)), "heights holds NaN or infinity"),
            f"{at}: itself": (edit(f"{at}.merges", lambda a: fill(len(a) + 1)(a)), "merges is no tree"),
            f"{at}: later": (edit(f"{at}.merges", lambda a: fill(2 * len(a))(a)), "merges is no tree"),
            f"{at}: far beyond": (edit(f"{at}.merges", fill(2**62)), "merges is no tree"),
            f"{at}: below": (edit(f"{at}.merges", fill(-1)), "merges is no tree"),
            f"{at}: twice": (edit(f"{at}.merges", lambda a: a.__setitem__((1, 0), a[0, 0])), "merges is no tree"),
        }


@pytest.mark.parametrize("case", CHOICE_CHANGES)
def test_altered_choices(case, path):
    save(fitted("auto"), path)
    rewrite(path, arrays=CHOICE_CHANGES[case][0])
    refused(path, CHOICE_CHANGES[case][1])


AGREEMENTS = dict.fromkeys(["agreement", "linked", "border", "kmeans"], 0.5)
AGREEMENT_CHANGES = {
    "a list": ([0.5], "agreements are not of the candidates"),
    "another candidate": ({**AGREEMENTS, "magic": 0.5}, "agreements are not of the candidates"),
    "one missing": ({"kmeans": 0.5}, "agreements are not of the candidates"),
    "a word": ({**AGREEMENTS, "kmeans": "high"}, "agreements are no adjusted Rand indices"),
    "a whole number": ({**AGREEMENTS, "kmeans": 1}, "agreements are no adjusted Rand indices"),
    "too large": ({**AGREEMENTS, "kmeans": 2.0}, "agreements are no adjusted Rand indices"),
    "too small": ({**AGREEMENTS, "kmeans": -2.0}, "agreements are no adjusted Rand indices"),
}


@pytest.mark.parametrize("case", AGREEMENT_CHANGES)
def test_altered_agreements(case, path):
    save(fitted("auto"), path)
    value, match = AGREEMENT_CHANGES[case]
    rewrite(path, facts=put("agreements", value))
    refused(path, match)


def test_agreements_are_sorted_again(path):
    save(fitted("auto"), path)
    values = {"agreement": 0.25, "linked": 0.5, "border": 0.75, "kmeans": 0.75}
    rewrite(path, facts=put("agreements", values))
    model = load(path)
    assert list(model.candidates_) == ["border", "kmeans", "linked", "agreement"]
    assert model.discretize_ == "border"


PROJECTION_CHANGES = {
    "no basis": (drop("basis"), "its array 'basis' is missing"),
    "no center": (drop("center"), "its array 'center' is missing"),
    "fewer features": (edit("basis", lambda a: a[:-1]), r"basis has shape \(11, 4\), for 12 features"),
    "fewer components": (edit("basis", lambda a: a[:, :-1]), r"basis has shape \(12, 3\)"),
    "fewer components of the mean": (edit("center", lambda a: a[:-1]), "basis has shape .* and 3 components"),
    "NaN": (edit("basis", fill(np.nan)), "basis holds NaN or infinity"),
    "infinite mean": (edit("center", fill(np.inf)), "center holds NaN or infinity"),
    "long directions": (edit("basis", lambda a: 2 * a), "basis holds values that are too large for directions"),
    "huge direction": (edit("basis", fill(3e38)), "basis holds values that are too large for directions"),
    "distant mean": (edit("center", fill(3e38)), "center holds values that are too large"),
    "doubles": (edit("basis", lambda a: a.astype(np.float64)), "basis must be of type float32"),
    "one axis": (edit("basis", lambda a: a[0]), "basis must have 2 axes"),
    "no entries": (edit("center", lambda a: a[:0]), "'center' has shape .*, which no model has"),
}


@pytest.mark.parametrize("kind", [USPEC, USENC])
@pytest.mark.parametrize("case", PROJECTION_CHANGES)
@pytest.mark.filterwarnings("ignore:base_clusters was")
def test_altered_projections(case, kind, path):
    more = {"n_estimators": 2, "base_clusters": (4, 8)} if kind is USENC else {}
    save(kind(4, n_components=4, **more, **SMALL).fit(blobs(600, d=12)[0]), path)
    rewrite(path, arrays=PROJECTION_CHANGES[case][0])
    refused(path, PROJECTION_CHANGES[case][1])


def test_representatives_have_as_many_features_as_components(path):
    save(USPEC(4, n_components=4, **SMALL).fit(blobs(600, d=12)[0]), path)
    rewrite(path, arrays=edit("representatives", lambda a: np.tile(a, 3)))
    refused(path, "representatives or centers do not have 4 features")


def test_as_many_components_as_features_are_refused(path):
    save(fitted("USPEC"), path)
    basis = {"basis": np.eye(3, dtype=np.float32), "center": np.zeros(3, np.float32)}
    rewrite(path, arrays=lambda arrays: arrays.update(basis))
    refused(path, r"basis has shape \(3, 3\), for 3 features and 3 components")


@pytest.fixture(scope="module")
def probing():
    """A model whose index probes, as one of many representatives of many rows would."""
    rows = blobs(3000, d=12)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "EXACT_REPRESENTATIVES", 50)
        patch.setattr(neighbors, "MOST_CANDIDATES", 1.0)
        model = USPEC(4, n_representatives=100, random_state=0).fit(rows)
    assert isinstance(model._fitted.model.index, ProbeIndex)
    return model, rows


PROBE_CHANGES = {
    "groups beyond": (edit("lists", fill(10, 1)), "lists has ids beyond the 10 groups"),
    "groups far beyond": (edit("lists", fill(65535, -1)), "lists has ids beyond the 10 groups"),
    "fewer lists": (edit("lists", lambda a: a[:-1]), "lists has ids beyond the 10 groups, or another length"),
    "groups twice": (edit("lists", lambda a: a.__setitem__((0, 2), a[0, 1])), "each of 10 groups once, itself first"),
    "others first": (edit("lists", swap), "each of 10 groups once, itself first"),
    "starts": (edit("starts", fill(0, 1)), "starts does not divide"),
}


@pytest.mark.parametrize("case", PROBE_CHANGES)
def test_altered_lists_of_groups(case, path, probing):
    save(probing[0], path)
    rewrite(path, arrays=PROBE_CHANGES[case][0])
    refused(path, PROBE_CHANGES[case][1])


@pytest.mark.parametrize("exact", [False, True])
def test_more_neighbours_than_there_are_candidates(path, probing, exact):
    """The kernel would read beyond the candidates of a row."""
    model, _ = probing
    fewest = int(np.diff(model._fitted.model.index.starts).min())
    save(model, path)
    rewrite(
        path,
        facts=inside("model", lambda entry: entry.update(n_neighbors=fewest + 1, exact=exact)),
        arrays=edit("lists", lambda a: a[:, :1]),
    )
    refused(path, f"n_neighbors must be 1 to {fewest}, got {fewest + 1}")


GRAPH_CHANGES = {
    "half a tree": (edit("member.00.own.agreement.merges", lambda a: a[:-1]), "is not of a tree of"),
    "node too early": (edit("member.01.own.border.merges", fill(2000)), "merges is no tree"),
    "common rows": (edit("member.02.own.ids", fill(2000)), "are no edges to"),
    "leaves": (edit("member.00.own.nodes", fill(-1)), "nodes does not give each of"),
    "groups": (edit("consensus.groups", fill(40)), "consensus.groups does not give each of 40 representatives"),
    "no trees": (drop("member.00.own.nodes"), "has an array 'member.00.own."),
}


@pytest.mark.parametrize("case", GRAPH_CHANGES)
def test_altered_graphs_of_an_ensemble(case, path):
    save(fitted("ensemble"), path)
    rewrite(path, arrays=GRAPH_CHANGES[case][0])
    refused(path, GRAPH_CHANGES[case][1])


ENSEMBLE_ARRAY_CHANGES = {
    "missing": (drop("member.01.starts"), "'member.01.starts' is missing"),
    "another member": (put("member.1.starts", np.zeros(1, np.int64)), "has an array 'member.1.starts'"),
    "ids beyond": (edit("member.02.lists", fill(40, 1)), "member.02.lists has ids beyond"),
    "base clusters": (edit("member.01.cluster_centers", lambda a: a[:-1]), r"consensus.vectors has shape"),
    "consensus": (edit("consensus.vectors", lambda a: a[:-1]), r"consensus.vectors has shape"),
    "NaN": (edit("consensus.vectors", fill(np.nan)), "consensus.vectors holds NaN"),
    "large": (edit("member.00.vectors", fill(-3e38)), "member.00.vectors holds values that are too large"),
    "features": (edit("member.00.representatives", lambda a: a[:, :1]), "member.00.* do not have 3 features"),
}


@pytest.mark.parametrize("case", ENSEMBLE_ARRAY_CHANGES)
def test_altered_arrays_of_an_ensemble(case, path):
    save(fitted("USENC"), path)
    rewrite(path, arrays=ENSEMBLE_ARRAY_CHANGES[case][0])
    refused(path, ENSEMBLE_ARRAY_CHANGES[case][1])


def test_more_base_clusters_than_their_type_counts(path):
    save(fitted("USENC"), path)

    def grow(arrays):
        arrays["member.00.cluster_centers"] = np.tile(arrays["member.00.cluster_centers"][:1], (300, 1))

    rewrite(path, arrays=grow)
    refused(path, "a member has 300 clusters, more than uint8 can number")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
ODD = st.sampled_from(
    [0, 1, -1, 2, 7, 255, 65535, 2**31, -(2**31), 2**63 - 1, 1e-40, 1e20, 1e38, np.nan, -np.inf, 1e300]
)


def leaves(place, key=()):
    """Keys of all places in a header."""
    for name in place if isinstance(place, dict) else range(len(place)):
        yield (*key, name)
        if isinstance(place[name], (dict, list)):
            yield from leaves(place[name], (*key, name))


def harmless_or_refused(path, rows):
    """A model that passes all checks may be wrong, but it labels rows with its clusters' numbers."""
    model = load_or_none(path)
    if model is not None:
        assert set(model.predict(rows)) <= set(range(model.n_clusters_))
        assert model.transform(rows).shape[0] == len(rows)
        if isinstance(model, USPEC) and model._fitted.model.choice is not None and model._fitted.n_rows == len(rows):
            for discretize in ("auto", *CANDIDATES):
                with contextlib.suppress(ValueError):  # rows that were not fitted, or too few leaves
                    cut = model.cut(3, rows, discretize=discretize)
                    assert set(cut.labels_) <= set(range(3))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(data=st.data())
def test_any_value_in_the_header(tiny, kind, data):
    path, (content, _, rows) = tiny[0], tiny[1][kind]
    path.write_bytes(content)
    header, arrays = parts(path)
    del header["sha256"]
    *keys, last = data.draw(st.sampled_from(list(leaves(header))))
    place = header
    for key in keys:
        place = place[key]
    place[last] = data.draw(JSON)
    write(path, header, arrays)
    harmless_or_refused(path, rows)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:Found", "ignore:divide by zero")
def test_any_values_in_the_arrays(tiny, kind, data):
    path, (content, _, rows) = tiny[0], tiny[1][kind]
    path.write_bytes(content)
    header, arrays = parts(path)
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name].copy()
    for _ in range(data.draw(st.integers(1, 3))):
        value, at = data.draw(ODD), data.draw(st.integers(0, array.size - 1))
        if array.dtype.kind in "iu" and not (np.isfinite(value) and np.iinfo(array.dtype).min <= value):
            continue
        with np.errstate(over="ignore"):
            array.reshape(-1)[at] = min(value, np.iinfo(array.dtype).max) if array.dtype.kind in "iu" else value
    arrays[name] = array[: data.draw(st.integers(1, len(array)))] if data.draw(st.booleans()) else array
    write(path, header, arrays)
    harmless_or_refused(path, rows)
