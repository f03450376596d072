"""U-SPEC, section 3.1 of the paper: from rows to clusters, phase by phase.

=================  ==========================================================================  =========
module             what it does                                                                section
=================  ==========================================================================  =========
preprocess         raw rows of any type to float32 rows
representatives    select p representatives                                                    3.1.1
neighbors          index the representatives; find the K nearest of a row                      3.1.2
edges              edges of all rows to their K nearest representatives, and their affinities  3.1.2
transfer_cut       the graph of the representatives and its leading eigenvectors               3.1.3
n_clusters         the number of clusters, for n_clusters="auto"
discretize         clusters of the embedding: a registry of ways                               3.1.3
embedding          k-means on embedded rows                                                    3.1.3
agreement          clusters of representatives, from many rough clusterings of them
partition          labels of rows, fitted or new, from their edges
model              all that labels a new row
options            the parameters of these phases
model_checks       checks of the arrays of models that come from files
=================  ==========================================================================  =========

`ultraspec.USPEC.fit` calls the phases in this order.
"""
