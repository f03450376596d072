"""Consensus of clusterings from any clusterers (paper, section 3.2.2): the public function `ultraspec.consensus`."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ultraspec._checks import check_clusters, check_integer, check_jobs, check_number, seed_sequence, warn_user
from ultraspec.engines.threads import ThreadEngine
from ultraspec.ensemble import microclusters
from ultraspec.ensemble.consensus import warn_if_single
from ultraspec.ensemble.label_matrix import read_label_matrix, warn_if_transposed
from ultraspec.ensemble.layers import find_consensus_layers
from ultraspec.ensemble.transfer_cut import ConsensusGraph, check_columns
from ultraspec.spectral.layers import warn_of_no_structure
from ultraspec.spectral.options import LabelOptions

Labels = npt.NDArray[np.int32]


def consensus(
    base_labels: Any,
    n_clusters: int | Literal["auto"],
    *,
    n_init: int = 3,
    max_iter: int = 100,
    regularization: float = 1e-3,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Labels:
    """Combine clusterings of the same rows into one, by U-SENC's bipartite consensus.

    The clusterings may come from any clusterers, with any numbers of clusters; only their labels are used. Time and
    memory grow linearly with the size of the label matrix: ten million rows with twenty clusterings take about half a
    second on a laptop.

    Parameters
    ----------
    base_labels : array-like or frame of shape (n_samples, n_clusterings)
        One column per clustering. Labels may be any integers or strings, or floats with integer values. -1, None and
        NaN mean that the clustering does not assign the row (the noise of DBSCAN, for example): the row then depends on
        the other columns. At most 20,000 clusters in all columns together.
    n_clusters : int or "auto"
        Number of clusters. "auto" takes the number, up to 200, at which disjoint halves of the clusterings agree most;
        it needs at least four. One cluster means that no structure was found.
    n_init : int, default=3
        Number of starts of the k-means that turns the embedding into labels; the best is used.
    max_iter : int, default=100
        Maximum number of iterations of k-means.
    regularization : float, default=1e-3
        Weight of a weak edge between all base clusters, as a share of their mean degree. 0 follows the paper exactly.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The same integer gives the same labels, for any `n_jobs`.
    n_jobs : int or None, default=None
        Number of threads. None and -1 use every core that the process may use.

    Returns
    -------
    ndarray of shape (n_samples,), int32
        Cluster of each row; -1 for rows that no clustering assigns.

    See Also
    --------
    USENC : Generates the base clusterings, too.

    Examples
    --------
    Two moons, which k-means separates wrongly. Many coarse runs of k-means together recover the shapes:

    >>> import numpy as np
    >>> from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
    >>> from sklearn.datasets import make_moons
    >>> from ultraspec import consensus, metrics
    >>> X, y = make_moons(2_000, noise=0.06, random_state=0)
    >>> kinds = KMeans, MiniBatchKMeans, BisectingKMeans
    >>> clusterers = [kind(k, random_state=k) for k in range(20, 32) for kind in kinds]
    >>> base_labels = np.column_stack([clusterer.fit_predict(X) for clusterer in clusterers])
    >>> metrics.nmi(y, KMeans(2, random_state=0).fit_predict(X)) < 0.5
    True
    >>> metrics.nmi(y, consensus(base_labels, 2, random_state=0)) > 0.9
    True

    Labels may be strings, and rows may be unassigned:

    >>> consensus([["a", 7], ["a", 7], ["b", 7], ["b", 3], [None, 3], [None, -1]], 2, random_state=0)[-1]
    np.int32(-1)
    """
    check_clusters(n_clusters)
    check_integer("n_init", n_init, least=1)
    check_integer("max_iter", max_iter, least=1)
    check_number("regularization", regularization, least=0.0)
    check_jobs(n_jobs)
    labels = read_label_matrix(base_labels)
    warn_if_transposed(labels)
    options = LabelOptions(n_init, max_iter, seed_sequence(random_state))
    with ThreadEngine(n_jobs) as engine:
        micro = microclusters.find(labels, engine)
        check_columns(micro.n_columns, 1)
        if n_clusters == "auto":
            layers = find_consensus_layers(micro, options.rng, engine)
            warn_of_no_structure(layers, "disjoint halves of the base clusterings")
            n_clusters = layers[0].n_clusters
        warn_if_single([micro.n_columns] * micro.columns.shape[1], n_clusters)
        graph = ConsensusGraph.build(micro, n_clusters, regularization, engine)
        cut = graph.cut(n_clusters, options, engine).by_size(micro.weights)
        n_unassigned = int(micro.weights[cut.labels < 0].sum())
        if n_unassigned:
            warn_user(f"{n_unassigned:,} rows have no label in any column of base_labels; they get -1.", UserWarning)
        return micro.spread(cut.labels, engine)
