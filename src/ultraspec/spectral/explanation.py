"""What a fitted model says about its clusters, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ultraspec.spectral.layers import Layer

SHAKY = 0.6  # confidence below which a cluster is doubtful
DOUBTFUL = 0.65  # agreement that structureless data may reach, see choosing-candidates.md
TOUCHING = 1e-3  # share of the smaller cluster that two clusters have in common
ODD = 0.8  # outlier score of a row that is five times as far from its representatives as usual
MOST_NAMED = 5  # clusters, pairs or numbers that a sentence names

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Findings:
    """What is known of the clusters of a model; None for what is not."""

    n_clusters: int
    n_rows: int
    sizes: npt.NDArray[np.int64] | None = None
    layers: Sequence[Layer] | None = None
    agreements: Mapping[str, float] | None = None
    confidence: Floats | None = None
    overlaps: Floats | None = None
    outlier_quantiles: npt.NDArray[np.float32] | None = None


def explain(findings: Findings) -> str:
    """Return one paragraph: how many clusters and why, what else is plausible, what is doubtful, touching or odd."""
    parts = (_number, _plausible, _agreement, _shaky, _touching, _odd)
    return " ".join(sentence for part in parts if (sentence := part(findings)))


def overlaps_of(memberships: npt.NDArray[np.float32]) -> Floats:
    """Return the overlap (k, k) of clusters: the weight that two share, relative to that of the smaller one."""
    M = memberships.astype(np.float64)
    totals = M.sum(axis=0)
    overlaps: Floats = (M.T @ M) / np.maximum(np.minimum(totals[:, None], totals), 1e-12)
    np.fill_diagonal(overlaps, 0.0)
    return overlaps


def _number(findings: Findings) -> str:
    k = findings.n_clusters
    rows = f"{findings.n_rows:,} rows"
    if findings.layers is None:
        text = f"{rows} were divided into {k} clusters, as asked for."
    elif k == 1:
        return (
            f"No structure was found in {rows}: graphs of disjoint halves of the rows agree on no number of clusters "
            "more than they do for data without clusters."
        )
    elif k == findings.layers[0].n_clusters:
        text = (
            f"{k} clusters were found in {rows}: graphs of disjoint halves of the rows agree most on this number "
            f"(strength {findings.layers[0].strength:.2f}; 0 is data without structure, 1 is perfect agreement)."
        )
    elif findings.layers[0].n_clusters == 1:
        text = f"{rows} were cut into {k} clusters, but no structure was found in them."
    else:
        text = f"{rows} were cut into {k} clusters; the number that was suggested is {findings.layers[0].n_clusters}."
    sizes = findings.sizes
    if sizes is not None and len(sizes) > 1:
        text += f" The largest has {sizes.max():,} rows, the smallest {sizes.min():,}."
    return text


def _plausible(findings: Findings) -> str:
    suggested = findings.layers[0].n_clusters if findings.layers else 1
    others = [each for each in findings.layers or () if each.n_clusters not in (1, suggested, findings.n_clusters)]
    if not others:
        return ""
    listed = join_words([f"{each.n_clusters} (strength {each.strength:.2f})" for each in others[:MOST_NAMED]])
    return f"Also plausible: {listed}."


def _agreement(findings: Findings) -> str:
    if not findings.agreements or findings.n_clusters == 1:
        return ""
    name, value = next(iter(findings.agreements.items()))
    if value < DOUBTFUL:
        return (
            f"Independent graphs do not agree on these clusters (mean adjusted Rand index {value:.2f}, which data "
            "without structure reaches as well): do not rely on them."
        )
    return (
        f"The clusters are those of the candidate {name!r}, which agrees best with independent graphs (mean adjusted "
        f"Rand index {value:.2f})."
    )


def _shaky(findings: Findings) -> str:
    if findings.confidence is None or findings.n_clusters == 1:
        return ""
    shaky = np.flatnonzero(findings.confidence < SHAKY)
    if not shaky.size:
        return (
            f"Every cluster is found again by the other graphs (confidence at least {findings.confidence.min():.2f})."
        )
    order = shaky[np.argsort(findings.confidence[shaky], kind="stable")]
    named = [f"{c} (confidence {findings.confidence[c]:.2f})" for c in order[:MOST_NAMED].tolist()]
    more = f" and {len(order) - MOST_NAMED} more" if len(order) > MOST_NAMED else ""
    subject = "Cluster" if len(order) == 1 else "Clusters"
    return f"{subject} {join_words(named)}{more} {'is' if len(order) == 1 else 'are'} shaky."


def _touching(findings: Findings) -> str:
    if findings.overlaps is None or findings.n_clusters < 2:
        return ""
    upper = np.triu(findings.overlaps, 1)
    pairs = np.argwhere(upper > TOUCHING)
    if not len(pairs):
        return "No two clusters touch."
    order = np.argsort(-upper[tuple(pairs.T)], kind="stable")
    named = [f"{a} and {b}" for a, b in pairs[order][:MOST_NAMED].tolist()]
    more = f"; and {len(pairs) - MOST_NAMED} other pairs" if len(pairs) > MOST_NAMED else ""
    return f"These touch: {'; '.join(named)}{more}."


def _odd(findings: Findings) -> str:
    if findings.outlier_quantiles is None:
        return ""
    share = float(np.mean(findings.outlier_quantiles > ODD))
    count = round(share * findings.n_rows)
    if not count:
        return "No row lies far from all others."
    return f"About {count:,} rows ({share:.1%}) lie more than five times as far out as usual."


def join_words(words: Sequence[str]) -> str:
    """Join words by commas and a final "and"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
