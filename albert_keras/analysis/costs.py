"""costs_of: what a configuration takes to train, to keep and to ask, from its numbers alone.

Without TensorFlow, in no time. `measuring` runs a configuration instead.
"""

import dataclasses

from albert_keras.analysis.flops import forward_flops, one_hot_flops, training_flops
from albert_keras.analysis.memory import inference_memory, training_memory
from albert_keras.analysis.parameters import HEADS, parameters_of, saved_parameters
from albert_keras.analysis.setting import Setting
from albert_keras.config import AlbertConfig

FLOAT32 = 4


@dataclasses.dataclass(frozen=True)
class Costs:
    """What a pretrainer of a configuration costs.

    Args:
        parameters: by part, see `parameters_of`.
        encoder_parameters: of them, those without the heads.
        training_flops: of a row in a step, by purpose, see `training_flops`.
        inference_flops: of a row through the encoder, by part, see `forward_flops`.
        one_hot_flops: of a row, what forward lookups would add as products.
        training_memory: bytes, by purpose, see `training_memory`; the last one is the peak.
        inference_memory: bytes, the same of an answer to the batch.
        checkpoint_bytes: of `model.safetensors`.
        state_bytes: of one saved state of a run: weights and both moments.
        all_reduced_bytes: gradients that the devices of a data-parallel step add up: each of n
            sends and receives 2 (n - 1) / n of it.
    """

    parameters: dict[str, int]
    encoder_parameters: int
    training_flops: dict[str, int]
    inference_flops: dict[str, int]
    one_hot_flops: int
    training_memory: dict[str, int]
    inference_memory: dict[str, int]
    checkpoint_bytes: int
    state_bytes: int
    all_reduced_bytes: int

    @property
    def training_row_flops(self) -> int:
        """FLOPs of a row in a training step."""
        return sum(self.training_flops.values())

    @property
    def inference_row_flops(self) -> int:
        """FLOPs of a row through the encoder."""
        return sum(self.inference_flops.values())


def can_recompute(config: AlbertConfig) -> bool:
    """Whether its layers can be computed again: a second dropout would be another one."""
    return not (config.hidden_dropout_prob or config.attention_probs_dropout_prob)


def costs_of(config: AlbertConfig, setting: Setting | None = None) -> Costs:
    """What `config` costs in `setting` (default: as `Setting()` says).

    Raises:
        ValueError: rows longer than the positions, or recomputation with dropout.

    Example:

    >>> from albert_keras.config import PRESETS
    >>> found = costs_of(PRESETS["base"], Setting(batch=32, length=128))
    >>> found.encoder_parameters, found.all_reduced_bytes
    (11683584, 47255240)
    """
    setting = setting or Setting()
    if setting.length > config.max_position_embeddings:
        raise ValueError(
            f"`length` must be at most the model's {config.max_position_embeddings} positions. "
            f"Received: {setting.length}."
        )
    if setting.recompute and not can_recompute(config):
        raise ValueError(
            "`recompute` needs a model without dropout. Received: "
            f"hidden_dropout_prob {config.hidden_dropout_prob} and attention_probs_dropout_prob "
            f"{config.attention_probs_dropout_prob}."
        )
    parts = parameters_of(config)
    whole = sum(parts.values())
    return Costs(
        parameters=parts,
        encoder_parameters=whole - sum(parts[head] for head in HEADS),
        training_flops=training_flops(config, setting.length, setting.masked, setting.recompute),
        inference_flops=forward_flops(config, setting.length),
        one_hot_flops=one_hot_flops(config, setting.length, setting.masked),
        training_memory=training_memory(config, setting),
        inference_memory=inference_memory(config, setting),
        checkpoint_bytes=FLOAT32 * saved_parameters(config),
        state_bytes=3 * FLOAT32 * whole,
        all_reduced_bytes=FLOAT32 * whole,
    )
