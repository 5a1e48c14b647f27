"""run.json as tables: any JSON, with readable numbers and short hashes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from albert_keras.report.figures import plain
from albert_keras.report.markup import Markup, element
from albert_keras.report.run_record import finite

_TITLES = {"config": "Model", "recipe": "Recipe", "records": "Records"}
_COUNTS = ("records", "tokens", "bytes")
_SHA256 = re.compile("[0-9a-f]{64}")
_SHORT = 12  # as everywhere in this library
_MOST_ROWS = 20


def settings_tables(
    run: Mapping[str, Any], corpora: Sequence[Mapping[str, Any]], machine: Mapping[str, str]
) -> list[Markup]:
    """A table for each group of settings, the versions, the machine, the records and their use.

    Args:
        run: run.json; may be empty.
        corpora: what was read of each corpus; may be empty.
        machine: names and values of `describe_machine`.
    """
    settings = run.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    pairs = {name: value for name, value in settings.items() if isinstance(value, dict)}
    lists = {name: _summed(value) for name, value in settings.items() if _is_table(value)}
    rest = {name: value for name, value in settings.items() if name not in (*pairs, *lists)}
    rest["albert_keras"] = run.get("library_version", "not known")
    rest["Keras"] = run.get("keras", "not known")
    return [
        *(_pairs(_TITLES.get(name, name), fields) for name, fields in pairs.items()),
        _pairs("Run", rest),
        _pairs("This page was written on", machine),
        *(_rows(_TITLES.get(name, name), rows) for name, rows in lists.items()),
        *([_rows("Read of the records", corpora)] if corpora else []),
    ]


def _is_table(value):
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _summed(rows):
    """Record sets with the sums over their shards, which may be a thousand; others as they are."""
    summed = []
    for row in rows:
        shards = row.get("shards")
        if _is_table(shards):
            sums = {name: sum(finite(shard.get(name)) or 0 for shard in shards) for name in _COUNTS}
            row = {**row, "shards": len(shards), **sums}
        summed.append(row)
    return summed


def _pairs(title, fields):
    rows = [
        element("tr", element("th", name, scope="row"), element("td", _value(value)))
        for name, value in fields.items()
    ]
    table = element("table", element("tbody", rows), class_="pairs")
    return element("section", element("h3", title), table)


def _rows(title, rows):
    """Objects with much the same keys, a row each."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    numbers = {name for name in names if any(finite(row.get(name)) is not None for row in rows)}

    def cells(kind, texts):
        return element(
            "tr",
            [
                element(kind, text, class_="number" if name in numbers else None)
                for name, text in zip(names, texts, strict=True)
            ],
        )

    body = [cells("td", [_value(row.get(name)) for name in names]) for row in rows[:_MOST_ROWS]]
    heads = element("thead", cells("th", names))
    more = len(rows) - len(body)
    return element(
        "section",
        element("h3", title),
        element("div", element("table", heads, element("tbody", body)), class_="scroll"),
        element("p", f"and {more:,} more", class_="soft") if more else None,
        class_="wide",
    )


def _value(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if finite(value) is not None:
        return plain(value)
    if value is None:
        return "not set"
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return element("code", value[:_SHORT], title=value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        shown = ", ".join(_text(part) for part in value[:_MOST_ROWS])
        return (
            f"{shown}, and {len(value) - _MOST_ROWS:,} more" if len(value) > _MOST_ROWS else shown
        )
    return value


def _text(value):
    return plain(value) if finite(value) is not None else str(value)
