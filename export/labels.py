"""Classifiers and regressions: a text, or a pair of them, to a label or to a number."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_keras.served_folder import SIGNATURE
from albert_keras.text.packing import text_rows

from .self_check import Question
from .serving import (
    SHORT,
    TEXTS,
    Serving,
    batch_of,
    eagerly,
    ids_signature,
    is_clear,
    pieces,
    row_alone,
    stacked,
    strings,
    texts_of_lengths,
    tokenize_signature,
)
from .slices import compute_rows


def classifier(model, tokenizer, max_length: int, labels: Sequence[str], pair: bool) -> Serving:
    """Signatures of a model of `build_classifier` with C labels.

    serving_default   text [, pair] string (B,) -> label string (B,), score float32 (B,), the
                      label's probability, probabilities and logits float32 (B, C)
    classify          inputs string (B,), each a tf.Example with the features text [, pair]
                      -> classes string (B, C) and scores float32 (B, C)
    tokenize, ids     see `serving`
    """
    labels = list(labels)

    def answer(*texts):
        logits = _logits(model, tokenizer, max_length, texts)
        probabilities = tf.nn.softmax(logits)
        return {
            "label": tf.gather(tf.constant(labels), tf.argmax(logits, axis=-1)),
            "score": tf.reduce_max(probabilities, axis=-1),
            "probabilities": probabilities,
            "logits": logits,
        }

    def classify(inputs):
        probabilities = answer(*_features(inputs, pair))["probabilities"]
        classes = tf.tile(tf.constant([labels]), [tf.shape(probabilities)[0], 1])
        return {"classes": classes, "scores": probabilities}

    def expected(logits):
        exponents = np.exp(logits - logits.max())
        probabilities = exponents / exponents.sum()
        return {
            "label": labels[logits.argmax()].encode(),
            "score": probabilities.max(),
            "probabilities": probabilities,
            "logits": logits,
        }

    def examples_expected(outputs):
        classes = [[label.encode() for label in labels]] * len(outputs["label"])
        return {
            "classes": np.array(classes, object).reshape(-1, len(labels)),
            "scores": outputs["probabilities"],
        }

    functions = {SIGNATURE: answer, "classify": classify}
    return _serving(
        *("classify", model, tokenizer, max_length, pair, functions),
        *(expected, examples_expected, {"labels": labels}),
    )


def regression(model, tokenizer, max_length: int, pair: bool) -> Serving:
    """Signatures of a model of `build_classifier` with one output, a number.

    serving_default   text [, pair] string (B,) -> value float32 (B,)
    regress           inputs string (B,), each a tf.Example with the features text [, pair]
                      -> outputs float32 (B,)
    tokenize, ids     see `serving`
    """

    def answer(*texts):
        return {"value": _logits(model, tokenizer, max_length, texts)[:, 0]}

    def regress(inputs):
        return {"outputs": answer(*_features(inputs, pair))["value"]}

    functions = {SIGNATURE: answer, "regress": regress}
    return _serving(
        *("regress", model, tokenizer, max_length, pair, functions),
        *(lambda logits: {"value": logits[0]}, lambda outputs: {"outputs": outputs["value"]}, {}),
    )


def text_questions(model, tokenizer, max_length: int, pair: bool, expected) -> list[Question]:
    """Each text alone, all together, and none, with what `expected` makes of the model's outputs
    for a row. In a pair the texts stand beside each other in all lengths."""
    seconds = (*TEXTS[1:], TEXTS[0]) if pair else (None,) * len(TEXTS)
    answers = {}
    for first, second in zip(TEXTS, seconds, strict=True):
        second_pieces = None if second is None else pieces(tokenizer, second)
        row = row_alone(pieces(tokenizer, first), second_pieces, tokenizer, max_length)
        answers[first, second] = expected(eagerly(model, row))
    batches = [[], *([one] for one in answers), list(answers)]
    questions = []
    for batch in batches:
        inputs = {"text": [first for first, _ in batch]}
        if pair:
            inputs["pair"] = [second for _, second in batch]
        outputs = stacked([answers[one] for one in batch], next(iter(answers.values())))
        questions.append(Question(SIGNATURE, batch_of(**inputs), outputs, {}))
    return questions


def text_warm_up(max_length: int, pair: bool) -> list[Question]:
    """A request for each width of rows, and one of eight texts."""
    texts = texts_of_lengths(max_length)
    batches = [*([text] for text in texts), [SHORT] * 8]
    names = ("text", "pair") if pair else ("text",)
    # The second text of a pair is short: the first one makes the width.
    return [
        Question(
            SIGNATURE,
            batch_of(**{name: batch if name == "text" else [SHORT] * len(batch) for name in names}),
            {},
            {},
        )
        for batch in batches
    ]


def _serving(
    kind, model, tokenizer, max_length, pair, functions, expected, examples_expected, metadata
):
    names = ("text", "pair") if pair else ("text",)

    def to_rows(*texts):
        return text_rows(texts[0], tokenizer, max_length, *texts[1:])

    questions = text_questions(
        model, tokenizer, max_length, pair, lambda outputs: expected(outputs["logits"])
    )
    if kind == "classify":
        questions = [
            question._replace(decided={"label": is_clear(question.outputs["probabilities"])})
            for question in questions
        ]
    of_examples = [
        Question(
            kind,
            batch_of(inputs=_serialized(question.inputs)),
            examples_expected(question.outputs),
            {},
        )
        for question in questions
    ]
    signatures = {SIGNATURE: (functions[SIGNATURE], strings(*names))}
    signatures[kind] = (functions[kind], strings("inputs"))
    signatures["tokenize"] = tokenize_signature(to_rows, max_length, *names)
    signatures["ids"] = ids_signature(model, max_length)
    return Serving(
        kind,
        signatures,
        [*questions, *of_examples, *row_questions(tokenizer, max_length, model, pair)],
        text_warm_up(max_length, pair),
        {"pair": pair, **metadata},
    )


def row_questions(tokenizer, max_length: int, model, pair: bool) -> list[Question]:
    """What `tokenize` and `ids` are asked: the short text."""
    second = pieces(tokenizer, SHORT) if pair else None
    row = row_alone(pieces(tokenizer, SHORT), second, tokenizer, max_length)
    missing = max_length - row["token_ids"].shape[1]
    padded = {name: np.pad(value, [(0, 0), (0, missing)]) for name, value in row.items()}
    width = min(-(-row["token_ids"].shape[1] // 16) * 16, max_length)
    texts = {"text": [SHORT], "pair": [SHORT]} if pair else {"text": [SHORT]}
    outputs = {name: value[np.newaxis] for name, value in eagerly(model, padded).items()}
    return [
        Question(
            "tokenize",
            batch_of(**texts),
            {name: value[:, :width] for name, value in padded.items()},
            {},
        ),
        Question("ids", padded, outputs, {}),
    ]


def _logits(model, tokenizer, max_length, texts):
    rows = text_rows(texts[0], tokenizer, max_length, *texts[1:])
    return compute_rows(lambda inputs: model(inputs, training=False), rows, max_length)["logits"]


def _features(serialized, pair):
    text = tf.io.FixedLenFeature([], tf.string)
    names = ("text", "pair") if pair else ("text",)
    parsed = tf.io.parse_example(serialized, {name: text for name in names})
    return [parsed[name] for name in names]


def _serialized(inputs):
    rows = zip(*inputs.values(), strict=True)
    return [_example(dict(zip(inputs, row, strict=True))) for row in rows]


def _example(texts):
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
        for name, text in texts.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
