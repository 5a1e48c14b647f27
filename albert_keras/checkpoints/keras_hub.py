"""keras-hub's ALBERT presets: the backbone in `config.json` and `model.weights.h5`, read."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import h5py
import tensorflow as tf

from albert_keras.checkpoints.filling import Fit, fill
from albert_keras.checkpoints.huggingface_config import LayerGroups
from albert_keras.checkpoints.identity_projection import identity_projection, projects
from albert_keras.checkpoints.names import SAME, Names, head_layouts
from albert_keras.config import AlbertConfig, shortest_sharing
from albert_keras.json_file import check_object, read_json
from albert_keras.model import build_albert

CONFIG, WEIGHTS = "config.json", "model.weights.h5"
BACKBONE = "AlbertBackbone"

# Theirs to ours. The rest is fixed in their code: the tanh GELU, epsilon 1e-12, deviation 0.02.
FIELDS = {
    "vocabulary_size": "vocab_size",
    "embedding_dim": "embedding_size",
    "hidden_dim": "hidden_size",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
GROUPS = ("num_layers", "num_groups", "num_inner_repetitions")
PROJECTION = "layers/dense/vars/0", "layers/dense/vars/1"


def is_keras_hub(folder: str | Path) -> bool:
    """Whether `folder` looks like a preset of keras-hub's ALBERT."""
    path = Path(folder) / CONFIG
    return path.is_file() and read_json(path).get("class_name") == BACKBONE


def read_keras_hub(
    folder: str | Path, *, allow_missing: Sequence[str] = (), allow_unused: Sequence[str] = ()
) -> tuple[tf.keras.Model, Fit]:
    """The encoder in a keras-hub preset.

    The heads of their task models (`task.weights.h5`) are not read: theirs for masked tokens has
    another LayerNorm epsilon, 1e-5, than the model that the weights came from.

    Args:
        folder: of the preset.
        allow_missing: patterns of tensors that it may lack; they are drawn anew.
        allow_unused: patterns of tensors to leave out.

    Returns:
        The model, and which tensors were missing or unused.

    Raises:
        ValueError: another model, a missing or damaged file, or tensors that do not fit.
    """
    folder = Path(folder)
    fields = read_json(folder / CONFIG, keys=["class_name", "config"])
    if fields["class_name"] != BACKBONE:
        raise ValueError(
            f"{folder / CONFIG} must be of an {BACKBONE}. Received: {fields['class_name']!r}."
        )
    fields = fields["config"]
    check_object(fields, f"{folder / CONFIG}: `config`", [*FIELDS, *GROUPS, "dropout"])
    groups = LayerGroups.read(fields, GROUPS, str(folder / CONFIG))
    pattern = groups.pattern()
    try:
        config = AlbertConfig(
            **{ours: fields[theirs] for theirs, ours in FIELDS.items()},
            num_hidden_layers=len(pattern.attention),
            sharing=shortest_sharing(pattern),
            hidden_dropout_prob=fields["dropout"],
            attention_probs_dropout_prob=fields["dropout"],
        )
    except ValueError as error:
        raise ValueError(f"{folder / CONFIG}: {error}") from error
    # Their layers have no names in the file, only numbers, in the order of the groups.
    numbers = [group * groups.inner + inner for group, inner in groups.blocks()]
    layers = ["layers/transformer_encoder" + (f"_{number}" if number else "") for number in numbers]
    try:
        with h5py.File(folder / WEIGHTS) as file:
            found = _shapes_in(file)

            def get_tensor(name):
                return file[name][()]

            if config.embedding_size == config.hidden_size:
                identity = identity_projection(*PROJECTION, config.hidden_size)
                always_project = projects(identity, found, get_tensor)
                config = dataclasses.replace(config, always_project=always_project)
                if not always_project:
                    found = {name: found[name] for name in found if name not in identity}
            model = build_albert(config)
            fit = fill(
                _names(config).tensors_of(model, layers),
                found,
                get_tensor,
                str(folder / WEIGHTS),
                allow_missing=allow_missing,
                allow_unused=allow_unused,
            )
    except OSError as error:
        raise ValueError(f"{folder / WEIGHTS} is missing or damaged: {error}.") from error
    return model, fit


def _shapes_in(file):
    shapes = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset):
            shapes[name] = item.shape

    file.visititems(note)
    return shapes


def _names(config):
    layouts = head_layouts(config.hidden_size, config.num_attention_heads)
    exceptions = {}
    for name in ("query", "key", "value"):
        place = f"{{layer}}/_self_attention_layer/{name}_dense/vars"
        exceptions[f"{name}/kernel"] = f"{place}/0", layouts.kernel
        exceptions[f"{name}/bias"] = f"{place}/1", layouts.bias
    place = "{layer}/_self_attention_layer/output_dense/vars"
    exceptions["attention_output/kernel"] = f"{place}/0", layouts.output_kernel
    return Names(
        modules={
            "word_embeddings": "layers/reversible_embedding",
            "position_embeddings": "layers/position_embedding",
            "token_type_embeddings": "layers/embedding",
            "embeddings_norm": "layers/layer_normalization",
            "projection": "layers/dense",
            "attention_output": "{layer}/_self_attention_layer/output_dense",
            "attention_norm": "{layer}/_self_attention_layer_norm",
            "intermediate": "{layer}/_feedforward_intermediate_dense",
            "ffn_output": "{layer}/_feedforward_output_dense",
            "ffn_norm": "{layer}/_feedforward_layer_norm",
            "pooler": "layers/dense_1",
        },
        weights={
            "table": ("/vars/0", SAME),
            "kernel": ("/vars/0", SAME),
            "bias": ("/vars/1", SAME),
            "gamma": ("/vars/0", SAME),
            "beta": ("/vars/1", SAME),
        },
        exceptions=exceptions,
    )
