"""--set NAME=VALUE, a config field on the command line."""

import json
from typing import Annotated, Any

import typer

Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="A config field, as hidden_size=256. May be repeated."),
]


def fields_in(assignments: list[str] | None) -> dict[str, Any]:
    """The fields of some --set options.

    >>> fields_in(["hidden_size=256", "sharing=ffn"])
    {'hidden_size': 256, 'sharing': 'ffn'}
    """
    fields = {}
    for assignment in assignments or ():
        name, sign, value = assignment.partition("=")
        if not sign:
            raise ValueError(f"--set takes name=value. Received: {assignment!r}.")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields
