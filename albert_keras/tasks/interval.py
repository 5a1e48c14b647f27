"""wilson_interval: how far a share that was counted can be from the true one."""

import math


def wilson_interval(correct: float, total: float) -> tuple[float, float]:
    """95 % interval of a share, by Wilson's score; (0, 1) of nothing.

    Args:
        correct: how many of the examples are right.
        total: how many examples there are.

    Example:

    >>> [round(bound, 3) for bound in wilson_interval(8, 10)]
    [0.49, 0.943]

    Reference:
        Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953
    """
    if not total:
        return 0.0, 1.0
    z = 1.959964
    share, z2 = correct / total, z * z / total
    middle = share + z2 / 2
    half = z * math.sqrt(share * (1 - share) / total + z2 / (4 * total))
    return max(0.0, (middle - half) / (1 + z2)), min(1.0, (middle + half) / (1 + z2))
