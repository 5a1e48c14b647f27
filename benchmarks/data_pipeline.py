"""Speed of the data pipeline on one core: text to records, records to masked batches.

    python -m benchmarks.data_pipeline                      # the texts in ALBERT_KERAS_DATA
    python -m benchmarks.data_pipeline --corpus my_texts/ --vocabulary spiece.model

One JSON line a measurement. Each runs in a fresh process that is pinned to one core, with one
TensorFlow thread. Rates are per second of processor time, so other processes on the machine do
not count, though they do slow the core's caches; "wall" is what the clock said. Tokens are real
ones: padding is not counted.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

REPEATS = 5
PREDICTION_RATE = 0.15


def main() -> None:
    data = Path(os.environ.get("ALBERT_KERAS_DATA", ""))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", default=data / "corpus" / "eltec-eng")
    parser.add_argument("--vocabulary", default=data / "vocabulary" / "30k-clean.model")
    arguments = parser.parse_args()
    for path in (arguments.corpus, arguments.vocabulary):
        if not Path(path).exists():
            parser.error(f"{path} is missing: name one, or set ALBERT_KERAS_DATA")
    corpus, vocabulary = str(arguments.corpus), str(arguments.vocabulary)

    with tempfile.TemporaryDirectory() as folder:
        records = os.path.join(folder, "records")
        # The second setting is that of the workers of `write_records`, which are processes of
        # their own; the C library reads it when a process starts.
        for tunables in ("", "glibc.malloc.tcache_count=1000"):
            os.environ["GLIBC_TUNABLES"] = tunables
            show(tokenizer_alone, corpus, vocabulary)
            for sentences in ("line", "split"):
                for length in (128, 512):
                    show(text_to_records, corpus, vocabulary, sentences, length)
        del os.environ["GLIBC_TUNABLES"]
        in_a_process(write, corpus, vocabulary, records)
        for length, batch_size in ((128, 32), (128, 256), (512, 8), (512, 64)):
            for corpora in (1, 3):
                show(records_to_batches, records, vocabulary, length, batch_size, corpora)


def tokenizer_alone(corpus: str, vocabulary: str) -> dict:
    """The bound of text to records: the one op on blocks of sentences that are in memory."""
    from albert_keras.data.corpus import read_documents
    from albert_keras.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(vocabulary)
    blocks, characters = [[]], 0
    for document in read_documents([corpus], "split"):
        for sentence in document:
            if characters > 1 << 20:
                blocks.append([])
                characters = 0
            blocks[-1].append(sentence)
            characters += len(sentence)
    size = sum(len(sentence.encode()) for block in blocks for sentence in block)

    def run():
        for block in blocks:
            tokenizer.encode_lines(block)

    return rates(run, "megabytes_per_s", size / 1e6)


def text_to_records(corpus: str, vocabulary: str, sentences: str, length: int) -> dict:
    """Files to a finished record set, with sentence splitting, packing, sorting and checksums."""
    from albert_keras.data.records import write_records
    from albert_keras.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(vocabulary)
    manifest = {}

    def run():
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "records")
            manifest.update(
                write_records(
                    [corpus], tokenizer, target, length=length, sentences=sentences, workers=1
                )
            )

    result = rates(run, "megabytes_per_s", text_size(corpus) / 1e6)
    counts = manifest["counts"]
    return {
        **result,
        "sentences": sentences,
        "length": length,
        "tokens_of_a_full_chunk": counts["tokens"] / counts["chunks"] / (length - 3),
        "chunks_with_two_sentences": counts["pair_chunks"] / counts["chunks"],
    }


def write(corpus: str, vocabulary: str, folder: str) -> None:
    from albert_keras.data.records import write_records
    from albert_keras.text.tokenizer import Tokenizer

    write_records([corpus], Tokenizer.load(vocabulary), folder, sentences="split", workers=1)


def records_to_batches(
    folder: str, vocabulary: str, length: int, batch_size: int, corpora: int
) -> dict:
    """Record files to masked batches in memory, endless and shuffled as in training.

    A mixture is of one record set several times, so that its rows are as long.
    """
    import tensorflow as tf

    from albert_keras.data.pretraining import pretraining_batches
    from albert_keras.data.record_set import RecordSet
    from albert_keras.masking import ngram_mask
    from albert_keras.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(vocabulary)
    slots = round(PREDICTION_RATE * length)

    def mask(token_ids, seed):
        return ngram_mask(token_ids, tokenizer.piece_kinds, seed, max_predictions=slots)

    batches = iter(
        pretraining_batches(
            [RecordSet.load(folder, tokenizer)] * corpora,
            batch_size=batch_size,
            sequence_length=length,
            mask=mask,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
        )
    )
    steps = 2**21 // (length * batch_size)
    tokens = masked = pairs = 0.0
    for batch in itertools.islice(batches, steps):
        tokens += float(tf.reduce_sum(batch["padding_mask"]))
        masked += float(tf.reduce_sum(batch["masked_weights"]))
        pairs += float(tf.reduce_sum(batch["sop_weights"]))

    def run():
        for _ in range(steps):
            next(batches)

    return {
        **rates(run, "million_tokens_per_s", tokens / 1e6),
        "length": length,
        "batch_size": batch_size,
        "corpora": corpora,
        "real_tokens": tokens / (steps * batch_size * length),
        "masked_of_real_tokens": masked / tokens,
        "rows_with_sop": pairs / (steps * batch_size),
    }


def rates(run: Callable[[], None], name: str, amount: float) -> dict:
    """Median, least and most `amount` a second of processor time; the median by the clock."""
    cpu, wall = [], []
    for _ in range(REPEATS):
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        run()
        cpu.append(amount / (time.process_time() - cpu_start))
        wall.append(amount / (time.perf_counter() - wall_start))
    return {name: median(cpu), "least": min(cpu), "most": max(cpu), "wall": median(wall)}


def text_size(corpus: str) -> int:
    from albert_keras.data.corpus import text_files, total_bytes

    return total_bytes(text_files([corpus]))


def show(measure: Callable[..., dict], *arguments) -> None:
    import numpy
    import tensorflow
    import tensorflow_text

    from albert_keras.report.machine import processor_name

    result = in_a_process(measure, *arguments)
    rounded = {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in result.items()
    }
    machine = {
        "glibc_tunables": os.environ.get("GLIBC_TUNABLES", ""),
        "machine": processor_name(),
        "python": platform.python_version(),
        "tensorflow": tensorflow.__version__,
        "tensorflow_text": tensorflow_text.__version__,
        "numpy": numpy.__version__,
    }
    print(json.dumps({"benchmark": measure.__name__, **rounded, **machine}), flush=True)


def in_a_process(function: Callable, *arguments):
    """Runs a function in a process of its own, whose threads and core are chosen at its start."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_one_core) as pool:
        return pool.submit(function, *arguments).result()


def _one_core():
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import tensorflow as tf

    from albert_keras.data.packer import end_with_the_parent

    threading.Thread(target=end_with_the_parent, daemon=True).start()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


if __name__ == "__main__":
    main()
