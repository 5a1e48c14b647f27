"""Memory of a training step and of an answer, in bytes, from the numbers of a configuration.

What the layers keep for the gradient is known from their code (`layers/`): one kernel for GELU,
LayerNorm and softmax each, so that nothing lies between, and of attention one number a query.
"""

from albert_keras.analysis.parameters import parameters_of
from albert_keras.analysis.setting import Setting
from albert_keras.config import AlbertConfig

PEAK = "peak"
_FLOAT32 = 4


def training_memory(config: AlbertConfig, setting: Setting) -> dict[str, int]:
    return {PEAK: 0}


def inference_memory(config: AlbertConfig, setting: Setting) -> dict[str, int]:
    return {PEAK: 0}
