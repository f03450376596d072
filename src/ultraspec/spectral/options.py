"""Parameters of the phases that build the graph, named as those of the estimators."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ultraspec._checks import to_python

PAPER_GRAPH: dict[str, Any] = {  # parameters of the paper, for U-SPEC and the members of U-SENC
    "n_representatives": 1000,
    "n_neighbors": 5,
    "n_components": None,
    "selection": "hybrid",
    "candidate_factor": 10,
    "neighbors": "approx",
    "neighborhood_factor": 10,
    "affinity": "paper",
    "regularization": 0.0,
    "graph_rows": None,
}


@dataclass(frozen=True)
class GraphOptions:
    """Parameters that define the graph of rows and representatives."""

    n_representatives: Any  # an integer or "auto"
    n_neighbors: int
    selection: str
    candidate_factor: int
    neighbors: str
    neighborhood_factor: int
    metric: str
    affinity: str
    regularization: float

    @property
    def row_power(self) -> float:
        """Exponent of the degree of a row in its weight."""
        return 0.5 if self.affinity == "robust" else 1.0

    @classmethod
    def of(cls, estimator: Any) -> GraphOptions:
        """Return the options of an estimator, as Python numbers."""
        return cls(**{field.name: to_python(getattr(estimator, field.name)) for field in fields(cls)})


@dataclass(frozen=True)
class LabelOptions:
    """Parameters of the k-means that turns an embedding into labels, and its seed."""

    n_init: int
    max_iter: int
    seed: np.random.SeedSequence

    @property
    def rng(self) -> np.random.Generator:
        """A new generator of random numbers, always the same ones."""
        return np.random.default_rng(self.seed)
