"""Discretisation (paper, section 3.1.3): the values of `discretize`, and k-means of the embedded rows."""

from __future__ import annotations

from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import embedding
from ultraspec.spectral.candidates import CANDIDATES
from ultraspec.spectral.edges import Edges, LazyEdges
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import CenterPartition
from ultraspec.spectral.transfer_cut import Spectrum

DISCRETIZATIONS = ("auto", *CANDIDATES)


def cluster_rows(
    spectrum: Spectrum, edges: Edges | LazyEdges, n_clusters: int, options: LabelOptions, engine: ThreadEngine
) -> tuple[CenterPartition, int]:
    """Find the centres of the clusters in the embedding by k-means on all rows, as in the paper.

    Parameters
    ----------
    spectrum : Spectrum
        Eigenvectors.
    edges : Edges or LazyEdges
        Edges of the rows that the graph was built from.
    n_clusters : int
        Number of clusters.
    options : LabelOptions
        Parameters and seed of k-means.
    engine : ThreadEngine
        Runs the passes.

    Returns
    -------
    CenterPartition
        The clusters.
    int
        Iterations of k-means.
    """
    points = embedding.embed_edges(edges, spectrum.vectors[:, :n_clusters])
    result = embedding.kmeans(points, n_clusters, options.n_init, options.max_iter, options.rng, engine)
    result = embedding.drop_empty_clusters(
        result,
        n_clusters,
        "the embedding has too few distinct rows. X may have too few distinct rows; otherwise raise n_representatives.",
    )
    return CenterPartition(spectrum, result.centers), result.n_iter
