"""Engines: run functions on the blocks of a row source, and combine their results in the order of the blocks.

===========  ==========================================================================
module       what it does
===========  ==========================================================================
threads      the engine for this machine: a pool of threads
dask         the engine for rows on a cluster
progress     reporters, which engines inform of phases and finished tasks
callbacks    a reporter that informs callbacks of scikit-learn
memory       memory of processes and of the machine
finite       count missing and infinite values, leave out rows that have them
moments      mean and variance of the columns, in one pass
fingerprint  checksum of all rows, in one pass
===========  ==========================================================================
"""
