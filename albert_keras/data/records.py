"""Text files -> a record set: sharded TFRecord files with a manifest."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Literal

import albert_keras
from albert_keras.data.chunks import MAX_LENGTH, MIN_LENGTH, ChunkFormat
from albert_keras.data.corpus import are_packed, read_documents, text_files, total_bytes
from albert_keras.data.journal import Journal
from albert_keras.data.lines import STDIN
from albert_keras.data.manifest import new_manifest, write_manifest
from albert_keras.data.packer import default_workers, packed_blocks
from albert_keras.data.record_folder import record_folder, refuse_existing_records
from albert_keras.data.shards import MAX_SHARDS, shard_name, shards_for, write_shard
from albert_keras.data.storage import is_remote, size_and_time, upload
from albert_keras.text.tokenizer import Tokenizer


def write_records(
    inputs: Sequence[str | Path],
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    length: int = 512,
    short_fraction: float = 0.1,
    sentences: Literal["line", "split"] = "line",
    field: str | None = None,
    workers: int | None = None,
    shards: int | None = None,
    resume: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> dict:
    """Writes the chunk records of text files to a new folder and returns its manifest.

    The bytes depend on the text, the vocabulary and the settings alone: not on `workers`, nor on
    the order of the files, nor on kills. A document is hashed to a 64-bit key; a shard holds a
    range of keys and is sorted by (key, chunk number). Memory does not grow with the corpus: blocks
    of documents stream through the tokenizer into spool files, and shards are sorted one by one.
    Beyond 64 GB of text the shards grow, of which one is in memory at a time.

    When the process is killed, by Ctrl-C or a full disk as well, what it has done stays beside
    `folder` (for a remote one in the temporary folder of this machine). `resume` goes on with it:
    the text is read again, but what was committed is neither tokenized nor sorted again. A call
    without `resume` removes it. A mistake in the input leaves nothing.

    Args:
        inputs: text files, folders and "-", as `read_documents` takes them.
        tokenizer: gives the ids; its sha256 goes into the manifest.
        folder: made by this call, whole or not at all. A remote one (gs://) is a record set as
            soon as its manifest is there.
        length: longest sequence in tokens, its three special ones included, 8..65,535, default
            512. Shorter sequences can be drawn from the same records later.
        short_fraction: share of the chunks with a short target length, in [0, 1], default 0.1.
        sentences: "line" or "split", as `read_documents` takes it, default "line".
        field: the key of the text in JSON lines, as `read_documents` takes it, default None.
        workers: processes, default one for each 32 MB of text up to the number of cores. More
            than one are spawned, so a script must call this under `if __name__ == "__main__":`.
        shards: number of files, 1..1024, default a power of two: one for each 64 MB of text.
        resume: go on where a killed call with the same arguments stopped, default False. `workers`
            may be others.
        progress: called with (bytes of text done, bytes in all or None when nobody knows).

    Returns:
        The manifest: `settings`, `vocabulary`, `counts`, `dropped` with reasons, and the name,
        records, tokens, bytes and sha256 of every shard.

    Raises:
        ValueError: a bad input, by name (see `read_documents`); a corpus without text; a folder
            that exists; an argument out of its range; nothing to resume, or what was begun with
            other text or settings, by name.

    Example:
        >>> manifest = write_records(["books/"], tokenizer, "records", sentences="split")
        >>> manifest["counts"]["pair_chunks"] / manifest["counts"]["chunks"]  # can train SOP
        0.99
    """
    layout = ChunkFormat(length, short_fraction, 2 if tokenizer.vocab_size <= 65_535 else 4)
    check_arguments(layout, workers, shards)
    dropped: Counter = Counter()
    documents = read_documents(inputs, sentences, field=field, dropped=dropped)
    files = text_files(inputs)
    if resume and STDIN in files:
        raise ValueError(
            "`resume` reads the text again. Received: standard input, which is gone. Leave "
            "`resume` out, or write the text to a file."
        )
    refuse_existing_records(folder)
    file_bytes = total_bytes(files)
    text_bytes = None if are_packed(files) else file_bytes  # at most
    spools = shards or (MAX_SHARDS if text_bytes is None else shards_for(text_bytes))
    begun_with = {
        "library_version": albert_keras.__version__,
        "vocabulary (sha256)": tokenizer.sha256,
        "length": length,
        "short_fraction": short_fraction,
        "sentences": sentences,
        "field": field,
        "shards": shards,
        "inputs": [[str(file), *size_and_time(file)] for file in files if file != STDIN],
    }
    # What was resumed stays, whatever happens; of standard input nothing could be resumed.
    discard_after = () if resume else BaseException if STDIN in files else ValueError
    with record_folder(folder, resume=resume, discard_after=discard_after) as work:
        journal = (Journal.resume if resume else Journal.begin)(work, begun_with)
        if not journal.has_all_text:
            documents = islice(documents, journal.counts["documents_read"], None)
            blocks = packed_blocks(
                documents, tokenizer, layout, spools, workers or default_workers(file_bytes)
            )
            with closing(blocks):
                for block in blocks:
                    journal.add(block)
                    if progress:
                        progress(journal.counts["text_bytes"], text_bytes)
            journal.end_text(dropped)
        counts = journal.counts
        refuse_empty(counts, inputs)
        if shards is None:
            shards = min(spools, shards_for(counts["text_bytes"]))
        for shard in range(len(journal.shards), shards):
            own = range(shard * spools // shards, (shard + 1) * spools // shards)
            path = work / shard_name(shard, shards)
            entry, max_sentences = write_shard(str(path), journal.records_of(own), layout)
            if is_remote(folder):
                upload(path, folder)
            journal.add_shard(entry, max_sentences, own)
        vocabulary = {"sha256": tokenizer.sha256, "size": tokenizer.vocab_size}
        manifest = new_manifest(
            layout, sentences, vocabulary, counts, journal.shards, journal.max_sentences
        )
        write_manifest(manifest, folder if is_remote(folder) else work)
        journal.remove()
    if progress and text_bytes is not None:
        progress(text_bytes, text_bytes)  # line ends were not counted
    return manifest


def check_arguments(layout: ChunkFormat, workers: int | None, shards: int | None) -> None:
    """Raises ValueError for a setting out of its range."""
    if not MIN_LENGTH <= layout.length <= MAX_LENGTH:
        raise ValueError(
            f"`length` must be from {MIN_LENGTH} to {MAX_LENGTH}. Received: {layout.length}."
        )
    if not 0 <= layout.short_fraction <= 1:
        raise ValueError(f"`short_fraction` must be in [0, 1]. Received: {layout.short_fraction}.")
    if workers is not None and workers < 1:
        raise ValueError(f"`workers` must be at least 1. Received: {workers}.")
    if shards is not None and not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"`shards` must be from 1 to {MAX_SHARDS}. Received: {shards}.")


def refuse_empty(counts: Counter, inputs: Sequence[str | Path]) -> None:
    """Raises ValueError for a corpus without text."""
    if not counts["tokens"]:
        raise ValueError(
            f"The corpus is empty. Received: {_named(inputs)}, without any text. Name others."
        )


def _named(inputs):
    inputs = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    shown = ", ".join(str(name) for name in inputs[:3])
    return shown + (f" and {len(inputs) - 3} more" if len(inputs) > 3 else "")
