"""Numbers and names as the page writes them."""

from __future__ import annotations

from ultraspec.engines.progress import format_duration


def format_share(share: float) -> str:
    """Format a share as a percentage.

    Examples
    --------
    >>> format_share(0.25), format_share(0.0001), format_share(0.0)
    ('25.0 %', '<0.1 %', '0.0 %')
    """
    return "<0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


TURNING_MARKS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])  # of right-to-left text


def shorten(name: str, most: int = 20) -> str:
    """Cut a name to at most `most` characters, without marks that turn the text around it.

    Examples
    --------
    >>> shorten("x"), shorten("a name of many letters")
    ('x', 'a name of many lett…')
    """
    name = name.translate(TURNING_MARKS)
    return name if len(name) <= most else name[: most - 1] + "…"


def format_large(n: int) -> str:
    """Format an integer, a large one with few digits.

    Examples
    --------
    >>> format_large(950), format_large(1_000_000), format_large(12_345)
    ('950', '1 M', '12,345')
    """
    for size, letter in ((10**9, "B"), (10**6, "M")):
        if n >= size:
            return f"{n / size:.3g} {letter}"
    return f"{n:,}"


def format_count(n: int, unit: str) -> str:
    """Format a number of things.

    Examples
    --------
    >>> format_count(1, "row"), format_count(2500, "row")
    ('1 row', '2,500 rows')
    """
    return f"{n:,} {unit}{'' if n == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """Format a time, a short one in milliseconds.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(75.2)
    ('12 ms', '1 min 15 s')
    """
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else format_duration(seconds)


def format_memory(n_bytes: int | None) -> str:
    """Format an amount of memory.

    Examples
    --------
    >>> format_memory(3 * 2**30), format_memory(None)
    ('3.00 GB', '–')
    """
    if n_bytes is None:
        return "–"
    return f"{n_bytes / 2**30:.2f} GB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.0f} MB"
