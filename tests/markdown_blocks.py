"""The parts of a Markdown page that tests look at: blocks of code, commands, links, headings."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGES.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

_BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: what stands behind the fence, and its lines."""

    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    return [Block(match[2].strip(), match[3]) for match in _BLOCK.finditer(page.read_text())]


def commands(code: str) -> Iterator[list[str]]:
    """The words of each command of a shell, without comments."""
    for line in code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def spans(page: Path) -> list[str]:
    """What stands between single back quotes, on one line."""
    text = _BLOCK.sub("", page.read_text())
    return [" ".join(span.split()) for span in _SPAN.findall(text)]


def links(page: Path) -> list[str]:
    return _LINK.findall(_SPAN.sub("", _BLOCK.sub("", page.read_text())))


def anchors(page: Path) -> set[str]:
    """Those that GitHub gives the headings of a page."""
    found = set()
    for heading in _HEADING.findall(_BLOCK.sub("", page.read_text())):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while (name := f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(name)
    return found
