"""Phrases that make sentences hard to read: docstrings, messages and pages use the terms of the field instead."""

from __future__ import annotations

import ast
import re

import pytest

from tests.helpers.common import ROOT

# what not to write, and what to write instead
INSTEAD = {
    r"anew": "again, recompute",
    r"so many": "the number, as in `n_clusters` clusters",
    r"(?:told|tells?|telling) (?:\w+ )?apart": "distinguished",
    r"drawn in(?=[.,;:)]|\s(?:so|to|until)\b|$)": "clipped",
    r"rooms?": "buffer, space, memory",
    r"(?<!bit )(?<!in )(?<!the )(?<!plain )(?<!own )words(?![./])": "strings",
    r"whole numbers?": "integer",
    r"(?:so|very|too) far out": "outlier, distant",
    r"(?:what|that|which) (?:is|are) unlike": "dissimilar",
    r"more than chance": "significant",
    r"(?:the|a|all|any|no|as) (?:found|kept|wanted|asked|own)(?=[.,;:)]| (?:of|that|in|is|are|and)\b)": "a noun",
    r"costs? a (?:tenth|vote)": "takes about 0.1 s",
}
PATTERN = re.compile(r"\b(?:" + "|".join(f"({text})" for text in INSTEAD) + r")(?!\w)", re.IGNORECASE)
PRONOUN = re.compile(r"(?:The same|That|Those|These|Of|Its?|They|Such|Both|So)\b")
TEXT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
ALLOWED = {("docs/tutorials/text.md", "words")}  # of documents


def sentences(path):
    """Yield the line and the text of strings in a Python file, but for names and other single words."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def offenders(path):
    """List words that are not to be used in a file, with their lines."""
    name = path.relative_to(ROOT).as_posix()
    texts = sentences(path) if path.suffix == ".py" else [(1, path.read_text(encoding="utf-8"))]
    seen = []
    for line, text in texts:
        for match in PATTERN.finditer(text):
            number = line + text.count("\n", 0, match.start())
            if (name, match[0].lower()) not in ALLOWED:
                seen.append(
                    f"{name}:{number}: {' '.join(match[0].split())!r}: {list(INSTEAD.values())[match.lastindex - 1]}"
                )
    return seen


def pronouns(path):
    """List docstrings that begin with a pronoun: in an editor they appear alone."""
    name = path.relative_to(ROOT).as_posix()
    kinds = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    texts = [(getattr(node, "lineno", 1), ast.get_docstring(node) or "") for node in nodes]
    return [f"{name}:{line}: {text.splitlines()[0]!r}" for line, text in texts if PRONOUN.match(text)]


def files():
    sources = [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in {".py", ".html"}]
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts]
    return [*sources, *pages, *(ROOT / name for name in TEXT)]


@pytest.mark.parametrize("check", [offenders, pronouns])
def test_language(check):
    paths = [path for path in files() if check is offenders or path.suffix == ".py"]
    seen = [each for path in paths for each in check(path)]
    assert not seen, "\n".join(["", *seen])


@pytest.mark.parametrize(
    "text", ["Reads the file anew.", "A whole number.", "Cut into so many clusters.", "values are drawn in"]
)
def test_words_are_noticed(text):
    assert PATTERN.search(text)
