"""What stands out, in plain words: takes a survey, gives notes with what to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ultraspec.figures import Eigengap, Survey
from ultraspec.report._text import cut, percent

FEW = 10  # rows for a cluster
TINY = 0.002  # share of the rows
SMALL_GAP = 1.15
CLEAR_GAP = 1.5
LOW = 10  # level of confidence up to which it is low: half of the members
MANY_LOW = 0.1  # share of the rows
FAINT_AGREEMENT = 0.4
UNEVEN = 30.0  # times the middle feature's spread


@dataclass(frozen=True)
class Note:
    """One remark: a warning, a hint where to look, or good news."""

    kind: Literal["warning", "look", "good"]
    text: str


def notes(model: Any, survey: Survey, gap: Eigengap) -> list[Note]:
    """All remarks, warnings first."""
    found = [
        *_rows(survey),
        *_outside(survey),
        *_sizes(survey),
        *_gap(gap),
        *_ensemble(survey),
        *_features(model, survey),
    ]
    if model.random_state is None:
        found.append(Note("look", "random_state was not set: another run may number and cut clusters differently."))
    rank = {"warning": 0, "look": 1, "good": 2}
    return sorted(found, key=lambda note: rank[note.kind])


def _rows(survey: Survey) -> Iterator[Note]:
    if not survey.own:
        yield Note("look", "Clusters are labels that were passed in; eigenvalues and the graph are the model's.")
    elif not survey.fitted:
        yield Note("look", "The rows were labelled by the model, which does not hold labels of these very rows.")


def _outside(survey: Survey) -> Iterator[Note]:
    drawn = survey.map
    n = int(drawn.tally.outside.sum()) if drawn is not None else 0
    if n:
        yield Note(
            "look",
            f"{_count(n)} lie{'s' if n == 1 else ''} far from all others, beyond the map. If that is by error, drop "
            "them and fit again.",
        )


def _sizes(survey: Survey) -> Iterator[Note]:
    sizes, n = survey.tally.sizes, survey.n_rows
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        yield Note("look", f"No row is in {_named(survey, empty)}.")
    if len(sizes) == 1:
        yield Note("look", "There is one cluster. Ask for more with n_clusters, or let n_clusters='auto' choose.")
        return
    if n < FEW * len(sizes):
        yield Note("look", f"{_count(n)} for {len(sizes)} clusters are few: another sample may give other clusters.")
    graph = survey.graph
    stands_for = n / max(len(graph.codes), 1) if graph is not None else 0.0
    tiny = np.flatnonzero((sizes > 0) & (sizes < max(TINY * n, stands_for)))
    if tiny.size and n >= 200:
        yield Note(
            "warning",
            f"{_named(survey, tiny).capitalize()} {'is' if tiny.size == 1 else 'are'} tiny "
            f"({_count(int(sizes[tiny].sum()))} in all). A representative stands for about {stands_for:,.0f} rows, so "
            "clusters of that size may be outliers, or parts cut off by chance. See where they lie on the map; drop "
            "outliers, ask for fewer clusters, or raise n_representatives if they are real.",
        )
    largest = int(sizes.argmax())
    if sizes[largest] > 0.9 * n:
        yield Note(
            "warning",
            f"Cluster {cut(survey.names[largest])} has {percent(sizes[largest] / n)} of the rows. If finer structure "
            "is wanted, ask for more clusters; if features differ in scale, bring them to the same one first.",
        )


def _gap(gap: Eigengap) -> Iterator[Note]:
    k = gap.chosen
    if k > len(gap.growth) or k < 2:
        return
    here, best = gap.growth[k - 1], gap.growth[gap.largest - 1] if gap.largest <= len(gap.growth) else 0.0
    if gap.largest == k and here >= CLEAR_GAP:
        yield Note(
            "good",
            f"The eigenvalues take their largest step ({here:.1f} times) right after {k}: {k} clusters fit well.",
        )
    elif here < SMALL_GAP:
        text = f"The eigenvalues take no clear step after {k} ({here:.2f} times): {k} clusters is a choice, not a fact."
        if best >= CLEAR_GAP:
            text += f" The largest step ({best:.1f} times) is after {gap.largest}: compare model.cut({gap.largest})."
        yield Note("warning", text)
    elif gap.largest != k and best >= CLEAR_GAP * max(here, 1.1):
        yield Note(
            "look",
            f"The largest step of the eigenvalues ({best:.1f} times) is after {gap.largest}: compare "
            f"model.cut({gap.largest}).",
        )
    if gap.pieces > k:
        yield Note(
            "warning",
            f"The graph is in {gap.pieces} parts that share hardly a tie, more than the {k} clusters. Raise "
            "n_clusters if the parts are real, or n_neighbors to join them.",
        )


def _ensemble(survey: Survey) -> Iterator[Note]:
    levels, agreement = survey.tally.levels, survey.agreement
    if levels is None or agreement is None:
        return
    low = levels[:, : LOW + 1].sum() / max(levels.sum(), 1)
    own = levels[:, : LOW + 1].sum(axis=1) / np.maximum(levels.sum(axis=1), 1)
    worst = int(own.argmax())
    if not survey.own:
        yield Note("look", f"{percent(low)} of the rows have at most half of the members behind their label.")
        return
    if low > MANY_LOW:
        yield Note(
            "warning",
            f"{percent(low)} of the rows have at most half of the members behind their label. Treat their labels with "
            "care; more members (n_estimators) or another number of clusters may help.",
        )
    elif low < 0.01:
        few = f"only {percent(low)} of the rows have" if low > 0 else "no row has"
        yield Note("good", f"Members agree: {few} at most half of them behind their label.")
    if own[worst] > max(0.2, 2 * low) and len(own) > 1:
        yield Note(
            "look",
            f"Cluster {cut(survey.names[worst])} is the least certain: {percent(own[worst])} of its rows have at most "
            "half of the members behind them.",
        )
    m = len(agreement.consensus)
    if m > 1:
        between = (agreement.members.sum() - m) / (m * (m - 1))
        if between < FAINT_AGREEMENT:
            yield Note(
                "warning",
                f"Members agree little with each other (mean NMI {between:.2f}): the data may have no clear clusters, "
                "or features may need scaling.",
            )


def _features(model: Any, survey: Survey) -> Iterator[Note]:
    spread = survey.spread
    if spread is None or len(spread) < 2 or model.metric != "euclidean":
        return
    positive = spread[spread > 0]
    if not positive.size:
        return
    widest, middle = int(spread.argmax()), float(np.median(positive))
    if len(spread) == 2:
        middle = float(positive.min())
    if spread[widest] > UNEVEN * middle:
        name, other = survey.feature_names[widest], "other" if len(spread) == 2 else "typical"
        yield Note(
            "warning",
            f"{cut(name, 60)} spreads {spread[widest] / middle:,.0f} times as wide as the {other} feature, so "
            "distances are mostly its own. Scale features first (as with StandardScaler) unless that is meant.",
        )


def _named(survey: Survey, codes: Any) -> str:
    names = [cut(survey.names[code]) for code in codes[:6]]
    text = ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
    if len(codes) > 6:
        text = f"{', '.join(names)} and {len(codes) - 6} more"
    return f"{'cluster' if len(codes) == 1 else 'clusters'} {text}"


def _count(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"
