"""Numbers as a reader wants them: grouped, in a unit that fits, with a sensible precision."""

import math
from collections.abc import Callable, Sequence

_PERCENT = "\u00a0%"
_UNITS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def grouped(number: float) -> str:
    """
    >>> grouped(40971)
    '40,971'
    """
    return f"{number:,.0f}"


def large(number: float) -> tuple[str, str]:
    """A number and its unit.

    >>> large(83_908_608), large(24_576)
    (('83.9', 'million'), ('24,576', ''))
    """
    for size, name in _UNITS:
        # 999,999 is no "1,000,000" in three digits, so it counts as a million.
        if float(f"{number:.3g}") >= size:
            return f"{float(f'{number / size:.3g}'):,g}", name
    return grouped(number), ""


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """The labels of an axis: all in one unit and with as many decimals.

    >>> tick_labels([0.0, 0.5, 1.0]), tick_labels([0, 5000, 10_000])
    (['0.0', '0.5', '1.0'], ['0', '5k', '10k'])
    """
    largest = max(map(abs, ticks))
    size, unit = (1e6, "M") if largest >= 1e6 else (1e3, "k") if largest >= 1e4 else (1, "")
    scaled = [round(tick / size, 9) for tick in ticks]
    digits = max(len(f"{value:.9f}".rstrip("0").partition(".")[2]) for value in scaled)
    return [f"{value:,.{digits}f}{unit if value else ''}" for value in scaled]


def percent(share: float) -> str:
    """With a space that does not break a line.

    >>> percent(0.6872)
    '68.7\\xa0%'
    """
    return f"{100 * share:.1f}{_PERCENT}"


def span(low: float, high: float, show: Callable[[float], str]) -> str:
    """
    >>> span(0.674, 0.7, percent)
    '67.4 to 70.0\\xa0%'
    """
    return f"{show(low).removesuffix(_PERCENT)} to {show(high)}"


def duration(seconds: float) -> str:
    """The two largest units.

    >>> duration(8077.4), duration(59.7)
    ('2 h 15 min', '1 min 0 s')
    """
    for size, name, part, part_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        parts = round(seconds / part)
        if parts >= size // part:
            whole, rest = divmod(parts, size // part)
            return f"{whole:,} {name} {rest} {part_name}"
    return f"{seconds:.0f} s"


def plain(value: float) -> str:
    """A setting: all digits of a whole number, six of another.

    >>> plain(0.00176), plain(1e-12), plain(125000)
    ('0.00176', '1e-12', '125,000')
    """
    if float(value).is_integer() and abs(value) < 1e15:
        return grouped(value)
    return f"{value:.6g}"


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers that enclose [low, high], evenly spaced, 1, 2 or 5 times a power of ten apart.

    Args:
        low, high: floats, low <= high.
        most: int, intervals at most.

    Example:

    >>> nice_ticks(3.6, 8.98, 5)
    [2.0, 4.0, 6.0, 8.0, 10.0]
    >>> nice_ticks(0, 3373, 5)
    [0.0, 1000.0, 2000.0, 3000.0, 4000.0]
    """
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-300):
        margin = abs(low) / 2 or 1.0  # a curve of one value stands in the middle
        low, high = low - margin, high + margin
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20):
        size = factor * power
        first, last = math.floor(low / size + 1e-9), math.ceil(high / size - 1e-9)
        if last - first <= most:
            break
    # Rounded, so that 3 * 0.1 is 0.3.
    digits = max(0, -math.floor(math.log10(size)))
    return [round(index * size, digits) for index in range(first, last + 1)]
