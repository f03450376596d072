"""Small charts as SVG, without scripts: our results in full colour, the paper's pale or hollow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 260, 176
LEFT, RIGHT, TOP, BOTTOM = 38, 8, 8, 24  # margins around the axes
MARGIN_SHARE = 0.08  # of the range of the values, that the axis extends beyond them

# Colours of the page's palette by the paper's name of the method; methods of one chart have different ones.
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
OTHER_COLOR = 7


class Point(NamedTuple):
    """A mean with its standard deviation; None where there is none."""

    mean: float | None
    std: float | None = None


class Series(NamedTuple):
    """A method: our results and the paper's, at each value on the horizontal axis."""

    name: str
    color: int
    ours: Sequence[Point]
    paper: Sequence[Point]
    library: bool = False  # with regularization=1e-3 instead of the paper's settings

    @property
    def css(self) -> str:
        """Classes of the style sheet."""
        return f"k{self.color} lib" if self.library else f"k{self.color}"


def draw_lines(labels: Sequence[str], series: Sequence[Series], unit: str, *, log: bool = False) -> str:
    """Draw a curve for each method; empty if there are no results."""
    scale = _scale([point.mean for s in series for point in (*s.ours, *s.paper)], unit, log=log)
    if scale is None:
        return ""
    y, ticks = scale
    step = (WIDTH - LEFT - RIGHT - 16) / max(1, len(labels) - 1)
    x = [LEFT + 8 + step * i for i in range(len(labels))]
    parts = [_axis(y, ticks, log), *_x_labels(x, labels, step)]
    parts += [_path(x, s.paper, y, f"curve theirs k{s.color}") for s in series]
    for s in series:
        parts.append(_path(x, s.ours, y, f"curve ours {s.css}"))
        for at, label, ours, paper in zip(x, labels, s.ours, s.paper, strict=True):
            if ours.mean is not None:
                parts.append(
                    f'<circle class="dot k{s.color}" cx="{at:.1f}" cy="{y(ours.mean):.1f}" r="2.6">'
                    f"<title>{escape(_tooltip(s.name, label, ours, paper, unit))}</title></circle>"
                )
    return _svg(parts)


def draw_bars(labels: Sequence[str], series: Sequence[Series], unit: str) -> str:
    """Draw bars for each value, ours beside the paper's hollow one; whiskers are standard deviations."""
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
    width = min(22.0, group * 0.8 / (len(shown) + 1))
    centres = [LEFT + group * (i + 0.5) for i in range(len(labels))]
    parts = [_axis(y, ticks, log=False), *_x_labels(centres, labels, group)]
    for i, (centre, label) in enumerate(zip(centres, labels, strict=True)):
        left = centre - width * (len(shown) + 1) / 2
        paper = shown[0].paper[i]
        parts.append(_bar(left, width, paper, y, "bar theirs", f"paper, {label}: {_value(paper, unit)}"))
        for j, s in enumerate(shown, 1):
            tooltip = _tooltip(s.name, label, s.ours[i], s.paper[i], unit)
            parts.append(_bar(left + j * width, width, s.ours[i], y, f"bar ours {s.css}", tooltip))
    return _svg(parts)


def _scale(
    values: Sequence[float | None], unit: str, *, log: bool = False, zero: bool = False
) -> tuple[Callable[[float], float], list[float]] | None:
    """Return a function from values to vertical positions, and the ticks; None if there are no values."""
    known = [value for value in values if value is not None and (value > 0 or not log)]
    if not known:
        return None
    low, high = min(known), max(known)
    if log:
        low, high = math.log2(low), math.log2(high)
    margin = max((high - low) * MARGIN_SHARE, 0.02 * max(abs(high), 1e-9), 0.05)
    low = 0.0 if zero else low - margin
    high += margin
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


def _axis(y: Callable[[float], float], ticks: Sequence[float], log: bool) -> str:
    return "".join(
        f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text x="{LEFT - 5}" y="{y(v) + 3.5:.1f}" text-anchor="end">{_tick_label(v, log)}</text>'
        for v in ticks
    )


def _tick_label(value: float, log: bool) -> str:
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


def _path(x: Sequence[float], points: Sequence[Point], y: Callable[[float], float], css: str) -> str:
    path = ""
    command = "M"
    for at, point in zip(x, points, strict=True):
        if point.mean is None:  # a gap: the next point starts another line
            command = "M"
            continue
        path += f"{command}{at:.1f} {y(point.mean):.1f}"
        command = "L"
    return f'<path class="{css}" d="{path}"/>' if path else ""


def _bar(left: float, width: float, point: Point, y: Callable[[float], float], css: str, tooltip: str) -> str:
    if point.mean is None:
        return ""
    floor = HEIGHT - BOTTOM
    top = y(point.mean)
    whisker = ""
    if point.std:
        x = left + width / 2
        high = max(y(point.mean + point.std), TOP)
        low = min(y(point.mean - point.std), floor)
        whisker = (
            f'<path class="whisker" d="M{x:.1f} {high:.1f}V{low:.1f}M{x - 3:.1f} {high:.1f}h6'
            f'M{x - 3:.1f} {low:.1f}h6"/>'
        )
    return (
        f'<g><title>{escape(tooltip)}</title><rect class="{css}" x="{left + 1:.1f}" y="{top:.1f}" '
        f'width="{width - 2:.1f}" height="{max(0.5, floor - top):.1f}"/>{whisker}</g>'
    )


def _tooltip(name: str, label: str, ours: Point, paper: Point, unit: str) -> str:
    return f"{name}, {label}: {_value(ours, unit)}; paper {_value(paper, unit)}"


def _value(point: Point, unit: str) -> str:
    if point.mean is None:
        return "–"
    return f"{point.mean:.2f}" + (f" ± {point.std:.2f}" if point.std is not None and unit != "s" else "") + f" {unit}"


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-hidden="true">{"".join(parts)}</svg>'
