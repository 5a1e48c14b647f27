"""Hugging Face or keras-hub, answering for `benchmarks.serving`, which starts this.

    hugging-face            PyTorch, padded to the longest text of the batch
    hugging-face-sorted     rows sorted by length and computed in slices, as we do
    hugging-face-compiled   the same, through torch.compile
    keras-hub               padded to the longest text, which takes setting its preprocessor's
                            length for every batch; by itself it pads everything to 512
    keras-hub-sorted        rows sorted by length and computed in slices, as we do

Runs in the environment of `make parity`. Hugging Face loads our checkpoint; keras-hub has weights
of its own, which makes no difference to the time.
"""

import os
import sys
import time
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TOKENIZERS_PARALLELISM"] = "true"

from benchmarks.served_texts import MAX_LENGTH, answer_questions, slices

THREADS = 2


def hugging_face(folder: Path, is_sorted: bool, compiled: bool):
    import torch
    from transformers import AlbertForSequenceClassification, AutoTokenizer

    torch.set_num_threads(THREADS)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AlbertForSequenceClassification.from_pretrained(folder).eval()
    if compiled:
        model = torch.compile(model, dynamic=True)

    @torch.inference_mode()
    def answer(texts):
        start = time.perf_counter()
        encoded = tokenizer(list(texts), truncation=True, max_length=MAX_LENGTH)
        tokenizing = time.perf_counter() - start
        lengths = [len(ids) for ids in encoded["input_ids"]]
        for some in slices(lengths) if is_sorted else [range(len(texts))]:
            rows = [{name: encoded[name][row] for name in encoded} for row in some]
            model(**tokenizer.pad(rows, return_tensors="pt")).logits.numpy()
        return sum(lengths), tokenizing

    return answer


def keras_hub(folder: Path, is_sorted: bool):
    import keras_hub
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    # One operation after the other, each on all threads; a hand-over costs more than it saves.
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tokenizer = keras_hub.models.AlbertTokenizer(proto=str(folder / "spiece.model"))
    preprocessor = keras_hub.models.AlbertTextClassifierPreprocessor(
        tokenizer, sequence_length=MAX_LENGTH
    )
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=30_000,
        num_layers=12,
        num_heads=12,
        embedding_dim=128,
        hidden_dim=768,
        intermediate_dim=3072,
        max_sequence_length=MAX_LENGTH,
        dropout=0.0,
    )
    model = keras_hub.models.AlbertTextClassifier(backbone, num_classes=2, preprocessor=None)
    # In a graph, where the tokenizer gives tensors; outside it makes Python's lists of them.
    count = tf.function(lambda texts: tokenizer(texts).row_lengths())
    integers = tf.TensorSpec([None, None], tf.int32)
    names = ("token_ids", "padding_mask", "segment_ids")
    run = tf.function(
        lambda inputs: model(inputs, training=False),
        input_signature=[{name: integers for name in names}],
    )

    def answer(texts):
        start = time.perf_counter()
        lengths = count(tf.constant(texts)).numpy() + 2
        tokenizing = time.perf_counter() - start
        lengths = [min(int(length), MAX_LENGTH) for length in lengths]
        for some in slices(lengths) if is_sorted else [list(range(len(texts)))]:
            start = time.perf_counter()
            preprocessor.sequence_length = max(lengths[row] for row in some)
            inputs = preprocessor(tf.constant([texts[row] for row in some]))
            inputs = {name: tf.cast(inputs[name], tf.int32) for name in names}
            tokenizing += time.perf_counter() - start
            run(inputs).numpy()
        return sum(lengths), tokenizing

    return answer


def main():
    name, folder, corpus = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if name.startswith("hugging-face"):
        answer = hugging_face(folder, name != "hugging-face", name.endswith("-compiled"))
    else:
        answer = keras_hub(folder, name != "keras-hub")
    answer_questions(name, answer, corpus)


if __name__ == "__main__":
    main()
