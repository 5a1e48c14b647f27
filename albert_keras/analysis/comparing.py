"""One configuration beside another: speed by FLOPs, the paper's, and steps that cost as much."""

from albert_keras.analysis.flops import training_flops
from albert_keras.analysis.setting import Setting
from albert_keras.config import PRESETS

# Speed of a training step relative to BERT-large's, on Cloud TPUs: ALBERT, Table 2, version 6.
PAPER_SPEEDUPS = {
    "bert-base": 4.7,
    "bert-large": 1.0,
    "base": 5.6,
    "large": 1.7,
    "xlarge": 0.6,
    "xxlarge": 0.3,
}
PAPER_LENGTH = 512


def speedups_by_flops(length: int = PAPER_LENGTH) -> dict[str, float]:
    """Rows a second in training relative to BERT-large's, if FLOPs were all that takes time.

    They are not: on the paper's TPUs the smaller models also have fewer gradients to exchange, and
    matrix products of another width run at another speed.

    >>> round(speedups_by_flops()["bert-base"], 2)
    3.38
    """
    masked = Setting(length=length).masked
    flops = {
        name: sum(training_flops(PRESETS[name], length, masked).values()) for name in PAPER_SPEEDUPS
    }
    return {name: flops["bert-large"] / count for name, count in flops.items()}


def equal_steps(steps: int, cost: float, other: float) -> int:
    """How many steps of `other` cost as much as `steps` of `cost`, FLOPs or seconds a step.

    >>> equal_steps(125_000, 3.0, 2.0)
    187500
    """
    return max(1, round(steps * cost / other))
