"""The score of a pretrainer on held-out records: masked words, sentence order, next sentence."""

from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.data.pretraining import pretraining_batches
from albert_keras.data.record_set import RecordSet
from albert_keras.losses import pretraining_sums
from albert_keras.masking import ngram_mask, prediction_slots
from albert_keras.model import config_of, pair_objective_of
from albert_keras.recipes import MASK_RATE
from albert_keras.tasks.interval import wilson_interval
from albert_keras.tasks.pretraining import refuse_misfit
from albert_keras.text.tokenizer import Tokenizer

# Another stream than any training run's: the development masks are the same for every model.
EVALUATION_SEED = 2**32 - 1


def evaluate(
    pretrainer: tf.keras.Model,
    records: RecordSet,
    tokenizer: Tokenizer,
    *,
    sequence_length: int,
    batch_size: int = 64,
    objective: str | None = None,
    max_rows: int | None = None,
) -> dict[str, Any]:
    """Scores a pretrainer on held-out records, with masks that are the same for every model.

    However it was trained: spans of one to three words over 15 % of the tokens, and `[MASK]` at
    every one. (Training leaves some pieces in place; whoever copies what is visible would be
    below the unigram entropy without any use of context.)

    Args:
        pretrainer: a model of `build_pretrainer`.
        records: held-out record set.
        tokenizer: of the records.
        sequence_length: int, S.
        batch_size: int, B. Pairs of "nsp" depend on it, since B comes from another row.
        objective: what the pairs are drawn for, "sop", "nsp" or "none". Default: what the pair
            head was trained for.
        max_rows: int, score about so many rows, the first. Default: all.

    Returns:
        mlm_loss (nats a masked piece), mlm_accuracy, masked_tokens, unigram_entropy (nats: of the
        distribution of those very masked pieces, below which no guess without context comes), and
        the 95 % interval of the accuracy; but for "none", the same of the pairs, by the objective:
        sop_loss, sop_accuracy, sop_examples. Of no examples there is the count alone.

    Raises:
        ValueError: the tokenizer or the records do not fit the model, or it has too few slots for
            the masks.
    """
    refuse_misfit(pretrainer, tokenizer)
    objective = objective or pair_objective_of(pretrainer)
    batches = evaluation_batches(
        pretrainer,
        records,
        tokenizer,
        sequence_length=sequence_length,
        batch_size=batch_size,
        objective=objective,
    )
    if max_rows is not None:
        batches = batches.take(-(-max_rows // batch_size))

    @tf.function
    def scores(batch):
        outputs = pretrainer({name: batch[name] for name in pretrainer.input}, training=False)
        return pretraining_sums(outputs, batch)

    sums = np.zeros([2, 3])
    masked = np.zeros(config_of(pretrainer).vocab_size)
    for batch in batches:
        sums += scores(batch).numpy()
        masked += np.bincount(
            batch["masked_ids"].numpy().ravel(),
            weights=batch["masked_weights"].numpy().ravel(),
            minlength=len(masked),
        )
    shares = masked[masked > 0] / max(masked.sum(), 1)
    return {
        **_mean_scores("mlm", *sums[0], count="masked_tokens"),
        "unigram_entropy": float(-(shares * np.log(shares)).sum()),
        **(_mean_scores(objective, *sums[1]) if objective != "none" else {}),
    }


def evaluation_batches(
    pretrainer: tf.keras.Model,
    records: RecordSet,
    tokenizer: Tokenizer,
    *,
    sequence_length: int,
    batch_size: int = 64,
    objective: str | None = None,
) -> tf.data.Dataset:
    """The batches that `evaluate` scores: the same for every model with the same slots."""
    return pretraining_batches(
        records,
        batch_size=batch_size,
        sequence_length=sequence_length,
        mask=_masking(pretrainer, tokenizer, sequence_length),
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
        objective=objective or pair_objective_of(pretrainer),
        seed=EVALUATION_SEED,
        repeat=False,
    )


def cross_evaluate(
    pretrainer: tf.keras.Model,
    records: RecordSet,
    tokenizer: Tokenizer,
    *,
    sequence_length: int,
    batch_size: int = 64,
) -> dict[str, Any]:
    """Scores a pretrainer on both pair objectives, whatever its pair head was trained for.

    The paper's diagnostic: a model that was trained to tell next sentences from others learns
    little of their order, while one that was trained on order can do both.

    Args:
        pretrainer, records, tokenizer, sequence_length, batch_size: see `evaluate`.

    Returns:
        pair_objective, what its head was trained for ("none": it was drawn at random); what
        `evaluate` gives of masked pieces, in rows whose segments are in order; and of the pairs,
        sop_... and nsp_...

    Reference:
        ALBERT, section 4.6 and Table 5, https://arxiv.org/abs/1909.11942
    """

    def scores(objective):
        return evaluate(
            pretrainer,
            records,
            tokenizer,
            sequence_length=sequence_length,
            batch_size=batch_size,
            objective=objective,
        )

    pairs = {
        name: value
        for objective in ("sop", "nsp")
        for name, value in scores(objective).items()
        if name.startswith(objective)
    }
    return {"pair_objective": pair_objective_of(pretrainer), **scores("none"), **pairs}


def _mean_scores(name, loss, right, total, count=None):
    loss, right, total = float(loss), float(right), float(total)
    counted = {count or f"{name}_examples": int(total)}
    if not total:  # a mean of nothing is no score
        return counted
    return {
        f"{name}_loss": loss / total,
        f"{name}_accuracy": right / total,
        f"{name}_accuracy_interval": wilson_interval(right, total),
        **counted,
    }


def _masking(pretrainer, tokenizer, length):
    needed = prediction_slots(length, MASK_RATE)
    slots = pretrainer.get_layer("masked_lm").max_predictions or needed
    if slots < needed:
        raise ValueError(
            f"An evaluation masks {needed} positions of a row of {length}. Received: a pretrainer "
            f"with `max_predictions` {slots}."
        )
    return lambda token_ids, seed: ngram_mask(
        token_ids,
        tokenizer.piece_kinds,
        seed,
        max_predictions=slots,
        mask_id=tokenizer.mask_id,
        pad_id=tokenizer.pad_id,
        rate=MASK_RATE,
        mask_fraction=1.0,
        random_fraction=0.0,
    )
