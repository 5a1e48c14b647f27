"""Shards: the records of a range of document keys, sorted, as a TFRecord file."""

import hashlib
import re

import tensorflow as tf

from albert_keras.data.chunks import ChunkFormat, split_records

MAX_SHARDS = 1024
_SHARD_TEXT_BYTES = 1 << 26  # about 30 MB of records: what is sorted in memory at once


def shards_for(text_bytes: int) -> int:
    """A power of two: one shard for each 64 MB of text."""
    shards = 1
    while shards * _SHARD_TEXT_BYTES < text_bytes and shards < MAX_SHARDS:
        shards *= 2
    return shards


def shard_name(shard: int, shards: int) -> str:
    return f"records-{shard:05d}-of-{shards:05d}.tfrecord"


def is_shard_name(name: str) -> bool:
    """Whether it is a shard's name, also that of an unfinished one."""
    return re.fullmatch(r"records-\d+-of-\d+\.tfrecord(\.partial)?", name) is not None


def write_shard(path: str, data: bytes, layout: ChunkFormat) -> tuple[dict, int]:
    """Sorts records into a file, which appears whole; twice gives the same bytes.

    Args:
        path: of the file, which may be on a remote file system; there is no other of its name.
        data: records, one after the other, in any order.
        layout: their format.

    Returns:
        The shard's entry in the manifest, and the most sentences of any of its records.
    """
    records = sorted(split_records(data, layout.unit_bytes))
    partial = path + ".partial"
    with tf.io.TFRecordWriter(partial) as writer:
        for record, _, _ in records:
            writer.write(record)
    entry = {
        "name": path.rpartition("/")[2],
        "records": len(records),
        "tokens": sum(tokens for _, _, tokens in records),
        "bytes": tf.io.gfile.stat(partial).length,
        "sha256": sha256_of(partial),
    }
    tf.io.gfile.rename(partial, path, overwrite=True)
    return entry, max((sentences for _, sentences, _ in records), default=0)


def sha256_of(path: str) -> str:
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
