"""What stands on the encoder: told from a model, from a file, and built again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_keras.layers.sop_head import PAIR_OBJECTIVES
from albert_keras.model import build_pretrainer, layers_of, pair_objective_of
from albert_keras.task_models import (
    TASK_HEADS,
    build_answerable_span_predictor,
    build_classifier,
    build_multiple_choice,
    build_span_predictor,
)

# Hugging Face's classes, by the kind of model. Where they have none for a head it is the encoder's,
# which reads what it knows from the file and says what it leaves.
ARCHITECTURES = {
    "encoder": "AlbertModel",
    "pretrainer": "AlbertForPreTraining",
    "classifier": "AlbertForSequenceClassification",
    "span_predictor": "AlbertForQuestionAnswering",
    "answerable_span_predictor": "AlbertModel",
    "multiple_choice": "AlbertForMultipleChoice",
}
MASKED_LM = "AlbertForMaskedLM"
# These stand on the sequence output, and their models have no pooler.
WITHOUT_POOLER = ("span_predictor", "answerable_span_predictor")
# What `albert_keras.json` says of each kind: the arguments of its builder, and `max_length`, the
# longest row of training.
SETTINGS = {
    "encoder": (),
    "pretrainer": (
        *("max_predictions", "ngram", "rate", "mask_fraction", "random_fraction", "mask_id"),
        "pair_objective",
    ),
    "classifier": ("labels", "dropout"),
    "span_predictor": ("dropout",),
    "answerable_span_predictor": ("dropout",),
    "multiple_choice": ("dropout",),
}


def head_of(
    model: tf.keras.Model, labels: Sequence[str] | None, max_length: int | None
) -> dict[str, Any]:
    """The head as `albert_keras.json` keeps it, `{"kind": ..., settings of that kind}`.

    Args:
        model: an encoder, or one built around it.
        labels: a classifier's label names, in the order of its logits.
        max_length: the longest row of training in pieces, None where it is not known.

    Raises:
        ValueError: labels for a model without them, none for a classifier, or not one for each
            logit; or an encoder that was taken out of a span predictor.
    """
    layers = layers_of(model)
    kind = next((name for name in TASK_HEADS if name in layers), None)
    if kind == "classifier":
        size = layers["classifier"].units
        if labels is None or len(labels) != size or len(set(labels)) != size:
            raise ValueError(
                f"A classifier with {size} logits needs `labels`, {size} different names in their "
                f"order. Received: {labels}."
            )
    elif labels is not None:
        raise ValueError(
            f"`labels` belong to a classifier. Received: {labels} with a model of the layers "
            f"{', '.join(layers)}."
        )
    if kind is not None:
        if kind == "answerable_span_predictor":
            dropout = layers[kind].dropout
        else:
            dropout = layers[f"{kind}_dropout"].rate if f"{kind}_dropout" in layers else 0.0
        head = {"kind": kind, "dropout": dropout, "max_length": max_length}
        return head if labels is None else {**head, "labels": list(labels)}
    if "pooler" not in layers:
        raise ValueError(
            "An encoder is saved with its pooler. Received: one without, as a span predictor has. "
            "Save the span predictor."
        )
    if "masked_lm" in layers and "sop" in layers:
        masked_lm = layers["masked_lm"]
        settings = {name: getattr(masked_lm, name) for name in SETTINGS["pretrainer"][:-1]}
        settings["pair_objective"] = pair_objective_of(model)
        return {"kind": "pretrainer", **settings, "max_length": max_length}
    return {"kind": "encoder", "max_length": max_length}


def check_head(head: Any, where: str) -> None:
    """Raises a `ValueError` for what `head_of` cannot have written; `where` names the file."""
    kind = head.get("kind") if isinstance(head, Mapping) else None
    known = isinstance(kind, str) and kind in SETTINGS
    if not known or set(head) != {"kind", "max_length", *SETTINGS[kind]}:
        raise ValueError(
            f"{where}: `head` must have a kind, one of {', '.join(SETTINGS)}, and the settings of "
            f"that kind. Received: {head!r}. The file is damaged, or of another version."
        )
    labels = head.get("labels", ["", ""])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{where}: `labels` must be a list of names. Received: {labels!r}.")
    objective = head.get("pair_objective", "sop")
    if objective not in PAIR_OBJECTIVES:
        raise ValueError(
            f"{where}: `pair_objective` must be one of {', '.join(PAIR_OBJECTIVES)}. Received: "
            f"{objective!r}."
        )
    words = "kind", "labels", "pair_objective"
    numbers = {name: head[name] for name in head if name not in words}
    for name, value in numbers.items():
        unknown = name in ("max_predictions", "max_length") and value is None
        if type(value) not in (int, float) and not unknown:
            raise ValueError(f"{where}: `{name}` must be a number. Received: {value!r}.")


def head_in_file(names: Iterable[str], fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The head of a folder that Hugging Face wrote.

    Their classes for whole texts, single tokens and choices all call the head `classifier`, so
    there `architectures` decides; elsewhere the names of the tensors do.

    Args:
        names: of the tensors in its file.
        fields: its `config.json`.
        where: the path of that, for error messages.

    Raises:
        ValueError: a head of a class that this library has no model for, or one that could be
            of several classes.
    """
    heads = {name.split(".")[0] for name in names} - {"albert", "embeddings", "encoder", "pooler"}
    if not heads:
        return {"kind": "encoder", "max_length": None}
    architecture = _architecture(fields, where)
    # Their masked-LM class is our pretrainer without the SOP head.
    known = (*ARCHITECTURES.values(), MASKED_LM)
    if architecture is not None and architecture not in known:
        patterns = " ".join(f'"{head}.*"' for head in sorted(heads))
        raise ValueError(
            f"{where}: `architectures` must name one of {', '.join(known)}. Received: "
            f"{architecture}. Its encoder can be loaded with {patterns} as `allow_unused`."
        )
    if "classifier" in heads:
        return _pooled_head(architecture, fields, where)
    if "qa_outputs" in heads:
        return {"kind": "span_predictor", "dropout": 0.0, "max_length": None}
    if "answerable_spans" in heads:  # of ours, in a folder that only theirs describes
        return {"kind": "answerable_span_predictor", "dropout": 0.1, "max_length": None}
    kind = "pretrainer" if heads & {"predictions", "sop_classifier"} else "encoder"
    return {"kind": kind, "max_length": None}


def _architecture(fields, where):
    names = fields.get("architectures") or [None]
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str | None):
        raise ValueError(f"{where}: `architectures` must name one class. Received: {names!r}.")
    return names[0]


def _pooled_head(architecture, fields, where):
    kinds = {ARCHITECTURES[kind]: kind for kind in ("classifier", "multiple_choice")}
    if architecture not in kinds:
        raise ValueError(
            f"{where}: where the file has a `classifier`, `architectures` must name its class, "
            f"{' or '.join(kinds)}: theirs for single tokens has tensors of the same names. "
            f"Received: {architecture}."
        )
    # Theirs is null for "as hidden_dropout_prob"; a config from before that key has none.
    dropout = fields.get("classifier_dropout_prob")
    if dropout is None:
        dropout = fields["hidden_dropout_prob"]
    head = {"kind": kinds[architecture], "dropout": dropout, "max_length": None}
    if head["kind"] == "classifier":
        head["labels"] = labels_in(fields, where)
    check_head(head, where)
    return head


def build_head(encoder: tf.keras.Model, head: Mapping[str, Any]) -> tf.keras.Model:
    """The model of `head` around `encoder`."""
    kind = head["kind"]
    if kind == "pretrainer":
        # A folder of Hugging Face's says nothing of masking: the builder's defaults.
        settings = {name: head[name] for name in SETTINGS[kind] if name in head}
        return build_pretrainer(encoder, **settings)
    if kind == "classifier":
        return build_classifier(encoder, len(head["labels"]), head["dropout"])
    if kind == "span_predictor":
        return build_span_predictor(encoder, head["dropout"])
    if kind == "answerable_span_predictor":
        return build_answerable_span_predictor(encoder, head["dropout"])
    if kind == "multiple_choice":
        return build_multiple_choice(encoder, head["dropout"])
    return encoder


def head_fields(head: Mapping[str, Any]) -> dict[str, Any]:
    """What `config.json` says about the head."""
    architecture = ARCHITECTURES[head["kind"]]
    if head.get("pair_objective", "sop") != "sop":
        architecture = MASKED_LM  # theirs for pretraining would take the pair head for one of SOP
    fields: dict[str, Any] = {"architectures": [architecture]}
    if head["kind"] in ("classifier", "multiple_choice"):
        fields["classifier_dropout_prob"] = head["dropout"]
    if head["kind"] == "classifier":
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
