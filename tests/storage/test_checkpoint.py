"""Checkpoints: results of a fit that is killed are used when it is run again, and those of other runs are not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.helpers.common import ROOT, blobs, documents
from ultraspec import USENC, datasets
from ultraspec.ensemble import members
from ultraspec.ensemble.members import run_member
from ultraspec.storage import checkpoint
from ultraspec.storage.checkpoint import Checkpoint, NoCheckpoint, is_begun
from ultraspec.storage.folders import Folder

X, _ = datasets.generate("sf", 3000, random_state=0)


# Results


class Pair:
    """A result that is not an array."""

    def __init__(self, left, right):
        self.left = left
        self.right = right

    def arrays(self):
        return {"left": self.left, "right": np.asarray(self.right)}

    @classmethod
    def from_arrays(cls, arrays):
        if len(arrays["left"]) != 3:
            raise ValueError("its left part has another length")
        return cls(arrays["left"], float(arrays["right"]))


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.calls = 0
        self._function = function

    def __call__(self, *args):
        self.calls += 1
        return self._function(*args)


def opened(folder, facts=None, seed=7):
    return Checkpoint.open(folder, facts or {"data": 1}, None if seed is None else np.random.SeedSequence(seed))


def test_arrays_are_stored_and_restored(tmp_path):
    double = Counted(lambda x: 2 * np.arange(x))
    for _ in range(2):
        with opened(tmp_path) as run:
            result = run.run("doubled", double, 4)
            assert result.tolist() == [0, 2, 4, 6]
            assert result.dtype == np.int64
    assert double.calls == 1
    assert sorted(path.name for path in tmp_path.glob("*.npz")) == ["doubled.npz"]


def test_objects_are_stored_and_restored(tmp_path):
    make_pair = Counted(Pair)
    for _ in range(2):
        with opened(tmp_path) as run:
            pair = run.run("pair", make_pair, np.arange(3.0), 0.5, restore=Pair.from_arrays)
        assert type(pair) is Pair
        assert pair.left.tolist() == [0, 1, 2]
        assert pair.right == 0.5
    assert make_pair.calls == 1


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-50]), ""),
        (lambda path: path.write_bytes(b""), ""),
        (lambda path: np.savez(path, left=np.arange(3.0), right=np.asarray(0.5)), "do not match its checksum"),
        (lambda path: shutil.copy(path.with_name("other.npz"), path), "do not match its checksum"),
    ],
    ids=["truncated", "empty", "no checksum", "of another name"],
)
def test_damaged_results_are_computed_again(tmp_path, damage, reason):
    with opened(tmp_path) as run:
        for name in ("pair", "other"):
            run.run(name, Pair, np.arange(3.0), 0.5, restore=Pair.from_arrays)
    damage(tmp_path / "pair.npz")
    make_pair = Counted(Pair)
    with opened(tmp_path) as run, pytest.warns(UserWarning, match=rf"pair\.npz' is damaged \(.*{reason}"):
        assert run.run("pair", make_pair, np.arange(3.0), 0.5, restore=Pair.from_arrays).right == 0.5
    assert make_pair.calls == 1
    with opened(tmp_path) as run:  # the file was written again
        run.run("pair", make_pair, np.arange(3.0), 0.5, restore=Pair.from_arrays)
    assert make_pair.calls == 1


def test_results_that_cannot_be_restored_are_computed_again(tmp_path):
    with opened(tmp_path) as run:
        run.run("pair", Pair, np.arange(2.0), 0.5, restore=Pair.from_arrays)
        with pytest.warns(UserWarning, match="it does not hold valid arrays"):
            run.run("pair", Pair, np.arange(3.0), 0.5, restore=Pair.from_arrays)
        with pytest.warns(UserWarning, match="it does not hold valid arrays"):  # two arrays where one is expected
            assert run.run("pair", np.ones, 3).tolist() == [1, 1, 1]


def test_results_of_another_run_are_not_taken(tmp_path):
    for name, facts in (("one", {"data": 1}), ("two", {"data": 2})):
        with opened(tmp_path / name, facts) as run:
            run.run("ones", np.ones, 3)
    shutil.copy(tmp_path / "one" / "ones.npz", tmp_path / "two")
    with opened(tmp_path / "two", {"data": 2}) as run, pytest.warns(UserWarning, match="do not match its checksum"):
        run.run("ones", np.ones, 3)


def test_a_run_keeps_its_seed(tmp_path):
    with opened(tmp_path, seed=None) as run:
        entropy = run.seed.entropy
        run.run("ones", np.ones, 3)
    with opened(tmp_path, seed=None) as run:
        assert run.seed.entropy == entropy
    with pytest.raises(ValueError, match="random_state differs"), opened(tmp_path, seed=5):
        pass


def test_runs_without_results_may_change(tmp_path):
    with opened(tmp_path, {"data": 1}):
        pass
    assert is_begun(tmp_path)
    assert not is_begun(tmp_path / "other")
    with opened(tmp_path, {"data": 2}, seed=8) as run:
        assert run.facts["data"] == 2


def test_without_a_folder_results_are_computed():
    double = Counted(lambda x: 2 * x)
    assert [NoCheckpoint().run("doubled", double, x, restore=None) for x in (1, 2)] == [2, 4]
    assert double.calls == 2


# Ensembles


def make(folder, **options):
    defaults = {"n_estimators": 5, "n_representatives": 150, "consensus": "transfer_cut", "random_state": 0}
    return USENC(4, **{**defaults, **options}, checkpoint=folder)


@pytest.fixture(scope="module")
def labels():
    model = make(None).fit(X)
    return model.labels_, model.base_labels_


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    make(folder).fit(X)
    return folder


@pytest.fixture
def finished(finished_once, tmp_path):
    """The folder of a run that has ended, for one test alone."""
    return Path(shutil.copytree(finished_once, tmp_path / "finished"))


@pytest.fixture
def members_run(monkeypatch):
    """Numbers of the members that are computed rather than read."""
    numbers = []

    def spy(rows, options, seed, engine, buffer=None):
        numbers.append(seed.spawn_key[-1])
        numbers.sort()  # members may run at once
        return run_member(rows, options, seed, engine, buffer)

    monkeypatch.setattr(members, "run_member", spy)
    return numbers


def same(model, labels):
    np.testing.assert_array_equal(model.labels_, labels[0])
    np.testing.assert_array_equal(model.base_labels_, labels[1])


def test_a_checkpoint_changes_no_result(tmp_path, labels):
    same(make(tmp_path / "new" / "folder").fit(X), labels)


def test_the_members_of_a_finished_run_are_read(tmp_path, labels, members_run):
    make(tmp_path).fit(X)
    assert members_run == [0, 1, 2, 3, 4]
    members_run.clear()
    again = make(tmp_path).fit(X)
    assert members_run == []
    same(again, labels)
    np.testing.assert_array_equal(again.predict(X), labels[0])
    assert not list(tmp_path.glob("*.tmp"))


def test_only_missing_members_are_computed(tmp_path, labels, members_run):
    make(tmp_path).fit(X)
    members_run.clear()
    for number in (1, 4):
        (tmp_path / f"member-{number:04d}.npz").unlink()
    same(make(tmp_path).fit(X), labels)
    assert members_run == [1, 4]


NURSERY = """
import os, sys
import numpy as np
from ultraspec import USENC, datasets
X, _ = datasets.generate("sf", 3000, random_state=0)
def fit(folder, n_jobs, out):
    options = {"n_estimators": 5, "n_representatives": 150, "consensus": "transfer_cut", "random_state": 0}
    np.save(out, USENC(4, **options, n_jobs=int(n_jobs), checkpoint=folder or None).fit(X).labels_)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        fit(*line.rstrip().split(","))
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(scope="module")
def nursery():
    """A process that starts fits in processes of their own, and has imported all they need."""
    command = [sys.executable, "-c", NURSERY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:

        def start(*args):
            print(*args, sep=",", file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield start, lambda: int(process.stdout.readline())
        process.stdin.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_fit_resumes_and_ends_with_the_same_bits(tmp_path, nursery, n_jobs):
    """Killed at random moments from its first file on, again and again; the last attempt is left to end."""
    start, end = nursery
    start("", n_jobs, tmp_path / "whole.npy")
    assert end() == 0
    folder = tmp_path / "run"
    folder.mkdir()
    random = np.random.default_rng(n_jobs)
    statuses = []
    while statuses.count(signal.SIGKILL) < 4 and len(statuses) < 20:
        if statuses and statuses[-1] == 0:  # it was over before it was killed: nothing is left to interrupt
            shutil.rmtree(folder)
            folder.mkdir()
        before = len(list(folder.iterdir()))
        child = start(folder, n_jobs, tmp_path / "unused.npy")
        with contextlib.suppress(ProcessLookupError):  # it has ended
            while len(list(folder.iterdir())) <= before:
                os.kill(child, 0)
                time.sleep(0.002)
            time.sleep(random.uniform(0, 0.08))
            os.kill(child, signal.SIGKILL)
        statuses.append(end())
    assert statuses.count(signal.SIGKILL) >= 2
    start(folder, n_jobs, tmp_path / "resumed.npy")
    assert end() == 0
    assert (tmp_path / "resumed.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_fit_that_dies_while_writing_leaves_no_half_file(tmp_path, labels, monkeypatch, moment):
    real = getattr(os, moment)
    calls = []

    def full(*args):
        calls.append(args)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return real(*args)

    monkeypatch.setattr(os, moment, full)
    with pytest.raises(OSError, match="No space left on device"):
        make(tmp_path, n_jobs=1).fit(X)
    monkeypatch.undo()
    assert not list(tmp_path.glob("*.tmp"))
    assert len(list(tmp_path.glob("member-*.npz"))) == 1
    same(make(tmp_path).fit(X), labels)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-200])


def empty(path):
    path.write_bytes(b"")


def garble(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def garble_head(path):
    content = bytearray(path.read_bytes())
    content[70] ^= 255
    path.write_bytes(bytes(content))


def replace_by_another(path):
    path.write_bytes((path.parent / "member-0001.npz").read_bytes())


def replace_by_a_pickle(path):
    np.savez(path, labels=np.array([{}], dtype=object), digest=np.array("x"))


def replace_by_text(path):
    path.write_text("member")


@pytest.mark.parametrize(
    "damage", [truncate, empty, garble, garble_head, replace_by_another, replace_by_a_pickle, replace_by_text]
)
def test_a_damaged_member_is_noticed_and_computed_again(finished, labels, members_run, damage):
    damage(finished / "member-0002.npz")
    with pytest.warns(UserWarning, match=r"member-0002.npz' is damaged \(.*its result is computed again"):
        model = make(finished).fit(X)
    assert members_run == [2]
    same(model, labels)
    members_run.clear()
    make(finished).fit(X)
    assert members_run == []


def forge(path, change):
    """Change arrays of a member and give it a checksum that is right, as somebody who means harm would."""
    facts = json.loads((path.parent / checkpoint.HEADER).read_text())
    folder = checkpoint.Checkpoint(Folder(path.parent), facts)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != "digest"}
    change(arrays)
    np.savez(path, **arrays, digest=np.array(folder._digest("member-0002", arrays)))


FORGERIES = {
    "a few labels": lambda a: a.update(labels=a["labels"][:7]),
    "labels beyond the clusters": lambda a: a.update(labels=a["labels"] + np.uint8(200)),
    "labels below zero": lambda a: a.update(labels=a["labels"].astype(np.int64) - 1),
    "no labels": lambda a: a.pop("labels"),
    "no centres": lambda a: a.pop("cluster_centers"),
    "other features": lambda a: a.update(representatives=a["representatives"][:, :1]),
    "lists that point elsewhere": lambda a: a.update(lists=a["lists"] + np.uint16(60_000)),
    "another type": lambda a: a.update(vectors=a["vectors"].astype(np.float64)),
    "NaN": lambda a: a.update(vectors=a["vectors"] * np.float32(np.nan)),
    "many sigmas": lambda a: a.update(sigma=np.ones(3)),
    "a negative sigma": lambda a: a.update(sigma=np.asarray(-1.0)),
    "no neighbours": lambda a: a.update(n_neighbors=np.asarray(0)),
    "something else": lambda a: a.update(more=np.ones(3)),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_a_member_with_a_valid_checksum_and_wrong_contents_is_computed_again(finished, labels, members_run, change):
    forge(finished / "member-0002.npz", change)
    with pytest.warns(UserWarning, match=r"member-0002.npz' is damaged \(.*its result is computed again"):
        model = make(finished).fit(X)
    assert members_run == [2]
    same(model, labels)


@pytest.mark.parametrize("seed", [None, "x", -1, 1.5, [], [1, "x"], 2**5000])
def test_a_header_without_a_seed_is_refused(finished, seed):
    header = finished / checkpoint.HEADER
    header.write_text(json.dumps({**json.loads(header.read_text()), "seed": seed}))
    with pytest.raises(ValueError, match="has no valid seed"):
        make(finished, random_state=None).fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 7}, "n_neighbors was 5 and is 7."),
        ({"random_state": 1}, "random_state differs."),
        (
            {"selection": "random", "metric": "cosine"},
            "selection was 'hybrid' and is 'random'; metric was 'euclidean' and is 'cosine'.",
        ),
        ({"base_max_iter": 9}, "base_max_iter was 5 and is 9."),
    ],
)
def test_the_folder_of_another_run_is_refused_with_what_differs(tmp_path, options, message):
    make(tmp_path, n_estimators=2).fit(X)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=re.escape(f"belongs to another run: {message} Pass another folder")):
        make(tmp_path, **options).fit(X)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X + np.float32(1e-6) * (np.arange(len(X)) == 2999)[:, None], "the values of X differ"),
        (X.astype(np.float64), "type was 'float32' and is 'float64'"),
        (X[:-1], "rows was 3000 and is 2999"),
        (np.column_stack([X, X]), "features was 2 and is 4"),
    ],
)
def test_other_data_are_refused(tmp_path, data, message):
    make(tmp_path, n_estimators=2).fit(X)
    with pytest.raises(ValueError, match=message):
        make(tmp_path, n_estimators=2).fit(data)


def test_data_of_another_layout_are_the_same_data(tmp_path, labels, members_run):
    make(tmp_path).fit(X)
    members_run.clear()
    same(make(tmp_path).fit(np.asfortranarray(X)), labels)
    assert members_run == []


def test_sparse_data(tmp_path, members_run):
    data, _ = documents(600)
    first = make(tmp_path).fit(data)
    members_run.clear()
    np.testing.assert_array_equal(make(tmp_path).fit(scipy.sparse.csc_array(data)).labels_, first.labels_)
    assert members_run == []


def test_another_number_of_clusters_or_members_is_the_same_run(tmp_path, members_run):
    make(tmp_path).fit(X)
    members_run.clear()
    more = make(tmp_path, n_estimators=7).set_params(n_clusters=3).fit(X)
    assert members_run == [5, 6]
    reference = make(None, n_estimators=7).set_params(n_clusters=3).fit(X)
    np.testing.assert_array_equal(more.labels_, reference.labels_)


def test_without_a_seed_the_unfinished_run_keeps_its_own(tmp_path, members_run):
    first = make(tmp_path, random_state=None).fit(X)
    (tmp_path / "member-0003.npz").unlink()
    members_run.clear()
    again = make(tmp_path, random_state=None).fit(X)
    assert members_run == [3]
    np.testing.assert_array_equal(again.labels_, first.labels_)
    np.testing.assert_array_equal(again.base_labels_, first.base_labels_)


def test_folders_that_are_no_checkpoints_are_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match=r"has files \(thesis.tex\) but is no checkpoint. Pass a new"):
        make(tmp_path).fit(X)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match=r"is a file. Pass a folder"):
        make(tmp_path / "thesis.tex").fit(X)


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"format": "ultraspec checkpoint 999"})])
def test_a_damaged_header_is_refused(tmp_path, content):
    make(tmp_path, n_estimators=2).fit(X)
    (tmp_path / checkpoint.HEADER).write_text(content)
    with pytest.raises(ValueError, match=r"cannot be read|was not written by this version's checkpoints"):
        make(tmp_path, n_estimators=2).fit(X)


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_two_fits_at_once_do_not_share_a_folder(tmp_path):
    with Folder(tmp_path).lock(), pytest.raises(ValueError, match="Another fit is using the checkpoint folder"):
        make(tmp_path).fit(X)


def test_a_model_from_a_checkpoint_is_like_any_other(tmp_path):
    data, _ = blobs(900)
    make(tmp_path).fit(data)
    model, reference = make(tmp_path).fit(data), make(None).fit(data)
    np.testing.assert_array_equal(model.transform(data), reference.transform(data))
    np.testing.assert_array_equal(model.cut(2).labels_, reference.cut(2).labels_)


def test_a_fit_that_was_refused_does_not_claim_its_folder(tmp_path, labels):
    broken = X.copy()
    broken[5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        make(tmp_path).fit(broken)
    same(make(tmp_path).fit(X), labels)


def test_home_folders_and_empty_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    make("~/run", n_estimators=2).fit(X)
    assert (tmp_path / "run" / "checkpoint.json").exists()
    with pytest.raises(ValueError, match="checkpoint must be the path of a folder, a URL or None, got ''"):
        make("").fit(X)


def test_what_a_kill_leaves_of_the_first_file_is_no_obstacle(tmp_path):
    (tmp_path / "checkpoint.json.tmp").write_bytes(b"{")
    X = np.random.default_rng(0).standard_normal((300, 2))
    options = {"n_estimators": 2, "random_state": 0}
    labels = USENC(2, checkpoint=tmp_path, **options).fit_predict(X)
    assert (labels == USENC(2, **options).fit_predict(X)).all()
