"""Clusters of the embedding: a registry of the ways in which `USPEC` can find them.

To add one, derive a class from `Discretization` and add it to `DISCRETIZATIONS`: the estimator, model files and the
command line take the names from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ultraspec.cluster.linkage import Tree
from ultraspec.engines.threads import ThreadEngine
from ultraspec.spectral import agreement, embedding
from ultraspec.spectral.edges import Edges, LazyEdges
from ultraspec.spectral.n_clusters import choose_by_eigengap, choose_by_tree
from ultraspec.spectral.options import LabelOptions
from ultraspec.spectral.partition import CenterPartition, Partition, VotePartition
from ultraspec.spectral.transfer_cut import KEPT_VECTORS, Spectrum


class Discretization(ABC):
    """A way to turn the embedding into clusters.

    Attributes
    ----------
    votes : bool
        Whether representatives have clusters and rows vote; else rows take the nearest centre.
    has_tree : bool
        Whether clusters are a cut of a tree, so that any number of them can be cut.
    """

    votes: ClassVar[bool] = False
    has_tree: ClassVar[bool] = False

    def n_vectors(self, n_clusters: int) -> int:
        """Return the number of eigenvectors to compute: some more than needed, for other cuts."""
        return max(KEPT_VECTORS, n_clusters + 1)

    def choose_n_clusters(
        self,
        spectrum: Spectrum,
        regularization: float,
        options: LabelOptions,  # noqa: ARG002
        engine: ThreadEngine,  # noqa: ARG002
    ) -> tuple[int, Tree | None]:
        """Choose the number of clusters for n_clusters="auto"; also return the tree if one was built for it."""
        return choose_by_eigengap(spectrum.eigenvalues, regularization), None

    @abstractmethod
    def divide(
        self,
        spectrum: Spectrum,
        edges: Edges | LazyEdges,
        n_clusters: int,
        options: LabelOptions,
        engine: ThreadEngine,
        tree: Tree | None = None,
    ) -> tuple[Partition, int]:
        """Find clusters.

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
        tree : Tree, optional
            Tree of the representatives, if it was built before.

        Returns
        -------
        Partition
            The clusters.
        int
            Iterations of k-means.
        """


class KMeansOfRows(Discretization):
    """k-means of the embedded rows, as in the paper."""

    def divide(
        self,
        spectrum: Spectrum,
        edges: Edges | LazyEdges,
        n_clusters: int,
        options: LabelOptions,
        engine: ThreadEngine,
        tree: Tree | None = None,  # noqa: ARG002
    ) -> tuple[Partition, int]:
        """Find the centres of the clusters in the embedding."""
        points = embedding.embed_edges(edges, spectrum.vectors[:, :n_clusters])
        result = embedding.kmeans(points, n_clusters, options.n_init, options.max_iter, options.rng, engine)
        result = embedding.drop_empty_clusters(
            result,
            n_clusters,
            "the embedding has too few distinct rows. X may have too few distinct rows; otherwise raise "
            "n_representatives.",
        )
        return CenterPartition(spectrum, result.centers), result.n_iter


class KMeansOfRepresentatives(Discretization):
    """k-means of the embedded representatives, weighted by their rows, which then vote."""

    votes = True

    def divide(
        self,
        spectrum: Spectrum,
        edges: Edges | LazyEdges,  # noqa: ARG002
        n_clusters: int,
        options: LabelOptions,
        engine: ThreadEngine,
        tree: Tree | None = None,  # noqa: ARG002
    ) -> tuple[Partition, int]:
        """Find a cluster for each representative."""
        kmeans = options.n_init, options.max_iter, options.rng
        labels, n_iter = agreement.cluster_representatives(spectrum, n_clusters, *kmeans, engine)
        return VotePartition(spectrum, labels, int(labels.max()) + 1), n_iter


class AgreementOfLabelings(Discretization):
    """A cut of the tree of representatives that a hundred rough clusterings make; rows vote."""

    votes = True
    has_tree = True

    def n_vectors(self, n_clusters: int) -> int:
        """Return the number of eigenvectors to compute: rough clusterings have up to twice as many clusters."""
        return max(KEPT_VECTORS, 2 * n_clusters)

    def choose_n_clusters(
        self, spectrum: Spectrum, regularization: float, options: LabelOptions, engine: ThreadEngine
    ) -> tuple[int, Tree]:
        """Choose the number of clusters by the eigengap or, if that is not clear, by the tree."""
        tree = agreement.agreement_tree(spectrum, 1, options.rng, engine)
        return choose_by_tree(tree, spectrum.eigenvalues, regularization), tree

    def divide(
        self,
        spectrum: Spectrum,
        edges: Edges | LazyEdges,  # noqa: ARG002
        n_clusters: int,
        options: LabelOptions,
        engine: ThreadEngine,
        tree: Tree | None = None,
    ) -> tuple[Partition, int]:
        """Cut the tree, built first if need be."""
        if tree is None:
            tree = agreement.agreement_tree(spectrum, n_clusters, options.rng, engine)
        return VotePartition(spectrum, *agreement.cut_tree(tree, n_clusters), tree), agreement.ROUGH_ITERATIONS


DISCRETIZATIONS: dict[str, Discretization] = {
    "kmeans": KMeansOfRows(),
    "representatives": KMeansOfRepresentatives(),
    "consensus": AgreementOfLabelings(),
}
