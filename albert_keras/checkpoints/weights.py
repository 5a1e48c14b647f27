"""`model.safetensors`: a model's variables under Hugging Face's names, read strictly both ways."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from albert_keras.checkpoints.filling import Fit, fill, take
from albert_keras.checkpoints.huggingface_config import LayerGroups
from albert_keras.checkpoints.huggingface_names import duplicates_of, no_projection, tensors_of
from albert_keras.checkpoints.identity_projection import projects
from albert_keras.model import layers_of

# Types whose every value is a float32 too.
TYPES = ("F32", "F16")
# 0, 1, 2 ... as int64, which older files have beside the weights.
POSITIONS = "embeddings.position_ids"


def write_weights(model: tf.keras.Model, groups: LayerGroups, prefix: str, path: Path) -> None:
    """Writes every weight of the model.

    Args:
        model: an encoder, or one built around it.
        groups: in which the layers are written; they must tell apart what the model does.
        prefix: of the encoder's tensors.
        path: of the file.

    Raises:
        ValueError: a weight is NaN or infinite, or has no name in the format.
        OSError: the file cannot be written, as on a full disk.
    """
    arrays = take(model, tensors_of(model, groups, prefix))
    embeddings = layers_of(model)["embeddings"]
    if embeddings.embedding_hidden_mapping_in is None:
        arrays |= no_projection(embeddings.hidden_size, prefix)
    try:
        save_file(arrays, path, metadata={"format": "pt"})
    except SafetensorError as error:  # no OSError, whatever the cause
        raise OSError(f"{path} cannot be written: {error}") from error


def shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors in a file, without its list of the positions' numbers.

    Raises:
        ValueError: the file is missing, damaged, or has tensors of another type than float32 or
            float16.
    """
    if path.with_name(f"{path.name}.index.json").is_file():
        raise ValueError(
            f"The tensors must be in one file. Received: {path.parent}, where they are in several "
            "(sharded). Load it in transformers and save it with a larger max_shard_size."
        )
    if not path.is_file():
        raise ValueError(
            f"A checkpoint folder must hold {path.name}. Received: {path.parent} without it. A "
            "pickled pytorch_model.bin is never read, it can run code: load it in transformers "
            "and save it again with save_pretrained."
        )
    try:
        with safe_open(path, framework="np") as file:
            names = [name for name in file.keys() if not name.endswith(POSITIONS)]
            slices = {name: file.get_slice(name) for name in names}
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            types = {name: part.get_dtype() for name, part in slices.items()}
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or cut off: {error}.") from error
    other = [f"{name} is {kind}" for name, kind in types.items() if kind not in TYPES]
    if other:
        raise ValueError(
            f"Tensors must be {' or '.join(TYPES)}. Received: {path}, where {', '.join(other)}."
        )
    return shapes


def has_projection(path: Path, size: int) -> bool:
    """Whether a file with E == H == `size` has a projection that is not the identity."""
    found = shapes_in(path)
    with safe_open(path, framework="np") as file:
        return projects(no_projection(size, _prefix(found)), found, file.get_tensor)


def read_weights(
    model: tf.keras.Model,
    groups: LayerGroups,
    path: Path,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
) -> Fit:
    """Fills every weight of a new model from the file.

    Args:
        model: with the head that the file has.
        groups: in which the file's layers are written.
        path: of the file.
        allow_missing, allow_unused: see `fill`.

    Raises:
        ValueError: the file's tensors are not exactly the model's, a value is not finite, or
            copies of a shared weight differ.
    """
    found = shapes_in(path)
    prefix = _prefix(found)
    embeddings = layers_of(model)["embeddings"]
    if embeddings.embedding_hidden_mapping_in is None:
        # The model was built without, because there is nothing in it: see `has_projection`.
        for name in no_projection(embeddings.hidden_size, prefix):
            del found[name]
    with safe_open(path, framework="np") as file:
        return fill(
            tensors_of(model, groups, prefix),
            found,
            file.get_tensor,
            str(path),
            duplicates=duplicates_of(prefix),
            allow_missing=allow_missing,
            allow_unused=allow_unused,
        )


def _prefix(names):
    return "albert." if any(name.startswith("albert.") for name in names) else ""
