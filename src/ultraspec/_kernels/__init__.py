"""Numba kernels: the inner loops, on one block of rows.

=========  ==================================================================================
module     what its kernels do
=========  ==================================================================================
search     find the K nearest representatives of dense rows of few features
products   find the K nearest of some points by matrix products, for more features
sparse     inner products and nearest representatives of sparse rows
graph      affinities, the graph of the representatives, embedded rows
kmeans     assign rows to the nearest centre and sum up the rows of each cluster
agreement  rough k-means, co-association and votes of representatives
cuts       votes of rows in many cuts of a tree at once
labels     number the distinct rows of a label matrix
linkage    agglomerative clustering of a square matrix
layout     forces between the nodes of a graph in the plane
lapack     largest eigenvalues of a symmetric matrix, without Python's global lock
blas       one BLAS thread while engines are open
=========  ==================================================================================

A kernel works on one block of rows, uses no Python object and releases the global lock, so that the threads of an
engine run it in parallel. What all kernels have in common:

* Arrays are C-contiguous and writable and have few types: float32 data, uint16 ids of representatives, int32 labels,
  float64 sums. Each further type or layout of an argument would be compiled separately, which takes seconds.
* Results, and most buffers, are arguments: allocating memory in a kernel takes long to compile, and a caller can use
  one buffer for many calls.
* Values are copied in loops, not by slice assignment (``row[:] = 0``), which takes up to seconds to compile.
* Arithmetic is strict (see `_jit.kernel`): the result of a row depends on that row and on the model only, bit for bit,
  not on its place in a block. So `predict` repeats the labels of the fit.
* Inner loops have no branches and run over contiguous memory, so that LLVM turns them into SIMD instructions.
"""
