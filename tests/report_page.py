"""Reads a page back: a tree of elements, or an error where it is not well-formed."""

import dataclasses
from html.parser import HTMLParser
from pathlib import Path

WITHOUT_CONTENT = {"br", "col", "meta"}


@dataclasses.dataclass
class Node:
    name: str
    attributes: dict
    children: list = dataclasses.field(default_factory=list)

    def all(self, name=None, class_=None):
        """Elements below this one, in the order of the page."""
        for child in self.children:
            if isinstance(child, Node):
                classes = (child.attributes.get("class") or "").split()
                if name in (None, child.name) and (class_ is None or class_ in classes):
                    yield child
                yield from child.all(name, class_)

    def one(self, name=None, class_=None):
        [found] = self.all(name, class_)
        return found

    @property
    def text(self):
        return "".join(part if isinstance(part, str) else part.text for part in self.children)


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self._open = [self.root]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice: {names}"
        node = Node(tag, dict(attributes))
        self._open[-1].children.append(node)
        if tag not in WITHOUT_CONTENT:
            self._open.append(node)

    def handle_startendtag(self, tag, attributes):
        raise AssertionError(f"<{tag}/> is no HTML")

    def handle_endtag(self, tag):
        assert self._open[-1].name == tag, f"</{tag}> ends <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data):
        self._open[-1].children.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def close(self):
        super().close()
        assert self._open == [self.root], f"<{self._open[-1].name}> is not ended"


def parse(markup: str) -> Node:
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    return reader.root


def read_page(path: Path) -> Node:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    return parse(text)


def rows_of(table: Node) -> list[list[str]]:
    """The texts of a table's cells, the head among the rows."""
    return [
        [cell.text for cell in row.children if isinstance(cell, Node)] for row in table.all("tr")
    ]
