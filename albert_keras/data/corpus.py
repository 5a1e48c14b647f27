"""Text files -> documents -> sentences, as a stream."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import add
from pathlib import Path
from typing import BinaryIO, Literal

STDIN = "-"
SENTENCE_MODES = ("line", "split")

_BLOCK_BYTES = 1 << 22
# A longer document goes on as a new one, and a longer line or sentence is cut at a space: each
# would otherwise have to be in memory at once, with its tokens, and texts without line ends exist.
_MAX_LINE_BYTES = 1 << 24
_MAX_DOCUMENT_CHARACTERS = 1 << 22
_MAX_SENTENCE_CHARACTERS = 10_000

_BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_UTF8_MARK = b"\xef\xbb\xbf"

_FULL_WIDTH_MARKS = "。！？｡"
_MARKS = ".!?…؟۔।॥།։።។။" + _FULL_WIDTH_MARKS
_CAPITAL = "A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я"
_SMALL = "a-zß-öø-ÿά-ώа-џ"
# It begins with a plain set of characters, because only then does `re` skip to the next mark
# quickly: 7 ns a byte of English, 30 with an alternative for each script in front.
_SENTENCE_END = re.compile(
    rf"([{_MARKS}](?<!^[{_CAPITAL}]\.)(?<!\W[{_CAPITAL}]\.)[{_MARKS}]*+[\"'’”»)\]」』）》〉】]*+)"
    rf"(?:\s+(?![{_SMALL}\s])|(?<=[{_FULL_WIDTH_MARKS}])\s*|(?<=[」』）”’》〉】])(?=[「『（“‘《〈【]))"
)


def read_documents(
    inputs: Sequence[str | Path], sentences: Literal["line", "split"] = "line"
) -> Iterator[list[str]]:
    """Yields the documents of text files, each as the list of its sentences.

    A document is a run of lines; a blank line or the end of a file ends it. Only one block of a
    file is in memory at a time. Files are UTF-8; a byte order mark, CRLF or CR line ends and a
    last line without an end are understood.

    Args:
        inputs: files, folders (every `*.txt` below them, sorted by path) and "-" (standard input).
        sentences: "line" takes each line for one sentence; "split" takes it for a paragraph and
            applies `split_sentences`. Default "line".

    Raises:
        ValueError: an input that is missing, unreadable or not UTF-8 text, with its name, line
            and byte. Names are checked before the first document is read.

    Example:
        >>> Path("two.txt").write_text("One. Two.\\n\\nThree.\\n")
        >>> list(read_documents(["two.txt"], sentences="split"))
        [['One.', 'Two.'], ['Three.']]
    """
    if sentences not in SENTENCE_MODES:
        raise ValueError(f"`sentences` must be one of {SENTENCE_MODES}. Received: {sentences!r}.")
    return _documents(text_files(inputs), sentences)


def text_files(inputs: Sequence[str | Path]) -> list[Path | str]:
    """The files that `inputs` name, folders unfolded, each checked to exist; "-" stays itself."""
    if isinstance(inputs, str | Path):
        inputs = [inputs]
    files: list[Path | str] = []
    for name in inputs:
        path = Path(name)
        if str(name) == STDIN:
            files.append(STDIN)
        elif path.is_dir():
            found = sorted(file for file in path.rglob("*.txt") if file.is_file())
            if not found:
                raise ValueError(
                    f"A folder of text must hold files named *.txt. Received: {path}, which has "
                    "none. Name the files one by one, or rename them."
                )
            files.extend(found)
        elif path.exists():
            files.append(path)
        else:
            raise ValueError(f"No such file or folder. Received: {path}.")
    if not files:
        raise ValueError("No input was named. Name text files, folders of them, or '-' for stdin.")
    return files


def total_bytes(files: Sequence[Path | str]) -> int | None:
    """Size of the files together; None when standard input is one of them."""
    if STDIN in files:
        return None
    return sum(file.stat().st_size for file in files)


def split_sentences(paragraph: str) -> list[str]:
    """Cuts a paragraph after . ! ? and their like in other scripts.

    An end mark (or several), with any closing quotes and brackets, ends a sentence when a space
    follows and the next word does not begin with a small letter. A full stop after a single
    capital is an initial ("J. Smith") and ends none. The full-width 。！？ need no space; before a
    closing quote they end a sentence only if a space or an opening quote comes next.

    Limits: capital and small letters are those of Latin-1, Greek and Cyrillic; abbreviations are
    not known ("Dr. Smith" is cut), nor are sentences that begin with a small letter, nor Thai and
    other scripts that end a sentence with a space alone.

    Example:
        >>> split_sentences('He met J. Smith at 9.30. "Why?" he asked. Then he left.')
        ['He met J. Smith at 9.30.', '"Why?" he asked.', 'Then he left.']
        >>> split_sentences("你好。你是谁？")
        ['你好。', '你是谁？']
    """
    parts = _SENTENCE_END.split(paragraph)  # text, end, text, end, ..., text
    sentences = list(map(add, parts[::2], parts[1::2]))
    if parts[-1]:
        sentences.append(parts[-1])
    return sentences


def _documents(files, mode):
    for file in files:
        document: list[str] = []
        characters = 0
        for line in _lines(file):
            line = line.strip()
            if line:
                document.extend(_sentences(line, mode))
                characters += len(line)
            if document and (not line or characters > _MAX_DOCUMENT_CHARACTERS):
                yield document
                document, characters = [], 0
        if document:
            yield document


def _sentences(line, mode):
    sentences = [line] if mode == "line" else split_sentences(line)
    if len(line) <= _MAX_SENTENCE_CHARACTERS:
        return sentences
    return [part for sentence in sentences for part in _cut_at_spaces(sentence)]


def _cut_at_spaces(sentence):
    while len(sentence) > _MAX_SENTENCE_CHARACTERS:
        space = sentence.rfind(" ", 1, _MAX_SENTENCE_CHARACTERS)
        cut = space if space > 0 else _MAX_SENTENCE_CHARACTERS
        yield sentence[:cut]
        sentence = sentence[cut:].lstrip()
    if sentence:
        yield sentence


def _lines(file):
    """Lines of a file without their ends."""
    name = "standard input" if file == STDIN else str(file)
    with _opened(file, name) as stream:
        line_number, offset = 1, 0  # of the first byte of `data`
        data = b""
        while True:
            block = stream.read(_BLOCK_BYTES)
            first, data = offset == 0 and not data, data + block
            if first:
                _refuse_other_encodings(data, name)
                if data.startswith(_UTF8_MARK):
                    data, offset = data[len(_UTF8_MARK) :], len(_UTF8_MARK)
            # A CR at the very end may be half of a CRLF.
            cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(len(data) - 1, 0))) + 1
            if not cut and len(data) > _MAX_LINE_BYTES:
                cut = data.rfind(b" ") + 1
            whole, rest = (data[:cut], data[cut:]) if block else (data, b"")
            text = _decoded(whole, name, line_number, offset)
            if "\r" in text:
                text = text.replace("\r\n", "\n").replace("\r", "\n")
            lines = text.split("\n")
            line_number += len(lines) - 1
            offset += len(whole)
            data = rest
            if not lines[-1]:
                lines.pop()  # what follows the last line end
            yield from lines
            if not block:
                return


@contextmanager
def _opened(file, name) -> Iterator[BinaryIO]:
    if file == STDIN:
        yield sys.stdin.buffer
        return
    try:
        stream = open(file, "rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise ValueError(f"Cannot read {name}: {error.strerror}.") from None
    with stream:
        yield stream


def _refuse_other_encodings(data, name):
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            raise ValueError(
                f"{name} is {encoding} (it begins with that byte order mark), but text must be "
                f"UTF-8. Convert it first: iconv -f {encoding} -t UTF-8."
            )


def _decoded(data, name, line_number, offset):
    nul = data.find(b"\0")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if nul < 0:
            line = line_number + _line_ends(data[: error.start])
            received = data[error.start : max(error.end, error.start + 1)].hex(" ")
            raise ValueError(
                f"{name}, line {line}: not valid UTF-8 at byte {offset + error.start} of the file "
                f"({error.reason}). Received: {received} (hexadecimal). Convert the file to UTF-8 "
                "first, or repair that line."
            ) from None
    if nul >= 0:
        pair = data[nul ^ 1 : (nul ^ 1) + 1]
        near = data[max(0, nul - 64) : nul + 64]
        wide = near.count(0) > len(near) // 3 and pair != b"\0"
        guess = "it looks like UTF-16 without a byte order mark" if wide else "it is binary data"
        raise ValueError(
            f"{name}, line {line_number + _line_ends(data[:nul])}: a NUL byte at byte "
            f"{offset + nul} of the file: {guess}, but text must be UTF-8."
        )
    return text


def _line_ends(data):
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
