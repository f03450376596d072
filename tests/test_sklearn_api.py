"""USPEC and USENC as scikit-learn estimators."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from sklearn.base import clone, is_clusterer
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.helpers.common import blobs
from ultraspec import USENC, USPEC

pytestmark = pytest.mark.usefixtures("few_halves")


def expected_failures(estimator):
    """Where representatives are divided, n_iter_ is 0, because max_iter has no effect; and rows have memberships.

    Integer weights equal repeated rows if representatives are the same (tests/test_sample_weight.py). Here they are
    drawn at random, and as for KMeans of scikit-learn, the random numbers meet other rows if rows are repeated.
    """
    random = "representatives are drawn at random: repeated rows have other ones"
    weights = {f"check_sample_weight_equivalence_on_{kind}_data": random for kind in ("dense", "sparse")}
    if getattr(estimator, "discretize", None) == "kmeans" or getattr(estimator, "consensus", None) == "transfer_cut":
        return weights
    classifier = "scikit-learn takes an estimator with predict_proba for a classifier of four classes"
    return weights | {
        "check_transformer_n_iter": "max_iter is for k-means of rows",
        "check_estimator_sparse_array": classifier,
        "check_estimator_sparse_matrix": classifier,
    }


@parametrize_with_checks(
    [
        USPEC(n_clusters=3, random_state=0),
        USPEC(n_clusters="auto", selection="random", neighbors="exact", random_state=0),
        USPEC.paper(n_clusters=3, random_state=0),
        USENC(n_clusters=3, n_estimators=4, random_state=0),
        USENC.paper(n_clusters=3, n_estimators=4, random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(params=[USPEC, USENC])
def kind(request):
    return request.param


def test_tags(kind):
    tags = get_tags(kind())
    assert is_clusterer(kind())
    assert tags.input_tags.sparse
    assert not tags.input_tags.allow_nan
    assert not tags.target_tags.required
    assert tags.transformer_tags is not None


def test_parameters_are_those_of_the_signature_and_documented(kind):
    parameters = inspect.signature(kind).parameters
    assert kind().get_params() == {name: parameter.default for name, parameter in parameters.items()}
    kinds = [parameter.kind for parameter in parameters.values()]
    assert kinds[0] is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert set(kinds[1:]) == {inspect.Parameter.KEYWORD_ONLY}
    text = inspect.getdoc(kind).split("See Also")[0]
    documented = re.findall(r"^(\w+) : ", text, flags=re.MULTILINE)
    assert [name for name in documented if not name.endswith("_")] == list(parameters)


def test_fitted_attributes_are_documented(kind):
    model = kind(4, random_state=0).fit(blobs()[0])
    public = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert public <= set(re.findall(r"^(\w+_) : ", inspect.getdoc(kind), flags=re.MULTILINE))


def test_fit_changes_no_parameter(kind):
    random_state = np.random.RandomState(0)
    model = kind(4, n_representatives=5000, random_state=random_state, n_jobs=-1)
    before = dict(model.get_params())
    model.fit(blobs()[0]).cut(3)
    assert model.get_params() == before
    assert model.random_state is random_state


def test_representations():
    model = USPEC(3, metric="cosine")
    assert repr(model) == "USPEC(metric='cosine', n_clusters=3)"
    assert "USPEC" in estimator_html_repr(model.set_params(metric="euclidean").fit(blobs(k=3)[0]))


@pytest.mark.filterwarnings("ignore:The graph has")
@pytest.mark.parametrize(
    "changes", list(ParameterGrid({"n_clusters": [2, 4], "neighbors": ["approx", "exact"]})), ids=str
)
def test_parameters_can_be_set_from_outside(changes):
    pipeline = make_pipeline(StandardScaler(), USPEC(random_state=0))
    pipeline = clone(pipeline).set_params(**{f"uspec__{name}": value for name, value in changes.items()})
    assert len(set(pipeline.fit_predict(blobs()[0]))) == changes["n_clusters"]


@pytest.mark.filterwarnings("ignore:The graph has")
def test_in_a_union_of_features():
    X, _ = blobs()
    union = FeatureUnion([("four", USPEC(4, random_state=0)), ("two", USPEC(2, random_state=0))])
    assert union.fit_transform(X).shape == (400, 6)
    assert union.get_feature_names_out().tolist()[3:5] == ["four__uspec3", "two__uspec0"]
