"""What USPEC does to the process it runs in; each test in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.helpers.common import ROOT, python

PREAMBLE = """
import json, os, sys, threading
sys.path.insert(0, "tests")
import numpy as np
from tests.helpers.common import blobs, same_partition
from ultraspec import USPEC, datasets

X, y = blobs()

def right(model):
    return bool(same_partition(y, model.fit_predict(X)))
"""


def run(code, **env):
    """Run code after the preamble; what it prints last is returned."""
    return python(PREAMBLE + textwrap.dedent(code), **env)


def test_import_is_light():
    loaded = python("""
        import json, sys
        before = set(sys.modules)
        import ultraspec
        print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
    """)
    assert "ultraspec" in loaded
    heavy = {"sklearn", "numba", "scipy", "pandas", "polars", "joblib", "threadpoolctl", "rich", "matplotlib", "numpy"}
    assert not heavy & set(loaded)


def test_public_names_are_there_before_they_are_loaded():
    names, listed, missing = python("""
        import json, sys
        import ultraspec

        listed = dir(ultraspec)
        try:
            ultraspec.no_such_name
        except AttributeError as error:
            missing = str(error)
        print(json.dumps([[str(getattr(ultraspec, name)) for name in ultraspec.__all__], listed, missing]))
    """)
    assert "USPEC" in listed
    assert len(names) == len(listed)
    assert "no_such_name" in missing


def test_import_and_fit_leave_the_process_as_it_is():
    """Global random numbers, warnings filters, loggers, BLAS threads, signals and threads."""
    changed = python("""
        import json, logging, random, signal, sys, threading, warnings
        import joblib, numba, numpy as np, scipy.linalg, sklearn.base, sklearn.cluster, threadpoolctl

        sys.path.insert(0, "tests")

        def settings():
            loggers = [logging.getLogger(), *map(logging.getLogger, sorted(logging.root.manager.loggerDict))]
            return {
                "NumPy's random state": str(np.random.get_state()),
                "random state": hash(random.getstate()),
                "warnings filters": str(warnings.filters),
                "loggers": str([(log.name, log.level, log.handlers, log.propagate) for log in loggers]),
                "BLAS threads": str([(lib["filepath"], lib["num_threads"]) for lib in threadpoolctl.threadpool_info()]),
                "errstate": str(np.geterr()),
                "signals": str([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]),
                "recursion limit": sys.getrecursionlimit(),
                "threads": [t.name for t in threading.enumerate()],
            }

        states = [settings()]
        import ultraspec
        ultraspec.USPEC, ultraspec.datasets, ultraspec.metrics
        states.append(settings())
        from tests.helpers.common import blobs
        for options in ({}, {"neighbors": "exact"}, {"metric": "cosine"}):
            model = ultraspec.USPEC(4, n_jobs=3, **options).fit(blobs(d=20)[0])
            model.predict(blobs(d=20)[0])
        states.append(settings())
        print(json.dumps([name for state in states[1:] for name in state if state[name] != states[0][name]]))
    """)
    assert not changed


NO_CACHE = """
import numba.core.caching as caching

for locator in vars(caching).values():
    if isinstance(locator, type) and hasattr(locator, "from_function"):
        locator.from_function = classmethod(lambda cls, *args: None)
"""


def test_fits_where_numba_finds_no_place_for_its_cache():
    """A read-only container: neither beside the package, nor in the home folder, nor where the user says."""
    cached, fine = python(f"""{NO_CACHE}{PREAMBLE}
from ultraspec._kernels import search

print(json.dumps([search.squared_distance.stats.cache_path, right(USPEC.paper(4, random_state=0))]))
""")
    assert cached is None, "the test did not manage to take the cache away"
    assert fine


def test_fits_where_the_folder_of_the_cache_cannot_be_made():
    assert run(
        "print(json.dumps(right(USPEC.paper(4, random_state=0))))",  # the fewest kernels to compile
        NUMBA_CACHE_DIR="/proc/no-such-folder",
    )


def test_memory_stays_linear_and_small():
    """At most 48 bytes per row and 300 MB above the input."""
    rows, above = run("""
        import resource

        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        X = datasets.generate("cg", 2_000_000, random_state=0)[0]
        USPEC(11, random_state=0).fit(X[:60_000])  # compiles
        before = peak()
        model = USPEC(11, random_state=0).fit(X)
        print(json.dumps([len(model.labels_), peak() - before]))
    """)
    assert above < 48 * rows + 300e6


def test_fits_in_workers_of_joblib():
    alone, workers = run("""
        import joblib

        def fit(seed):
            return USPEC(4, random_state=seed).fit(X).representatives_.sum()

        alone = [fit(seed) for seed in range(2)]
        workers = joblib.Parallel(2, backend="loky")(joblib.delayed(fit)(seed) for seed in range(2))
        print(json.dumps([alone, workers]))
    """)
    assert workers == alone


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_fits_in_a_forked_child():
    """After a fit in the parent, whose locks and threads the child must not wait for."""
    assert run("""
        import multiprocessing

        def child(queue):
            queue.put(right(USPEC(4, random_state=0, n_jobs=2)))

        first = right(USPEC(4, random_state=0, n_jobs=2))
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        second = queue.get(timeout=60)
        process.join(60)
        print(json.dumps([first, second, process.exitcode == 0]))
    """) == [True, True, True]


INTERRUPTED = """
rows = datasets.generate("cg", 3_000_000, random_state=0)[0]
model = USPEC(11, random_state=0).fit(rows[:60_000])

for line in sys.stdin:
    model.set_params(n_jobs=json.loads(line))
    try:
        print(json.dumps("fitting"), flush=True)
        while True:
            model.fit(rows)
    except KeyboardInterrupt:
        print(json.dumps([t.name for t in threading.enumerate()]), flush=True)

print(json.dumps(right(USPEC(4, random_state=0))), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
def test_ctrl_c_returns_at_once_and_leaves_no_thread():
    with contextlib.ExitStack() as stack:
        child = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + INTERRUPTED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        stack.callback(child.kill)

        def answer():
            return json.loads(child.stdout.readline())

        for delay, jobs in itertools.product((0.03, 0.5, 1.1), ("1", "null")):  # in different phases
            child.stdin.write(f"{jobs}\n")
            child.stdin.flush()
            assert answer() == "fitting"
            time.sleep(delay)
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert answer() == ["MainThread"]
            assert time.monotonic() - sent < 5
        child.stdin.close()
        assert answer() is True, "the next fit should work"
        assert child.wait(30) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
def test_ctrl_c_while_blas_is_being_limited_leaves_nothing():
    """The first thing an engine does takes most of the time of a small predict, so it is where Ctrl-C often hits."""
    left, restored, fine = run("""
        import signal, time
        import threadpoolctl
        from ultraspec._kernels import blas

        def blas_threads():
            return [(lib["filepath"], lib["num_threads"]) for lib in threadpoolctl.threadpool_info()]

        class Interrupted:
            def limit(self, **options):
                limits = libraries().limit(**options)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
                return limits

        model = USPEC(4, random_state=0).fit(X)
        before = blas_threads()
        libraries = blas._blas_libraries
        blas._blas_libraries = Interrupted
        try:
            model.predict(X)
            time.sleep(1)
        except KeyboardInterrupt:
            pass
        blas._blas_libraries = libraries
        left = [thread.name for thread in threading.enumerate()]
        print(json.dumps([left, blas_threads() == before, right(USPEC(4, random_state=0))]), flush=True)
        os._exit(0)  # or a thread that is left would keep the process alive
    """)
    assert left == ["MainThread"]
    assert restored
    assert fine


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_child_forked_in_the_middle_of_a_predict_can_predict():
    """As under servers that fork workers while their threads are busy."""
    hung = run("""
        import signal

        model = USPEC(4, random_state=0).fit(X)
        model.predict(X[:1])  # numba's compiler has a lock of its own
        stop = threading.Event()

        def work():
            while not stop.is_set():
                model.predict(X[:1])

        thread = threading.Thread(target=work)
        thread.start()
        children = []
        for _ in range(8):
            children.append(os.fork())
            if children[-1] == 0:
                signal.alarm(10)  # ends a child that waits for ever
                model.predict(X[:5])
                os._exit(0)
        hung = sum(os.waitpid(child, 0)[1] != 0 for child in children)
        stop.set()
        thread.join()
        print(json.dumps(hung))
    """)
    assert hung == 0
