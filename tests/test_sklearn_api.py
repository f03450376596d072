"""USPEC as a scikit-learn estimator."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from ultraspec import USPEC


@parametrize_with_checks([USPEC(n_clusters=3, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
