"""Notes on the result: what looks wrong, what deserves a look, what is good, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ultraspec.figures import Eigengap, FigureData
from ultraspec.report._formatting import format_count, format_share, shorten

ROWS_PER_CLUSTER = 10  # fewer are too few
TINY = 0.002  # share of the rows of a tiny cluster
LEAST_ROWS = 200  # in smaller data, tiny clusters are not reported
DOMINANT = 0.9  # share of the rows of a cluster that has nearly all
SMALL_GAP = 1.15
CLEAR_GAP = 1.5
LOW_LEVEL = 10  # levels of confidence up to this one are low: at most half of the members
MANY_LOW = 0.1  # share of rows with low confidence
FEW_LOW = 0.01
LOW_AGREEMENT = 0.4  # mean NMI
UNEVEN = 30.0  # ratio of the spread of a feature to that of a typical one


@dataclass(frozen=True)
class Note:
    """A note: a warning, a hint where to look, or good news."""

    kind: Literal["warning", "look", "good"]
    text: str


def diagnose(model: Any, figures: FigureData, gap: Eigengap, *, judged: bool = False) -> list[Note]:
    """Return all notes on a result, warnings first.

    If other graphs have `judged` the clusters, which tells more than eigenvalues, a small eigengap is no warning.
    """
    notes = [
        *_labels(figures),
        *_outliers(figures),
        *_sizes(figures),
        *(note for note in _eigengap(gap) if not judged or "eigengap" not in note.text or note.kind == "good"),
        *_confidence(figures),
        *_agreement(figures),
        *_feature_scales(model, figures),
    ]
    if model.random_state is None:
        notes.append(Note("look", "random_state was not set. Another run may give different clusters or numbers."))
    if not notes and not judged:
        notes.append(Note("good", "Nothing unusual was found in sizes, eigenvalues and scales of features."))
    rank = {"warning": 0, "look": 1, "good": 2}
    return sorted(notes, key=lambda note: rank[note.kind])


def _labels(figures: FigureData) -> Iterator[Note]:
    if not figures.has_model_labels:
        yield Note("look", "The clusters are labels that were passed in. Eigenvalues and graph are those of the model.")
    elif not figures.is_training_data:
        yield Note("look", "These are not the rows that the model was fitted on. It predicted their labels.")


def _outliers(figures: FigureData) -> Iterator[Note]:
    n = int(figures.counts.outside.sum())
    if n:
        yield Note(
            "look",
            f"{format_count(n, 'row')} {'lies' if n == 1 else 'lie'} far from all others, outside the map. If these "
            "are errors in the data, drop them and fit again.",
        )


def _sizes(figures: FigureData) -> Iterator[Note]:
    sizes = figures.counts.sizes
    n = figures.n_rows
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        yield Note("look", f"No row is in {_clusters(figures, empty)}.")
    if len(sizes) == 1:
        yield Note("look", "There is one cluster only. Pass a larger n_clusters, or n_clusters='auto'.")
        return
    if n < ROWS_PER_CLUSTER * len(sizes):
        yield Note(
            "look",
            f"There are only {format_count(n, 'row')} for {len(sizes)} clusters. Another sample may give other "
            "clusters.",
        )
    n_representatives = len(figures.graph.codes) if figures.graph is not None else n
    rows_each = n / max(n_representatives, 1)
    tiny = np.flatnonzero((sizes > 0) & (sizes < max(TINY * n, rows_each)))
    if tiny.size and n >= LEAST_ROWS:
        named = _clusters(figures, tiny)
        yield Note(
            "warning",
            f"{named[0].upper()}{named[1:]} {'is' if tiny.size == 1 else 'are'} tiny "
            f"({format_count(int(sizes[tiny].sum()), 'row')} in total). A representative stands for about "
            f"{rows_each:,.0f} rows, so clusters of this size may be outliers or fragments. Find them on the map. Drop "
            "outliers, reduce n_clusters, or raise n_representatives if the clusters are real.",
        )
    largest = int(sizes.argmax())
    if sizes[largest] > DOMINANT * n:
        yield Note(
            "warning",
            f"Cluster {shorten(figures.cluster_names[largest])} has {format_share(sizes[largest] / n)} of the rows. "
            "For a finer structure, raise n_clusters. If features have different scales, scale them first.",
        )


def _eigengap(gap: Eigengap) -> Iterator[Note]:
    k = gap.chosen
    if k > len(gap.ratios) or k < 2:
        return
    chosen = gap.ratios[k - 1]
    largest = gap.ratios[gap.largest - 1] if gap.largest <= len(gap.ratios) else 0.0
    compare = f"The largest eigengap (factor {largest:.1f}) is after {gap.largest}. Compare {gap.largest} clusters."
    if gap.largest == k and chosen >= CLEAR_GAP:
        yield Note("good", f"The largest eigengap (factor {chosen:.1f}) is after {k}, which supports {k} clusters.")
    elif chosen < SMALL_GAP:
        text = f"There is no clear eigengap after {k} (factor {chosen:.2f}), so the data does not suggest {k} clusters."
        yield Note("warning", f"{text} {compare}" if largest >= CLEAR_GAP else text)
    elif gap.largest != k and largest >= CLEAR_GAP * max(chosen, 1.1):
        yield Note("look", compare)
    if gap.n_components > k:
        yield Note(
            "warning",
            f"The graph has {gap.n_components} parts with hardly an edge between them, but there are only {k} "
            "clusters. Raise n_clusters if the parts are real, or n_neighbors to connect them.",
        )


def _confidence(figures: FigureData) -> Iterator[Note]:
    levels = figures.counts.levels
    if levels is None or figures.agreement is None:  # notes are about the members of an ensemble
        return
    low = levels[:, : LOW_LEVEL + 1].sum(axis=1)
    share = low.sum() / max(levels.sum(), 1)
    by_cluster = low / np.maximum(levels.sum(axis=1), 1)
    worst = int(by_cluster.argmax())
    text = f"For {format_share(share)} of the rows, at most half of the members support the label."
    if not figures.has_model_labels:
        yield Note("look", text)
        return
    if share > MANY_LOW:
        yield Note(
            "warning",
            f"{text} Use these labels with care. More members (n_estimators) or another number of clusters may help.",
        )
    elif share < FEW_LOW:
        rows = f"all but {format_share(share)} of the rows" if share > 0 else "all rows"
        yield Note("good", f"The members agree: for {rows}, more than half of them support the label.")
    if by_cluster[worst] > max(0.2, 2 * share) and len(by_cluster) > 1:
        yield Note(
            "look",
            f"Cluster {shorten(figures.cluster_names[worst])} is the least certain: for "
            f"{format_share(by_cluster[worst])} of its rows, at most half of the members support the label.",
        )


def _agreement(figures: FigureData) -> Iterator[Note]:
    if figures.agreement is None or not figures.has_model_labels:
        return
    m = len(figures.agreement.consensus)
    mean = (figures.agreement.members.sum() - m) / (m * (m - 1)) if m > 1 else 1.0
    if mean < LOW_AGREEMENT:
        yield Note(
            "warning",
            f"The members hardly agree with each other (mean NMI {mean:.2f}). The data may have no clear clusters, or "
            "features may need scaling.",
        )


def _feature_scales(model: Any, figures: FigureData) -> Iterator[Note]:
    spread = figures.feature_spread
    if spread is None or len(spread) < 2 or model.metric != "euclidean" or not spread.any():
        return
    positive = spread[spread > 0]
    typical = float(positive.min() if len(spread) == 2 else np.median(positive))
    widest = int(spread.argmax())
    if spread[widest] > UNEVEN * typical:
        yield Note(
            "warning",
            f"The spread of {shorten(figures.feature_names[widest], 60)} is {spread[widest] / typical:,.0f} times that "
            f"of {'the other' if len(spread) == 2 else 'a typical'} feature, so it dominates all distances. Unless "
            "this is intended, scale the features first, for example with StandardScaler.",
        )


def _clusters(figures: FigureData, codes: Any) -> str:
    names = [shorten(figures.cluster_names[code]) for code in codes]
    if len(names) > 6:
        names = [*names[:6], f"{len(names) - 6} more"]
    text = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{'cluster' if len(codes) == 1 else 'clusters'} {text}"
