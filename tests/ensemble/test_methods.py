"""The registry of ways to combine members."""

from __future__ import annotations

import pytest

from tests.helpers.common import blobs
from ultraspec import USENC
from ultraspec.ensemble.consensus import ConsensusMethod
from ultraspec.ensemble.cross_agreement import CrossAgreement
from ultraspec.ensemble.methods import CONSENSUS_METHODS
from ultraspec.ensemble.transfer_cut import TransferCut


def test_the_registry_has_the_values_of_the_parameter():
    assert {"auto": CrossAgreement, "transfer_cut": TransferCut} == CONSENSUS_METHODS
    assert all(issubclass(method, ConsensusMethod) for method in CONSENSUS_METHODS.values())
    assert USENC().consensus in CONSENSUS_METHODS
    assert [name for name, method in CONSENSUS_METHODS.items() if method.votes] == ["auto"]


@pytest.mark.parametrize("name", CONSENSUS_METHODS)
def test_an_estimator_combines_its_members_by_the_method_of_that_name(name):
    model = USENC(4, n_estimators=2, base_clusters=(4, 6), consensus=name, random_state=0).fit(blobs(300)[0])
    assert type(model._fitted.consensus) is CONSENSUS_METHODS[name]
