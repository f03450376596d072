"""The registry of ways to combine members, by the values of the parameter `consensus` of `USENC`."""

from __future__ import annotations

from ultraspec.ensemble.consensus import ConsensusMethod
from ultraspec.ensemble.cross_agreement import CrossAgreement
from ultraspec.ensemble.transfer_cut import TransferCut

CONSENSUS_METHODS: dict[str, type[ConsensusMethod]] = {"auto": CrossAgreement, "transfer_cut": TransferCut}
