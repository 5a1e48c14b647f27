"""Models: the exports that a server answers with, by name and version."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import get_model_metadata_pb2

from albert_keras.served_folder import SAVED_MODEL, SIGNATURE, versions_in

from ..loading import load_export
from .refusal import Code, Refusal


class Signature(NamedTuple):
    """A function of an export: named tensors to named tensors."""

    name: str
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, tf.TensorSpec]
    function: Any


class Model(NamedTuple):
    """One version of one model."""

    name: str
    version: int
    metadata: Mapping[str, Any]
    signature_defs: get_model_metadata_pb2.SignatureDefMap
    signatures: Mapping[str, Signature]
    loaded: Any  # the functions do not keep their variables alive

    def signature(self, name: str = "") -> Signature:
        """The signature of that name, "" for the default one."""
        found = self.signatures.get(name or SIGNATURE)
        if found is None:
            raise Refusal(
                Code.FAILED_PRECONDITION,
                f"A signature must be one of {sorted(self.signatures)}. Received: "
                f"{name or SIGNATURE!r}, of the model {self.name!r}, version {self.version}.",
            )
        return found


class Models:
    """The exports in some folders, each with all of its versions.

    Args:
        folders: of versions, as `albert-keras export` writes them; the folder's name is the
            model's.

    Raises:
        ValueError: a folder is no export or a damaged one, two have one name, or a name could not
            stand in an address.

    Example:

    >>> Models(["served/mail"]).find("mail").version
    2
    """

    def __init__(self, folders: Sequence[str | Path]):
        versions: dict[str, list[Path]] = {}
        for folder in folders:
            folder = Path(os.path.abspath(folder))  # a link keeps its own name
            if (folder / SAVED_MODEL).is_file():
                raise ValueError(
                    "A served folder holds numbered versions. Received: one version, "
                    f"{folder}. Give the folder that it is in, {folder.parent}."
                )
            if ":" in folder.name:
                raise ValueError(
                    "The folder's name is the model's and stands in addresses before a colon, so "
                    f"it may not hold one. Received: {folder}. Rename it."
                )
            if folder.name in versions:
                raise ValueError(
                    "The folder's name is the model's, so each must have another. Received: "
                    f"{folder.name!r} twice."
                )
            versions[folder.name] = versions_in(folder)
        self._models = {
            name: {int(path.name): _load(name, path) for path in paths}
            for name, paths in versions.items()
        }

    @property
    def names(self) -> list[str]:
        return list(self._models)

    def versions(self, name: str) -> list[Model]:
        """All versions of a model, the newest first."""
        if name not in self._models:
            raise Refusal(
                Code.NOT_FOUND, f"A model must be one of {self.names}. Received: {name!r}."
            )
        return sorted(self._models[name].values(), key=lambda model: -model.version)

    def find(self, name: str, version: int | None = None) -> Model:
        """A version of a model, the highest by default.

        Raises:
            Refusal: there is none.
        """
        models = self.versions(name)
        if version is None:
            return models[0]
        if version not in self._models[name]:
            raise Refusal(
                Code.NOT_FOUND,
                f"A version of {name!r} must be one of {[model.version for model in models]}. "
                f"Received: {version}.",
            )
        return self._models[name][version]


def _load(name, path):
    loaded = load_export(path)
    signatures = {}
    for signature, function in loaded.signatures.items():
        inputs = function.structured_input_signature[1]
        if any(spec.shape.rank is None for spec in inputs.values()):
            raise ValueError(
                "The inputs of a signature must have a known number of axes. Received: "
                f"{signature!r} of {path}."
            )
        signatures[signature] = Signature(signature, inputs, function.structured_outputs, function)
    metadata = path / "assets.extra" / "metadata.json"
    graph = saved_model_pb2.SavedModel.FromString((path / SAVED_MODEL).read_bytes())
    return Model(
        name,
        int(path.name),
        json.loads(metadata.read_text(encoding="utf-8")) if metadata.is_file() else {},
        get_model_metadata_pb2.SignatureDefMap(signature_def=graph.meta_graphs[0].signature_def),
        signatures,
        loaded,
    )
