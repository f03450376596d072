"""Consensus by cross-agreement: the choice, the votes of rows, and the confidence."""

from __future__ import annotations

import numpy as np
import pytest

from ultraspec import USENC, datasets, metrics
from ultraspec.ensemble.consensus import Ensemble
from ultraspec.ensemble.cross_agreement import CrossAgreement
from ultraspec.spectral.candidates import CANDIDATES


@pytest.fixture(scope="module")
def face():
    """Four pieces of a face, the mouth longer than the rest: k-means of the embedding cuts it."""
    return datasets.generate("sf", 6_000, random_state=0)


@pytest.fixture(scope="module")
def model(face):
    return USENC(4, n_estimators=5, random_state=0).fit(face[0])


# The choice


def test_the_clusters_are_those_that_agree_most_with_the_other_members(model, engine):
    own, *judges = (member.choice.own for member in model._fitted.members)
    others = [labels for judge in judges for labels in judge.label_all(4, engine)]
    agreements = {
        name: np.mean([metrics.ari(own.label(cut(own.hierarchy, 4, engine)), other) for other in others])
        for name, cut in CANDIDATES.items()
    }
    assert model.candidates_ == pytest.approx(agreements)
    assert list(model.candidates_.values()) == sorted(agreements.values(), reverse=True)
    chosen = CANDIDATES[next(iter(model.candidates_))](own.hierarchy, 4, engine)
    groups = model._fitted.partition.groups
    assert len(set(zip(chosen, groups, strict=True))) == 4


def test_cut_chooses_again(model, face):
    other = model.cut(9)
    assert set(other.candidates_) == set(model.candidates_)
    assert other.candidates_ != model.candidates_
    assert other.cut(4).candidates_ == model.candidates_
    assert other.cut(4).labels_.tobytes() == model.labels_.tobytes()
    with pytest.raises(ValueError, match="leaves of its trees, too few for n_clusters=6001"):
        model.cut(6001)


def test_one_member_is_judged_by_its_own_candidates(face):
    X, y = face
    with pytest.warns(UserWarning, match="no ensemble"):
        model = USENC(4, n_estimators=1, random_state=0).fit(X)
    assert all(-1 <= value <= 1 for value in model.candidates_.values())
    assert metrics.nmi(y, model.labels_) > 0.7


def test_confidence_is_the_trust_of_the_other_members(model, face, engine):
    """Jaccard indices with the clusters of all candidates of the judges, weighted by their squared agreement."""
    choice = model._fitted.model.choice
    partition = model._fitted.partition
    labels = choice.own.label(partition.groups)
    total = np.zeros(len(partition.groups))
    weights = 0.0
    for judge in choice.judges:
        for groups in judge.cut_all(4, engine):
            other = judge.label(groups)
            weight = max(metrics.ari(labels, other), 0.01) ** 2
            weights += weight
            for r, (own, found) in enumerate(zip(partition.groups, groups[judge.nearest], strict=True)):
                both = (labels == own) & (other == found)
                total[r] += weight * both.sum() / max(((labels == own) | (other == found)).sum(), 1)
    np.testing.assert_allclose(partition.trust, total / weights, atol=1e-5)
    assert model.confidence_.tobytes() == model.predict(face[0], return_confidence=True)[1].tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_bananas_and_circles_never_collapse(seed):
    for name, k, least in (("tb", 2, 0.9), ("cc", 3, 0.95)):
        X, y = datasets.generate(name, 8_000, random_state=seed)
        labels = USENC(k, n_estimators=8, random_state=seed).fit_predict(X)
        assert metrics.nmi(y, labels) > least


@pytest.mark.parametrize("seed", range(2))
def test_rare_classes_that_lie_apart_are_found(seed):
    """Two classes of 0.3 % of the rows, which the former consensus merged with others."""
    rng = np.random.default_rng(seed)
    y = rng.choice(8, 12_000, p=[0.3, 0.25, 0.2, 0.1, 0.08, 0.064, 0.003, 0.003])
    X = 2.0 * rng.normal(size=(8, 20))[y] + rng.normal(size=(12_000, 20))
    labels = USENC(8, n_estimators=6, random_state=seed).fit_predict(X)
    for rare in (6, 7):
        cluster = np.bincount(labels[y == rare]).argmax()
        assert (y[labels == cluster] == rare).mean() > 0.8
        assert (labels[y == rare] == cluster).mean() > 0.8


def test_rows_that_vote_must_be_at_hand(model, engine):
    members = Ensemble(list(model._fitted.members), model.base_labels_, None)
    with pytest.raises(ValueError, match=r"does not hold the rows that vote.*Call cut\(n_clusters, X\)"):
        CrossAgreement.build(members, 4, 1e-3, engine)
