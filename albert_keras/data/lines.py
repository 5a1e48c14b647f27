"""Files -> lines of text, as a stream, checked to be UTF-8."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from albert_keras.data.storage import open_file

STDIN = "-"
PACKED = ".gz"

_BLOCK_BYTES = 1 << 22
# A longer line is cut at a space: it would have to be in memory at once, with its tokens, and texts
# without line ends exist.
_MAX_LINE_BYTES = 1 << 24

_BYTE_ORDER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_UTF8_MARK = b"\xef\xbb\xbf"


def name_of(file: Path | str) -> str:
    """What errors call a file."""
    return "standard input" if file == STDIN else str(file)


def read_lines(file: Path | str, whole: bool = False) -> Iterator[str]:
    """Yields the lines of a file without their ends; only one block of it is in memory at a time.

    Text is UTF-8; a byte order mark, LF, CRLF or CR line ends and a last line without an end are
    understood. What is packed with gzip (*.gz) is unpacked.

    Args:
        file: a path, or "-" (standard input).
        whole: keep lines whole, however long they are. Default False: those of more than 16 MB are
            cut at a space.

    Raises:
        ValueError: a file that is unreadable, not UTF-8 text or damaged, with its name, line and
            byte. Lines and bytes of a packed file are counted as if it were unpacked.
    """
    name = name_of(file)
    line_number, offset = 1, 0  # of the first byte of `data`
    data = b""
    for block in chain(_blocks(file), [b""]):
        first, data = offset == 0 and not data, data + block
        if first:
            _refuse_other_encodings(data, name)
            if data.startswith(_UTF8_MARK):
                data, offset = data[len(_UTF8_MARK) :], len(_UTF8_MARK)
        # A CR at the very end may be half of a CRLF.
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(len(data) - 1, 0))) + 1
        if not cut and len(data) > _MAX_LINE_BYTES and not whole:
            cut = data.rfind(b" ") + 1
        complete, rest = (data[:cut], data[cut:]) if block else (data, b"")
        text = with_line_feeds(_decoded(complete, name, line_number, offset))
        lines = text.split("\n")
        line_number += len(lines) - 1
        offset += len(complete)
        data = rest
        if not lines[-1]:
            lines.pop()  # what follows the last line end
        yield from lines


def with_line_feeds(text: str) -> str:
    """`text` with LF for CRLF and CR."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_bytes(file: Path | str) -> bytes:
    """All of a file, unpacked."""
    return b"".join(_blocks(file))


def _blocks(file: Path | str) -> Iterator[bytes]:
    if file == STDIN:
        yield from iter(lambda: sys.stdin.buffer.read(_BLOCK_BYTES), b"")
        return
    with open_file(file) as stream:
        if not str(file).endswith(PACKED):
            yield from iter(lambda: stream.read(_BLOCK_BYTES), b"")
            return
        unpacked = gzip.GzipFile(fileobj=stream)
        try:
            yield from iter(lambda: unpacked.read(_BLOCK_BYTES), b"")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{file} is damaged or cut off, it cannot be unpacked: {error}. Make it again."
            ) from None


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
