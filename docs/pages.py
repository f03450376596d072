"""Examples of the pages: runs them and returns their output, which `tests/test_docs.py` compares with the pages.

A page is Markdown. Its ``python`` blocks run in order in a new folder, like the cells of a notebook: they share their
variables, and the value of a last expression is printed. An ``output`` block after one has its output, including
warnings and errors of ultraspec. An image after one is the figure it draws. In a ``console`` block each line that
begins with ``$ ultraspec`` is a command, followed by its output without progress.

``python docs/pages.py [page ...]`` writes output and images of the examples into all pages, or into some.
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
HOME = "/home/ada"  # replaces the folder that examples run in

BLOCK = re.compile(r"^```(python|output|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"\s*!\[[^\]]*\]\(([^)]+\.png)\)")
COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)
# times and sizes depend on the machine, and so may the unit of a size
VARYING = re.compile(r"\b\d[\d,.]*(?: (?:MB|GB)\b|(?= (?:s|min)\b))")
NUMBER = re.compile(r"-?\d+(?:[\d,]*\d)?(?:\.\d+)?(?:e-?\d+)?")


@dataclass
class Example:
    """A block of code.

    Attributes
    ----------
    kind : {"python", "console"}
        Kind of the code.
    code : str
        Python, or commands.
    line : int
        Line of the page.
    shown : str or None
        Output according to the page; None if the page does not show it.
    span : tuple of two int or None
        Position of this output on the page.
    image : Path or None
        Figure that it draws.
    """

    kind: str
    code: str
    line: int
    shown: str | None
    span: tuple[int, int] | None
    image: Path | None


def examples(page: Path) -> list[Example]:
    """Return the examples of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    blocks = list(BLOCK.finditer(text))
    for number, block in enumerate(blocks):
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        kind, code = block.groups()
        if kind == "output":
            continue
        line = text.count("\n", 0, block.start()) + 1
        if kind == "console":
            found.append(Example(kind, code, line, code, block.span(2), None))
            continue
        has_output = after is not None and after[1] == "output" and not text[block.end() : after.start()].strip()
        output = after if has_output else None
        image = IMAGE.match(text, (output or block).end())
        path = (page.parent / image[1]).resolve() if image else None
        shown = output[2] if output else None
        found.append(Example(kind, code, line, shown, output.span(2) if output else None, path))
    return found


def run(page: Path) -> Iterator[tuple[Example, str, list[Any]]]:
    """Run the examples of a page in a new folder; yield each with its output and the figures it draws."""
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
    """Run a block; return its output, then its warnings, then the error that ends it."""
    body = ast.parse(example.code, where).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    out = io.StringIO()
    error = ""
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
    messages = dict.fromkeys(f"{w.category.__name__}: {w.message}\n" for w in warned if from_ultraspec(w))
    warning = "".join(messages)  # each once, as Python shows them by default
    if warning and example.shown is None:
        raise AssertionError(f"{where} warns, but the page does not show it: {warning}")
    return out.getvalue() + warning + error


def from_ultraspec(warned: warnings.WarningMessage) -> bool:
    """Return whether a warning is of a category that ultraspec uses."""
    kind = warned.category
    return kind.__name__ in ("UserWarning", "ConvergenceWarning") or kind.__module__.startswith("ultraspec.")


def run_commands(code: str) -> str:
    """Run the commands of a block; return them with their output, without progress."""
    from ultraspec.cli import main

    parts = []
    for command in COMMAND.findall(code):
        program, *arguments = shlex.split(command)
        if program != "ultraspec":
            raise ValueError(f"{command!r} is no command of ultraspec. Put it in a block of another kind.")
        out = io.StringIO()
        err = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(arguments)
        messages = "".join(line for line in err.getvalue().splitlines(True) if line.startswith("ultraspec: "))
        parts.append(f"$ {command}\n{out.getvalue()}{messages}")
    return "".join(parts)


def agree(shown: str, printed: str) -> bool:
    """Return whether the output on a page agrees with that of the example.

    Times and sizes in memory are not compared. Numbers may differ by 2 % or 0.05: rounding depends on the processor and
    the release of NumPy, and may change the cluster of a few rows.

    Examples
    --------
    >>> agree("NMI 0.998 in 1.2 s, 408 MB", "NMI 0.997 in 9 s, 1.01 GB"), agree("3 clusters", "4 clusters")
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
    """Write output and images of the examples of a page into it."""
    text = page.read_text(encoding="utf-8")
    outputs = []
    for example, printed, figures in run(page):
        outputs.append((example.span, printed))
        if example.image is not None and figures:
            save_picture(figures[-1], example.image)
    for span, printed in reversed(outputs):
        if span is not None:
            lines = [line.rstrip() for line in printed.splitlines()]
            text = text[: span[0]] + "".join(f"{line}\n" for line in lines) + text[span[1] :]
    page.write_text(text, encoding="utf-8")


def save_picture(figure: Any, path: Path, *, colors: int = 200, dpi: int = 110) -> None:
    """Write a figure as a PNG with few colours, which takes a third of the bytes."""
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
