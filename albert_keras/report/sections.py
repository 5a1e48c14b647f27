"""What every part of a page is made of: a section with its heading, the head of a table."""

from collections.abc import Collection

from albert_keras.report.markup import Markup, element


def section(title: str, lead: str, *parts) -> Markup:
    """A heading, a sentence or two on what follows, and what follows."""
    return element("section", element("h2", title), element("p", lead, class_="lead"), *parts)


def table_head(*names: str, numbers: Collection[str] = ()) -> Markup:
    """The names of the columns; those of `numbers` stand at the right, as the numbers do."""
    heads = [element("th", name, class_="number" if name in numbers else None) for name in names]
    return element("thead", element("tr", heads))
