"""The tables that attention kernels walk, computed from a table of segments (ops/attention.cc)."""

import numpy as np


def tiles(segments, rows, size, first):
    """Cuts rows into tiles of at most `size` whose rows are in the same segments.

    `first` is the column of a segment's first row: 0 for queries, 2 for keys; the next column is the count. Returns
    tiles [n, 4] (first row, rows, begin and end of their part of the list), and the list of indices of segments.
    """
    ends = sorted({0, rows, *(int(s[first]) for s in segments), *(int(s[first] + s[first + 1]) for s in segments)})
    table, indices = [], []
    for begin, end in zip(ends, ends[1:]):
        own = [i for i, s in enumerate(segments) if s[first] <= begin and end <= s[first] + s[first + 1]]
        at = len(indices)
        indices += own
        table += [[row, min(size, end - row), at, at + len(own)] for row in range(begin, end, size)]
    return np.array(table, np.int32).reshape(-1, 4), np.array(indices or [0], np.int32)
