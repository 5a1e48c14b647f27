"""Google's TensorFlow 1 checkpoints of ALBERT: the folder they come in, read and written."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_keras.checkpoints.filling import Fit, fill, unmatched
from albert_keras.checkpoints.head import build_head
from albert_keras.checkpoints.huggingface_config import (
    LayerGroups,
    from_huggingface,
    groups_for,
    to_huggingface,
)
from albert_keras.checkpoints.names import SAME, SOP_BIAS, SOP_KERNEL, TRANSPOSED, Names
from albert_keras.config import AlbertConfig
from albert_keras.json_file import read_json, write_json
from albert_keras.model import build_albert, config_of
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
    },
    weights={
        "table": ("", SAME),
        "kernel": ("/kernel", SAME),
        "bias": ("/bias", SAME),
        "gamma": ("/gamma", SAME),
        "beta": ("/beta", SAME),
    },
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
# Of optimizers and of the training: no part of the model.
SLOTS = ("*/adam_m", "*/adam_v", "*/lamb_m", "*/lamb_v", "global_step")
# Of their head for SQuAD 2.0.
SQUAD2 = ("start_logits/*", "end_logits/*", "answer_class/*")
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
    """Whether `source`, a folder or a checkpoint's prefix, looks like one of Google's ALBERTs."""
    source = Path(source)
    return ((source if source.is_dir() else source.parent) / CONFIG).is_file()


def read_tf1(
    source: str | Path,
    *,
    head: str | None = None,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
) -> tuple[tf.keras.Model, Fit]:
    """The model in a TF1 checkpoint: an encoder, a pretrainer, a classifier, a span predictor of
    SQuAD 1.1 or a multiple-choice model.

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
            could be two, their head for SQuAD 2.0, or tensors that do not fit (all of them are
            listed).
    """
    prefix = checkpoint_prefix(source)
    fields = read_json(prefix.parent / CONFIG)
    config, groups = config_from_google(fields, str(prefix.parent / CONFIG))
    found, get_tensor = open_tf1(prefix)
    _refuse_others(found, prefix)
    kind = _kind(unmatched(found, allow_unused), found, head, prefix)
    model = build_head(build_albert(config), _head(kind, found))
    if kind == "span_predictor":
        allow_unused = [*allow_unused, "bert/pooler/*"]
    fit = fill(
        NAMES.tensors_of(model, _layers(groups)),
        found,
        get_tensor,
        str(prefix),
        allow_missing=allow_missing,
        allow_unused=allow_unused,
    )
    return model, fit


def open_tf1(
    prefix: Path,
) -> tuple[dict[str, tuple[int, ...]], Callable[[str], np.ndarray]]:
    """Names and shapes of a TF1 checkpoint's model, without optimizer slots, and its reader.

    Raises:
        ValueError: the file is damaged; the reader raises it too.
    """
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
    except _DAMAGE as error:
        raise ValueError(f"The checkpoint {prefix} is damaged or cut off: {error}.") from error

    def get_tensor(name):
        try:
            return reader.get_tensor(name)
        except _DAMAGE as error:
            raise ValueError(f"{prefix} is damaged or cut off at {name}: {error}.") from error

    return {name: tuple(shapes[name]) for name in unmatched(shapes, SLOTS)}, get_tensor


_DAMAGE = (tf.errors.OpError, ValueError, IndexError)


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
        ValueError: the folder exists, or the activation has no name in their config.
    """
    config = config_of(model)
    fields = to_huggingface(config)
    activations = {theirs: google for google, theirs in ACTIVATIONS.items()}
    if fields["hidden_act"] not in activations or config.layer_norm_eps != 1e-12:
        raise ValueError(
            "Google's models have a GELU of the tanh form or ReLU, and a LayerNorm epsilon of "
            f"1e-12. Received: {config.hidden_act} and {config.layer_norm_eps}."
        )
    fields["hidden_act"] = activations[fields["hidden_act"]]
    del fields["model_type"], fields["layer_norm_eps"]
    tensors = NAMES.tensors_of(model, _layers(groups_for(config.sharing_pattern)))
    with new_folder(folder) as partial:
        write_json(partial / CONFIG, fields)
        if tokenizer is not None:
            tokenizer.save(partial)
        tf.raw_ops.SaveV2(
            prefix=str(partial / CHECKPOINT),
            tensor_names=[tensor.name for tensor in tensors],
            shape_and_slices=[""] * len(tensors),
            tensors=[
                np.ascontiguousarray(tensor.layout.to_file(tensor.variable.numpy()))
                for tensor in tensors
            ],
        )


def checkpoint_prefix(source: str | Path) -> Path:
    """The prefix of the one checkpoint in a folder, or of the one that `source` names.

    Raises:
        ValueError: there is none, or there are several.
    """
    source = Path(source)
    if source.is_dir():
        found = sorted(source.glob("*.index"))
        if len(found) != 1:
            raise ValueError(
                f"A folder must hold one TF1 checkpoint. Received: {source} with "
                f"{[path.name for path in found]}. Name one by its prefix."
            )
        return found[0].with_suffix("")
    prefix = source.with_suffix("") if source.suffix == ".index" else source
    if not Path(f"{prefix}.index").is_file():
        raise ValueError(f"A TF1 checkpoint has a file {prefix}.index. Received: {source}.")
    return prefix


def _layers(groups):
    return [
        f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
        for group, inner in groups.blocks()
    ]


def _kind(names, shapes, head, prefix):
    squad2 = [name for name in names if name not in unmatched(names, SQUAD2)]
    if squad2:
        raise ValueError(
            f"Google's head for SQuAD 2.0 is none of this library. Received: {prefix}, which has "
            f"{', '.join(squad2)}. Its encoder can be loaded with {' '.join(map(repr, SQUAD2))} as "
            "`allow_unused`."
        )
    if "output_weights" in names:
        kinds = ["classifier"]
        if shapes["output_weights"][0] == 1:
            kinds.append("multiple_choice")
    elif "cls/squad/output_weights" in names:
        kinds = ["span_predictor"]
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
    if kind == "multiple_choice":
        return {"kind": kind, "dropout": 0.1}
    if kind == "span_predictor":
        return {"kind": kind, "dropout": 0.0}
    return {"kind": kind}


def _refuse_others(names, prefix):
    reasons = {
        "bert/embeddings/word_embeddings_2": "of brightmart's albert_zh, whose architecture is "
        "another: positions and segments are added at width H",
        "bert/encoder/layer_0/attention/self/query/kernel": "of a BERT",
        "module/bert/embeddings/word_embeddings": "of a TF-Hub module",
    }
    for name, reason in reasons.items():
        if name in names:
            raise ValueError(
                f"A TF1 checkpoint must be Google's ALBERT. Received: {prefix}, which is {reason} "
                f"(it has {name})."
            )
