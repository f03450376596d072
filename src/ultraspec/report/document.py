"""The frame of HTML pages in one file: head, style, heading, facts, notes and colour scheme."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from importlib import resources
from pathlib import Path

from ultraspec import __version__
from ultraspec.figures import palette

NOTE_SIGNS = {"warning": "!", "look": "→", "good": "✓"}
NOTE_NAMES = {"warning": "Warning", "look": "Note", "good": "Good"}


def render_document(
    *,
    title: str,
    lead: str,
    facts: Iterable[tuple[str, str, str]],
    body: str,
    brand: str = "ultraspec",
    style: str = "",
    script: str = "",
) -> str:
    """Render a page.

    Parameters
    ----------
    title : str
        Heading and title, as plain text.
    lead : str
        First sentences, as plain text.
    facts : iterable of (name, value, remark)
        Numbers at the top, as plain text.
    body : str
        Sections below, as HTML.
    brand : str
        Text in the upper left corner.
    style, script : str
        CSS and JavaScript beyond those of all pages.
    """
    parts = {
        "title": escape(title),
        "version": __version__,
        "brand": brand,
        "lead": escape(lead),
        "facts": "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd class=sub>{escape(remark)}</dd></div>"
            for name, value, remark in facts
        ),
        "body": body,
        "style": fill(template("style.css"), {"light": _colors("light"), "dark": _colors("dark")}) + style,
        "script": template("theme.js") + script,
    }
    return fill(template("document.html"), parts)


def render_note(kind: str, text: str, sign: str | None = None) -> str:
    """Render a note of the kind "warning", "look" or "good" as an item of a list; `text` is plain text."""
    return (
        f'<li class="{kind}"><span class=sign aria-hidden=true>{sign or NOTE_SIGNS[kind]}</span>'
        f"<p><span class=hidden>{NOTE_NAMES[kind]}: </span>{escape(text)}</p></li>"
    )


def is_page(path: Path) -> bool:
    """Return whether a file is an HTML page that ultraspec wrote.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    bool
    """
    with open(path, "rb") as file:
        return b'<meta name="generator" content="ultraspec' in file.read(2000)


def template(name: str, package: str = "ultraspec.report") -> str:
    """Read a file of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def fill(text: str, parts: dict[str, str]) -> str:
    """Replace every ``{{name}}`` of a template by a part; braces within parts stay as they are."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


def _colors(theme: str) -> str:
    """Return the CSS properties of a theme: the colours of clusters, and the scales."""
    scales = {
        "light": {"c": palette.LIGHT, "confidence": palette.CONFIDENCE_LIGHT, "agreement": palette.AGREEMENT_LIGHT},
        "dark": {"c": palette.DARK, "confidence": palette.CONFIDENCE_DARK, "agreement": palette.AGREEMENT_DARK},
    }[theme]
    return " ".join(f"--{name}{i}: {color};" for name, scale in scales.items() for i, color in enumerate(scale))
