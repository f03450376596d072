"""The frame of HTML pages in one file: head, style, heading, facts, notes and colour scheme.

Templates are Jinja2 with automatic escaping: a part is text unless it is marked as HTML.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from ultraspec import __version__
from ultraspec.figures import palette

NOTE_SIGNS = {"warning": "!", "look": "→", "good": "✓"}
NOTE_NAMES = {"warning": "Warning", "look": "Note", "good": "Good"}
PACKAGE = "ultraspec.report"


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
    return str(
        render_template(
            "document.html",
            title=title,
            version=__version__,
            brand=brand,
            lead=lead,
            facts=facts,
            body=as_html(body),
            style=as_html(render_theme() + style),
            script=as_html(template("theme.js") + script),
        )
    )


def render_theme() -> str:
    """Render the CSS of all pages."""
    return render_template("style.css", light=_colors("light"), dark=_colors("dark"))


def render_note(kind: str, text: str, sign: str | None = None) -> str:
    """Render a note of the kind "warning", "look" or "good" as an item of a list; `text` is plain text."""
    return render_template("note.html", kind=kind, text=text, sign=sign or NOTE_SIGNS[kind], name=NOTE_NAMES[kind])


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


def template(name: str, package: str = PACKAGE) -> str:
    """Read a file of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _environment(package: str) -> Any:
    jinja2 = _import("jinja2")
    loader = jinja2.FunctionLoader(lambda name: template(name, package))
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )


def render_template(file: str, package: str = PACKAGE, /, **parts: Any) -> str:
    """Fill in a template of a package; parts are escaped unless `as_html` marked them. The result is marked.

    Examples
    --------
    >>> print(render_template("note.html", kind="look", text="a < b", sign="!", name="Note")[-17:])
    a &lt; b</p></li>
    """
    return as_html(_environment(package).get_template(file).render(**parts))


def as_html(text: str) -> str:
    """Mark a string as HTML that is not escaped again."""
    marked: str = _import("markupsafe").Markup(text)
    return marked


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"Pages need {module}: pip install 'ultraspec[report]'") from error


def _colors(theme: str) -> str:
    """Return the CSS properties of a theme: the colours of clusters, and the scales."""
    scales = {
        "light": {
            "c": palette.LIGHT,
            "confidence": palette.CONFIDENCE_LIGHT,
            "agreement": palette.AGREEMENT_LIGHT,
            "feature": palette.FEATURE_LIGHT,
            "diverging": palette.DIVERGING_LIGHT,
        },
        "dark": {
            "c": palette.DARK,
            "confidence": palette.CONFIDENCE_DARK,
            "agreement": palette.AGREEMENT_DARK,
            "feature": palette.FEATURE_DARK,
            "diverging": palette.DIVERGING_DARK,
        },
    }[theme]
    return " ".join(f"--{name}{i}: {color};" for name, scale in scales.items() for i, color in enumerate(scale))
