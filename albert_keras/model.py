"""The functional models: the encoder and the pretrainer around it."""

from typing import Any

import tensorflow as tf

from albert_keras.config import AlbertConfig, SharingPattern, config_from, shortest_sharing
from albert_keras.layers import (
    FactorizedEmbedding,
    NgramMaskedLM,
    Pooler,
    SharedTransformerStack,
    SOPHead,
)

ENCODER_INPUTS = ("token_ids", "segment_ids", "padding_mask")


def build_albert(
    preset_or_config: str | AlbertConfig = "base",
    *,
    output_all_layers: bool = False,
    recompute: bool = False,
    **overrides: Any,
) -> tf.keras.Model:
    """The encoder, as a functional model with dicts in and out, randomly initialised.

    Args:
        preset_or_config: a name of `PRESETS`, or an `AlbertConfig`. Default "base".
        output_all_layers: also give every layer's output. Default False.
        recompute: train with a fraction of the memory, in a third more time; see
            `layers.SharedTransformerStack`. It is how a model trains, not what it is: its JSON
            keeps it, a checkpoint does not. Default False.
        **overrides: fields of `AlbertConfig` that replace the preset's.

    Inputs of the model, all int32 `(B, S)`:
        token_ids: the pieces, `[CLS]` first.
        segment_ids: 0 for the first segment, 1 for the second.
        padding_mask: 1 for a token, 0 for padding.

    Outputs of the model:
        sequence_output: `(B, S, H)`.
        pooled_output: `(B, H)`.
        layer_outputs: on request, a list of L + 1 `(B, S, H)`, the embeddings first.

    Raises:
        ValueError: an unknown preset or field, values that make no model, or `recompute` with
            dropout.

    Example:

    >>> encoder = build_albert("tiny", sharing="attention", embedding_size=16)
    >>> ids = tf.constant([[2, 17, 3]])
    >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    >>> encoder(inputs)["pooled_output"].shape
    TensorShape([1, 24])

    Reference:
        https://arxiv.org/abs/1909.11942
    """
    config = config_from(preset_or_config, overrides)

    # Layers
    embeddings = FactorizedEmbedding(
        vocabulary_size=config.vocab_size,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        max_positions=config.max_position_embeddings,
        num_segments=config.type_vocab_size,
        dropout=config.hidden_dropout_prob,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        always_project=config.always_project,
        name="embeddings",
    )
    stack = SharedTransformerStack(
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        attention_pattern=config.sharing_pattern.attention,
        ffn_pattern=config.sharing_pattern.ffn,
        activation=config.hidden_act,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        output_all_layers=output_all_layers,
        recompute=recompute,
        name="encoder",
    )
    pooler = Pooler(initializer_range=config.initializer_range, name="pooler")

    # Wiring
    inputs = {
        name: tf.keras.Input(shape=(None,), dtype="int32", name=name) for name in ENCODER_INPUTS
    }
    hidden, _ = embeddings(inputs["token_ids"], inputs["segment_ids"])
    hidden = stack(hidden, inputs["padding_mask"])
    sequence_output = hidden[-1] if output_all_layers else hidden
    outputs = {"sequence_output": sequence_output, "pooled_output": pooler(sequence_output)}
    if output_all_layers:
        outputs["layer_outputs"] = hidden
    return tf.keras.Model(inputs, outputs, name="albert")


def build_pretrainer(
    encoder: tf.keras.Model,
    *,
    pair_objective: str = "sop",
    max_predictions: int | None = None,
    ngram: int = 3,
    rate: float = 0.15,
    mask_fraction: float = 0.8,
    random_fraction: float = 0.1,
    mask_id: int = 4,
) -> tf.keras.Model:
    """The encoder with the heads for masked words and for pairs of segments.

    It shares the encoder's weights. Vocabulary logits exist for the masked positions only.

    Args:
        encoder: a model of `build_albert`.
        pair_objective: what its pair head is trained for: sentence order ("sop"), the next
            sentence ("nsp") or nothing ("none"). Default "sop".
        max_predictions: int, M, slots for masked positions in a row; None leaves the axis open.
        ngram, rate, mask_fraction, random_fraction, mask_id: see `layers.NgramMaskedLM`; they
            serve `model.get_layer("masked_lm").mask`.

    Inputs of the model: the encoder's, and masked_positions, int32 `(B, M)`.

    Outputs of the model, float32:
        mlm_logits: `(B, M, V)`.
        sop_logits: `(B, 2)`, column `SOP_IN_ORDER` (1) for the original order; of the other
            objectives, see `layers.SOPHead`.

    Raises:
        ValueError: `encoder` is no model of `build_albert`, an unknown objective, or masking
            settings out of range.

    Example:

    >>> pretrainer = build_pretrainer(build_albert("tiny"))
    >>> ids = tf.constant([[2, 4, 4, 17, 3]])
    >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
    >>> outputs = pretrainer({**inputs, "masked_positions": tf.constant([[1, 2]])})
    >>> outputs["mlm_logits"].shape, outputs["sop_logits"].shape
    (TensorShape([1, 2, 100]), TensorShape([1, 2]))
    """
    config = config_of(encoder)

    # Layers
    masked_lm = NgramMaskedLM(
        vocabulary_size=config.vocab_size,
        embedding_size=config.embedding_size,
        ngram=ngram,
        rate=rate,
        mask_fraction=mask_fraction,
        random_fraction=random_fraction,
        max_predictions=max_predictions,
        mask_id=mask_id,
        activation=config.hidden_act,
        layer_norm_epsilon=config.layer_norm_eps,
        initializer_range=config.initializer_range,
        name="masked_lm",
    )
    sop = SOPHead(pair_objective, config.initializer_range, name="sop")

    # Wiring
    masked_positions = tf.keras.Input(
        shape=(max_predictions,), dtype="int32", name="masked_positions"
    )
    _, table = encoder.get_layer("embeddings").output
    outputs = {
        "mlm_logits": masked_lm(encoder.output["sequence_output"], masked_positions, table),
        "sop_logits": sop(pooled_output_of(encoder)),
    }
    inputs = {**encoder.input, "masked_positions": masked_positions}
    return tf.keras.Model(inputs, outputs, name="albert_pretrainer")


def pair_objective_of(pretrainer: tf.keras.Model) -> str:
    """What the pair head of `pretrainer` is trained for.

    Args:
        pretrainer: a model of `build_pretrainer`, or one built around it.

    >>> pair_objective_of(build_pretrainer(build_albert("tiny"), pair_objective="nsp"))
    'nsp'
    """
    return layers_of(pretrainer)["sop"].objective


def config_of(model: tf.keras.Model) -> AlbertConfig:
    """The config that builds the encoder inside `model`, read from its layers.

    `sharing` comes back in its shortest form: a mode, else a group size, else the pattern.

    Args:
        model: a model of `build_albert`, or one built around it.

    Raises:
        ValueError: the model has no ALBERT encoder.

    Example:

    >>> config_of(build_albert("tiny", sharing=1)).sharing
    'none'
    """
    layers = layers_of(model)
    embeddings, stack = layers.get("embeddings"), layers.get("encoder")
    if not isinstance(embeddings, FactorizedEmbedding) or not isinstance(
        stack, SharedTransformerStack
    ):
        raise ValueError(
            'An ALBERT model has a FactorizedEmbedding named "embeddings" and a '
            f'SharedTransformerStack named "encoder". Received: a model with the layers '
            f"{', '.join(layers)}. Use one of build_albert or built around it."
        )
    return AlbertConfig(
        vocab_size=embeddings.vocabulary_size,
        embedding_size=embeddings.embedding_size,
        hidden_size=embeddings.hidden_size,
        num_hidden_layers=stack.num_layers,
        num_attention_heads=stack.num_heads,
        intermediate_size=stack.intermediate_size,
        hidden_act=stack.activation,
        hidden_dropout_prob=stack.dropout,
        attention_probs_dropout_prob=stack.attention_dropout,
        max_position_embeddings=embeddings.max_positions,
        type_vocab_size=embeddings.num_segments,
        initializer_range=stack.initializer_range,
        layer_norm_eps=stack.layer_norm_epsilon,
        sharing=shortest_sharing(
            SharingPattern(tuple(stack.attention_pattern), tuple(stack.ffn_pattern))
        ),
        always_project=embeddings.always_project,
    )


def encoder_of(model: tf.keras.Model) -> tf.keras.Model:
    """The encoder inside a pretrainer or a task model, with the weights that it has there.

    Args:
        model: built around one of `build_albert`.

    Returns:
        As of `build_albert`, save that one taken out of a span predictor, which has no pooler, has
        no `pooled_output`.

    Raises:
        ValueError: the model has no ALBERT encoder.

    Example:

    >>> sorted(encoder_of(build_pretrainer(build_albert("tiny"))).output)
    ['pooled_output', 'sequence_output']
    """
    config_of(model)
    for layer in model.layers:
        if isinstance(layer, tf.keras.Model):
            return encoder_of(layer)
    layers = layers_of(model)
    hidden = layers["encoder"].output
    outputs = {"sequence_output": hidden[-1] if isinstance(hidden, list) else hidden}
    if "pooler" in layers:
        outputs["pooled_output"] = layers["pooler"].output
    if isinstance(hidden, list):
        outputs["layer_outputs"] = hidden
    inputs = {name: model.input[name] for name in ENCODER_INPUTS}
    return tf.keras.Model(inputs, outputs, name="albert")


def layers_of(model: tf.keras.Model) -> dict[str, tf.keras.layers.Layer]:
    """The layers of `model` by name; for an encoder that it uses as one layer, that one's.

    >>> [name for name in layers_of(build_albert("tiny")) if name not in ENCODER_INPUTS]
    ['embeddings', 'encoder', 'pooler']
    """
    layers = {}
    for layer in model.layers:
        layers |= layers_of(layer) if isinstance(layer, tf.keras.Model) else {layer.name: layer}
    return layers


def pooled_output_of(encoder: tf.keras.Model) -> tf.Tensor:
    """The encoder's symbolic pooled output, for a head to stand on.

    Raises:
        ValueError: it has none.
    """
    if "pooled_output" not in encoder.output:
        raise ValueError(
            "This head stands on an encoder's `pooled_output`. Received: a model with the outputs "
            f"{', '.join(encoder.output)}. Use one of build_albert or encoder_of; one taken out of "
            "a span predictor has no pooler, so start from the checkpoint that it was made from."
        )
    return encoder.output["pooled_output"]
