"""Pretrainers: words for `[MASK]`, and whether two texts are in order."""

import numpy as np
import tensorflow as tf

from albert_keras.layers.sop_head import SOP_IN_ORDER
from albert_keras.served_folder import SIGNATURE
from albert_keras.text.packing import Rows, assemble_rows, first_pieces, text_rows
from albert_keras.text.utf8 import repair

from .self_check import Question
from .serving import (
    CLEAR,
    LONG,
    ODD,
    SENTENCES,
    SHORT,
    TEXTS,
    Serving,
    batch_of,
    byte_limit,
    eagerly,
    pieces,
    row_alone,
    stacked,
    strings,
    texts_of_lengths,
)
from .slices import compute_rows

MASK = "[MASK]"
TOP = 5
# Masked places of a text that are answered.
MAX_MASKS = 32


def pretrained(model, tokenizer, max_length: int) -> Serving:
    """Signatures of a model of `build_pretrainer`.

        fill_mask         text string (B,), `[MASK]` standing for one piece each -> tokens string
                          and scores float32 (B, M, 5), the likeliest pieces and their
                          probabilities; mask_count int32 (B,). M is the most masks of a text in
                          the batch, "" and 0 fill the others, and what is behind the 32nd, the
                          last for which the model has a slot, or the longest row stays unanswered
        coherence         first, second string (B,) -> score float32 (B,), the probability that
                          they are in this order, of a model that is trained on it
        serving_default   as fill_mask

    Only here `[MASK]` in a text is a mask. The texts around it are tokenized each on its own.
    """
    objective = model.get_layer("sop").objective
    slots = model.input["masked_positions"].shape[1]
    most = MAX_MASKS if slots is None else min(MAX_MASKS, slots)

    def outputs_of(inputs):
        positions = _filled(inputs["masked_positions"], slots)
        return model({**inputs, "masked_positions": positions}, training=False)

    def fill(text):
        rows, positions, counts = _masked_rows(text, tokenizer, max_length, most)

        def guesses(inputs):
            asked = tf.shape(inputs["masked_positions"])[1]
            # A model may have more pieces than its tokenizer; those are nobody's answer.
            logits = outputs_of(inputs)["mlm_logits"][:, :asked, : tokenizer.vocab_size]
            scores, ids = tf.math.top_k(tf.nn.softmax(logits), TOP)
            return {"scores": scores, "ids": ids}

        beside = {"masked_positions": positions}
        found = compute_rows(guesses, rows, max_length, beside)
        vocabulary = tf.constant([tokenizer.piece(n) for n in range(tokenizer.vocab_size)])
        is_mask = tf.sequence_mask(counts, tf.shape(positions)[1])[:, :, tf.newaxis]
        return {
            "tokens": tf.where(is_mask, tf.gather(vocabulary, found["ids"]), ""),
            "scores": tf.where(is_mask, found["scores"], 0.0),
            "mask_count": counts,
        }

    def order(first, second):
        rows = text_rows(first, tokenizer, max_length, second)
        none = tf.zeros([tf.size(first), 1], tf.int32)
        probabilities = compute_rows(
            lambda inputs: {"sop": tf.nn.softmax(outputs_of(inputs)["sop_logits"])},
            *(rows, max_length, {"masked_positions": none}),
        )
        return {"score": probabilities["sop"][:, SOP_IN_ORDER]}

    signatures = {SIGNATURE: (fill, strings("text")), "fill_mask": (fill, strings("text"))}
    questions = _fill_questions(model, tokenizer, max_length)
    if objective == "sop":
        signatures["coherence"] = (order, strings("first", "second"))
        questions += _order_questions(model, tokenizer, max_length)
    warm_up = [
        Question(SIGNATURE, batch_of(text=[text + MASK.encode()]), {}, {})
        for text in texts_of_lengths(max_length // 2)
    ]
    return Serving("pretrainer", signatures, questions, warm_up, {"pair_objective": objective})


def _filled(positions, slots):
    """As many positions as the model's input has, where it says so."""
    if slots is None:
        return positions
    return tf.pad(positions, [[0, 0], [0, slots - tf.shape(positions)[1]]])


def _masked_rows(text, tokenizer, max_length, most):
    """Rows, the positions of their masks `(B, M)`, and how many each has."""
    text = repair(tf.strings.substr(text, 0, byte_limit(max_length)))
    parts = tf.strings.split(text, MASK)
    ids = tokenizer(parts.values)
    # A mask behind each part but the last of its text.
    part = tf.range(tf.size(parts.values, out_type=tf.int64))
    is_last = tf.equal(part, tf.gather(parts.row_limits(), parts.value_rowids()) - 1)
    masks = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(tf.cast(~is_last, tf.int32))], tokenizer.mask_id),
        tf.cast(~is_last, tf.int64),
        validate=False,
    )
    ids = tf.concat([ids, masks], axis=1)
    joined = tf.RaggedTensor.from_row_splits(
        ids.values, tf.gather(ids.row_splits, parts.row_splits), validate=False
    )
    kept = tf.minimum(tf.cast(joined.row_lengths(), tf.int32), max_length - 2)
    rows = assemble_rows(
        first_pieces(joined, kept), None, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id
    )
    return Rows(*rows), *_positions(rows.token_ids, tokenizer.mask_id, most)


def _positions(token_ids, mask_id, most):
    is_mask = tf.equal(token_ids.values, mask_id)
    place = tf.ragged.range(token_ids.row_lengths()).values
    row = tf.boolean_mask(token_ids.value_rowids(), is_mask)
    ragged = tf.RaggedTensor.from_value_rowids(
        tf.cast(tf.boolean_mask(place, is_mask), tf.int32), row, nrows=token_ids.nrows()
    )[:, :most]
    counts = tf.cast(ragged.row_lengths(), tf.int32)
    widest = tf.maximum(tf.reduce_max(counts), 0)
    return ragged.to_tensor(0, shape=tf.stack([-1, tf.cast(widest, tf.int64)])), counts


def _fill_questions(model, tokenizer, max_length):
    """Each text alone, all together, and none, with the Keras model's guesses."""
    texts = [
        *(b"", SHORT, ODD, b"[MASK]", b"The [MASK] to a raw [MASK][MASK].", LONG + b"[MASK]"),
        *(b"[MASK] " + text for text in SENTENCES),
    ]
    answers = [_guessed(model, tokenizer, text, max_length) for text in texts]
    questions = []
    for batch in ([], *([place] for place in range(len(texts))), list(range(len(texts)))):
        most = max((len(answers[place][0]) for place in batch), default=0)
        tokens = np.full([len(batch), most, TOP], b"", object)
        scores = np.zeros([len(batch), most, TOP], np.float32)
        clear = np.ones([len(batch), most, TOP], bool)
        counts = np.zeros(len(batch), np.int32)
        for row, place in enumerate(batch):
            counts[row] = len(answers[place][0])
            for array, found in zip((tokens, scores, clear), answers[place], strict=True):
                array[row, : counts[row]] = found
        outputs = {"tokens": tokens, "scores": scores, "mask_count": counts}
        inputs = batch_of(text=[texts[place] for place in batch])
        for signature in (SIGNATURE, "fill_mask"):
            questions.append(Question(signature, inputs, outputs, {"tokens": clear}))
    return questions


def _guessed(model, tokenizer, text, max_length):
    """Tokens, scores, and where they are clear, `(M, 5)` each."""
    ids = []
    for number, part in enumerate(text.split(MASK.encode())):
        ids += [tokenizer.mask_id] * (number > 0) + pieces(tokenizer, part)
    row = row_alone(ids, None, tokenizer, max_length)
    slots = model.input["masked_positions"].shape[1]
    places = np.flatnonzero(row["token_ids"][0] == tokenizer.mask_id)
    places = places[: MAX_MASKS if slots is None else min(MAX_MASKS, slots)]
    if not len(places):
        return np.zeros([0, TOP], object), np.zeros([0, TOP]), np.zeros([0, TOP], bool)
    missing = 0 if slots is None else slots - len(places)
    row["masked_positions"] = np.pad(places, (0, missing))[np.newaxis].astype(np.int32)
    logits = eagerly(model, row)["mlm_logits"][: len(places), : tokenizer.vocab_size]
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, : TOP + 1]
    scores = np.take_along_axis(probabilities, best, axis=1)
    gaps = -np.diff(scores, axis=1)
    before = np.pad(gaps, [(0, 0), (1, 0)], constant_values=1.0)[:, :TOP]
    tokens = [[tokenizer.piece(number).encode() for number in row] for row in best[:, :TOP]]
    clear = np.minimum(before, gaps) > CLEAR * scores[:, :TOP]
    return np.array(tokens, object), scores[:, :TOP], clear


def _order_questions(model, tokenizer, max_length):
    pairs = list(zip(TEXTS, (*TEXTS[1:], TEXTS[0]), strict=True))
    answers = []
    for first, second in pairs:
        row = row_alone(pieces(tokenizer, first), pieces(tokenizer, second), tokenizer, max_length)
        slots = model.input["masked_positions"].shape[1] or 1
        row["masked_positions"] = np.zeros([1, slots], np.int32)
        logits = eagerly(model, row)["sop_logits"]
        exponents = np.exp(logits - logits.max())
        answers.append({"score": np.float32(exponents[SOP_IN_ORDER] / exponents.sum())})
    questions = []
    for batch in ([], *([place] for place in range(len(pairs))), list(range(len(pairs)))):
        inputs = batch_of(
            first=[pairs[place][0] for place in batch], second=[pairs[place][1] for place in batch]
        )
        outputs = stacked([answers[place] for place in batch], answers[0])
        questions.append(Question("coherence", inputs, outputs, {}))
    return questions
