"""Pretraining: n-gram masked words and pairs of segments, from record sets."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_keras.config import AlbertConfig
from albert_keras.data.pretraining import pretraining_batches
from albert_keras.data.record_set import RecordSet
from albert_keras.distillation import Distillation
from albert_keras.distilled_model import DistilledPretraining
from albert_keras.masking import prediction_slots
from albert_keras.model import build_albert, build_pretrainer, config_of
from albert_keras.optimizers import optimizer_named
from albert_keras.pretraining_model import PretrainingModel, with_pretraining_loss
from albert_keras.recipes import MASK_RATE, PretrainingRecipe
from albert_keras.tasks.teacher import for_pretrainer
from albert_keras.text.tokenizer import Tokenizer


def new_pretrainer(
    config: AlbertConfig,
    recipe: PretrainingRecipe,
    tokenizer: Tokenizer,
    recompute: bool = False,
    output_all_layers: bool = False,
) -> tf.keras.Model:
    """A pretrainer with random weights drawn from the recipe's seed.

    Args:
        config: of the encoder.
        recipe: gives the seed, the objective and the masking.
        tokenizer: of the records.
        recompute, output_all_layers: see `build_albert`. Default False.

    Raises:
        ValueError: the recipe's sequences are longer than the config's positions.
    """
    if recipe.longest > config.max_position_embeddings:
        raise ValueError(
            "A sequence must not be longer than `max_position_embeddings`. Received: length "
            f"{recipe.longest}, {config.max_position_embeddings} positions. Shorten one "
            "or raise the other (--set max_position_embeddings=...)."
        )
    tf.keras.utils.set_random_seed(recipe.seed)
    encoder = build_albert(config, recompute=recompute, output_all_layers=output_all_layers)
    return build_pretrainer(encoder, **masking_settings(recipe, tokenizer))


def masking_settings(recipe: PretrainingRecipe, tokenizer: Tokenizer) -> dict:
    """The arguments of `build_pretrainer` that a recipe decides."""
    slots = None  # by the length of the rows
    if recipe.long_length is None:
        # An evaluation needs its own as well.
        slots = prediction_slots(recipe.sequence_length, max(recipe.mask_rate, MASK_RATE))
    return {
        "pair_objective": recipe.pair_objective,
        "max_predictions": slots,
        "ngram": recipe.ngram,
        "rate": recipe.mask_rate,
        "mask_id": tokenizer.mask_id,
    }


def compiled(
    pretrainer: tf.keras.Model,
    recipe: PretrainingRecipe,
    distillation: Distillation | None = None,
    **options,
) -> PretrainingModel:
    """The pretrainer with its loss and the recipe's optimizer, ready for `fit`.

    Args:
        pretrainer: a model of `build_pretrainer`.
        recipe: gives the optimizer, its schedule and the micro-batches.
        distillation: a teacher to learn from as well, see `tasks.teacher`. Default None.
        **options: further arguments of `compile`, such as `steps_per_execution`.
    """
    if distillation is None:
        model = with_pretraining_loss(pretrainer, recipe.micro_batches)
    else:
        taught = for_pretrainer(distillation, pretrainer, recipe.longest)
        model = DistilledPretraining(pretrainer, taught, recipe.micro_batches)
    model.compile(
        optimizer_named(
            recipe.optimizer,
            recipe.learning_rate,
            recipe.warmup_steps,
            recipe.total_steps,
            recipe.decay,
        ),
        **options,
    )
    return model


def training_batches(
    pretrainer: tf.keras.Model,
    records: RecordSet | Sequence[RecordSet],
    tokenizer: Tokenizer,
    recipe: PretrainingRecipe,
    *,
    weights: Sequence[float] | None = None,
    sequence_length: int | None = None,
) -> Callable[[int], tf.data.Dataset]:
    """A function that gives the batches from any step on.

    Args:
        pretrainer: its head draws the masks.
        records: what it is trained on; several sets are mixed.
        tokenizer: of the records.
        recipe: gives everything else.
        weights: of several sets, see `pretraining_batches`.
        sequence_length: int, S, of one of the recipe's phases. Default: of the first.

    Raises:
        ValueError: the tokenizer has more pieces than the model, the model knows a single segment,
            or a number is out of its range.
    """
    refuse_misfit(pretrainer, tokenizer)
    layer = pretrainer.get_layer("masked_lm")

    def mask(token_ids, seed):
        return layer.mask(token_ids, seed, tokenizer.piece_kinds, tokenizer.pad_id)

    def batches_from(step):
        return pretraining_batches(
            records,
            weights=weights,
            batch_size=recipe.batch_size,
            sequence_length=sequence_length or recipe.sequence_length,
            mask=mask,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
            objective=recipe.pair_objective,
            seed=recipe.seed,
            start_step=step,
        )

    return batches_from


def refuse_misfit(pretrainer: tf.keras.Model, tokenizer: Tokenizer) -> None:
    """Raises ValueError for a model that cannot take pairs of the tokenizer's pieces."""
    config = config_of(pretrainer)
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"`vocab_size` must not be below the vocabulary's {tokenizer.vocab_size} pieces. "
            f"Received: {config.vocab_size}."
        )
    if config.type_vocab_size < 2:  # a CPU stops at segment id 1, a GPU reads zeros for it
        raise ValueError(
            "Pretraining tells two segments apart, so `type_vocab_size` must be at least 2. "
            f"Received: {config.type_vocab_size}."
        )
