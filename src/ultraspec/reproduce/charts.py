"""Small charts as SVG: ours in full colour, the paper's underneath, pale and dashed. They need no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 260, 176
LEFT, RIGHT, TOP, BOTTOM = 38, 8, 8, 24

# Colours of the page's palette, by the paper's name of the method: kin do not share one.
COLORS = {
    "U-SENC": 0,
    "U-SPEC": 4,
    "LSC-K": 2,
    "LSC-R": 1,
    "Nystrom": 3,
    "LWGP": 2,
    "PTGP": 1,
    "EAC": 3,
    "WCT": 5,
    "KCC": 6,
    "ECC": 8,
    "SEC": 9,
}


class Point(NamedTuple):
    """A mean with its deviation; None where there is none."""

    mean: float | None
    std: float | None = None


class Series(NamedTuple):
    """A method: what we have and what the paper has, at each value of what varies."""

    name: str
    color: int
    ours: Sequence[Point]
    paper: Sequence[Point]
    dotted: bool = False  # the library's defaults beside the paper's setting


def lines(labels: Sequence[str], series: Sequence[Series], unit: str, *, log: bool = False) -> str:
    """Curves over an axis."""
    scale = _scale([point.mean for s in series for point in (*s.ours, *s.paper)], unit, log=log)
    if scale is None:
        return ""
    y, ticks = scale
    step = (WIDTH - LEFT - RIGHT - 16) / max(1, len(labels) - 1)
    x = [LEFT + 8 + step * i for i in range(len(labels))]
    parts = [_axes(y, ticks, log), *_x_labels(x, labels, step)]
    parts += [_path(x, s.paper, y, f"curve theirs k{s.color}") for s in series]
    for s in series:
        parts.append(_path(x, s.ours, y, f"curve ours k{s.color}{' lib' if s.dotted else ''}"))
        for at, label, mine, theirs in zip(x, labels, s.ours, s.paper, strict=True):
            if mine.mean is not None:
                parts.append(
                    f'<circle class="dot k{s.color}" cx="{at:.1f}" cy="{y(mine.mean):.1f}" r="2.6">'
                    f"<title>{escape(_tip(s.name, label, mine, theirs, unit))}</title></circle>"
                )
    return _svg(parts)


def bars(labels: Sequence[str], series: Sequence[Series], unit: str) -> str:
    """Bars for each value, ours beside the paper's, which is hollow; whiskers are standard deviations."""
    ends = [
        value
        for s in series
        for point in (*s.ours, *s.paper)
        if point.mean is not None
        for value in (point.mean - (point.std or 0.0), point.mean + (point.std or 0.0))
    ]
    scale = _scale(ends, unit, zero=unit == "s")
    if scale is None:
        return ""
    y, ticks = scale
    shown = [s for s in series if any(point.mean is not None for point in s.ours)] or list(series[:1])
    group = (WIDTH - LEFT - RIGHT) / len(labels)
    wide = min(22.0, group * 0.8 / (len(shown) + 1))
    middles = [LEFT + group * (i + 0.5) for i in range(len(labels))]
    parts = [_axes(y, ticks, log=False), *_x_labels(middles, labels, group)]
    for i, (middle, label) in enumerate(zip(middles, labels, strict=True)):
        start = middle - wide * (len(shown) + 1) / 2
        theirs = shown[0].paper[i]
        parts.append(_bar(start, wide, theirs, y, "bar theirs", f"paper, {label}: {_value(theirs, unit)}"))
        for j, s in enumerate(shown, 1):
            look = f"bar ours k{s.color}{' lib' if s.dotted else ''}"
            tip = _tip(s.name, label, s.ours[i], s.paper[i], unit)
            parts.append(_bar(start + j * wide, wide, s.ours[i], y, look, tip))
    return _svg(parts)


def _scale(
    values: Sequence[float | None], unit: str, *, log: bool = False, zero: bool = False
) -> tuple[Callable[[float], float], list[float]] | None:
    known = [value for value in values if value is not None and (value > 0 or not log)]
    if not known:
        return None
    low, high = min(known), max(known)
    if log:
        low, high = math.log2(low), math.log2(high)
    room = max((high - low) * 0.08, 0.02 * max(abs(high), 1e-9), 0.05)
    low, high = (0.0 if zero else low - room), high + room
    if not log and not zero and min(known) >= 0:
        low = max(low, 0.0)
    if unit == "%":
        high = min(high, 100.0)

    def y(value: float) -> float:
        at = math.log2(max(value, 1e-9)) if log else value
        return HEIGHT - BOTTOM - (at - low) / (high - low) * (HEIGHT - BOTTOM - TOP)

    return y, _ticks(low, high, log)


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        every = max(1, math.ceil((high - low) / 4))
        return [2.0**e for e in range(math.ceil(low), math.floor(high) + 1) if e % every == 0]
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _axes(y: Callable[[float], float], ticks: Sequence[float], log: bool) -> str:
    return "".join(
        f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text x="{LEFT - 5}" y="{y(v) + 3.5:.1f}" text-anchor="end">{_tick(v, log)}</text>'
        for v in ticks
    )


def _tick(value: float, log: bool) -> str:
    if log and value < 1:
        return f"1/{round(1 / value)}" if value > 0.01 else f"{value:.0e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}" if log else f"{value:.6g}"


def _x_labels(x: Sequence[float], labels: Sequence[str], step: float) -> list[str]:
    every = max(1, math.ceil(26 / max(step, 1)))
    return [
        f'<text x="{at:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(label)}</text>'
        for i, (at, label) in enumerate(zip(x, labels, strict=True))
        if i % every == 0
    ]


def _path(x: Sequence[float], points: Sequence[Point], y: Callable[[float], float], look: str) -> str:
    text, pen_down = "", False
    for at, point in zip(x, points, strict=True):
        if point.mean is None:
            pen_down = False
            continue
        text += f"{'L' if pen_down else 'M'}{at:.1f} {y(point.mean):.1f}"
        pen_down = True
    return f'<path class="{look}" d="{text}"/>' if text else ""


def _bar(left: float, wide: float, point: Point, y: Callable[[float], float], look: str, tip: str) -> str:
    if point.mean is None:
        return ""
    floor, top, middle = HEIGHT - BOTTOM, y(point.mean), left + wide / 2
    whisker = ""
    if point.std:
        high, low = max(y(point.mean + point.std), TOP), min(y(point.mean - point.std), floor)
        whisker = (
            f'<path class="whisker" d="M{middle:.1f} {high:.1f}V{low:.1f}M{middle - 3:.1f} {high:.1f}h6'
            f'M{middle - 3:.1f} {low:.1f}h6"/>'
        )
    return (
        f'<g><title>{escape(tip)}</title><rect class="{look}" x="{left + 1:.1f}" y="{top:.1f}" '
        f'width="{wide - 2:.1f}" height="{max(0.5, floor - top):.1f}"/>{whisker}</g>'
    )


def _tip(name: str, label: str, mine: Point, theirs: Point, unit: str) -> str:
    return f"{name}, {label}: {_value(mine, unit)}; paper {_value(theirs, unit)}"


def _value(point: Point, unit: str) -> str:
    if point.mean is None:
        return "–"
    return f"{point.mean:.2f}" + (f" ± {point.std:.2f}" if point.std is not None and unit != "s" else "") + f" {unit}"


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-hidden="true">{"".join(parts)}</svg>'
