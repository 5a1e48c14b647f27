"""The manifest: what a record set is made of, written last."""

import hashlib
import json
import tempfile
from pathlib import Path

import tensorflow as tf

from albert_keras.data.chunks import ChunkFormat
from albert_keras.data.storage import is_remote, upload
from albert_keras.data.text_formats import EMPTY_TEXTS, REPEATED_CONTEXTS
from albert_keras.json_file import check_object, parse_json, write_json

MANIFEST = "manifest.json"
# Version 2 packs half of the documents from their end; 3 has a checksum of the manifest.
_FORMAT, _VERSION = "albert_keras records", 3
_PARTS = {
    "settings": ("length", "short_fraction"),
    "vocabulary": ("sha256", "size"),
    "counts": ("chunks", "pair_chunks"),
}
_COUNTED = ("documents", "sentences", "split_sentences", "chunks", "pair_chunks", "tokens")
_DROPPED = ("sentences_without_tokens", EMPTY_TEXTS, REPEATED_CONTEXTS)


def new_manifest(
    layout: ChunkFormat,
    sentences: str,
    vocabulary: dict,
    counts: dict[str, int],
    shards: list[dict],
    max_sentences: int,
) -> dict:
    """The manifest of a record set that has been written.

    Args:
        layout: the format of the records.
        sentences: "line" or "split".
        vocabulary: sha256 and size of the one that gave the ids.
        counts: of `pack_block` and, by reason, what the reader dropped; what is missing is 0.
        shards: name, records, tokens, bytes and sha256 of each.
        max_sentences: the most sentences of any chunk.
    """
    manifest = {
        "format": _FORMAT,
        "version": _VERSION,
        "settings": {
            "length": layout.length,
            "short_fraction": layout.short_fraction,
            "sentences": sentences,
        },
        "vocabulary": vocabulary,
        "unit_bytes": layout.unit_bytes,
        "max_sentences": max_sentences,
        "counts": {name: counts.get(name, 0) for name in _COUNTED},
        "dropped": {reason: counts.get(reason, 0) for reason in _DROPPED},
        "shards": shards,
    }
    return {**manifest, "sha256": _sha256(manifest)}


def write_manifest(manifest: dict, folder: str | Path) -> None:
    """Writes the manifest into the folder of its shards, which may be remote."""
    if not is_remote(folder):
        write_json(Path(folder) / MANIFEST, manifest)
        return
    with tempfile.TemporaryDirectory() as here:
        write_json(Path(here) / MANIFEST, manifest)
        upload(Path(here) / MANIFEST, folder)


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
    check_object(
        manifest, path, [*_PARTS, "dropped", "unit_bytes", "max_sentences", "shards", "sha256"]
    )
    for name, keys in _PARTS.items():
        check_object(manifest[name], f"{path}: `{name}`", keys)
    if not isinstance(manifest["shards"], list):
        raise ValueError(f"{path}: `shards` must be a list. Received: {manifest['shards']!r}.")
    for number, shard in enumerate(manifest["shards"]):
        check_object(shard, f"{path}: shard {number}", ("name", "records", "bytes", "sha256"))
    written = {name: value for name, value in manifest.items() if name != "sha256"}
    if manifest["sha256"] != _sha256(written):
        raise ValueError(
            f"{path} is damaged or was edited: its content does not match its own sha256. Copy it "
            "again, or write the records again."
        )
    return manifest


def _sha256(manifest):
    """Of all that a manifest says, in whatever order and layout."""
    text = json.dumps(manifest, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
