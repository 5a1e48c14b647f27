"""RecordSet: a folder of records that has been checked, for training to read."""

from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from albert_keras.data.chunks import ChunkFormat
from albert_keras.data.manifest import read_manifest
from albert_keras.data.shards import sha256_of
from albert_keras.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class RecordSet:
    """A folder of records that has been checked: what `pretraining_batches` reads.

    Example:
        >>> records = RecordSet.load("records", tokenizer)
        >>> records.num_records, records.layout.length
        (17344, 512)
    """

    folder: str
    manifest: dict

    @classmethod
    def load(cls, folder: str | Path, tokenizer: Tokenizer | None = None, verify: bool = True):
        """Reads the manifest and checks every shard against it.

        Args:
            folder: as `write_records` made it; also on a remote file system that TensorFlow knows.
            tokenizer: when given, must have the vocabulary of the records.
            verify: compare the sha256 of each shard, default True. It reads every byte (about
                1 GB/s); without it names and sizes are compared, and TFRecord's own checksums
                stop the run at the first damaged record.

        Raises:
            ValueError: no record set, another version, another vocabulary, or a shard that is
                missing or damaged, with its name.
        """
        folder = str(folder)
        manifest = read_manifest(folder)
        if tokenizer is not None and tokenizer.sha256 != manifest["vocabulary"]["sha256"]:
            raise ValueError(
                f"The records in {folder} were written with another vocabulary (sha256 "
                f"{manifest['vocabulary']['sha256'][:12]}…). Received: a tokenizer with "
                f"{tokenizer.sha256[:12]}…. Use the tokenizer of the records, or write them again."
            )
        for shard in manifest["shards"]:
            _check_shard(tf.io.gfile.join(folder, shard["name"]), shard, verify)
        return cls(folder, manifest)

    @property
    def layout(self) -> ChunkFormat:
        settings = self.manifest["settings"]
        return ChunkFormat(
            settings["length"], settings["short_fraction"], self.manifest["unit_bytes"]
        )

    def refuse_rows_of(self, sequence_length: int) -> None:
        """Raises ValueError for rows that are longer than the chunks."""
        length = self.layout.length
        if sequence_length > length:
            raise ValueError(
                f"Rows must not be longer than the records' chunks, which are of {length} pieces "
                f"in {self.folder}. Received: `sequence_length` {sequence_length}, whose rest "
                "would be padding. Shorten it, or write the records again at that length or above."
            )

    @property
    def max_sentences(self) -> int:
        """The most sentences of any chunk."""
        return self.manifest["max_sentences"]

    @property
    def num_records(self) -> int:
        return self.manifest["counts"]["chunks"]

    @property
    def has_pairs(self) -> bool:
        """Whether any chunk has two sentences."""
        return self.manifest["counts"]["pair_chunks"] > 0

    @property
    def paths(self) -> list[str]:
        """The shards in order."""
        return [tf.io.gfile.join(self.folder, shard["name"]) for shard in self.manifest["shards"]]

    @property
    def record_counts(self) -> list[int]:
        """Records of each shard, in the order of `paths`."""
        return [shard["records"] for shard in self.manifest["shards"]]


def _check_shard(path, shard, verify):
    if not tf.io.gfile.exists(path):
        raise ValueError(f"A shard is missing: {path}. Copy it again, or write the records again.")
    size = tf.io.gfile.stat(path).length
    if size != shard["bytes"] or (verify and sha256_of(path) != shard["sha256"]):
        raise ValueError(
            f"A shard is damaged: {path} has {size} bytes that do not match the manifest "
            f"({shard['bytes']} bytes, sha256 {shard['sha256'][:12]}…). Copy it again, or write "
            "the records again."
        )
