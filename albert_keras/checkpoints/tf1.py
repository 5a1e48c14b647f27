"""Google's TensorFlow 1 checkpoints of ALBERT: the folder they come in, read and written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_keras.checkpoints.filling import Fit, fill, take, unmatched
from albert_keras.checkpoints.head import WITHOUT_POOLER, build_head
from albert_keras.checkpoints.huggingface_config import (
    LayerGroups,
    from_huggingface,
    groups_for,
    to_huggingface,
)
from albert_keras.checkpoints.names import (
    SAME,
    SOP_BIAS,
    SOP_KERNEL,
    TENSORFLOW_WEIGHTS,
    TRANSPOSED,
    Names,
)
from albert_keras.checkpoints.tf_checkpoint import (
    OBJECT_GRAPH,
    checkpoint_prefix,
    folder_of,
    open_checkpoint,
)
from albert_keras.config import AlbertConfig
from albert_keras.json_file import read_json, write_json
from albert_keras.model import build_albert, config_of, layers_of, pair_objective_of
from albert_keras.new_folder import new_folder
from albert_keras.text.tokenizer import Tokenizer

CONFIG, CHECKPOINT = "albert_config.json", "model.ckpt-best"

# Second dense layer and second LayerNorm have the names that the original's scopes gave them.
NAMES = Names(
    modules={
        "word_embeddings": "bert/embeddings/word_embeddings",
        "position_embeddings": "bert/embeddings/position_embeddings",
        "token_type_embeddings": "bert/embeddings/token_type_embeddings",
        "embeddings_norm": "bert/embeddings/LayerNorm",
        "projection": "bert/encoder/embedding_hidden_mapping_in",
        "query": "{layer}/attention_1/self/query",
        "key": "{layer}/attention_1/self/key",
        "value": "{layer}/attention_1/self/value",
        "attention_output": "{layer}/attention_1/output/dense",
        "attention_norm": "{layer}/LayerNorm",
        "intermediate": "{layer}/ffn_1/intermediate/dense",
        "ffn_output": "{layer}/ffn_1/intermediate/output/dense",
        "ffn_norm": "{layer}/LayerNorm_1",
        "pooler": "bert/pooler/dense",
        "masked_lm_dense": "cls/predictions/transform/dense",
        "masked_lm_norm": "cls/predictions/transform/LayerNorm",
        "answer_start": "start_logits/dense",
        "answer_end_dense": "end_logits/dense_0",
        "answer_end_norm": "end_logits/LayerNorm",
        "answer_end": "end_logits/dense_1",
        "answerability_dense": "answer_class/dense_0",
        "answerability": "answer_class/dense_1",
    },
    weights=TENSORFLOW_WEIGHTS,
    exceptions={
        "masked_lm/bias": ("cls/predictions/output_bias", SAME),
        "sop/kernel": ("cls/seq_relationship/output_weights", SOP_KERNEL),
        "sop/bias": ("cls/seq_relationship/output_bias", SOP_BIAS),
        "classifier/kernel": ("output_weights", TRANSPOSED),
        "classifier/bias": ("output_bias", SAME),
        "multiple_choice/kernel": ("output_weights", TRANSPOSED),
        "multiple_choice/bias": ("output_bias", SAME),
        "span_predictor/kernel": ("cls/squad/output_weights", TRANSPOSED),
        "span_predictor/bias": ("cls/squad/output_bias", SAME),
    },
)
# The scopes of their head for SQuAD 2.0.
SQUAD2 = ("start_logits/", "end_logits/", "answer_class/")
# Theirs "gelu" is the tanh form, in all of their models.
ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu"}


def config_from_google(fields: Mapping[str, Any], where: str) -> tuple[AlbertConfig, LayerGroups]:
    """The config that an `albert_config.json` describes, and the groups of its file.

    Args:
        fields: the parsed file. Keys that no code of theirs reads (net_structure_type, gap_size,
            num_memory_blocks, down_scale_factor) are ignored.
        where: its path, for error messages.

    Raises:
        ValueError: a missing or unknown key, or a value for which this library has no model.
    """
    activation = fields.get("hidden_act")
    if activation not in [*ACTIVATIONS]:
        raise ValueError(
            f"{where}: `hidden_act` must be one of {', '.join(ACTIVATIONS)}. "
            f"Received: {activation!r}."
        )
    # Theirs has no epsilon in the config: it is 1e-12 in the code.
    fields = {"layer_norm_eps": 1e-12, **fields, "hidden_act": ACTIVATIONS[activation]}
    return from_huggingface(fields, where)


def is_tf1(source: str | Path) -> bool:
    """Whether `source`, a folder or a checkpoint's prefix, looks like one of Google's ALBERTs.

    Any other TF1 checkpoint is taken for one too, so that `read_tf1` says why it is none:
    brightmart's folders and TF-Hub's modules have no `albert_config.json` of their own.
    """
    folder = folder_of(source)
    if (folder / CONFIG).is_file():
        return True
    if (folder / "config.json").is_file():  # of Hugging Face, with a TF1 file beside it
        return False
    try:
        return OBJECT_GRAPH not in open_checkpoint(checkpoint_prefix(source)).shapes
    except ValueError:
        return False


def read_tf1(
    source: str | Path,
    *,
    head: str | None = None,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
) -> tuple[tf.keras.Model, Fit]:
    """The model in a TF1 checkpoint: an encoder, a pretrainer, a classifier, a span predictor of
    SQuAD 1.1 or of 2.0 (an answerable one), or a multiple-choice model.

    A span predictor has no pooler; the one in the file is left out.

    Args:
        source: a folder with `albert_config.json` and one checkpoint, or the checkpoint's prefix.
        head: "classifier" or "multiple_choice", where the file has a head of one logit: theirs of
            RACE and of a regression are named alike. Default None, what the names say.
        allow_missing: patterns of tensors that it may lack, such as "cls/seq_relationship/*":
            those weights are drawn anew.
        allow_unused: patterns of tensors to leave out, such as "cls/*" for the encoder alone.

    Returns:
        The model, and which tensors were missing or unused.

    Raises:
        ValueError: no or several checkpoints, another architecture, a damaged file, a head that
            could be two, or tensors that do not fit (all of them are listed).
    """
    prefix, config_path = checkpoint_prefix(source), folder_of(source) / CONFIG
    found, get_tensor, state = open_checkpoint(prefix)
    _refuse_others(found, prefix)
    if not config_path.is_file():
        near = sorted(path.name for path in config_path.parent.glob("*.json"))
        raise ValueError(
            f"One of Google's ALBERTs has its {CONFIG} beside it. Received: {config_path.parent} "
            f"with {', '.join(near) or 'no .json file'}. Put the one that belongs to the model "
            "there, under that name."
        )
    config, groups = config_from_google(read_json(config_path), str(config_path))
    layers = _layers(groups, str(config_path))
    kind = _kind(unmatched(found, allow_unused), found, head, prefix)
    model = build_head(build_albert(config), _head(kind, found))
    if kind in WITHOUT_POOLER:
        allow_unused = [*allow_unused, "bert/pooler/*"]
    fit = fill(
        NAMES.tensors_of(model, layers),
        found,
        get_tensor,
        str(prefix),
        allow_missing=allow_missing,
        allow_unused=allow_unused,
    )
    return model, fit._replace(state=state)


def write_tf1(
    model: tf.keras.Model, folder: str | Path, tokenizer: Tokenizer | None = None
) -> None:
    """Writes `albert_config.json` and a checkpoint under Google's names.

    A span predictor has no pooler, so the file has none; their graph for SQuAD makes one.

    Args:
        model: an encoder, or one built around it.
        folder: to make; it must not exist.
        tokenizer: saved with the model when given. Default None.

    Raises:
        ValueError: the folder exists; the model is one that their graph cannot be, by its
            activation, its epsilon, its projection or its groups of layers; a weight has no name
            in the format, or is NaN or infinite.
    """
    config = config_of(model)
    if "sop" in layers_of(model) and pair_objective_of(model) != "sop":
        raise ValueError(
            "Google's models have a pair head for sentence order alone. Received: a pretrainer "
            f'with the objective "{pair_objective_of(model)}". Write its encoder (encoder_of), or '
            "a checkpoint folder."
        )
    fields = to_huggingface(config)
    activations = {theirs: google for google, theirs in ACTIVATIONS.items()}
    if fields["hidden_act"] not in activations or config.layer_norm_eps != 1e-12:
        raise ValueError(
            "Google's models have a GELU of the tanh form or ReLU, and a LayerNorm epsilon of "
            f"1e-12. Received: {config.hidden_act} and {config.layer_norm_eps}."
        )
    if config.always_project and config.embedding_size == config.hidden_size:
        raise ValueError(
            "Google's models have no projection where embedding_size is hidden_size. Received: a "
            f"model with one, of size {config.hidden_size} (always_project). A checkpoint folder "
            "can hold it."
        )
    fields["hidden_act"] = activations[fields["hidden_act"]]
    del fields["model_type"], fields["layer_norm_eps"]
    layers = _layers(groups_for(config.sharing_pattern), "the model")
    arrays = take(model, NAMES.tensors_of(model, layers))
    with new_folder(folder) as partial:
        write_json(partial / CONFIG, fields)
        if tokenizer is not None:
            tokenizer.save(partial)
        tf.raw_ops.SaveV2(
            prefix=str(partial / CHECKPOINT),
            tensor_names=list(arrays),
            shape_and_slices=[""] * len(arrays),
            tensors=list(arrays.values()),
        )


def _layers(groups, where):
    """The scope of each single layer in their graph."""
    # Theirs, where the config is read as Hugging Face does. Both are floating point: for 22 layers
    # in 22 groups, 15 / 22 * 22 is below 15, and the graph has layer 15 in the group of layer 14.
    theirs = [int(layer / groups.layers * groups.groups) for layer in range(groups.layers)]
    if theirs != [group for group, inner in groups.blocks() if inner == 0]:
        raise ValueError(
            "Google's graph must put each layer into the group that it belongs to. Received: "
            f"{where} with {groups.layers} layers in {groups.groups} groups. Theirs computes "
            "int(layer / num_hidden_layers * num_hidden_groups), which rounding makes "
            f"{theirs}. Use another depth, or a checkpoint folder."
        )
    return [
        f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
        for group, inner in groups.blocks()
    ]


def _kind(names, shapes, head, prefix):
    if "output_weights" in names:
        kinds = ["classifier"]
        if shapes["output_weights"][0] == 1:
            kinds.append("multiple_choice")
    elif "cls/squad/output_weights" in names:
        kinds = ["span_predictor"]
    elif any(name.startswith(SQUAD2) for name in names):
        kinds = ["answerable_span_predictor"]
    else:
        kinds = ["pretrainer" if any(name.startswith("cls/") for name in names) else "encoder"]
    if head is None and len(kinds) > 1:
        raise ValueError(
            f"{prefix} has `output_weights` of one row, the head of a regression or of a "
            "multiple-choice model such as RACE's: nothing in the file tells which. Say it, by "
            f"`head`: {' or '.join(kinds)}."
        )
    if head is not None and head not in kinds:
        raise ValueError(
            f"`head` must be what the tensors of {prefix} make, {' or '.join(kinds)}. "
            f"Received: {head}."
        )
    return head or kinds[0]


def _head(kind, shapes):
    """With the dropout of their training scripts."""
    if kind == "classifier":
        labels = [f"LABEL_{index}" for index in range(shapes["output_weights"][0])]
        return {"kind": kind, "labels": labels, "dropout": 0.1}
    if kind in ("multiple_choice", "answerable_span_predictor"):
        return {"kind": kind, "dropout": 0.1}
    if kind == "span_predictor":
        return {"kind": kind, "dropout": 0.0}
    return {"kind": kind}


def _refuse_others(names, prefix):
    reasons = {
        "bert/embeddings/word_embeddings_2": "of brightmart's albert_zh, whose architecture is "
        "another: positions and segments are added at width H",
        "bert/encoder/layer_0/attention/self/query/kernel": "of a BERT, which is read where its "
        "bert_config.json is beside it",
        "module/bert/embeddings/word_embeddings": "of a TF-Hub module",
    }
    for name, reason in reasons.items():
        if name in names:
            raise ValueError(
                f"A TF1 checkpoint must be Google's ALBERT. Received: {prefix}, which is {reason} "
                f"(it has {name})."
            )
