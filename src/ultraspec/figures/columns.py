"""Columns that describe rows but were not clustered: numbers, categories and texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ultraspec.figures.labeled_rows import Floats, Integers, Selection
from ultraspec.rows import sample_indices

MOST_CATEGORIES = 40  # that are counted; rarer ones count as "other"
CATEGORY_VALUES = 1000  # a column of strings with more distinct values is a text
CATEGORY_SHARE = 0.2  # or with more distinct values than this share of the rows
WORD_ROWS = 100_000  # rows of a text column whose terms are counted
MOST_WORDS = 400
COMMON_WORD = 0.5  # a term in more than this share of the texts says nothing
TERM = re.compile(r"[^\W\d_][\w'’-]+")

Kind = Literal["number", "category", "text"]


@dataclass(frozen=True)
class Column:
    """A column that describes the rows.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "category", "text"}
        What is in it.
    values : ndarray of shape (n_rows,)
        Numbers as float64, NaN if missing; else objects.
    codes : ndarray of shape (n_rows,), int32, or None
        Category of each row; -1 if missing.
    categories : list of str
        Names of the categories, the most frequent first.
    """

    name: str
    kind: Kind
    values: npt.NDArray[Any]
    codes: Integers | None = None
    categories: Sequence[str] = ()

    def show(self, row: int) -> str:
        """Return the value of a row as text."""
        value = self.values[row]
        if self.kind == "number":
            return "" if np.isnan(value) else f"{value:.5g}"
        return "" if _is_missing(value) else str(value)

    def numbers(self, where: Selection) -> Floats:
        """Return the numbers of some rows."""
        return np.asarray(self.values[where], dtype=np.float64)


def read_columns(describe: Any, n_rows: int, choose: Callable[[Any], Any] = lambda values: values) -> list[Column]:
    """Return the columns of a frame or a mapping of names to values; raise ValueError if rows are missing.

    The values of rows that are drawn are those that `choose` returns of all values.

    Examples
    --------
    >>> import numpy as np
    >>> columns = read_columns({"age": [31, 45, 27], "country": ["NL", "NL", "FR"]}, 3)
    >>> [(column.name, column.kind) for column in columns]
    [('age', 'number'), ('country', 'category')]
    """
    if describe is None:
        return []
    if isinstance(describe, Mapping):
        named = {str(name): values for name, values in describe.items()}
    elif hasattr(describe, "columns") and hasattr(describe, "__getitem__"):  # a frame of pandas, polars or pyarrow
        names = getattr(describe, "column_names", None) or list(describe.columns)
        named = {str(name): describe[name] for name in names}
    else:
        raise TypeError(f"describe must be a frame or a mapping of names to columns, got {type(describe).__name__}.")
    arrays = {
        name: choose(np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values))
        for name, values in named.items()
    }
    return [_column(name, array, n_rows) for name, array in arrays.items()]


def _column(name: str, array: Any, n_rows: int) -> Column:
    if array.shape != (n_rows,):
        raise ValueError(f"describe[{name!r}] must have one value for each of the {n_rows:,} rows, got {array.shape}.")
    if array.dtype.kind == "M":  # a date: years, as decimal numbers
        days = array.astype("datetime64[s]").astype(np.float64) / 86400
        days[np.isnat(array)] = np.nan
        return Column(f"{name} (year)", "number", 1970 + days / 365.2425)
    if array.dtype.kind in "iuf":
        return Column(name, "number", array.astype(np.float64))
    if array.dtype.kind == "O" and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in array[:1000]):
        try:
            return Column(name, "number", array.astype(np.float64))
        except (TypeError, ValueError):
            pass
    texts = np.array([None if _is_missing(value) else str(value) for value in array.tolist()], dtype=object)
    counts = Counter(text for text in texts if text is not None)
    if len(counts) > max(12, min(CATEGORY_VALUES, CATEGORY_SHARE * n_rows)):
        return Column(name, "text", texts)
    frequent = sorted(counts, key=lambda text: (-counts[text], text))
    number = {text: min(i, MOST_CATEGORIES) for i, text in enumerate(frequent)}
    codes = np.array([-1 if text is None else number[text] for text in texts], dtype=np.int32)
    return Column(
        name, "category", texts, codes, [*frequent[:MOST_CATEGORIES], *["other"][: len(frequent) > MOST_CATEGORIES]]
    )


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def terms_of(text: str) -> set[str]:
    """Return the distinct terms of a text, in lower case.

    Examples
    --------
    >>> sorted(terms_of("The cat, the hat."))
    ['cat', 'hat', 'the']
    """
    return {term.lower() for term in TERM.findall(text)}


@dataclass(frozen=True)
class TextTerms:
    """The terms of a text column by row: rows that were read, and which of the frequent terms each has."""

    rows: npt.NDArray[np.int64]
    terms: list[str]
    entries: Integers  # pairs: position in `rows`, term

    @classmethod
    def of(cls, column: Column) -> TextTerms:
        """Find the frequent terms of a text column, in a sample of the rows."""
        rows = sample_indices(len(column.values), WORD_ROWS, np.random.default_rng(0))
        texts = [terms_of(column.values[row]) if column.values[row] is not None else set() for row in rows.tolist()]
        counts = Counter(term for terms in texts for term in terms)
        usable = [term for term, n in counts.items() if 3 <= n <= max(3, COMMON_WORD * len(rows))]
        frequent = sorted(usable, key=lambda term: (-counts[term], term))[:MOST_WORDS]
        number = {term: i for i, term in enumerate(frequent)}
        entries = [(at, number[term]) for at, terms in enumerate(texts) for term in sorted(terms) if term in number]
        return cls(rows, frequent, np.array(entries, dtype=np.int32).reshape(-1, 2))
