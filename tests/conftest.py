from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from ultraspec.engines import ThreadEngine

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
