"""Small SavedModels with the signatures of our exports, for tests of the server.

They hold no ALBERT: what they answer can be worked out by hand from the strings.
"""

import json
from pathlib import Path

import tensorflow as tf

LABELS = ["short", "<b>long</b> & Straße"]


def strings(*names):
    return [tf.TensorSpec([None], tf.string, name=name) for name in names]


def save(folder: Path, module: tf.Module, functions: dict, metadata: dict) -> Path:
    tf.saved_model.save(module, str(folder), signatures=functions)
    (folder / "assets.extra").mkdir()
    (folder / "assets.extra" / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    return folder


def _characters(text):
    return tf.strings.length(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8"), "UTF8_CHAR")


def save_labels(folder: Path, scale: float = 1.0) -> Path:
    """classify: a text is the longer the more characters it has; `scale` tells versions apart.

    Its further signatures are `classify` and `regress` from tf.Examples, and `ids`.
    """
    module = tf.Module()
    module.scale = tf.Variable(scale)

    def probabilities_of(text):
        share = 1 - 1 / (1 + module.scale * tf.cast(_characters(text), tf.float32))
        return tf.stack([1 - share, share], axis=1)

    @tf.function(input_signature=strings("text"))
    def serving_default(text):
        probabilities = probabilities_of(text)
        return {
            "label": tf.gather(LABELS, tf.argmax(probabilities, axis=1)),
            "score": tf.reduce_max(probabilities, axis=1),
            "probabilities": probabilities,
            "logits": tf.math.log(probabilities),
        }

    def texts_of(inputs):
        return tf.io.parse_example(inputs, {"text": tf.io.FixedLenFeature([], tf.string)})["text"]

    @tf.function(input_signature=strings("inputs"))
    def classify(inputs):
        scores = probabilities_of(texts_of(inputs))
        return {"classes": tf.tile([LABELS], [tf.shape(scores)[0], 1]), "scores": scores}

    @tf.function(input_signature=strings("inputs"))
    def regress(inputs):
        return {"outputs": tf.cast(_characters(texts_of(inputs)), tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.int32, name="token_ids")])
    def ids(token_ids):
        return {"total_bytes": tf.strings.as_string(tf.reduce_sum(token_ids, axis=1))}

    functions = {
        "serving_default": serving_default,
        "classify": classify,
        "regress": regress,
        "ids": ids,
    }
    return save(folder, module, functions, {"kind": "classify", "labels": LABELS})


def save_answers(folder: Path) -> Path:
    """answer: the first place in the context where the question stands, in characters."""

    @tf.function(input_signature=strings("question", "context"))
    def serving_default(question, context):
        def find(pair):
            asked, text = pair[0], pair[1]
            before = tf.strings.split(text, asked)[0]
            there = tf.strings.length(before) < tf.strings.length(text)
            start = tf.where(there, tf.strings.length(before, "UTF8_CHAR"), -1)
            end = tf.where(there, start + tf.strings.length(asked, "UTF8_CHAR"), -1)
            return tf.where(there, asked, ""), start, end

        answer, start, end = tf.map_fn(
            find, tf.stack([question, context], 1), (tf.string, tf.int32, tf.int32)
        )
        score = tf.where(start < 0, 0.0, 0.75)
        none = tf.zeros_like(start) - 1
        return {
            **{"answer": answer, "start": start, "end": end, "score": score},
            "null_score": 1 - score,
            "answers": tf.stack([answer, tf.strings.join([answer, ""])], 1),
            "starts": tf.stack([start, none], 1),
            "ends": tf.stack([end, none], 1),
            "scores": tf.stack([score, score / 3], 1),
        }

    return save(folder, tf.Module(), {"serving_default": serving_default}, {"kind": "answer"})


def save_choices(folder: Path) -> Path:
    """choose: the longest option."""

    options = tf.TensorSpec([None, None], tf.string, name="options")

    @tf.function(input_signature=[*strings("context", "question"), options])
    def serving_default(context, question, options):
        lengths = tf.cast(tf.strings.length(options, "UTF8_CHAR"), tf.float32)
        choice = tf.argmax(lengths, axis=1, output_type=tf.int32)
        probabilities = lengths / tf.reduce_sum(lengths, axis=1, keepdims=True)
        return {
            "choice": choice,
            "option": tf.gather(options, choice, batch_dims=1),
            "score": tf.reduce_max(probabilities, axis=1),
            "probabilities": probabilities,
        }

    return save(folder, tf.Module(), {"serving_default": serving_default}, {"kind": "choose"})


def save_masks(folder: Path) -> Path:
    """fill_mask with one output more than a page knows, and coherence: two signatures."""

    @tf.function(input_signature=strings("text"))
    def fill_mask(text):
        masks = tf.strings.regex_replace(text, r"[^\[]", "")
        count = tf.strings.length(masks)
        here = tf.sequence_mask(count)[:, :, tf.newaxis]
        tokens = tf.where(here, [[["sea", "land"]]], "")
        return {"tokens": tokens, "scores": tf.where(here, [[[0.75, 0.25]]], 0.0), "count": count}

    @tf.function(input_signature=strings("first", "second"))
    def coherence(first, second):
        grows = tf.strings.length(first) < tf.strings.length(second)
        return {"score": tf.where(grows, 0.875, 0.125)}

    functions = {"serving_default": fill_mask, "coherence": coherence}
    return save(folder, tf.Module(), functions, {"kind": "pretrainer"})


def save_slow(folder: Path) -> Path:
    """A text that is a number counts to it, about 100,000 steps in a second."""

    @tf.function(input_signature=strings("text"))
    def serving_default(text):
        count = tf.reduce_sum(tf.strings.to_number(text, tf.int64))
        value = tf.constant(0, tf.int64)
        while value < count:
            value += 1
        return {"value": tf.fill(tf.shape(text), tf.cast(value, tf.float32))}

    return save(folder, tf.Module(), {"serving_default": serving_default}, {"kind": "regress"})


def save_wide(folder: Path) -> Path:
    """Gives 4,000,000 numbers for each text, a scalar, and one row more than it gets."""

    @tf.function(input_signature=strings("text"))
    def serving_default(text):
        return {"vectors": tf.zeros([tf.size(text), 4_000_000])}

    @tf.function(input_signature=strings("text"))
    def more(text):
        return {"rows": tf.concat([text, ["one more"]], 0), "size": tf.size(text)}

    functions = {"serving_default": serving_default, "more": more}
    return save(folder, tf.Module(), functions, {})
