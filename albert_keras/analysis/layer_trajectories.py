"""How far each layer moves its input: the distance and the angle between what goes in and out."""

import csv
import io
from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.json_file import write_json
from albert_keras.model import build_albert, config_of, layers_of
from albert_keras.new_file import write_file
from albert_keras.rebuilding import fill_layer
from albert_keras.report.axes import new_axes
from albert_keras.text.packing import pack
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.utf8 import valid_utf8

# Of each its mean over the pieces, and under the same name with "_std" its standard deviation.
MEASURES = ("l2_distance", "cosine_similarity", "angle")


def layer_trajectory(
    model: tf.keras.Model,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    *,
    max_length: int,
    batch_size: int = 32,
) -> dict[str, Any]:
    """L2 distance, cosine similarity and angle between the input and the output of every layer.

    Each text is a row `[CLS]` text `[SEP]`. The measures are taken of each piece's vector, special
    pieces included and padding excluded, and averaged over all pieces of all texts. The input of
    the first layer is the embeddings at the hidden size.

    Args:
        model: of `build_albert`, or built around one; shared or not.
        tokenizer: of the model.
        texts: any number of them; `batch_size` are in memory at a time.
        max_length: int > 2, pieces of a row; what is beyond is left out.
        batch_size: int > 0, B. Default 32.

    Returns:
        `num_hidden_layers`, `hidden_size` and `sharing` of the model; `texts`, of which
        `cut_texts` were longer than a row, and `pieces`, what the means are of; `layers`, for each
        its number `layer`, from 1, and the means `l2_distance`, `cosine_similarity` in -1..1 and
        `angle` in degrees, with their standard deviations over the pieces, `l2_distance_std` and
        so on. A distance grows with the norm of the vectors: compare it between models of one H.

    Raises:
        ValueError: no texts; a vocabulary of more pieces than the model has; `max_length` above the
            model's positions.

    Example:
        >>> model, tokenizer = load_albert("pretrained/model")
        >>> found = layer_trajectory(model, tokenizer, ["It rained.", "We went."], max_length=64)
        >>> found["layers"][0]["cosine_similarity"]

    Reference:
        ALBERT, Figure 1 (whose cosine similarity is given in degrees) and section 3.1,
        "Cross-layer parameter sharing", https://arxiv.org/abs/1909.11942
    """
    config = config_of(model)
    _refuse_misfit(config, tokenizer, max_length)
    encoder = build_albert(config, output_all_layers=True)
    for name in ("embeddings", "encoder"):
        fill_layer(layers_of(encoder)[name], layers_of(model)[name])

    @tf.function(reduce_retracing=True)
    def sums_of(inputs):
        outputs = encoder(inputs, training=False)["layer_outputs"]
        is_piece = inputs["padding_mask"] > 0
        vectors = [tf.cast(tf.boolean_mask(one, is_piece), tf.float64) for one in outputs]
        return tf.stack([_sums(*layer) for layer in pairwise(vectors)])

    texts = iter(texts)
    sums = np.zeros([config.num_hidden_layers, len(MEASURES), 2])
    total = cut = pieces = 0
    while batch := list(islice(texts, batch_size)):
        ids = tokenizer(valid_utf8(batch))
        inputs = pack(ids, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id, max_length=max_length)
        sums += sums_of(inputs).numpy()
        total += len(batch)
        cut += int(tf.math.count_nonzero(ids.row_lengths() > max_length - 2))
        pieces += int(tf.reduce_sum(inputs["padding_mask"]))
    if not total:
        raise ValueError("There must be a text to measure the layers on. Received: none.")
    means, squares = np.moveaxis(sums / pieces, -1, 0)
    deviations = np.sqrt(np.maximum(squares - means**2, 0))  # rounding can go below 0
    return {
        "num_hidden_layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "sharing": config.to_dict()["sharing"],
        "texts": total,
        "cut_texts": cut,
        "pieces": pieces,
        "layers": [
            {"layer": number, **_with_spread(mean, deviation)}
            for number, (mean, deviation) in enumerate(zip(means, deviations, strict=True), 1)
        ],
    }


def write_trajectories(trajectories: Mapping[str, Mapping[str, Any]], folder: str | Path) -> None:
    """Writes trajectories.json, .csv (a line for each layer of each model) and .png to a folder.

    Args:
        trajectories: by a model's name, what `layer_trajectory` gives.
        folder: that exists.

    Raises:
        ImportError: matplotlib is missing.
    """
    folder = Path(folder)
    write_json(folder / "trajectories.json", dict(trajectories))
    lines = io.StringIO()
    columns = [column for name in MEASURES for column in (name, f"{name}_std")]
    table = csv.DictWriter(lines, ["model", "layer", *columns], lineterminator="\n")
    table.writeheader()
    for model, found in trajectories.items():
        table.writerows({"model": model, **layer} for layer in found["layers"])
    write_file(folder / "trajectories.csv", lines.getvalue().encode(errors="backslashreplace"))
    plot_trajectories(trajectories, folder / "trajectories.png")


def plot_trajectories(trajectories: Mapping[str, Mapping[str, Any]], file: str | Path) -> None:
    """Distance and angle over the layers of all models, with a band of one standard deviation.

    Args:
        trajectories: as of `write_trajectories`.
        file: the image to write.

    Raises:
        ImportError: matplotlib is missing.
    """
    figure, axes = new_axes(2, 11, 4)
    panels = (("l2_distance", "L2 distance"), ("angle", "angle, degrees"))
    for axis, (measure, label) in zip(axes, panels, strict=True):
        for name, found in trajectories.items():
            mean, deviation = (
                np.array([layer[key] for layer in found["layers"]])
                for key in (measure, f"{measure}_std")
            )
            layers = range(1, len(mean) + 1)
            [line] = axis.plot(layers, mean, marker="o", markersize=3, label=name)
            band = np.maximum(mean - deviation, 0), mean + deviation  # neither is below 0
            axis.fill_between(layers, *band, color=line.get_color(), alpha=0.15, linewidth=0)
        axis.set(xlabel="layer", ylabel=label)
        axis.set_ylim(bottom=0)
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_title("Input and output of each layer: mean over pieces, ± 1 SD", loc="left")
    axes[0].legend(frameon=False)
    figure.savefig(file, dpi=130)


def _sums(before, after):
    """Sums of the measures and of their squares over n pieces, float64 (3, 2)."""
    unit_before, unit_after = tf.nn.l2_normalize(before, -1), tf.nn.l2_normalize(after, -1)
    # Not the arc cosine: near 0 degrees it keeps half of the digits.
    half_angle = tf.atan2(
        tf.norm(unit_after - unit_before, axis=-1), tf.norm(unit_after + unit_before, axis=-1)
    )
    measures = tf.stack(
        [
            tf.norm(after - before, axis=-1),
            tf.reduce_sum(unit_before * unit_after, axis=-1),
            2 * half_angle * (180 / np.pi),
        ]
    )
    return tf.stack([tf.reduce_sum(measures, 1), tf.reduce_sum(measures**2, 1)], axis=1)


def _with_spread(means, deviations):
    return {
        key: float(value)
        for name, *values in zip(MEASURES, means, deviations, strict=True)
        for key, value in zip((name, f"{name}_std"), values, strict=True)
    }


def _refuse_misfit(config, tokenizer, max_length):
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            "A model is measured with its own vocabulary. Received: a model of "
            f"{config.vocab_size} pieces and a vocabulary of {tokenizer.vocab_size}."
        )
    if not 2 < max_length <= config.max_position_embeddings:
        raise ValueError(
            f"`max_length` must be above 2 and at most the {config.max_position_embeddings} "
            f"positions of the model. Received: {max_length}."
        )
