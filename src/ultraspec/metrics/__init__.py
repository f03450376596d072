"""Scores of clusterings, in time linear in the number of rows.

`nmi`, `ami`, `ari`, `majority_accuracy` and `hungarian_accuracy` compare clusters with known classes. `silhouette` and
`davies_bouldin` need no classes: they compare the distances within and between clusters, block by block of the rows.
"""

from typing import TYPE_CHECKING, Any

from ultraspec.metrics.labels import (
    Contingency,
    ami,
    ari,
    contingency,
    hungarian_accuracy,
    majority_accuracy,
    nmi,
)

if TYPE_CHECKING:
    from ultraspec.metrics.distances import davies_bouldin, silhouette

__all__ = [
    "Contingency",
    "ami",
    "ari",
    "contingency",
    "davies_bouldin",
    "hungarian_accuracy",
    "majority_accuracy",
    "nmi",
    "silhouette",
]


def __getattr__(name: str) -> Any:
    """Import the scores that need SciPy when they are first used: commands that compare labels start faster."""
    if name in ("davies_bouldin", "silhouette"):
        from ultraspec.metrics import distances

        return getattr(distances, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
