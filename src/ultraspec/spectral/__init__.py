"""U-SPEC, section 3.1 of the paper: from rows to clusters, phase by phase.

=================  ==========================================================================  =========
module             what it does                                                                section
=================  ==========================================================================  =========
preprocess         raw rows of any type to float32 rows; principal components of wide rows
choice             coarse graphs of sampled rows: how fine the graph should be, which clusters
                   other graphs agree on
representatives    select p representatives                                                    3.1.1
neighbors          index the representatives; find the K nearest of a row                      3.1.2
edges              edges of all rows to their K nearest representatives, and their affinities  3.1.2
transfer_cut       the graph of the representatives and its leading eigenvectors               3.1.3
sums               sums of the graph, to which further rows are added
sparse_graph       sums of the graph, for many representatives                                 3.1.3
eigenvectors       solvers for few and for many representatives                                3.1.3
n_clusters         the number of clusters, for n_clusters="auto"
labelings          rough clusterings of the representatives, and what they agree on
candidates         four ways to divide the representatives: a registry
discretize         k-means of all embedded rows, as in the paper                               3.1.3
embedding          k-means on embedded rows, without storing the embedding                     3.1.3
partition          labels of rows, fitted or new, from their edges
stability          clusters against those of other graphs, and of rows without structure
model              all that labels a new row
options            the parameters of these phases
model_checks       checks of the arrays of models that come from files
=================  ==========================================================================  =========

`ultraspec.USPEC.fit` calls the phases in this order.
"""
