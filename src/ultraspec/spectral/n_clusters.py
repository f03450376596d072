"""Number of clusters for n_clusters="auto": from the eigenvalues, or from a tree of merges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ultraspec._checks import warn_user
from ultraspec.cluster.linkage import Tree

MOST_AUTO_CLUSTERS = 50  # n_clusters="auto" looks for an eigengap up to this number
CLEAR_STEP = 3.0  # a ratio of eigenvalues that shows the number of clusters beyond doubt
NO_STEP = 1.05  # ratios of eigenvalues below this are rounding errors
NEGLIGIBLE = 1e-4  # added to 1 - eigenvalue, so that rounding errors are no steps
UNRELATED = 0.1  # added to similarities, of which the mean is one, so that those near zero are no steps

Floats = npt.NDArray[np.float64]


def choose_by_eigengap(eigenvalues: Floats, regularization: float) -> int:
    """Choose the number of clusters k >= 2 at the largest eigengap; warn if no eigenvalue stands out.

    The eigengap is the ratio by which 1 - eigenvalue grows from the k-th eigenvalue to the next.
    """
    steps = eigensteps(eigenvalues, regularization)
    if steps.size == MOST_AUTO_CLUSTERS - 1 and steps.max() < NO_STEP:
        warn_user(
            f'n_clusters="auto" looks at 2 to {MOST_AUTO_CLUSTERS} clusters, and their eigenvalues are all alike: '
            "there may be more clusters, or none. Pass n_clusters.",
            UserWarning,
        )
    return largest_eigengap(eigenvalues, regularization)


def largest_eigengap(eigenvalues: Floats, regularization: float) -> int:
    """Return the number of clusters k >= 2 at the largest eigengap."""
    steps = eigensteps(eigenvalues, regularization)
    return 2 + int(np.argmax(steps)) if steps.size else len(eigenvalues)


def eigensteps(eigenvalues: Floats, regularization: float) -> Floats:
    """Return the ratios (1 - next eigenvalue) / (1 - k-th eigenvalue) for k = 2, 3, ...

    Ratios are used because eigenvalues fall faster and faster, whatever the clusters are. Regularisation lowers all
    eigenvalues by a known factor, which is undone first.
    """
    distances = np.maximum(1.0 - eigenvalues[: MOST_AUTO_CLUSTERS + 1] * (1.0 + regularization), 0.0) + NEGLIGIBLE
    return distances[2:] / distances[1:-1]


def choose_by_tree(tree: Tree, eigenvalues: Floats, regularization: float) -> int:
    """Choose the number of clusters by the eigengap where it is clear, else by the tree of merges."""
    by_eigengap = choose_by_eigengap(eigenvalues, regularization)
    is_clear = eigensteps(eigenvalues, regularization).max(initial=0.0) > CLEAR_STEP
    return by_eigengap if is_clear else largest_fall(tree)


def largest_fall(tree: Tree) -> int:
    """Return the number of clusters k >= 2 at the largest drop of similarity in a tree of merges.

    The drop is the ratio between the similarity of the merge that leaves k clusters and that of the next merge.
    """
    similarities = (
        tree.heights[::-1][:MOST_AUTO_CLUSTERS] + UNRELATED
    )  # entry j is the merge that leaves j + 1 clusters
    if len(similarities) < 2:
        return tree.n_leaves
    return 2 + int(np.argmax(similarities[1:] / similarities[:-1]))
