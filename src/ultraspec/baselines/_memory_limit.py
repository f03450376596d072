"""Memory limit of the methods that compare all pairs: they raise an error before they allocate too much."""

from __future__ import annotations

from ultraspec.engines.memory import available_bytes


def check_memory(method: str, what: str, n_bytes: int, limit: int | None, advice: str) -> None:
    """Raise a MemoryError if `n_bytes` exceed the limit, by default half of the available memory.

    Examples
    --------
    >>> check_memory("EAC", "the 70000 x 70000 co-association matrix", 8 * 70_000**2, 10**9, "Pass fewer rows.")
    Traceback (most recent call last):
    MemoryError: EAC needs 39.2 GB for the 70000 x 70000 co-association matrix, and its limit is 1.0 GB. Pass fewer
    rows.
    """
    described = "its limit" if limit is not None else "its limit (half of the memory available now)"
    if limit is None:
        free = available_bytes()
        limit = None if free is None else free // 2
    if limit is not None and n_bytes > limit:
        raise MemoryError(
            f"{method} needs {n_bytes / 1e9:.1f} GB for {what}, and {described} is {limit / 1e9:.1f} GB. {advice}"
        )
