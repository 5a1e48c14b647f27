"""What the documents of a file are: plain text, JSON lines, SQuAD's and RACE's layouts."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from albert_keras.data.lines import (
    PACKED,
    STDIN,
    name_of,
    read_bytes,
    read_lines,
    with_line_feeds,
)
from albert_keras.json_file import check_object, parse_json

# What a folder of text is searched for.
FOLDER_ENDINGS = (".txt", ".jsonl", ".txt" + PACKED, ".jsonl" + PACKED)

EMPTY_TEXTS, REPEATED_CONTEXTS = "empty_texts", "repeated_contexts"


def read_text(file: Path | str, field: str | None, dropped: Counter) -> Iterator[str]:
    """Yields the lines of a file's documents, and a blank one after each document at least.

    What a file holds is told by its name, without a `.gz` at the end:

        *.json    in SQuAD's layout (also XQuAD, JaQuAD): an article is a document, the context of a
                  paragraph is a line, once however often it occurs in the file. Else one object, of
                  which `field` is a document. The file is in memory as a whole.
        *.jsonl   one object a line, of which `field` is a document. Its own line ends are those of
                  the document, but blank lines in it are left out.
        others    as *.jsonl when a field is named, like RACE's with the field "article"; else plain
                  text, in which a blank line ends a document.

    Args:
        file: a path, or "-" (standard input).
        field: the key of the text in JSON.
        dropped: to which is added what is left out, by reason.

    Raises:
        ValueError: text that is not UTF-8 or JSON of another layout, with file and line.
    """
    if _ending(file) == ".json":
        yield from _json_documents(file, field, dropped)
    elif field is not None:
        for number, line in enumerate(read_lines(file, whole=True), 1):
            if line and not line.isspace():
                where = f"{name_of(file)}, line {number}"
                yield from _document(_parsed(line, where), field, where, dropped)
    else:
        yield from read_lines(file)


def refuse_without_field(file: Path | str) -> None:
    """Raises ValueError for a file that can be read with a field only."""
    if _ending(file) == ".jsonl":
        raise ValueError(
            f"`field` must name the key of the text in JSON lines. Received: {file} and no field."
        )


def _ending(file):
    return "" if file == STDIN else Path(str(file).removesuffix(PACKED)).suffix


def _json_documents(file, field, dropped):
    content = parse_json(read_bytes(file), str(file))
    articles = content.get("data")
    if not isinstance(articles, list):
        if field is None:
            raise ValueError(
                f"{file} must have SQuAD's layout, a list `data` of articles. Received: an object "
                f"with the keys {', '.join(content) or 'none'}. If one of them is the text, name "
                "it as `field`."
            )
        yield from _document(content, field, str(file), dropped)
        return
    contexts = set()
    for place, article in enumerate(articles):
        where = f"{file}: data[{place}]"
        check_object(article, where, ["paragraphs"])
        if not isinstance(article["paragraphs"], list):
            raise ValueError(f"{where}.paragraphs must be a list, as SQuAD has it.")
        for number, paragraph in enumerate(article["paragraphs"]):
            lines = _text_lines(paragraph, "context", f"{where}.paragraphs[{number}]", dropped)
            context = "\n".join(lines)
            if context and context in contexts:
                dropped[REPEATED_CONTEXTS] += 1
                continue
            contexts.add(context)
            yield from lines
        yield ""


def _parsed(line, where):
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{where}: must be a JSON object, as a field was named. Received: {line[:60]!r} "
            f"({error})."
        ) from None


def _document(row, field, where, dropped):
    yield from _text_lines(row, field, where, dropped)
    yield ""


def _text_lines(row, field, where, dropped):
    if not isinstance(row, dict) or field not in row:
        keys = f"the keys {', '.join(row)}" if isinstance(row, dict) and row else repr(row)[:60]
        raise ValueError(
            f"{where}: must be a JSON object with the key {field!r}. Received: {keys}."
        )
    text = row[field]
    if not isinstance(text, str):
        raise ValueError(f"{where}: `{field}` must be a text. Received: {text!r:.60}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: `{field}` must be made of characters. Received: {text[error.start]!a} at "
            f"character {error.start}, half of one."
        ) from None
    lines = [line for line in with_line_feeds(text).split("\n") if line and not line.isspace()]
    if not lines:
        dropped[EMPTY_TEXTS] += 1
    return lines
