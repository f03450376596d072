"""Clustering algorithms that know nothing of U-SPEC: k-means and linkage."""
