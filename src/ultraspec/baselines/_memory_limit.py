"""The memory guard: methods that compare all pairs say what they need before they allocate it."""

from __future__ import annotations

from ultraspec._checks import check_integer
from ultraspec.engines.memory import available_bytes


def check_max_pairs_bytes(value: int | None) -> None:
    """Raise unless the parameter `max_pairs_bytes` is None or a whole number."""
    if value is not None:
        check_integer("max_pairs_bytes", value, least=1, alternatives=(None,))


def check_pairs_memory(method: str, what: str, n_bytes: int, max_pairs_bytes: int | None, instead: str) -> None:
    """Raise a MemoryError before too much is allocated.

    Parameters
    ----------
    method : str
        Whose memory it is.
    what : str
        What it is for, such as "the 70000 x 70000 co-association matrix".
    n_bytes : int
        Bytes needed.
    max_pairs_bytes : int or None
        Bytes allowed; None for half of what is available.
    instead : str
        What to use instead, such as "LWGP or U-SENC".

    Examples
    --------
    >>> check_pairs_memory("EAC", "the 70000 x 70000 co-association matrix", 8 * 70_000**2, 10**9, "LWGP or U-SENC")
    Traceback (most recent call last):
    MemoryError: EAC needs 39.2 GB for the 70000 x 70000 co-association matrix, and its limit is 1.0 GB. Use LWGP or
    U-SENC, pass fewer rows, or raise max_pairs_bytes.
    """
    check_memory(method, what, n_bytes, max_pairs_bytes, f"Use {instead}, pass fewer rows, or raise max_pairs_bytes.")


def check_memory(method: str, what: str, n_bytes: int, limit: int | None, what_to_do: str) -> None:
    """Raise a MemoryError that says `what_to_do` where `n_bytes` exceed the limit, or half of the memory available."""
    named = "its limit" if limit is not None else "its limit (half of the memory available now)"
    if limit is None:
        free = available_bytes()
        limit = None if free is None else free // 2
    if limit is not None and n_bytes > limit:
        raise MemoryError(
            f"{method} needs {n_bytes / 1e9:.1f} GB for {what}, and {named} is {limit / 1e9:.1f} GB. {what_to_do}"
        )
