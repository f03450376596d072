"""Numbers as the page writes them."""

from __future__ import annotations


def percent(share: float) -> str:
    """A share as text.

    Examples
    --------
    >>> percent(0.25), percent(0.0001), percent(0.0)
    ('25.0 %', '<0.1 %', '0.0 %')
    """
    return "<0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def cut(name: str, most: int = 20) -> str:
    """A name, or its beginning if it is long.

    Examples
    --------
    >>> cut("x"), cut("a name of many letters")
    ('x', 'a name of many lett…')
    """
    return name if len(name) <= most else name[: most - 1] + "…"


def short(n: int) -> str:
    """A number in few letters.

    Examples
    --------
    >>> short(950), short(1_000_000), short(12_345)
    ('950', '1 M', '12,345')
    """
    for size, letter in ((10**9, "B"), (10**6, "M")):
        if n >= size:
            return f"{n / size:.3g} {letter}"
    return f"{n:,}"


def seconds(value: float) -> str:
    """A time as text.

    Examples
    --------
    >>> seconds(0.0123), seconds(75.2), seconds(7300)
    ('12 ms', '1 min 15 s', '2 h 1 min')
    """
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def memory(value: int | None) -> str:
    """Bytes as text."""
    if value is None:
        return "–"
    return f"{value / 2**30:.2f} GB" if value >= 2**30 else f"{value / 2**20:.0f} MB"
