"""HTML and SVG elements whose text cannot become markup."""

import html
import re
from collections.abc import Collection

# HTML has no controls but white space, and UTF-8 no lone surrogates (of a file's name).
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_WITHOUT_CONTENT = {"br", "col", "meta"}


class Markup(str):
    """A string that is markup already; every other string is text and is escaped."""


def escape(value: str | int | float | Markup) -> Markup:
    """Text as markup.

    >>> escape("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(_UNPRINTABLE.sub("\ufffd", str(value))))


def join(*children) -> Markup:
    """Children one after the other: markup, text, numbers, lists of them; None is left out."""
    parts = []
    for child in children:
        if isinstance(child, list):
            parts.append(join(*child))
        elif child is not None:
            parts.append(escape(child))
    return Markup("".join(parts))


def element(name: str, /, *children, **attributes) -> Markup:
    """One element.

    Args:
        name: of the tag.
        *children: as of `join`.
        **attributes: values are escaped, None leaves an attribute out. A "_" at the end of a name
            is dropped, others become "-".

    Example:

    >>> element("p", "1 < 2", class_="note", aria_label='"')
    '<p class="note" aria-label="&quot;">1 &lt; 2</p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _WITHOUT_CONTENT:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def section(title: str, lead: str, *parts) -> Markup:
    """A heading, a sentence or two on what follows, and what follows."""
    return element("section", element("h2", title), element("p", lead, class_="lead"), *parts)


def table_head(*names: str, numbers: Collection[str] = ()) -> Markup:
    """The names of the columns; those of `numbers` stand at the right, as the numbers do."""
    heads = [element("th", name, class_="number" if name in numbers else None) for name in names]
    return element("thead", element("tr", heads))
