"""Runs the examples of the pages: takes a page, gives what its examples print, which `tests/test_docs.py` compares.

A page is Markdown. Its ``python`` blocks run one after the other, as the cells of a notebook do, in a new folder: they
share their names, and the value of a last expression is printed. An ``output`` block right behind one says what it
prints, the warnings and errors of ultraspec included; an image behind one is what it draws. In a ``console`` block
every line that begins with ``$ ultraspec`` is a command, and what it prints follows; progress is left out.

``python docs/pages.py`` writes what examples print and draw into all pages, or into those that are named.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
HOME = "/home/ada"  # stands for the folder that examples run in

BLOCK = re.compile(r"^```(python|output|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"\s*!\[[^\]]*\]\(([^)]+\.png)\)")
COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)
VARYING = re.compile(r"\b\d[\d,.]*(?= (?:s|min|MB|GB)\b)")  # times and sizes, of this run on this machine
NUMBER = re.compile(r"-?\d+(?:[\d,]*\d)?(?:\.\d+)?(?:e-?\d+)?")


@dataclass
class Example:
    """A block that runs.

    Attributes
    ----------
    kind : str
        "python" or "console".
    code : str
        What runs: Python, or commands.
    line : int
        Of the page.
    shown : str or None
        What the page says that it prints; None where it does not say.
    spot : tuple of two int or None
        Where on the page that stands.
    image : Path or None
        What it draws.
    """

    kind: str
    code: str
    line: int
    shown: str | None
    spot: tuple[int, int] | None
    image: Path | None


def examples(page: Path) -> list[Example]:
    """Return the examples of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found, blocks = [], list(BLOCK.finditer(text))
    for number, block in enumerate(blocks):
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        kind, code = block.groups()
        if kind == "output":
            continue
        line = text.count("\n", 0, block.start()) + 1
        if kind == "console":
            found.append(Example(kind, code, line, code, block.span(2), None))
            continue
        behind = after is not None and after[1] == "output" and not text[block.end() : after.start()].strip()
        image = IMAGE.match(text, after.end() if behind else block.end())
        found.append(
            Example(
                kind,
                code,
                line,
                after[2] if behind else None,
                after.span(2) if behind else None,
                (page.parent / image[1]).resolve() if image else None,
            )
        )
    return found


def run(page: Path) -> Iterator[tuple[Example, str, list[Any]]]:
    """Run the examples of a page in a new folder; gives each, what it prints and the figures it draws."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for example in examples(page):
            where = f"{page.name}, line {example.line}"
            printed = run_python(example, names, where) if example.kind == "python" else run_commands(example.code)
            yield example, printed.replace(os.path.realpath(folder), HOME), [plt.figure(n) for n in plt.get_fignums()]
            plt.close("all")


def run_python(example: Example, names: dict[str, Any], where: str) -> str:
    """Run a block; gives what it prints, then its warnings, then the error that ends it."""
    body = ast.parse(example.code, where).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    out, error = io.StringIO(), ""
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            exec(compile(ast.Module(body, []), where, "exec"), names)
            value = eval(compile(last, where, "eval"), names) if last is not None else None
            if value is not None and not hasattr(value, "figure"):
                print(repr(value))
        except Exception as raised:
            if example.shown is None or type(raised).__name__ not in example.shown:
                raised.add_note(f"in {where}")
                raise
            error = f"{type(raised).__name__}: {raised}\n"
    told = [f"{w.category.__name__}: {w.message}\n" for w in warned if from_ultraspec(w)]
    if told and example.shown is None:
        raise AssertionError(f"{where} warns, and the page does not say so: {''.join(told)}")
    return out.getvalue() + "".join(told) + error


def from_ultraspec(warned: warnings.WarningMessage) -> bool:
    """Whether it is of the kinds that ultraspec warns with."""
    kind = warned.category
    return kind.__name__ in ("UserWarning", "ConvergenceWarning") or kind.__module__.startswith("ultraspec.")


def run_commands(code: str) -> str:
    """Run the commands of a block; gives them with what each prints, without progress."""
    from ultraspec.cli import main

    parts = []
    for command in COMMAND.findall(code):
        words = shlex.split(command)
        if words[0] != "ultraspec":
            raise ValueError(f"{command!r} is no command of ultraspec: put it in a block of another kind.")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(words[1:])
        told = "".join(line for line in err.getvalue().splitlines(True) if line.startswith("ultraspec: "))
        parts.append(f"$ {command}\n{out.getvalue()}{told}")
    return "".join(parts)


def agree(shown: str, printed: str) -> bool:
    """Whether a page tells what its example prints.

    Times and memory may be others. Numbers may differ by two in a hundred, or by 0.05: other processors and releases
    of NumPy round otherwise, and a few rows change their cluster.

    Examples
    --------
    >>> agree("NMI 0.998 in 1.2 s", "NMI 0.997 in 9 s"), agree("3 clusters", "4 clusters")
    (True, False)
    """
    shown, printed = (VARYING.sub("#", " ".join(text.split())) for text in (shown, printed))
    if NUMBER.sub("0", shown) != NUMBER.sub("0", printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    values = [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs]
    return all(abs(a - b) <= max(0.05, 0.02 * abs(a)) for a, b in values)


def with_examples() -> list[Path]:
    """Return the pages that have examples."""
    return [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts and examples(page)]


def write(page: Path) -> None:
    """Put what the examples of a page print and draw into it."""
    text, told = page.read_text(encoding="utf-8"), []
    for example, printed, figures in run(page):
        told.append((example.spot, printed))
        if example.image is not None and figures:
            save_picture(figures[-1], example.image)
    for spot, printed in reversed(told):
        if spot is not None:
            lines = [line.rstrip() for line in printed.splitlines()]
            text = text[: spot[0]] + "".join(f"{line}\n" for line in lines) + text[spot[1] :]
    page.write_text(text, encoding="utf-8")


def save_picture(figure: Any, path: Path, *, colors: int = 200, dpi: int = 110) -> None:
    """Write a figure as a PNG of few colours, which takes a third of the bytes."""
    from PIL import Image

    path.parent.mkdir(exist_ok=True)
    with io.BytesIO() as file:
        figure.savefig(file, dpi=dpi, facecolor="white")
        image = Image.open(file).convert("RGB").quantize(colors, dither=Image.Dither.NONE)
        image.save(path, optimize=True)
    print(f"  {path.relative_to(DOCS)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]] or with_examples():
        print(page.relative_to(DOCS))
        write(page)
