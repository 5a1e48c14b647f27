"""Text to records at growing sizes and with more processes: memory and speed.

    python -m benchmarks.records_at_size                    # 10 MB, 100 MB and 1 GB, one process
    python -m benchmarks.records_at_size --megabytes 1000 --workers 1 2

The text is made of the novels in ALBERT_KERAS_DATA: their paragraphs in random order, every tenth
word another one of them, so that no document occurs twice. It is removed in the end; its largest
size and half of that again must fit on the disk of the temporary folder.

One JSON line a measurement, each in a fresh process that is pinned to as many cores as there are
workers, with one TensorFlow thread. Memory is what Linux counts for the process: "before" with
TensorFlow and the vocabulary in it, and the peak since then. "seconds" are of the clock, with the
start of the workers in them, so a speed-up is measured on a quiet machine and on 1 GB.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

_DOCUMENT_PARAGRAPHS = 50


def main() -> None:
    data = Path(os.environ.get("ALBERT_KERAS_DATA", ""))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", default=data / "corpus" / "eltec-eng")
    parser.add_argument("--vocabulary", default=data / "vocabulary" / "30k-clean.model")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    arguments = parser.parse_args()
    for path in (arguments.corpus, arguments.vocabulary):
        if not Path(path).exists():
            parser.error(f"{path} is missing: name one, or set ALBERT_KERAS_DATA")
    for megabytes in arguments.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "text.txt")
            write_text(str(arguments.corpus), text, megabytes * 10**6)
            for workers in arguments.workers:
                context = multiprocessing.get_context("spawn")
                with ProcessPoolExecutor(1, mp_context=context) as pool:
                    measured = pool.submit(measure, text, str(arguments.vocabulary), workers)
                    print(json.dumps(measured.result()), flush=True)


def write_text(corpus: str, path: str, size: int) -> None:
    """Writes text of `size` bytes or a paragraph more."""
    from albert_keras.data.corpus import read_documents

    rng = random.Random(0)
    paragraphs = [line for document in read_documents([corpus]) for line in document]
    words = [word for line in rng.sample(paragraphs, 1000) for word in line.split()]
    written = 0
    with open(path, "w") as file:
        while written < size:
            lines = []
            for paragraph in rng.sample(paragraphs, _DOCUMENT_PARAGRAPHS):
                line = paragraph.split()
                for place in range(rng.randrange(10), len(line), 10):
                    line[place] = rng.choice(words)
                lines.append(" ".join(line))
            document = "\n".join(lines) + "\n\n"
            file.write(document)
            written += len(document.encode())


def measure(text: str, vocabulary: str, workers: int) -> dict:
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[-workers:]
        os.sched_setaffinity(0, cores)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from albert_keras.data.records import write_records
    from albert_keras.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(vocabulary)
    tokenizer.encode_lines(["warm"])
    before, start = own_megabytes("VmRSS"), time.perf_counter()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    megabytes = os.path.getsize(text) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        manifest = write_records(
            [text], tokenizer, os.path.join(folder, "set"), sentences="split", workers=workers
        )
    seconds = time.perf_counter() - start
    result = {
        "benchmark": "records_at_size",
        "text_megabytes": round(megabytes),
        "workers": workers,
        "shards": len(manifest["shards"]),
        "seconds": round(seconds, 1),
        "megabytes_per_s": round(megabytes / seconds, 2),
        "megabytes_before": before,
        "peak_megabytes": own_megabytes("VmHWM"),
    }
    if workers > 1:
        of_workers = resource.getrusage(resource.RUSAGE_CHILDREN)  # the largest of them
        result["peak_megabytes_of_a_worker"] = of_workers.ru_maxrss // 1024
    return result


def own_megabytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith(name + ":"))
    return int(kilobytes) // 1024


if __name__ == "__main__":
    main()
