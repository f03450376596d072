"""Label matrices on one block: numbering the distinct rows."""

from __future__ import annotations

import numpy as np

from ultraspec._kernels._jit import kernel

TILE = 256  # rows that are packed together


@kernel
def number_rows(codes, weights, start, slots, keys, counts, ids, found):
    """Number the distinct rows of `codes` (n, q), 32-bit words, in order of appearance, from the row `start` on.

    `keys` (c, w) holds the `found` distinct rows met so far as 64-bit words, `slots` their open-addressing table (a
    power of two, -1 where empty), `counts` (c,) the sums of their rows' `weights`, which has one entry for all rows or
    one for each. Writes each row's number to `ids`. Returns the first row that was not numbered as `keys` is full, or
    n, and how many distinct rows there are now.
    """
    n = codes.shape[0]
    n_words = keys.shape[1]
    mask = np.uint64(slots.shape[0] - 1)
    stride = np.int64(weights.shape[0] > 1)
    words = np.empty((n_words, TILE), np.uint64)
    places = np.empty(TILE, np.uint64)
    for low in range(start, n, TILE):
        m = min(TILE, n - low)
        pack_tile(codes, low, m, words, places)
        for r in range(m):
            at = places[r] & mask
            number = slots[at]
            while number >= 0:
                same = True
                for w in range(n_words):
                    same &= words[w, r] == keys[number, w]
                if same:
                    break
                at = (at + np.uint64(1)) & mask
                number = slots[at]
            if number < 0:
                if found == keys.shape[0]:
                    return low + r, found
                number = np.int32(found)
                found += 1
                slots[at] = number
                counts[number] = 0.0
                for w in range(n_words):
                    keys[number, w] = words[w, r]
            ids[low + r] = number
            counts[number] += weights[stride * (low + r)]
    return n, found


@kernel
def pack_tile(codes, low, m, words, places):
    """64-bit words of `m` rows, and where a table looks for them first (to be cut to its size)."""
    for r in range(m):
        places[r] = 0
    for w in range(words.shape[0]):
        word = words[w]
        for r in range(m):
            word[r] = 0
        for b in range(2 * w, min(2 * w + 2, codes.shape[1])):
            shift = np.uint64(32 * (b - 2 * w))
            for r in range(m):
                word[r] |= np.uint64(codes[low + r, b]) << shift
        for r in range(m):
            places[r] = mix(places[r], word[r])


@kernel
def mix(place, word):
    """Hash a word more."""
    place = (place ^ word) * np.uint64(0x9E3779B97F4A7C15)
    return place ^ (place >> np.uint64(32))


@kernel
def fill_slots(keys, slots):
    """Enter distinct keys into an empty table."""
    mask = np.uint64(slots.shape[0] - 1)
    for number in range(keys.shape[0]):
        place = np.uint64(0)
        for w in range(keys.shape[1]):
            place = mix(place, keys[number, w])
        at = place & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = number
