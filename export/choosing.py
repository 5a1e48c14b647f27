"""Multiple choice: a context, a question and options to the option that answers it."""

import numpy as np
import tensorflow as tf

from albert_keras.served_folder import SIGNATURE
from albert_keras.tasks.race.choices import QUESTION_PIECES, question_blocks
from albert_keras.tasks.race.reading import Question as RaceQuestion
from albert_keras.text.packing import Rows, assemble_rows, first_pieces
from albert_keras.text.utf8 import repair

from .best_spans import SPACE
from .self_check import Question
from .serving import (
    LONG,
    ODD,
    SENTENCES,
    SHORT,
    Serving,
    batch_of,
    byte_limit,
    is_clear,
    row_inputs,
    stacked,
    strings,
    texts_of_lengths,
)
from .slices import compute_rows


def choosing(model, tokenizer, max_length: int) -> Serving:
    """Signatures of a model of `build_multiple_choice`.

        serving_default   context, question string (B,), options string (B, N)
                          -> choice int32 (B,), from 0; option string (B,), its text; score
                          float32 (B,), its probability; probabilities and logits float32 (B, N)

    A question with fewer options has "" in their places, whose probability is 0. Without any its
    choice is 0 and its score 0.
    """
    kept = min(QUESTION_PIECES, max_length - 3)

    def rows_of(context, question, options):
        total = tf.shape(options)[1]
        first = tokenizer(tf.strings.substr(context, 0, byte_limit(max_length)))
        second = tokenizer(with_options(question, options, byte_limit(kept)))
        second = second[:, -kept:]
        first = tf.gather(first, tf.repeat(tf.range(tf.size(context)), total))
        room = max_length - 3 - tf.cast(second.row_lengths(), tf.int32)
        first = first_pieces(first, tf.minimum(tf.cast(first.row_lengths(), tf.int32), room))
        return assemble_rows(first, second, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id)

    def answer(context, question, options):
        # Without a column of options there is one of none: a choice needs a place.
        missing = tf.maximum(1 - tf.shape(options)[1], 0)
        options = repair(tf.concat([options, tf.fill([tf.shape(options)[0], missing], "")], 1))
        rows: Rows = rows_of(context, question, options)
        logits = compute_rows(lambda inputs: _scores(model, inputs), rows, max_length)["logits"]
        logits = tf.reshape(logits, tf.shape(options))
        is_option = tf.not_equal(options, "")
        logits = tf.where(is_option, logits, -1e9)
        probabilities = tf.nn.softmax(logits) * tf.cast(is_option, tf.float32)
        choice = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {
            "choice": choice,
            "option": tf.gather(options, choice, batch_dims=1),
            "score": tf.gather(probabilities, choice, batch_dims=1),
            "probabilities": probabilities,
            "logits": logits,
        }

    specs = [*strings("context", "question"), tf.TensorSpec([None, None], tf.string, "options")]
    warm_up = [
        Question(
            SIGNATURE,
            {**batch_of(context=[text], question=[SHORT]), "options": _options([[SHORT] * 4])},
            {},
            {},
        )
        for text in texts_of_lengths(max_length)
    ]
    questions = _questions(model, tokenizer, max_length)
    return Serving("choose", {SIGNATURE: (answer, specs)}, questions, warm_up, {})


def _scores(model, inputs):
    """The logits `(n,)` of rows that are one choice each."""
    folded = {name: value[tf.newaxis] for name, value in inputs.items()}
    return {"logits": model(folded, training=False)["logits"][0]}


def with_options(question, options, most):
    """string `(B * N,)`, the last `most` bytes of what `with_option` joins: the option in the place
    of each "_", or behind.

    Only what can stand in these bytes is joined: a megabyte of "_" with an option as long would be
    a terabyte.
    """
    question, options = (_single_spaced(repair(texts)) for texts in (question, options))
    total = tf.shape(options)[1]
    has_gap = tf.repeat(tf.strings.regex_full_match(question, "(?s).*_.*"), total)
    question = tf.repeat(_last_bytes(question, most), total)
    options = tf.reshape(_last_bytes(options, most), [-1])
    parts = tf.strings.split(question, "_")
    # Behind each part but the last stands the option. A question of no characters has no parts.
    row = parts.value_rowids()
    place = tf.range(tf.size(row, out_type=tf.int64))
    gaps_behind = tf.gather(parts.row_limits(), row) - 1 - place
    sizes = tf.cast(tf.gather(tf.strings.length(options), row), tf.int64)
    # Before a part, and its option, whose successors fill the bytes, nothing is seen.
    is_seen = (gaps_behind - 1) * sizes < most
    part, row, gaps_behind = (
        tf.boolean_mask(array, is_seen) for array in (parts.values, row, gaps_behind)
    )
    joined = tf.where(tf.equal(gaps_behind, 0), part, part + tf.gather(options, row))
    filled = tf.strings.unsorted_segment_join(joined, row, tf.size(question))
    behind = tf.strings.join([question, options], separator=" ")
    return _last_bytes(tf.where(has_gap, filled, behind), most)


def _single_spaced(texts):
    texts = tf.strings.regex_replace(texts, SPACE, " ")
    return tf.strings.regex_replace(texts, "^ | $", "")


def _last_bytes(texts, most):
    sizes = tf.strings.length(texts)
    return tf.strings.substr(texts, tf.maximum(sizes - most, 0), tf.fill(tf.shape(sizes), most))


def _options(rows):
    longest = max(map(len, rows), default=1)
    padded = [[*row, *[b""] * (longest - len(row))] for row in rows]
    return np.array(padded, object).reshape(len(rows), longest)


def _questions(model, tokenizer, max_length):
    """Each question alone, all together, and none, with what evaluation answers."""
    asked = [
        (SHORT, b"Which _ is it ?", (b"one", b"the other", ODD)),
        (LONG, b"", (SHORT, b"no")),
        (ODD, LONG, (b"a", b"b", b"c", b"d", b"e")),
        (b"", b" _ and\t_", (b"only",)),
        *((text, text, SENTENCES[:4]) for text in SENTENCES),
    ]
    answers = [_evaluated(model, tokenizer, max_length, *one) for one in asked]
    questions = []
    for batch in ([], *([place] for place in range(len(asked))), list(range(len(asked)))):
        options = _options([asked[place][2] for place in batch])
        inputs = batch_of(
            context=[asked[place][0] for place in batch],
            question=[asked[place][1] for place in batch],
        )
        some = [_padded(answers[place], options.shape[1]) for place in batch]
        outputs = stacked(some, _padded(answers[3], options.shape[1]))
        clear = is_clear(outputs["probabilities"])
        decided = {"choice": clear, "option": clear}
        questions.append(Question(SIGNATURE, {**inputs, "options": options}, outputs, decided))
    return questions


def _evaluated(model, tokenizer, max_length, context, question, options):
    texts = [text.decode() for text in repair(tf.constant([context, question, *options])).numpy()]
    asked = RaceQuestion("0", texts[0], texts[1], tuple(texts[2:]), None, None)
    (block,) = question_blocks([asked], tokenizer, max_length)
    logits = []
    for row, start in enumerate(block.splits[:-1]):
        ids = block.ids[start : block.splits[row + 1]]
        scores = _scores(model, row_inputs(ids, block.second_starts[row]))
        logits.append(scores["logits"].numpy()[0])
    return np.array(logits, np.float32), texts[2:]


def _padded(answer, total):
    logits, options = answer
    missing = total - len(logits)
    exponents = np.exp(logits - logits.max())
    probabilities = np.pad(exponents / exponents.sum(), (0, missing))
    choice = int(logits.argmax())
    return {
        "choice": np.int32(choice),
        "option": options[choice].encode(),
        "score": probabilities[choice],
        "probabilities": probabilities,
        "logits": np.pad(logits, (0, missing), constant_values=-1e9),
    }
