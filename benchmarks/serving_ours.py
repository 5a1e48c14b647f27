"""One of our exports, answering for `benchmarks.serving`, which starts this."""

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from benchmarks.served_texts import answer_questions, slices

THREADS = 2


def saved_model(folder: Path, bfloat16: bool):
    """Through tf.saved_model.load; in bfloat16 by the rewriter that TensorFlow Serving's
    `--mixed_precision=bfloat16` turns on. Tokenizing is inside the graph, so it is timed beside it:
    the signature `tokenize`, once for each question."""
    from albert_keras.export.loading import load_export

    from albert_keras.served_folder import versions_in

    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": bfloat16})
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    # One operation after the other, each on all threads; a hand-over costs more than it saves.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = load_export(versions_in(folder)[-1])
    known = {}

    def tokenized(texts):
        loaded.signatures["tokenize"](text=texts)
        start = time.perf_counter()
        masks = [loaded.signatures["tokenize"](text=texts)["padding_mask"] for _ in range(20)]
        pieces = int(masks[-1].numpy().sum())
        return pieces, (time.perf_counter() - start) / 20

    def answer(texts):
        texts = tf.constant(texts)
        loaded.signatures["serving_default"](text=texts)["logits"].numpy()
        if len(texts) not in known:  # before the clock runs: each question is tried out first
            known[len(texts)] = tokenized(texts)
        return known[len(texts)]

    return answer


def on_the_device(folder: Path):
    """A file of `export_edge` with the sentencepiece library, rows one length at a time."""
    import sentencepiece
    from albert_keras.export.edge import load_edge

    run, metadata = load_edge(folder, threads=THREADS)
    vocabulary = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / metadata["vocabulary"])
    )
    cls, sep, longest = metadata["cls_id"], metadata["sep_id"], metadata["max_length"]

    def answer(texts):
        start = time.perf_counter()
        rows = [[cls, *ids[: longest - 2], sep] for ids in vocabulary.encode(list(texts))]
        tokenizing = time.perf_counter() - start
        lengths = [len(row) for row in rows]
        logits = np.empty([len(rows), 2], np.float32)
        for some in slices(lengths):
            token_ids = np.zeros([len(some), lengths[some[0]]], np.int32)
            for place, row in enumerate(some):
                token_ids[place, : lengths[row]] = rows[row]
            mask = (token_ids != 0).astype(np.int32)
            inputs = {"token_ids": token_ids, "segment_ids": 0 * mask, "padding_mask": mask}
            logits[some] = run(inputs)["logits"]
        return sum(lengths), tokenizing

    return answer


def main():
    name, folder, corpus = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if name.startswith("saved-model"):
        answer = saved_model(folder, bfloat16=name.endswith("bfloat16"))
    else:
        answer = on_the_device(folder)
    answer_questions(name, answer, corpus)


if __name__ == "__main__":
    main()
