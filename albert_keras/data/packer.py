"""Blocks of documents -> records, here or in other processes."""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.data.chunks import ChunkFormat, document_key, encode_chunks, pack_document
from albert_keras.text.tokenizer import Tokenizer

# Large enough that a call of the tokenizer costs nothing, small enough for every worker's memory.
_BLOCK_CHARACTERS = 1 << 20

_KEYS = 1 << 64


class PackedBlock(NamedTuple):
    """Records of a block of documents.

    spools: number of the spool -> records, one after the other.
    counts: what went in and out; some of it is in the manifest.
    """

    spools: dict[int, bytes]
    counts: Counter


def pack_block(
    documents: list[list[str]], tokenizer: Tokenizer, layout: ChunkFormat, spools: int
) -> PackedBlock:
    """Tokenizes documents with one call and packs each into the records of its chunks.

    Args:
        documents: lists of sentences.
        tokenizer: gives the ids.
        layout: the lengths.
        spools: the range of keys is cut into so many equal parts.
    """
    counts: Counter = Counter()
    records: dict[int, list[bytes]] = defaultdict(list)
    ids, splits = tokenizer.encode_lines([text for document in documents for text in document])
    lengths = np.diff(splits)
    counts["documents_read"] += len(documents)
    counts["tokens"] += len(ids)
    counts["split_sentences"] += int((lengths > layout.max_tokens).sum())
    has_tokens = lengths > 0
    # Sentences that normalise to nothing (control characters) drop out; their bounds coincide.
    bounds = np.concatenate([[0], splits[1:][has_tokens]]).tolist()
    kept_before = np.concatenate([[0], np.cumsum(has_tokens)])
    first_of_document = np.cumsum([0, *map(len, documents)])
    kept_bounds = kept_before[first_of_document].tolist()
    id_bytes = ids.astype(layout.dtype).tobytes()

    for document, (first, last) in zip(documents, pairwise(kept_bounds), strict=True):
        text = "\n".join(document).encode()
        counts["text_bytes"] += len(text) - len(document) + 1  # never more than the file has
        counts["sentences_without_tokens"] += len(document) - (last - first)
        if first == last:
            continue
        key = document_key(text)
        chunks = pack_document(bounds[first : last + 1], key, layout)
        records[key * spools // _KEYS] += encode_chunks(id_bytes, chunks, key, layout)
        counts["documents"] += 1
        counts["sentences"] += last - first
        counts["chunks"] += len(chunks)
        counts["pair_chunks"] += sum(len(chunk.sentence_starts) > 1 for chunk in chunks)
    return PackedBlock({spool: b"".join(parts) for spool, parts in records.items()}, counts)


def packed_blocks(
    documents: Iterable[list[str]],
    tokenizer: Tokenizer,
    layout: ChunkFormat,
    spools: int,
    workers: int,
) -> Iterator[PackedBlock]:
    """Packs a stream of documents in `workers` processes; with one, in this process.

    Processes are spawned, because a fork of a process that has run TensorFlow can hang. No more
    blocks are in flight than keep them busy. Close the generator to stop the processes.
    """
    if workers == 1:
        for block in blocks_of(documents):
            yield pack_block(block, tokenizer, layout, spools)
        return
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(pickle.dumps(tokenizer),),
    )
    waiting: deque = deque()
    try:
        for block in blocks_of(documents):
            with _many_small_blocks(), _without_ctrl_c():
                waiting.append(pool.submit(_pack_in_worker, block, layout, spools))
            if len(waiting) > workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise RuntimeError(
            f"A worker process of {workers} died, most likely for want of memory (each takes about "
            "0.8 GB). Use fewer workers. In a script, start this under "
            '`if __name__ == "__main__":`, since workers are spawned.'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def default_workers(text_bytes: int | None) -> int:
    """One process for each 32 MB of text, which take it longer than importing TensorFlow does."""
    if text_bytes is None:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, text_bytes >> 25))


def blocks_of(documents: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    """Cuts a stream of documents into lists that are worth a call of the tokenizer."""
    block: list[list[str]] = []
    characters = 0
    for document in documents:
        block.append(document)
        characters += sum(map(len, document))
        if characters >= _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


@contextmanager
def _many_small_blocks():
    """Processes that start meanwhile keep more of the small blocks of memory that they free.

    SentencePiece asks for several a piece; with glibc's default of seven kept it runs at 12 MB/s,
    with a thousand at 14. The C library reads the variable when a process starts.
    """
    name = "GLIBC_TUNABLES"
    if name in os.environ:
        yield
        return
    os.environ[name] = "glibc.malloc.tcache_count=1000"
    try:
        yield
    finally:
        del os.environ[name]


@contextmanager
def _without_ctrl_c():
    """Processes that start meanwhile never see a Ctrl-C, which the parent handles.

    It reaches all processes of a terminal, and a worker takes seconds to get to `_start_worker`.
    They inherit the mask of this thread; here the signal comes through another thread, or late.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(pickled_tokenizer):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    global _worker_tokenizer
    _worker_tokenizer = pickle.loads(pickled_tokenizer)  # only now: it starts TensorFlow


def end_with_the_parent():
    """Ends this worker when its parent is gone, which may have been killed.

    A worker would wait for work for ever: it holds the other end of its queue open itself.
    """
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _pack_in_worker(block, layout, spools):
    return pack_block(block, _worker_tokenizer, layout, spools)
