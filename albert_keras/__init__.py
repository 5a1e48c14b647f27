"""ALBERT (A Lite BERT) as TensorFlow 2 / Keras: pretrain, fine-tune, serve raw strings."""

import importlib

from albert_keras.backend import refuse_other_backends

__version__ = "0.1.0"

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
    "model": ("build_albert", "build_pretrainer", "encoder_of"),
    "task_models": (
        "build_answerable_span_predictor",
        "build_classifier",
        "build_multiple_choice",
        "build_span_predictor",
    ),
    "span_training": ("span_losses", "with_gold_starts"),
    "growing": ("grown",),
    "reshaping": ("resize_positions", "resize_vocabulary", "with_settings", "with_sharing"),
    "pretraining_model": ("with_pretraining_loss",),
    "optimizers": ("AdamW", "Lamb"),
    "schedule": ("WarmupLinearDecay",),
    "text.tokenizer": ("Tokenizer",),
    "checkpoints": ("load_albert", "save_albert"),
    "checkpoints.formats": ("import_checkpoint",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name):
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    refuse_other_backends()
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__():
    return sorted(__all__)
