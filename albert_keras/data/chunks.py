"""The record: a chunk of consecutive sentences of one document, as bytes and back in graph."""

import hashlib
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

SPECIAL_TOKENS = 3  # [CLS] A [SEP] B [SEP]: what a chunk leaves room for
MIN_LENGTH, MAX_LENGTH = 8, 65_535

# Big-endian, so that records sort by document and chunk as the bytes that they are.
_KEY_AND_NUMBER = struct.Struct(">QI")
KEY_BYTES = 8  # of a record are its document's key
_SIZES = struct.Struct("<II")  # sentences, tokens
_HEADER_BYTES = _KEY_AND_NUMBER.size + _SIZES.size
_MASK64 = (1 << 64) - 1


class ChunkFormat(NamedTuple):
    """What a record's bytes depend on, besides the text and the vocabulary.

    length: longest sequence in tokens; a chunk has at most `length - 3`.
    short_fraction: share of the chunks that get a short target, uniform in 2..length-3.
    unit_bytes: bytes of a token id, 2, or 4 when the vocabulary has more than 65,535 pieces.
    """

    length: int = 512
    short_fraction: float = 0.1
    unit_bytes: int = 2

    @property
    def max_tokens(self) -> int:
        return self.length - SPECIAL_TOKENS

    @property
    def header_units(self) -> int:
        return _HEADER_BYTES // self.unit_bytes

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(f"<u{self.unit_bytes}")


class Chunk(NamedTuple):
    """Tokens [start, end) of the block that was tokenized together, and its sentences' starts."""

    start: int
    end: int
    sentence_starts: Sequence[int]


def document_key(text: bytes) -> int:
    """64-bit hash of a document: it places it among the shards and seeds its draws.

    Args:
        text: the document's sentences in UTF-8, one a line.
    """
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def pack_document(bounds: Sequence[int], key: int, layout: ChunkFormat) -> list[Chunk]:
    """Packs the sentences of a document into chunks; every token is in exactly one of them.

    A chunk takes sentences until the next one would not fit in `length - 3` tokens. In a short
    chunk it stops earlier: as soon as it has two sentences and its target, which is drawn from a
    hash of (key, chunk number), never from a generator. A sentence that is longer than a chunk is
    split into pieces of `length - 3` tokens and a rest, each a chunk by itself: no chunk that has
    two sentences, and so could become an SOP pair, begins or ends inside a sentence.

    The sentence that did not fit begins the next chunk, and it is a long one. So half of the
    documents, those of an odd key, are packed from their end. If all were packed from the start,
    the longer segment would be the first one in 58 % of the pairs of whole chunks (novels, length
    128), and a model could tell their order without reading them.

    Args:
        bounds: ascending, n + 1 token offsets for n sentences that are not empty.
        key: the document's key.
        layout: the lengths.

    Example:
        >>> pack_document([0, 3, 5, 14], key=8, layout=ChunkFormat(length=9, short_fraction=0.0))
        [Chunk(start=0, end=5, sentence_starts=[0, 3]),
         Chunk(start=5, end=11, sentence_starts=[0]), Chunk(start=11, end=14, sentence_starts=[0])]
    """
    if key % 2 == 0:
        return _packed(bounds, key, layout)
    total = bounds[-1]
    chunks = _packed([total - bound for bound in reversed(bounds)], key, layout)
    return [_reversed(chunk, total) for chunk in reversed(chunks)]


def _packed(bounds, key, layout):
    most = layout.max_tokens
    chunks: list[Chunk] = []
    sentence, sentences = 0, len(bounds) - 1
    while sentence < sentences:
        start = bounds[sentence]
        fits = bisect_right(bounds, start + most, sentence + 1) - 1
        if fits == sentence:
            end = bounds[sentence + 1]
            chunks += [Chunk(at, min(at + most, end), [0]) for at in range(start, end, most)]
            sentence += 1
            continue
        target = _target_tokens(key, len(chunks), layout)
        reached = bisect_left(bounds, start + target, sentence + 2, fits) if target < most else fits
        stop = min(reached, fits)
        chunks.append(
            Chunk(start, bounds[stop], [bound - start for bound in bounds[sentence:stop]])
        )
        sentence = stop
    return chunks


def _reversed(chunk, total):
    """A chunk of a document that was packed from its end, in the document as it stands."""
    start, end, starts = chunk
    tokens = end - start
    starts = [0, *(tokens - later for later in reversed(starts[1:]))]
    return Chunk(total - end, total - start, starts)


def _target_tokens(key, number, layout):
    """The tokens at which a chunk is full: drawn by SplitMix64 of (key, chunk number)."""
    mixed = (key + (number + 1) * 0x9E3779B97F4A7C15) & _MASK64
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK64
    mixed ^= mixed >> 31
    if mixed & 0xFFFFFFFF >= layout.short_fraction * 2**32:
        return layout.max_tokens
    return 2 + (mixed >> 32) % (layout.max_tokens - 1)


def encode_chunks(
    ids: bytes, chunks: Sequence[Chunk], key: int, layout: ChunkFormat
) -> list[bytes]:
    """The records of a document's chunks.

    A record is the document key (8 bytes, big-endian), the chunk's number (4, big-endian), the
    numbers of its sentences and tokens (4 each, little-endian), and then, little-endian in units of
    `unit_bytes`, the sentence starts and the token ids.

    Args:
        ids: the token ids that the chunks point into, in units of `unit_bytes`.
        chunks: the chunks of one document, in order.
        key: the document's key.
        layout: the lengths and the unit.
    """
    size = layout.unit_bytes
    letter = "H" if size == 2 else "I"
    return [
        _KEY_AND_NUMBER.pack(key, number)
        + _SIZES.pack(len(starts), end - start)
        + struct.pack(f"<{len(starts)}{letter}", *starts)
        + ids[start * size : end * size]
        for number, (start, end, starts) in enumerate(chunks)
    ]


def split_records(data: bytes, unit_bytes: int) -> list[tuple[bytes, int, int]]:
    """(record, sentences, tokens) of records that were written one after the other.

    Sorted, they are in the order of documents and chunks, whatever order they were made in.
    """
    records, at = [], 0
    while at < len(data):
        sentences, tokens = _SIZES.unpack_from(data, at + _KEY_AND_NUMBER.size)
        end = at + _HEADER_BYTES + (sentences + tokens) * unit_bytes
        records.append((data[at:end], sentences, tokens))
        at = end
    return records


class ChunkBatch(NamedTuple):
    """A batch of records in graph: token i of row b is units[b, first_token[b] + i].

    units: uint16 or int32 [B, W], the records, padded with 0.
    first_token, num_tokens, num_sentences: int32 [B].
    sentence_starts: int32 [B, K]; valid in the first num_sentences columns.
    """

    units: tf.Tensor
    first_token: tf.Tensor
    num_tokens: tf.Tensor
    num_sentences: tf.Tensor
    sentence_starts: tf.Tensor


def decode_chunks(records: tf.Tensor, layout: ChunkFormat, max_sentences: int) -> ChunkBatch:
    """Decodes a whole batch of records with one op; an empty string gives a chunk of no tokens.

    Args:
        records: string [B].
        layout: the format that wrote them.
        max_sentences: K, the most sentences of any chunk in the set.
    """
    header = layout.header_units
    width = header + max_sentences + layout.max_tokens
    units = tf.io.decode_raw(
        records,
        # There is no decode to uint32; ids stay far below the sign bit.
        tf.uint16 if layout.unit_bytes == 2 else tf.int32,
        fixed_length=width * layout.unit_bytes,
    )  # [B, W]
    field = 4 // layout.unit_bytes
    head = tf.cast(units[:, : header + max_sentences], tf.int32)
    # The low unit of each field holds all of it: lengths are at most 65,535.
    sentences, tokens = head[:, 3 * field], head[:, 4 * field]
    return ChunkBatch(units, header + sentences, tokens, sentences, head[:, header:])
