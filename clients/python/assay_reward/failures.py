"""What a trainer gets for edits that could not be judged."""

import math

POLICIES = ("raise", "null", "nan", "mean")


class ItemError(Exception):
    """Some edits could not be scored. `errors`: index -> message; `scores` has None there."""

    def __init__(self, errors, scores):
        super().__init__("; ".join(f"edit {i}: {m}" for i, m in sorted(errors.items())))
        self.errors, self.scores = errors, scores


def check_policy(on_error, allowed=POLICIES):
    if on_error not in allowed:
        raise ValueError(f"on_error={on_error!r}: want one of {', '.join(allowed)}")
    return on_error


def settle(scores, errors, on_error, groups=None):
    """Scores in which the edits of `errors` (index -> message) are replaced according to `on_error`: raise: ItemError;
    null: None; nan: NaN; mean: the mean of the other edits of the group, or ItemError if there are none. `groups` has a
    key for each edit; None: all are one group. Only "mean" turns a failure into a number."""
    check_policy(on_error)
    if not errors:
        return scores
    scores = [None if i in errors else s for i, s in enumerate(scores)]
    if on_error == "raise":
        raise ItemError(errors, scores)
    if on_error == "nan":
        return [math.nan if i in errors else s for i, s in enumerate(scores)]
    if on_error == "mean":
        groups = [0] * len(scores) if groups is None else groups
        good = {}
        for i, s in enumerate(scores):
            if i not in errors:
                good.setdefault(groups[i], []).append(s)
        if any(groups[i] not in good for i in errors):
            raise ItemError(errors, scores)
        return [math.fsum(good[g]) / len(good[g]) if i in errors else s for i, (s, g) in enumerate(zip(scores, groups))]
    return scores
