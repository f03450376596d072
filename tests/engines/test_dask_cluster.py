"""Fits on a real cluster of processes: workers that die in every phase, run out of memory, clients that give up."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from ultraspec import USENC, USPEC, datasets

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

X, _ = datasets.generate("cc", 24_000, random_state=0)
OPTIONS = {"n_representatives": 200, "random_state": 0}
PHASES = ["survey", "representatives", "neighbors", "graph", "eigenvectors", "labels"]

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@contextlib.contextmanager
def quick_restarts():
    """Fork workers of a process that has imported what they need, as imports take seconds."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        needed = ["distributed", "ultraspec.engines.dask", "ultraspec.uspec", "ultraspec.usenc"]
        distributed.utils.get_mp_context().set_forkserver_preload(needed)
        yield


@pytest.fixture(scope="module")
def cluster():
    """Two processes of one thread each, started as usual; they are restarted when they die."""
    settings = {"distributed.scheduler.allowed-failures": 5, "distributed.comm.timeouts.connect": "10s"}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        quick_restarts(),
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client
        assert waits(lambda: not [key for key in tasks(client) if "array" not in str(key)]), tasks(client)


def tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])


def waits(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def lazy(chunk=4_000):
    return da.from_array(X, chunks=(chunk, 2))


@pytest.fixture(scope="module")
def wanted():
    with dask.config.set(scheduler="sync"):
        return USPEC(3, **OPTIONS).fit(lazy()).labels_.compute()


def slowly(name, seconds):
    """A function of the engine that workers run after a pause; there, it has not been replaced."""

    def run(*args):
        from ultraspec.engines import dask as engine

        time.sleep(seconds)
        return getattr(engine, name)(*args)

    return run


class Killer(threading.Thread):
    """Kills a worker, outright, as soon as it runs a task of a phase."""

    def __init__(self, client, phase):
        super().__init__(daemon=True)
        self._client, self._phase, self.killed, self.seen = client, phase, None, set()

    def run(self):
        phase = self._phase
        while self.killed is None:
            running = self._client.run_on_scheduler(
                lambda dask_scheduler: [
                    (str(task.key), worker.pid)
                    for worker in dask_scheduler.workers.values()
                    for task in worker.processing
                ]
            )
            self.seen.update(key for key, _ in running)
            hit = [pid for key, pid in running if key.startswith(f"('{phase}-")]
            if hit:
                os.kill(hit[0], signal.SIGKILL)
                self.killed = hit[0]
            time.sleep(0.005)


def test_tasks_are_named_after_phases(client, wanted):
    model = USPEC(3, **OPTIONS).fit(lazy())
    assert (model.labels_.compute() == wanted).all()
    prefixes = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    assert {*PHASES, "merge-graph", "uspec"} <= set(prefixes)


@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_killed_in_a_phase_changes_nothing(client, wanted, phase, monkeypatch):
    from ultraspec.engines import dask as engine

    for name in ("_map_chunk", "_fold_chunk", "_call"):  # so that there is time to be killed in
        monkeypatch.setattr(engine, name, slowly(name, 0.15))
    killer = Killer(client, phase)
    killer.start()
    model = USPEC(3, **OPTIONS).fit(lazy())
    assert killer.killed is not None, killer.seen
    assert (model.labels_.compute() == wanted).all()


def test_a_worker_killed_while_members_run(client):
    with dask.config.set(scheduler="sync"):
        there = USENC(3, n_estimators=3, **OPTIONS).fit(lazy())
        expected = there.labels_.compute(), there.confidence_.compute()
    killer = Killer(client, "neighbors")
    killer.start()
    model = USENC(3, n_estimators=3, **OPTIONS).fit(lazy(1_000))
    assert killer.killed is not None
    assert (model.labels_.compute() == expected[0]).all()
    assert (model.confidence_.compute() == expected[1]).all()


def test_state_goes_once_to_each_worker(client):
    def clear(dask_worker):
        dask_worker.transfer_incoming_log.clear()

    client.run(clear)
    USPEC(3, **OPTIONS).fit(lazy(1_000))
    logs = client.run(lambda dask_worker: [key for entry in dask_worker.transfer_incoming_log for key in entry["keys"]])
    for received in logs.values():
        states = [key for key in map(str, received) if key.startswith("state-")]
        assert len(states) == len(set(states))


def test_members_spread_over_workers(client):
    where = set()

    class Watch(threading.Thread):
        over = False

        def run(self):
            while not self.over:
                running = client.run_on_scheduler(
                    lambda dask_scheduler: [
                        worker.address
                        for worker in dask_scheduler.workers.values()
                        for task in worker.processing
                        if str(task.key).startswith(("('eigenvectors-", "('representatives-"))
                    ]
                )
                where.update(running)
                time.sleep(0.005)

    watch = Watch(daemon=True)
    watch.start()
    for _ in range(3):  # short tasks may slip by unseen
        if len(where) < 2:
            USENC(3, n_estimators=8, **OPTIONS).fit(lazy())
    watch.over = True
    watch.join()
    assert len(where) == 2


def test_checkpoint_of_a_killed_ensemble(client, tmp_path, monkeypatch):
    """Members that were finished are not made again, on any file system that fsspec opens."""
    folder = f"file://{tmp_path}/run"
    options = {"n_estimators": 4, "consensus": "transfer_cut", "checkpoint": folder, **OPTIONS}
    expected = USENC(3, **(options | {"checkpoint": None})).fit(lazy()).labels_.compute()
    assert (USENC(3, **options).fit(lazy()).labels_.compute() == expected).all()
    assert len(list((tmp_path / "run").glob("member-*.npz"))) == 4
    (tmp_path / "run" / "member-0002.npz").unlink()
    made = []
    from ultraspec.ensemble import members

    def count(*args, run=members.run_member):
        made.append(1)
        return run(*args)

    monkeypatch.setattr(members, "run_member", count)
    assert (USENC(3, **options).fit(lazy()).labels_.compute() == expected).all()
    assert len(made) == 1


CLIENT = """
    import sys, time
    import dask.array as da
    import numpy as np
    from distributed import Client
    from ultraspec import USPEC, datasets

    def slow(block):
        time.sleep(1.5)
        return block

    client = Client(sys.argv[1])
    X = da.from_array(datasets.generate("cc", 8_000, random_state=0)[0], chunks=(500, 2)).map_blocks(slow)
    print("ready", flush=True)
    try:
        USPEC(3, n_representatives=100, random_state=0).fit(X)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        for _ in range(100):
            left = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
            if not left:
                break
            time.sleep(0.2)
        print("left", left, flush=True)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_gives_up_leaves_no_task(client, cluster, end):
    code = textwrap.dedent(CLIENT)
    address = cluster.scheduler_address
    with subprocess.Popen([sys.executable, "-c", code, address], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert waits(lambda: len(tasks(client)) > 5, 60)
        process.send_signal(end)
        if end == signal.SIGINT:
            assert process.stdout.readline() == "stopped\n"
            assert process.stdout.readline() == "left 0\n"
        process.wait(60)
    assert waits(lambda: not tasks(client), 60)


def hungry(block):
    """Takes more memory than a worker may."""
    held = [np.ones(30_000_000) for _ in range(20)]
    return block + np.float32(held[0][0] - 1)


def test_a_worker_out_of_memory_gives_an_error_that_helps():
    settings = {"distributed.scheduler.allowed-failures": 0}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="700MB", dashboard_address=None
        ) as small,
        distributed.Client(small),
        pytest.raises(MemoryError, match=r"Workers died .* smaller chunks"),
    ):
        USPEC(3, **OPTIONS).fit(lazy().map_blocks(hungry, dtype=np.float32))


def test_workers_that_are_all_paused_are_noticed(monkeypatch):
    from ultraspec.rows import dask_graph

    monkeypatch.setattr(dask_graph, "STUCK_SECONDS", 1.0)
    limits = {"target": False, "spill": False, "pause": 0.01, "terminate": False}
    with (
        dask.config.set({f"distributed.worker.memory.{name}": value for name, value in limits.items()}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="1GB", dashboard_address=None
        ) as small,
        distributed.Client(small) as client,
    ):
        paused = {"paused"}
        assert waits(lambda: {w["status"] for w in client.scheduler_info()["workers"].values()} == paused)
        with pytest.raises(MemoryError, match=r"All workers have paused"):
            USPEC(3, **OPTIONS).fit(lazy())
