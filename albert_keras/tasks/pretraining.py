"""Pretraining: n-gram masked-language-model and sentence-order prediction, from a record set."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.config import AlbertConfig
from albert_keras.data.pretraining import pretraining_batches
from albert_keras.data.records import RecordSet
from albert_keras.losses import correct, cross_entropy
from albert_keras.masking import ngram_mask, prediction_slots
from albert_keras.model import build_albert, build_pretrainer, config_of
from albert_keras.pretraining_model import with_pretraining_loss
from albert_keras.tasks.common import optimizer_named, steps_in, wilson_interval
from albert_keras.text.tokenizer import Tokenizer

# Another stream than any training run's: the development masks are the same for every model.
EVALUATION_SEED = 2**32 - 1
MASK_RATE = 0.15  # of the paper, and of every evaluation


@dataclasses.dataclass(frozen=True)
class PretrainingRecipe:
    """What a pretraining run does. The defaults of rate and warm-up suit the preset "small" on a
    CPU; the paper's run is batch 4096, "lamb", learning rate 1.76e-3, 3,125 of 125,000 steps.

    Args:
        sequence_length: int, S, special pieces included.
        batch_size: int, B.
        total_steps: int > 0.
        optimizer: "lamb" or "adamw".
        learning_rate: float > 0, the schedule's peak.
        warmup_steps: int >= 0.
        seed: int, of the initial weights, the order, the pairs and the masks.
        max_predictions: int, M, masked positions of a row; None for `mask_rate` of S.
        ngram: int, N, longest n-gram masked, in words.
        mask_rate: float in (0, 1], share of a row's tokens to mask. The paper's is 0.15; a run of
            minutes learns sooner from 0.3.
        pair_objective: "sop", sentence order; "nsp", the next sentence; or "none".

    Reference:
        ALBERT, section 4.1 and appendix A.1, https://arxiv.org/abs/1909.11942
    """

    sequence_length: int = 128
    batch_size: int = 32
    total_steps: int = 1000
    optimizer: str = "adamw"
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    seed: int = 0
    max_predictions: int | None = None
    ngram: int = 3
    mask_rate: float = MASK_RATE
    pair_objective: str = "sop"


def new_pretrainer(
    config: AlbertConfig, recipe: PretrainingRecipe, tokenizer: Tokenizer
) -> tf.keras.Model:
    """A pretrainer with random weights drawn from the recipe's seed.

    Raises:
        ValueError: the recipe's sequences are longer than the config's positions.
    """
    if recipe.sequence_length > config.max_position_embeddings:
        raise ValueError(
            "A sequence must not be longer than `max_position_embeddings`. Received: length "
            f"{recipe.sequence_length}, {config.max_position_embeddings} positions. Shorten one "
            "or raise the other (--set max_position_embeddings=...)."
        )
    tf.keras.utils.set_random_seed(recipe.seed)
    slots = recipe.max_predictions
    if slots is None:  # an evaluation needs its own as well
        slots = prediction_slots(recipe.sequence_length, max(recipe.mask_rate, MASK_RATE))
    return build_pretrainer(
        build_albert(config),
        pair_objective=recipe.pair_objective,
        max_predictions=slots,
        ngram=recipe.ngram,
        rate=recipe.mask_rate,
        mask_id=tokenizer.mask_id,
    )


def compiled(pretrainer: tf.keras.Model, recipe: PretrainingRecipe) -> tf.keras.Model:
    """The pretrainer with its loss and the recipe's optimizer, ready for `fit`."""
    model = with_pretraining_loss(pretrainer)
    model.compile(
        optimizer_named(
            recipe.optimizer, recipe.learning_rate, recipe.warmup_steps, recipe.total_steps
        )
    )
    return model


def training_batches(
    pretrainer: tf.keras.Model, records: RecordSet, tokenizer: Tokenizer, recipe: PretrainingRecipe
) -> Callable[[int], tf.data.Dataset]:
    """A function that gives the batches from any step on.

    Raises:
        ValueError: the tokenizer has more pieces than the model, the model knows a single segment,
            or a number is out of its range.
    """
    _refuse_misfit(pretrainer, tokenizer)

    def batches_from(step):
        return pretraining_batches(
            records,
            batch_size=recipe.batch_size,
            sequence_length=recipe.sequence_length,
            mask=_masking(pretrainer, tokenizer),
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
            objective=recipe.pair_objective,
            seed=recipe.seed,
            start_step=step,
        )

    return batches_from


def steps_in_minutes(
    minutes: float,
    config: AlbertConfig,
    records: RecordSet,
    tokenizer: Tokenizer,
    recipe: PretrainingRecipe,
) -> int:
    """How many steps of this recipe fit into so many minutes on this machine."""
    pretrainer = new_pretrainer(config, recipe, tokenizer)
    batches = training_batches(pretrainer, records, tokenizer, recipe)(0)
    return steps_in(minutes, compiled(pretrainer, recipe), batches)


def evaluate(
    pretrainer: tf.keras.Model,
    records: RecordSet,
    tokenizer: Tokenizer,
    *,
    sequence_length: int,
    batch_size: int = 64,
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
        batch_size: int, B.

    Returns:
        mlm_loss (nats a masked piece), mlm_accuracy, masked_tokens, unigram_entropy (nats: of the
        distribution of those very masked pieces, below which no guess without context comes),
        sop_loss, sop_accuracy, sop_examples, and 95 % intervals of both accuracies.

    Raises:
        ValueError: as `training_batches`.
    """
    _refuse_misfit(pretrainer, tokenizer)
    batches = pretraining_batches(
        records,
        batch_size=batch_size,
        sequence_length=sequence_length,
        mask=_evaluation_masking(pretrainer, tokenizer, sequence_length),
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
        seed=EVALUATION_SEED,
        repeat=False,
    )

    @tf.function
    def scores(batch):
        outputs = pretrainer({name: batch[name] for name in pretrainer.input}, training=False)
        mlm, sop = outputs["mlm_logits"], outputs["sop_logits"]
        weights, pair_weights = batch["masked_weights"], batch["sop_weights"]
        return tf.stack(
            [
                tf.reduce_sum(weights),
                tf.reduce_sum(weights * cross_entropy(batch["masked_ids"], mlm)),
                tf.reduce_sum(weights * correct(batch["masked_ids"], mlm)),
                tf.reduce_sum(pair_weights),
                tf.reduce_sum(pair_weights * cross_entropy(batch["sop_labels"], sop)),
                tf.reduce_sum(pair_weights * correct(batch["sop_labels"], sop)),
            ]
        )

    sums = np.zeros(6)
    masked = np.zeros(config_of(pretrainer).vocab_size)
    for batch in batches:
        sums += scores(batch).numpy()
        masked += np.bincount(
            batch["masked_ids"].numpy().ravel(),
            weights=batch["masked_weights"].numpy().ravel(),
            minlength=len(masked),
        )
    tokens, mlm_loss, mlm_correct, pairs, sop_loss, sop_correct = (float(value) for value in sums)
    shares = masked[masked > 0] / max(masked.sum(), 1)
    return {
        "mlm_loss": mlm_loss / max(tokens, 1),
        "mlm_accuracy": mlm_correct / max(tokens, 1),
        "mlm_accuracy_interval": wilson_interval(mlm_correct, tokens),
        "masked_tokens": int(tokens),
        "unigram_entropy": float(-(shares * np.log(shares)).sum()),
        "sop_loss": sop_loss / max(pairs, 1),
        "sop_accuracy": sop_correct / max(pairs, 1),
        "sop_accuracy_interval": wilson_interval(sop_correct, pairs),
        "sop_examples": int(pairs),
    }


def _refuse_misfit(pretrainer, tokenizer):
    config = config_of(pretrainer)
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"`vocab_size` must not be below the vocabulary's {tokenizer.vocab_size} pieces. "
            f"Received: {config.vocab_size}."
        )
    if config.type_vocab_size < 2:  # a CPU stops at segment id 1, a GPU reads zeros for it
        raise ValueError(
            "Sentence-order prediction tells two segments apart, so `type_vocab_size` must be at "
            f"least 2. Received: {config.type_vocab_size}."
        )


def _masking(pretrainer, tokenizer):
    layer = pretrainer.get_layer("masked_lm")
    return lambda token_ids, seed: layer.mask(
        token_ids, seed, tokenizer.piece_kinds, tokenizer.pad_id
    )


def _evaluation_masking(pretrainer, tokenizer, length):
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
