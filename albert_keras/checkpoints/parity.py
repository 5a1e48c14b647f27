"""compare: a model's outputs against another implementation's, layer by layer."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.model import ENCODER_INPUTS, build_albert, config_of, layers_of

OUTPUTS = ("layer_outputs", "sequence_output", "pooled_output", "mlm_logits", "sop_logits")


class Difference(NamedTuple):
    """One output: its largest difference from the reference, and the largest value there."""

    output: str
    largest: float
    scale: float


def read_reference(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a reference, `.npz`.

    `token_ids`, `segment_ids` and `padding_mask`, int `(B, S)`, and any of: `layer_outputs`
    `(L + 1, B, S, H)`, the embeddings first; `sequence_output` `(B, S, H)`; `pooled_output`
    `(B, H)`; `mlm_logits` `(B, S, V)`, or `(B, M, V)` beside `masked_positions` `(B, M)`;
    `sop_logits` `(B, 2)`, the column of swapped segments first, as in this library.

    Raises:
        ValueError: no such file, inputs missing, no output, unknown names, or shapes that do not
            belong together.
    """
    try:
        with open(path, "rb") as raw, np.load(raw) as file:
            _refuse_names(file.files)
            reference = dict(file)
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"A reference is an .npz file. Received: {path}: {error}.") from error
    inputs = [reference[name] for name in ENCODER_INPUTS]
    integers = all(array.dtype.kind in "iu" for array in inputs)
    if not integers or len({array.shape for array in inputs}) > 1 or inputs[0].ndim != 2:
        received = ", ".join(f"{array.dtype} {array.shape}" for array in inputs)
        raise ValueError(
            f"The inputs of a reference are integers of one shape (B, S). Received: {received}."
        )
    return reference


def _refuse_names(names):
    """Before the arrays are read, which may be large."""
    known = {*ENCODER_INPUTS, *OUTPUTS, "masked_positions"}
    missing = set(ENCODER_INPUTS) - set(names)
    if missing or set(names) - known or not set(names) & set(OUTPUTS):
        raise ValueError(
            f"it must hold {', '.join(ENCODER_INPUTS)} and some of {', '.join(OUTPUTS)}, and has "
            f"{', '.join(names)}"
        )


def compare(model: tf.keras.Model, reference: Mapping[str, np.ndarray]) -> list[Difference]:
    """The differences in the order of the computation, so that the first large one names the part
    that differs. Outputs at padding are left out.

    Args:
        model: an encoder or a model around one.
        reference: see `read_reference`.

    Raises:
        ValueError: an output that the model does not have, or of another shape.
    """
    inputs = {name: tf.constant(reference[name], tf.int32) for name in ENCODER_INPUTS}
    sizes = config_of(model)
    for name, size in (("token_ids", sizes.vocab_size), ("segment_ids", sizes.type_vocab_size)):
        lowest, highest = reference[name].min(), reference[name].max()
        if lowest < 0 or highest >= size:
            raise ValueError(
                f"{name} must be at least 0 and below {size}. Received: {lowest} to {highest}."
            )
    encoder = build_albert(config_of(model), output_all_layers=True)
    layers = layers_of(model)
    for name in ("embeddings", "encoder", "pooler"):
        if name in layers:
            encoder.get_layer(name).set_weights(layers[name].get_weights())
    outputs = dict(encoder(inputs, training=False))
    if "pooler" not in layers:
        del outputs["pooled_output"]
    tokens = np.asarray(reference["padding_mask"]) == 1
    every = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    positions = tf.constant(reference.get("masked_positions", every), tf.int32)
    if "masked_lm" in layers:
        # The layer and not the model, whose positions may be fewer.
        _, table = layers["embeddings"](inputs["token_ids"], inputs["segment_ids"])
        outputs["mlm_logits"] = layers["masked_lm"](outputs["sequence_output"], positions, table)
    if "sop" in layers:
        outputs["sop_logits"] = layers["sop"](outputs["pooled_output"])
    differences = []
    for name in [name for name in OUTPUTS if name in reference]:
        if name not in outputs:
            raise ValueError(
                f"The reference must have outputs of the model, {', '.join(outputs)}. Received: "
                f"{name} as well. Leave it out."
            )
        got, expected = np.asarray(outputs[name]), reference[name]
        if got.shape != expected.shape:
            raise ValueError(
                f"{name} must have the model's shape {got.shape}. Received: {expected.shape}."
            )
        compared = tokens
        if name == "mlm_logits":
            compared = np.take_along_axis(tokens, positions.numpy(), axis=1)
        if name == "layer_outputs":
            names = ["embeddings", *(f"layer {layer + 1}" for layer in range(len(got) - 1))]
            pairs = zip(names, got, expected, strict=True)
        else:
            pairs = [(name, got, expected)]
        for label, ours, theirs in pairs:
            if ours.ndim == 3:  # (B, S, ...), and not one row of numbers an example
                ours, theirs = ours[compared], theirs[compared]
            largest, scale = np.abs(ours - theirs).max(), np.abs(theirs).max()
            differences.append(Difference(label, float(largest), float(scale)))
    return differences
