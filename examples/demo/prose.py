"""The prose of a docstring: paragraphs of plain sentences, without code, tables and markup.

    >>> paragraphs('''Return the mean.
    ...
    ... Parameters
    ... ----------
    ... x : array_like
    ...     The values to average, see `var` [1]_.
    ...
    ... >>> mean([1, 2])
    ... 1.5
    ... ''')
    ['Return the mean.', 'The values to average, see var.']

Everything here is a heuristic of lines and indents, since installed packages mix reStructuredText,
numpydoc, Google style and Markdown. What does not read as sentences is left out rather than mended.
"""

import inspect
import re

# Sections of lists: of names and links, not of sentences.
LIST_SECTIONS = {"see also", "references", "reference", "methods", "routine listings"}
# Directives whose indented body is prose; that of any other (code, math, plot, table) is not.
PROSE_DIRECTIVES = {"note", "warning", "tip", "important", "caution", "hint", "attention"}

FENCE = re.compile(r"^\s*(```|~~~|\$\$)")
UNDERLINE = re.compile(r"^\s*([-=~^\"*#+`])\1{2,}\s*$")
DIRECTIVE = re.compile(r"^\s*\.\.(?:\s+(?:[\w-]+:)?([\w-]+)::(.*)|\s.*|)$")
TABLE = re.compile(r"^\s*(\||\+[-=]|[=-]{2,}\s+[=-]{2,})|\S\s*\|.*\|")
HEADER = re.compile(
    r"^\s*(#+\s.*|[A-Z]\w+(?: \w+){0,2}:)\s*$"
)  # "# Usage", "Args:", "Call arguments:"
FIELD = re.compile(r"^\s*:[\w ]+(?:`[^`]*`)?[^:`]*:\s*(?=\S|$)")  # ":param int x:", ":return:"
ENTRY = re.compile(r"^\s*\**`*[\w.*]+`*(?:,\s*\**`*[\w.*]+`*)*(?:\s*\([^)]*\))?\s*:\s+(?=\S)")
TYPED_NAME = re.compile(r"^\s*\**`*[\w.*]+`*(?:\s*,\s*\**`*[\w.*]+`*)*(?:\s+:.*|:?\s*)$")
BULLET = re.compile(r"^\s*(?:[-*+•]|\(?\d{1,2}[.)]|\(?[a-z]\))\s+")

INLINE = [
    (re.compile(r"!?\[([^\]]+)\]\((?:[^()\s]|\([^()]*\))*\)"), r"\1"),  # [text](address)
    (re.compile(r":[\w:+-]+:`!?~?(?:[\w.]*\.)?([^`<]*?)\s*(?:<[^>]*>)?`"), r"\1"),  # :class:`~a.B`
    (re.compile(r"`+([^`<]+?)\s*<[^`>]*>`+_*"), r"\1"),  # `text <address>`_
    (re.compile(r"\s*\[[\w#*]+\]_"), ""),  # a citation
    (re.compile(r"`+[~!]?([^`]*)`+_*"), r"\1"),
    (re.compile(r"(?<![\w*])\*{1,2}(?=\S)([^*]+?)(?<=\S)\*{1,2}(?![\w*])"), r"\1"),
    (re.compile(r"<?\b(?:https?|ftp)://[^\s>)\]]+>?"), ""),
    (re.compile(r"\s+([,.;:!?)])(?=\s|$)"), r"\1"),
    (re.compile(r"\(\s*\)|\[\s*\]"), ""),
    (re.compile(r"\s+"), " "),
]
WORD = re.compile(r"[(\"']*[A-Za-z][a-z]*(?:[-'’][A-Za-z]+)*[)\"']*[.,;:!?]*[)\"']*")


def _indent(line):
    return len(line) - len(line.lstrip())


def _without_code(lines):
    """Drops fenced code, doctests, literal blocks, directives and tables; keeps blank lines."""
    kept, i = [], 0
    while i < len(lines):
        line = lines[i]
        fence = FENCE.match(line)
        directive = DIRECTIVE.match(line)
        if fence:
            closing = fence.group(1)
            i += 1
            if line.strip().count(closing) < 2:
                while i < len(lines) and not lines[i].strip().endswith(closing):
                    i += 1
                i += 1
            kept.append("")
            continue
        if line.lstrip().startswith((">>>", "In [")):
            while i < len(lines) and lines[i].strip():
                i += 1
            continue
        if directive:
            name, rest = directive.group(1), directive.group(2)
            i += 1
            kept.append("")
            if name in PROSE_DIRECTIVES:
                kept.append(" " * (_indent(line) + 4) + rest.strip())
            else:
                i = _end_of_block(lines, i, _indent(line))
            continue
        if TABLE.search(line):
            kept.append("")
        elif line.rstrip().endswith("::"):
            kept.append(line.rstrip()[:-1])
            i = _end_of_block(lines, i + 1, _indent(line))
            kept.append("")
            continue
        else:
            kept.append(line)
        i += 1
    return kept


def _end_of_block(lines, i, indent):
    """The first line from `i` on that is neither blank nor indented deeper than `indent`."""
    while i < len(lines) and (not lines[i].strip() or _indent(lines[i]) > indent):
        i += 1
    return i


def _blocks(lines):
    """Joins the lines of each paragraph, list item and parameter description."""
    block, indent, skipped = [], 0, None  # skipped: the indent of a section of names

    def finished():
        text, block[:] = " ".join(block), []
        return text

    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if not line.strip() or UNDERLINE.match(line):
            yield finished()
            continue
        header = HEADER.match(line) or UNDERLINE.match(following)
        if header:
            yield finished()
            title = line.strip(" :#").lower()
            skipped = _indent(line) if title in LIST_SECTIONS else None
            continue
        if skipped is not None:
            continue
        deeper = following.strip() and _indent(following) > _indent(line)
        if not block and deeper and TYPED_NAME.match(line):
            continue  # "x : array_like" above its description
        starts = FIELD.match(line) or BULLET.match(line)
        # "x: The values." begins an entry only where a description would: at the start of a block,
        # or back at the indent of an entry before it.
        if not starts and (not block or _indent(line) <= indent):
            starts = ENTRY.match(line)
        if starts or (block and _indent(line) < indent and TYPED_NAME.match(line)):
            yield finished()
        if starts:
            line = " " * _indent(line) + line[starts.end() :]
            entry = ENTRY.match(line)
            if entry:
                line = line[entry.end() :]
        if not block:
            indent = _indent(lines[i])
        if deeper and not block and TYPED_NAME.match(line):
            continue
        block.append(line.strip())
    yield finished()


def _plain(text):
    for pattern, replacement in INLINE:
        text = pattern.sub(replacement, text)
    return text.strip(" -–:")


def _is_prose(text):
    words = text.split()
    # Escapes in a docstring can put a NUL or half of a surrogate pair into it.
    if len(words) < 4 or not text[0].isalpha() or not text.isprintable():
        return False
    plain = sum(WORD.fullmatch(word) is not None for word in words)
    return plain >= 0.75 * len(words) and "\\" not in text and "{" not in text


def paragraphs(docstring):
    """The paragraphs of a docstring that read as English sentences, in order, as plain text.

    Args:
      docstring: the docstring as it stands in the source, indents included.

    Returns:
      A list of strings without line breaks; empty when the docstring holds no prose.
    """
    lines = _without_code(inspect.cleandoc(docstring).splitlines())
    texts = (_plain(block) for block in _blocks(lines) if block)
    return [text for text in texts if text and _is_prose(text)]
