"""ALBERT (A Lite BERT) as TensorFlow 2 / Keras: pretrain, fine-tune, serve raw strings."""

import importlib
import os

__version__ = "0.1.0"

# Keras 2 has no other backend and reads no such variable.
_backend = os.environ.get("KERAS_BACKEND", "tensorflow")
if _backend != "tensorflow" and os.environ.get("TF_USE_LEGACY_KERAS") not in ("1", "true", "True"):
    raise ImportError(
        f"albert_keras runs on TensorFlow. Received: KERAS_BACKEND={_backend}. Unset it, or set "
        "TF_USE_LEGACY_KERAS=1 to use Keras 2, before importing albert_keras."
    )

# Names are imported when they are first used (PEP 562): TensorFlow takes seconds, and the command
# line must choose the Keras before TensorFlow is imported.
_MODULES = {
    "config": ("AlbertConfig", "SharingPattern", "PRESETS"),
    "layers": (
        "FactorizedEmbedding",
        "SharedTransformerStack",
        "NgramMaskedLM",
        "SOPHead",
        "SOP_IN_ORDER",
        "SOP_SWAPPED",
    ),
    "model": ("build_albert", "build_pretrainer"),
    "task_models": ("build_classifier", "build_span_predictor", "build_multiple_choice"),
    "reshaping": ("resize_positions", "resize_vocabulary", "with_sharing"),
    "losses": ("with_pretraining_loss",),
    "optimizers": ("Lamb", "WarmupLinearDecay"),
    "text.tokenizer": ("Tokenizer",),
    "checkpoints": ("load_albert", "save_albert"),
    "checkpoints.formats": ("import_checkpoint",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name):
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__():
    return sorted(__all__)
