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


def head_of(model: tf.keras.Model, labels: Sequence[str] | None) -> dict[str, Any]:
    """The head as `albert_keras.json` keeps it, `{"kind": ..., settings of its builder}`.

    Args:
        model: an encoder, a pretrainer or a classifier.
        labels: a classifier's label names, in the order of its logits.

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
        return {"kind": "classifier", "labels": list(labels), "dropout": dropout}
    if labels is not None:
        raise ValueError(
            f"`labels` belong to a classifier. Received: {labels} with a model of the layers "
            f"{', '.join(layers)}."
        )
    if "masked_lm" in layers and "sop" in layers:
        masked_lm = layers["masked_lm"]
        return {"kind": "pretrainer", **{name: getattr(masked_lm, name) for name in MASKING}}
    return {"kind": "encoder"}


def head_in_file(names: Iterable[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The head of a folder that Hugging Face wrote.

    Args:
        names: of the tensors in its file.
        fields: its `config.json`.
    """
    names = set(names)
    if "classifier.weight" in names:
        # Theirs is null for "as hidden_dropout_prob"; a config from before that key has none.
        dropout = fields.get("classifier_dropout_prob")
        if dropout is None:
            dropout = fields["hidden_dropout_prob"]
        return {"kind": "classifier", "labels": labels_in(fields), "dropout": dropout}
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


def labels_in(fields: Mapping[str, Any]) -> list[str]:
    """The labels of a `config.json`, in the order of the logits.

    >>> labels_in({"id2label": {"0": "no", "1": "yes"}})
    ['no', 'yes']
    """
    # Hugging Face leaves the names out when they are these two.
    names = fields.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    if sorted(names, key=int) != [str(index) for index in range(len(names))]:
        raise ValueError(
            f"`id2label` of config.json must number the labels from 0. Received: {names}."
        )
    return [names[str(index)] for index in range(len(names))]
