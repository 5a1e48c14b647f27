"""What stands on the encoder: told from a model, from a file, and built again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_keras.model import build_classifier, build_pretrainer

# Hugging Face's classes, by the kind of model.
ARCHITECTURES = {
    "encoder": "AlbertModel",
    "pretrainer": "AlbertForPreTraining",
    "classifier": "AlbertForSequenceClassification",
}
MASKING = ("max_predictions", "ngram", "rate", "mask_fraction", "random_fraction", "mask_id")


def head_of(
    model: tf.keras.Model, labels: Sequence[str] | None, max_length: int | None
) -> dict[str, Any]:
    """The head as `albert_keras.json` keeps it, `{"kind": ..., settings of its builder}`.

    Args:
        model: an encoder, a pretrainer or a classifier.
        labels: a classifier's label names, in the order of its logits.
        max_length: a classifier's longest row of training in pieces, None where it is not known.

    Raises:
        ValueError: labels for a model without them, none for a classifier, or not one for each
            logit.
    """
    layers = {layer.name: layer for layer in model.layers}
    if "classifier" in layers:
        size = layers["classifier"].units
        if labels is None or len(labels) != size or len(set(labels)) != size:
            raise ValueError(
                f"A classifier with {size} logits needs `labels`, {size} different names in their "
                f"order. Received: {labels}."
            )
        dropout = layers["classifier_dropout"].rate if "classifier_dropout" in layers else 0.0
        return {
            "kind": "classifier",
            "labels": list(labels),
            "dropout": dropout,
            "max_length": max_length,
        }
    if labels is not None:
        raise ValueError(
            f"`labels` belong to a classifier. Received: {labels} with a model of the layers "
            f"{', '.join(layers)}."
        )
    if "masked_lm" in layers and "sop" in layers:
        masked_lm = layers["masked_lm"]
        return {"kind": "pretrainer", **{name: getattr(masked_lm, name) for name in MASKING}}
    return {"kind": "encoder"}


def check_head(head: Any, where: str) -> None:
    """Raises a `ValueError` for what `head_of` cannot have written; `where` names the file."""
    keys = {"encoder": (), "pretrainer": MASKING, "classifier": ("labels", "dropout", "max_length")}
    kind = head.get("kind") if isinstance(head, Mapping) else None
    if not isinstance(kind, str) or kind not in keys or set(head) != {"kind", *keys[kind]}:
        raise ValueError(
            f"{where}: `head` must have a kind, one of {', '.join(keys)}, and the settings of that "
            f"kind. Received: {head!r}. The file is damaged, or of another version."
        )
    labels = head.get("labels", ["", ""])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{where}: `labels` must be a list of names. Received: {labels!r}.")
    numbers = {name: head[name] for name in keys[kind] if name != "labels"}
    for name, value in numbers.items():
        unknown = name in ("max_predictions", "max_length") and value is None
        if type(value) not in (int, float) and not unknown:
            raise ValueError(f"{where}: `{name}` must be a number. Received: {value!r}.")


def head_in_file(names: Iterable[str], fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The head of a folder that Hugging Face wrote.

    Args:
        names: of the tensors in its file.
        fields: its `config.json`.
        where: the path of that, for error messages.
    """
    names = set(names)
    if "classifier.weight" in names:
        # Theirs is null for "as hidden_dropout_prob"; a config from before that key has none.
        dropout = fields.get("classifier_dropout_prob")
        if dropout is None:
            dropout = fields["hidden_dropout_prob"]
        head = {
            "kind": "classifier",
            "labels": labels_in(fields, where),
            "dropout": dropout,
            "max_length": None,
        }
        check_head(head, where)
        return head
    if any(name.startswith(("predictions.", "sop_classifier.")) for name in names):
        return {"kind": "pretrainer"}
    return {"kind": "encoder"}


def build_head(encoder: tf.keras.Model, head: Mapping[str, Any]) -> tf.keras.Model:
    """The model of `head` around `encoder`."""
    settings = {name: value for name, value in head.items() if name != "kind"}
    if head["kind"] == "pretrainer":
        return build_pretrainer(encoder, **settings)
    if head["kind"] == "classifier":
        return build_classifier(encoder, len(settings["labels"]), settings["dropout"])
    return encoder


def head_fields(head: Mapping[str, Any]) -> dict[str, Any]:
    """What `config.json` says about the head."""
    fields: dict[str, Any] = {"architectures": [ARCHITECTURES[head["kind"]]]}
    if head["kind"] == "classifier":
        fields["classifier_dropout_prob"] = head["dropout"]
        fields["id2label"] = {str(index): label for index, label in enumerate(head["labels"])}
        fields["label2id"] = {label: index for index, label in enumerate(head["labels"])}
    return fields


def labels_in(fields: Mapping[str, Any], where: str) -> list[str]:
    """The labels of a `config.json` at `where`, in the order of the logits.

    >>> labels_in({"id2label": {"0": "no", "1": "yes"}}, "config.json")
    ['no', 'yes']
    """
    # Hugging Face leaves the names out when they are these two.
    names = fields.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    numbers = sorted(names, key=lambda number: (len(number), number)) if type(names) is dict else []
    if not numbers or numbers != [str(index) for index in range(len(numbers))]:
        raise ValueError(f"{where}: `id2label` must number the labels from 0. Received: {names!r}.")
    return [names[str(index)] for index in range(len(names))]
