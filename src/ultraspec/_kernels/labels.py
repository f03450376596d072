"""Label matrices on one block: numbering the distinct rows.

A row is a few 32-bit words. Its place in a table is the sum of the words times random odd numbers, of which the leading
bits count.
"""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel


@kernel
def number_rows(codes, weights, start, factors, shift, slots, keys, counts, ids, found):
    """Number the distinct rows of `codes` (n, q), 32-bit words, in order of appearance, from the row `start` on.

    `keys` (c, q) holds the `found` distinct rows met so far, `slots` their open-addressing table (2^s of them, -1 where
    empty; `shift` is 64 - s), `counts` (c,) the sums of their rows' `weights`, which has one entry for all rows or one
    for each. Writes each row's number to `ids`. Returns the first row that was not numbered as `keys` is full, or n,
    and how many distinct rows there are now.
    """
    n, q = codes.shape
    mask = np.uint64(slots.shape[0] - 1)
    stride = np.int64(weights.shape[0] > 1)
    for i in range(start, n):
        at = place(codes, i, factors, shift)
        number = slots[at]
        while number >= 0:
            differ = np.uint32(0)
            for j in range(q):
                differ |= codes[i, j] ^ keys[number, j]
            if differ == 0:
                break
            at = (at + np.uint64(1)) & mask
            number = slots[at]
        if number < 0:
            if found == keys.shape[0]:
                return i, found
            number = np.int32(found)
            found += 1
            slots[at] = number
            counts[number] = 0.0
            for j in range(q):
                keys[number, j] = codes[i, j]
        ids[i] = number
        counts[number] += weights[stride * i]
    return n, found


@kernel
def place(rows, i, factors, shift):
    """Where a table looks for a row first."""
    total = np.uint64(0)
    for j in range(rows.shape[1]):
        total += np.uint64(rows[i, j]) * factors[j]
    return total >> shift


@kernel
def fill_slots(keys, factors, shift, slots):
    """Enter distinct keys into an empty table."""
    mask = np.uint64(slots.shape[0] - 1)
    for number in range(keys.shape[0]):
        at = place(keys, number, factors, shift)
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number
