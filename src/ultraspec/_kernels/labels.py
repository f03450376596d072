"""Distinct rows of a label matrix: hash tables with open addressing.

A row, the key, consists of q unsigned 32-bit integers. Its hash is the sum of these times random odd 64-bit factors,
modulo 2^64; the leading s bits of the sum are the first of 2^s slots that are searched for it (multiply-shift
hashing). A slot holds the number of a key, or -1 if it is empty. Keys that collide take the next empty slot. Tables
are at most a quarter full, so collisions are rare.
"""

import numpy as np

from ultraspec._kernels._jit import kernel


@kernel
def number_rows(codes, weights, start, factors, shift, slots, keys, counts, ids, n_keys):
    """Assign consecutive numbers to the distinct rows of `codes`, in order of appearance, from row `start` on.

    codes : (n, q), uint32, the rows.
    weights : (n,) or (1,), weight of each row, or of every row.
    factors, shift : (q,) and 64 - s, parameters of the hash function.
    slots : (2^s,), int32, the hash table; updated.
    keys : (c, q), the distinct rows seen so far are the first `n_keys`; updated.
    counts : (c,), sums of the weights of the rows of each key; updated.
    ids : (n,), result: the number of each row.

    Return the first row without a number, because `keys` is full, or n; and the number of distinct rows.
    """
    n, q = codes.shape
    mask = np.uint64(slots.shape[0] - 1)  # the number of slots is a power of two
    stride = np.int64(weights.shape[0] > 1)  # 0 reads the same weight for every row, without a branch
    for i in range(start, n):
        slot = first_slot(codes, i, factors, shift)
        number = slots[slot]
        while number >= 0:
            differ = np.uint32(0)
            for j in range(q):
                differ |= codes[i, j] ^ keys[number, j]
            if differ == 0:
                break
            slot = (slot + np.uint64(1)) & mask
            number = slots[slot]
        if number < 0:
            if n_keys == keys.shape[0]:
                return i, n_keys
            number = np.int32(n_keys)
            n_keys += 1
            slots[slot] = number
            counts[number] = 0.0
            for j in range(q):
                keys[number, j] = codes[i, j]
        ids[i] = number
        counts[number] += weights[stride * i]
    return n, n_keys


@kernel
def first_slot(rows, i, factors, shift):
    """Compute the hash of row `i` of `rows` (n, q): the first slot of the table that is searched for it."""
    total = np.uint64(0)
    for j in range(rows.shape[1]):
        total += np.uint64(rows[i, j]) * factors[j]
    return total >> shift


@kernel
def fill_slots(keys, factors, shift, slots):
    """Enter distinct `keys` (c, q) into an empty table, see `number_rows`."""
    mask = np.uint64(slots.shape[0] - 1)
    for number in range(keys.shape[0]):
        slot = first_slot(keys, number, factors, shift)
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number
