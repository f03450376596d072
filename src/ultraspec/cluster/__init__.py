"""Clustering algorithms that know nothing of U-SPEC.

===============  ========================================================================
module           what it does
===============  ========================================================================
kmeans           k-means on blocks of rows; random and k-means++ starts
points           what k-means clusters: rows that can be assigned to centres
distance_bounds  lower bounds of distances, which exclude most centres of long rows
linkage          agglomerative clustering of a square matrix
===============  ========================================================================
"""
