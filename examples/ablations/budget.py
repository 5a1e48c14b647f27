"""What a training step costs, and how many of them make cells comparable."""

from albert_keras.analysis.flops import training_flops
from albert_keras.config import AlbertConfig
from albert_keras.recipes import prediction_slots


def step_flops(config: AlbertConfig, *, length: int, batch: int, mask_rate: float) -> int:
    """FLOPs of the matrix products of one training step: twice the multiplications of the forward
    pass, and twice as many again for the gradients.

    Sharing changes none of them: a shared layer computes as often as its own would.

    Args:
        config: of the encoder.
        length: int, S, padding included.
        batch: int, B.
        mask_rate: float, share of S that the head for masked words predicts.
    """
    flops = training_flops(config, length, prediction_slots(length, mask_rate))
    return batch * (flops["forward"] + flops["backward"])


def matched_steps(steps: int, flops: int, base_flops: int) -> int:
    """The steps of `flops` each that cost as much as `steps` of `base_flops`, at least one."""
    return max(1, round(steps * base_flops / flops))
