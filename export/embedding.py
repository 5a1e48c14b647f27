"""Encoders: a text, or a pair of them, to vectors."""

import numpy as np
import tensorflow as tf

from albert_keras.served_folder import SIGNATURE
from albert_keras.text.packing import text_rows

from .labels import row_questions, text_questions, text_warm_up
from .self_check import Question
from .serving import (
    SHORT,
    Serving,
    batch_of,
    eagerly,
    ids_signature,
    pieces,
    row_alone,
    strings,
    tokenize_signature,
)
from .slices import compute_rows


def embedding(model, tokenizer, max_length: int, pair: bool) -> Serving:
    """Signatures of a model of `build_albert`.

    serving_default   text [, pair] string (B,) -> pooled float32 (B, H), the output for
                      `[CLS]` after the pooler; mean float32 (B, H), of the outputs for all
                      pieces, the special ones included
    tokens            the same -> embeddings float32 (B, S, H), pieces string (B, S) and mask
                      int32 (B, S), 0 behind a row's last piece
    tokenize, ids     see `serving`
    """
    names = ("text", "pair") if pair else ("text",)
    vocabulary = [tokenizer.piece(number) for number in range(tokenizer.vocab_size)]

    def to_rows(*texts):
        return text_rows(texts[0], tokenizer, max_length, *texts[1:])

    def vectors(inputs):
        outputs = model(inputs, training=False)
        mask = tf.cast(inputs["padding_mask"], tf.float32)[:, :, tf.newaxis]
        hidden = tf.cast(outputs["sequence_output"], tf.float32)
        mean = tf.reduce_sum(hidden * mask, axis=1) / tf.reduce_sum(mask, axis=1)
        return {"pooled": tf.cast(outputs["pooled_output"], tf.float32), "mean": mean}

    def embed(*texts):
        return compute_rows(vectors, to_rows(*texts), max_length)

    def of_pieces(inputs):
        hidden = model(inputs, training=False)["sequence_output"]
        mask = inputs["padding_mask"]
        hidden = tf.cast(hidden, tf.float32) * tf.cast(mask, tf.float32)[:, :, tf.newaxis]
        return {"embeddings": hidden, "ids": inputs["token_ids"], "mask": mask}

    def tokens(*texts):
        outputs = compute_rows(
            of_pieces, to_rows(*texts), max_length, by_position=("embeddings", "ids", "mask")
        )
        named = tf.gather(tf.constant(vocabulary), outputs.pop("ids"))
        return {**outputs, "pieces": tf.where(outputs["mask"] > 0, named, "")}

    def expected(outputs):
        return {
            "pooled": outputs["pooled_output"],
            "mean": outputs["sequence_output"].mean(axis=0),
        }

    return Serving(
        "embed",
        {
            SIGNATURE: (embed, strings(*names)),
            "tokens": (tokens, strings(*names)),
            "tokenize": tokenize_signature(to_rows, max_length, *names),
            "ids": ids_signature(model, max_length),
        },
        [
            *text_questions(model, tokenizer, max_length, pair, expected),
            _question_of_pieces(model, tokenizer, max_length, names),
            *row_questions(tokenizer, max_length, model, pair),
        ],
        text_warm_up(max_length, pair),
        {"pair": pair},
    )


def _question_of_pieces(model, tokenizer, max_length, names):
    second = pieces(tokenizer, SHORT) if len(names) == 2 else None
    row = row_alone(pieces(tokenizer, SHORT), second, tokenizer, max_length)
    ids = row["token_ids"][0]
    width = min(-(-len(ids) // 16) * 16, max_length)
    padding = [(0, width - len(ids))]
    outputs = {
        "embeddings": np.pad(eagerly(model, row)["sequence_output"], [*padding, (0, 0)]),
        "mask": np.pad(np.ones_like(ids), padding),
        "pieces": np.array(
            [*(tokenizer.piece(number).encode() for number in ids), *[b""] * (width - len(ids))],
            object,
        ),
    }
    return Question(
        "tokens",
        batch_of(**{name: [SHORT] for name in names}),
        {name: value[np.newaxis] for name, value in outputs.items()},
        {},
    )
