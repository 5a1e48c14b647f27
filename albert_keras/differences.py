"""What is different between the settings that something began with and those it goes on with."""

from collections.abc import Iterable, Iterator
from typing import Any

_MOST = 10


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Lines that name what is different in two values of JSON.

    >>> list(differences({"recipe": {"seed": 0}}, {"recipe": {"seed": 5}}))
    ['`recipe.seed` was 0, is 5']
    """
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            yield from differences(before.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, pair in enumerate(zip(before, now, strict=True)):
            yield from differences(*pair, f"{name}[{index}]")
    elif isinstance(before, list) and isinstance(now, list):
        yield f"`{name}` had {len(before)} entries, has {len(now)}"
    elif before != now:
        yield f"`{name}` was {before}, is {now}"


def listed(lines: Iterable[str]) -> str:
    """The first ten lines, indented, for a message."""
    lines = list(lines)
    more = len(lines) - _MOST
    return "".join(f"  {line}\n" for line in lines[:_MOST]) + (
        f"  and {more} more\n" if more > 0 else ""
    )
