"""Record sets: text files -> sharded TFRecord files with a manifest, and back."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tensorflow as tf

from albert_keras.data.chunks import MAX_LENGTH, MIN_LENGTH, ChunkFormat, split_records
from albert_keras.data.corpus import read_documents, text_files, total_bytes
from albert_keras.data.packer import default_workers, packed_blocks
from albert_keras.json_file import check_object, parse_json, write_json
from albert_keras.new_folder import new_folder, refuse_existing
from albert_keras.text.tokenizer import Tokenizer

MANIFEST = "manifest.json"
_FORMAT, _VERSION = "albert_keras records", 1
_PARTS = {
    "settings": ("length", "short_fraction"),
    "vocabulary": ("sha256", "size"),
    "counts": ("chunks",),
}

_SHARD_TEXT_BYTES = 1 << 26  # about 30 MB of records: what is sorted in memory at once
_MAX_SHARDS = 1024
_SPOOLS_OF_UNKNOWN_SIZE = 256  # standard input: merged into as many shards as it turns out to need


def write_records(
    inputs: Sequence[str | Path],
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    length: int = 512,
    short_fraction: float = 0.1,
    sentences: Literal["line", "split"] = "line",
    workers: int | None = None,
    shards: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> dict:
    """Writes the chunk records of text files to a new folder and returns its manifest.

    The bytes depend on the text, the vocabulary and the settings alone: not on `workers`, nor on
    the order of the files. A document is hashed to a 64-bit key; a shard holds a range of keys
    and is sorted by (key, chunk number). Memory does not grow with the corpus: blocks of documents
    stream through the tokenizer into one spool file a shard, and shards are sorted one by one.

    Args:
        inputs: text files, folders and "-", as `read_documents` takes them.
        tokenizer: gives the ids; its sha256 goes into the manifest.
        folder: made by this call, whole or not at all.
        length: longest sequence in tokens, its three special ones included, 8..65,535, default
            512. Shorter sequences can be drawn from the same records later.
        short_fraction: share of the chunks with a short target length, in [0, 1], default 0.1.
        sentences: "line" or "split", as `read_documents` takes it, default "line".
        workers: processes, default one for each 32 MB of text up to the number of cores. More
            than one are spawned, so a script must call this under `if __name__ == "__main__":`.
        shards: number of files, 1..1024, default a power of two: one for each 64 MB of text.
        progress: called with (bytes of text done, bytes in all or None for standard input).

    Returns:
        The manifest: `settings`, `vocabulary`, `counts`, `dropped` with reasons, and the name,
        records, tokens, bytes and sha256 of every shard.

    Raises:
        ValueError: a bad input, by name (see `read_documents`); a corpus without text, or in which
            no chunk has two sentences; a folder that exists; an argument out of its range.

    Example:
        >>> manifest = write_records(["books/"], tokenizer, "records", sentences="split")
        >>> manifest["counts"]["pair_chunks"] / manifest["counts"]["chunks"]  # can train SOP
        0.99
    """
    layout = ChunkFormat(length, short_fraction, 2 if tokenizer.vocab_size <= 65_535 else 4)
    _check_arguments(layout, workers, shards)
    documents = read_documents(inputs, sentences)
    text_bytes = total_bytes(text_files(inputs))
    refuse_existing(folder)
    spools = shards or (_SPOOLS_OF_UNKNOWN_SIZE if text_bytes is None else _shards(text_bytes))

    with new_folder(folder) as partial:
        spool_folder = partial / "spool"
        spool_folder.mkdir()
        counts: Counter = Counter()
        blocks = packed_blocks(
            documents, tokenizer, layout, spools, workers or default_workers(text_bytes)
        )
        with closing(blocks):
            for block in blocks:
                for spool, records in block.spools.items():
                    # Opened each time: a process may have fewer open files than there are spools.
                    with open(spool_folder / str(spool), "ab") as file:
                        file.write(records)
                counts += block.counts
                if progress:
                    progress(counts["text_bytes"], text_bytes)
        _refuse_untrainable(counts, inputs, layout, sentences)
        if shards is None:
            shards = min(spools, _shards(text_bytes or counts["text_bytes"]))
        entries, max_sentences = _write_shards(spool_folder, spools, partial, shards, layout)
        spool_folder.rmdir()
        counted = "documents", "sentences", "split_sentences", "chunks", "pair_chunks", "tokens"
        manifest = {
            "format": _FORMAT,
            "version": _VERSION,
            "settings": {
                "length": length,
                "short_fraction": short_fraction,
                "sentences": sentences,
            },
            "vocabulary": {"sha256": tokenizer.sha256, "size": tokenizer.vocab_size},
            "unit_bytes": layout.unit_bytes,
            "max_sentences": max_sentences,
            "counts": {name: counts[name] for name in counted},
            "dropped": {"sentences_without_tokens": counts["sentences_without_tokens"]},
            "shards": entries,
        }
        write_json(partial / MANIFEST, manifest)
    if progress and text_bytes is not None:
        progress(text_bytes, text_bytes)  # line ends were not counted
    return manifest


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
    def paths(self) -> list[str]:
        """The shards in order."""
        return [tf.io.gfile.join(self.folder, shard["name"]) for shard in self.manifest["shards"]]

    @property
    def record_counts(self) -> list[int]:
        """Records of each shard, in the order of `paths`."""
        return [shard["records"] for shard in self.manifest["shards"]]


def read_manifest(folder: str) -> dict:
    """The manifest of a record set, checked in itself but not against the shards.

    Raises:
        ValueError: there is none, or it is damaged or of another version; with its path.
    """
    path = tf.io.gfile.join(folder, MANIFEST)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"A record set is a folder with a {MANIFEST}. Received: {folder}, which has none. "
            "Write one with `albert-keras records`."
        )
    with tf.io.gfile.GFile(path, "rb") as file:  # may be on a remote file system
        data = file.read()
    manifest = parse_json(data, path)
    if manifest.get("format") != _FORMAT:
        raise ValueError(f"{path} is not the manifest of a record set. Name another folder.")
    if manifest.get("version") != _VERSION:
        raise ValueError(
            f"Records of version {_VERSION} can be read. Received: {path} of version "
            f"{manifest.get('version')}. Write them again with this release."
        )
    check_object(manifest, path, [*_PARTS, "dropped", "unit_bytes", "max_sentences", "shards"])
    for name, keys in _PARTS.items():
        check_object(manifest[name], f"{path}: `{name}`", keys)
    if not isinstance(manifest["shards"], list):
        raise ValueError(f"{path}: `shards` must be a list. Received: {manifest['shards']!r}.")
    for number, shard in enumerate(manifest["shards"]):
        check_object(shard, f"{path}: shard {number}", ("name", "records", "bytes", "sha256"))
    return manifest


def _check_arguments(layout, workers, shards):
    if not MIN_LENGTH <= layout.length <= MAX_LENGTH:
        raise ValueError(
            f"`length` must be from {MIN_LENGTH} to {MAX_LENGTH}. Received: {layout.length}."
        )
    if not 0 <= layout.short_fraction <= 1:
        raise ValueError(f"`short_fraction` must be in [0, 1]. Received: {layout.short_fraction}.")
    if workers is not None and workers < 1:
        raise ValueError(f"`workers` must be at least 1. Received: {workers}.")
    if shards is not None and not 1 <= shards <= _MAX_SHARDS:
        raise ValueError(f"`shards` must be from 1 to {_MAX_SHARDS}. Received: {shards}.")


def _shards(text_bytes):
    shards = 1
    while shards * _SHARD_TEXT_BYTES < text_bytes and shards < _MAX_SHARDS:
        shards *= 2
    return shards


def _refuse_untrainable(counts, inputs, layout, sentences):
    if not counts["tokens"]:
        raise ValueError(f"The corpus is empty. Received: {_named(inputs)}, without any text.")
    if counts["pair_chunks"]:
        return
    rule = "Sentence-order prediction needs chunks with two sentences, and the corpus has none. "
    if counts["documents"] == counts["documents_of_one_sentence"]:
        advice = (
            "Put the sentences of a document on lines of their own, with a blank line only "
            "between documents"
        )
        if sentences == "line":
            advice += ', or read paragraphs with sentences="split"'
        found = f"{counts['documents']} documents, each of one sentence"
    else:
        advice = "Use a greater length"
        if sentences == "line":
            advice += ', or cut paragraphs into sentences with sentences="split"'
        found = f"sentences of which no two fit in a length of {layout.length}"
    raise ValueError(f"{rule}Received: {_named(inputs)}: {found}. {advice}.")


def _named(inputs):
    inputs = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    shown = ", ".join(str(name) for name in inputs[:3])
    return shown + (f" and {len(inputs) - 3} more" if len(inputs) > 3 else "")


def _write_shards(spool_folder, spools, folder, shards, layout):
    """Sorts the spools into shards; returns their manifest entries and the most sentences."""
    entries, max_sentences = [], 0
    for shard in range(shards):
        parts = range(shard * spools // shards, (shard + 1) * spools // shards)
        files = [spool_folder / str(part) for part in parts]
        files = [file for file in files if file.exists()]
        data = b"".join(file.read_bytes() for file in files)
        for file in files:
            file.unlink()  # so that the disk never holds everything twice
        records = sorted(split_records(data, layout.unit_bytes))
        path = folder / f"records-{shard:05d}-of-{shards:05d}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record, _, _ in records:
                writer.write(record)
        max_sentences = max([max_sentences, *(sentences for _, sentences, _ in records)])
        entries.append(
            {
                "name": path.name,
                "records": len(records),
                "tokens": sum(tokens for _, _, tokens in records),
                "bytes": path.stat().st_size,
                "sha256": _sha256(str(path)),
            }
        )
    return entries, max_sentences


def _check_shard(path, shard, verify):
    if not tf.io.gfile.exists(path):
        raise ValueError(f"A shard is missing: {path}. Copy it again, or write the records again.")
    size = tf.io.gfile.stat(path).length
    if size != shard["bytes"] or (verify and _sha256(path) != shard["sha256"]):
        raise ValueError(
            f"A shard is damaged: {path} has {size} bytes that do not match the manifest "
            f"({shard['bytes']} bytes, sha256 {shard['sha256'][:12]}…). Copy it again, or write "
            "the records again."
        )


def _sha256(path):
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
