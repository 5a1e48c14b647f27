"""Texts as valid UTF-8, repaired where they are not."""

import re

import tensorflow as tf

_SURROGATES = re.compile("[\ud800-\udfff]")


def repair(texts: tf.Tensor) -> tf.Tensor:
    """`texts` with U+FFFD for every byte sequence that is not UTF-8."""
    texts = tf.convert_to_tensor(texts, tf.string)
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def to_utf8(text: str) -> bytes:
    """`text` as bytes, with U+FFFD for lone surrogates."""
    if not isinstance(text, str):
        raise ValueError(
            f"A text is a str. Received: {type(text).__name__}. "
            "Decode bytes first, or give them to encode_lines."
        )
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def valid_utf8(lines: list[str] | list[bytes]) -> tf.Tensor:
    """The lines as a tensor of valid UTF-8, repaired only if need be, because that takes time."""
    if not isinstance(lines[0], bytes):
        try:
            return tf.constant(lines)
        except ValueError:  # lone surrogates
            return tf.constant([to_utf8(line) for line in lines])
    try:
        b"\n".join(lines).decode()
    except UnicodeDecodeError:
        return repair(lines)
    return tf.constant(lines)
