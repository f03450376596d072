from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from ultraspec.engines.threads import ThreadEngine
from ultraspec.figures import cuts
from ultraspec.rows import interface
from ultraspec.spectral import layers

settings.register_profile(
    "ultraspec",
    derandomize=True,
    deadline=None,  # the first example compiles kernels
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ultraspec")


@pytest.fixture(scope="module")
def engine():
    """One thread; closed before the next file's tests, as an open engine holds BLAS to one thread."""
    with ThreadEngine(1) as engine:
        yield engine


@pytest.fixture(scope="module")
def few_cuts():
    """Cut trees into at most ten clusters instead of sixty, for pages whose tests are about other things."""
    usual, cuts.MOST_CLUSTERS = cuts.MOST_CLUSTERS, 10
    yield
    cuts.MOST_CLUSTERS = usual


@pytest.fixture(scope="module")
def few_halves():
    """Divide rows into halves once instead of up to four times, for tests that are not about `n_clusters="auto"`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "SPLITS", 1)
        patch.setattr(layers, "MORE_SPLITS", 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def small_blocks():
    """Cut even a few hundred rows into several blocks, so that every test meets the seams between them."""
    usual, interface.LEAST_BLOCK_ROWS = interface.LEAST_BLOCK_ROWS, (100, 100)
    yield
    interface.LEAST_BLOCK_ROWS = usual
