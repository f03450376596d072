"""Numbers of clusters: the largest cluster is 0."""

from __future__ import annotations

import numpy as np

from ultraspec.cluster.points import Labels


def number_by_size(labels: Labels) -> Labels:
    """Give clusters numbers by size, the largest first, those of equal size in their order; -1 stays.

    Examples
    --------
    >>> import numpy as np
    >>> number_by_size(np.array([0, 1, 1, -1, 2, 2, 1], dtype=np.int32)).tolist()
    [2, 0, 0, -1, 1, 1, 0]
    """
    sizes = np.bincount(labels[labels >= 0])
    numbers = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable").astype(labels.dtype)
    if (labels >= 0).all():
        return numbers[labels]
    return np.append(numbers, labels.dtype.type(-1))[labels]
