"""Markdown tables, and numbers in three digits."""

import math
import statistics
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """
    >>> print(table(["layers", "seconds"], [["1|2", "0.500"]]))
    | layers | seconds |
    |---|---|
    | 1\\|2 | 0.500 |
    """
    head, *lines = (
        [" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in (heads, *rows)
    )
    return "\n".join([_row(head), "|---" * len(head) + "|", *(_row(line) for line in lines)])


def _row(cells):
    return f"| {' | '.join(cells)} |"


def number(value: float) -> str:
    """
    >>> number(1676.2), number(4.128), number(0.7996), number(0)
    ('1,676', '4.13', '0.800', '0')
    """
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(float(f"{value:.3g}"))))
    return f"{value:,.{max(0, digits)}f}"


def spread(middle: float, low: float, high: float) -> str:
    """
    >>> spread(4.13, 4, 4.18)
    '4.13 (4.00 to 4.18)'
    """
    return f"{number(middle)} ({number(low)} to {number(high)})"


def of_samples(values: Sequence[float]) -> str:
    """The median, the least and the greatest.

    >>> of_samples([4.0, 4.2, 4.1, 5.0])
    '4.15 (4.00 to 5.00)'
    """
    return spread(statistics.median(values), min(values), max(values))


def percent(share: float) -> str:
    """
    >>> percent(0.0049), percent(-0.023)
    ('0.5 %', '-2.3 %')
    """
    return f"{100 * share:.1f} %"
