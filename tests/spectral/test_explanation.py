"""Models explained in plain words."""

from __future__ import annotations

import numpy as np
import pytest

from ultraspec.spectral.explanation import Findings, explain, join_words, overlaps_of
from ultraspec.spectral.layers import Layer


def test_words_are_joined():
    assert join_words(["a"]) == "a"
    assert join_words(["a", "b"]) == "a and b"
    assert join_words(["a", "b", "c"]) == "a, b and c"


def test_a_number_that_was_asked_for():
    assert explain(Findings(3, 1000)) == "1,000 rows were divided into 3 clusters, as asked for."


def test_a_number_that_was_found_and_others():
    layers = [Layer(5, 0.9), Layer(2, 0.5), Layer(9, 0.4)]
    text = explain(Findings(5, 1000, np.array([600, 300, 60, 30, 10]), layers))
    assert text.startswith("5 clusters were found in 1,000 rows: ")
    assert "(strength 0.90;" in text
    assert "The largest has 600 rows, the smallest 10." in text
    assert text.endswith("Also plausible: 2 (strength 0.50) and 9 (strength 0.40).")


def test_another_cut_names_the_suggestion():
    text = explain(Findings(3, 1000, layers=[Layer(5, 0.9)]))
    assert text.startswith("1,000 rows were cut into 3 clusters; the number that was suggested is 5.")


def test_no_structure_is_not_praised():
    text = explain(Findings(1, 1000, layers=[Layer(1, 0.0)], agreements={"linked": 1.0}, confidence=np.ones(1)))
    assert text.startswith("No structure was found in 1,000 rows")
    assert "agrees best" not in text
    assert "found again" not in text


@pytest.mark.parametrize(("value", "words"), [(0.3, "do not rely on them"), (0.9, "the candidate 'linked'")])
def test_agreement(value, words):
    assert words in explain(Findings(3, 1000, agreements={"linked": value, "kmeans": 0.1}))


def test_shaky_clusters_are_named_worst_first():
    text = explain(Findings(3, 1000, confidence=np.array([0.5, 0.9, 0.2])))
    assert text.endswith("Clusters 2 (confidence 0.20) and 0 (confidence 0.50) are shaky.")
    assert explain(Findings(2, 9, confidence=np.array([0.5, 0.9]))).endswith("Cluster 0 (confidence 0.50) is shaky.")
    assert "and 3 more are shaky" in explain(Findings(8, 1000, confidence=np.full(8, 0.1)))
    assert "Every cluster is found again" in explain(Findings(2, 1000, confidence=np.array([0.8, 0.9])))


def test_clusters_that_touch():
    M = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]], dtype=np.float32)
    overlaps = overlaps_of(M)
    assert (overlaps == overlaps.T).all()
    assert overlaps[0, 1] == pytest.approx(0.25 / 1.5)
    assert overlaps.diagonal().max() == overlaps[0, 2] == overlaps[1, 2] == 0
    assert "These touch: 0 and 1." in explain(Findings(3, 4, overlaps=overlaps))
    assert "No two clusters touch." in explain(Findings(3, 4, overlaps=np.zeros((3, 3))))


def test_odd_rows_are_counted():
    quantiles = np.concatenate([np.zeros(981), np.full(20, 0.9)]).astype(np.float32)
    text = explain(Findings(2, 1000, outlier_quantiles=quantiles))
    assert text.endswith("About 20 rows (2.0%) lie more than five times as far out as usual.")
    assert "No row lies far" in explain(Findings(2, 1000, outlier_quantiles=np.zeros(1001, dtype=np.float32)))
