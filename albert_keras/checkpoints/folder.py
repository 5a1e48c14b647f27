"""save_albert and load_albert: one folder for a model, its tokenizer and its labels.

    config.json            Hugging Face's AlbertConfig
    model.safetensors      their tensor names, their transposes
    spiece.model           the vocabulary, or vocab.txt with WordPiece pieces
    tokenizer_config.json
    albert_keras.json      what theirs has no word for: the sharing, the head's settings, the
                           vocabulary's fingerprint

What is written here, their `AlbertModel.from_pretrained` reads; what they wrote, we read. A
folder is read whole or refused: no tensor is skipped, none is left at its random start.
"""

import dataclasses
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

import albert_keras
from albert_keras.checkpoint_folder import CONFIG, WEIGHTS
from albert_keras.checkpoints.filling import Fit, unmatched
from albert_keras.checkpoints.head import (
    WITHOUT_POOLER,
    build_head,
    check_head,
    head_fields,
    head_in_file,
    head_of,
    labels_in,
)
from albert_keras.checkpoints.huggingface_config import (
    from_huggingface,
    groups_for,
    to_huggingface,
)
from albert_keras.checkpoints.weights import (
    has_projection,
    read_weights,
    shapes_in,
    write_weights,
)
from albert_keras.config import AlbertConfig
from albert_keras.json_file import read_json, write_json
from albert_keras.layers import SOP_IN_ORDER
from albert_keras.model import build_albert, config_of
from albert_keras.new_folder import new_folder, refuse_existing
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.tokenizer_folder import find_vocabulary

FORMAT = 1
OURS = "albert_keras.json"
OURS_KEYS = {
    *("format", "library_version", "sharing", "head", "sop_in_order"),
    *("normalization", "vocabulary_sha256"),
}


def save_albert(
    model: tf.keras.Model,
    folder: str | Path,
    tokenizer: Tokenizer | None = None,
    labels: Sequence[str] | None = None,
    *,
    max_length: int | None = None,
    replace: bool = False,
) -> None:
    """Writes an encoder, a pretrainer or a task's model as a folder that Hugging Face can read.

    The folder appears when it is complete. Layers that share in a way their config cannot say
    are written as layers of their own, with equal copies.

    Args:
        model: of `build_albert`, `build_pretrainer`, `build_classifier`, `build_span_predictor`,
            `build_answerable_span_predictor` or `build_multiple_choice`. Hugging Face has no class
            for an answerable span predictor, and reads its encoder.
        folder: where to; it must not exist yet.
        tokenizer: saved with the model when given. Default None.
        labels: a classifier's label names, in the order of its logits.
        max_length: pieces of the longest row that the model was trained on. Fine-tuning starts
            from it, and an export cuts texts there. Default None, not known.
        replace: put it in the place of an earlier checkpoint folder. Default False.

    Raises:
        ValueError: the folder exists (with `replace`: and is no such checkpoint), a weight is NaN
            or infinite, the model has weights that the format has no name for, the labels do not
            fit the logits, or the tokenizer has more pieces than the model.

    Example:

    >>> save_albert(build_albert("tiny"), "my-albert")
    >>> model, tokenizer = load_albert("my-albert")
    """
    folder = Path(folder)
    if not (replace and (folder / OURS).is_file()):
        refuse_existing(folder)
    config, head = config_of(model), head_of(model, labels, max_length)
    fields = {**to_huggingface(config), **head_fields(head)}
    ours = {
        "format": FORMAT,
        "library_version": albert_keras.__version__,
        "sharing": config.to_dict()["sharing"],
        "head": head,
        # Of the model; the columns in the file are in Hugging Face's order, where 1 is "swapped".
        "sop_in_order": SOP_IN_ORDER,
        "normalization": None,
        "vocabulary_sha256": None,
    }
    if tokenizer is not None:
        check_size(tokenizer, config)
        if head.get("mask_id", tokenizer.mask_id) != tokenizer.mask_id:
            raise ValueError(
                "A pretrainer masks with its tokenizer's [MASK]. Received: `mask_id` "
                f"{head['mask_id']}, and a tokenizer whose [MASK] is {tokenizer.mask_id}. Build "
                "the pretrainer with mask_id=tokenizer.mask_id."
            )
        fields |= {
            "pad_token_id": tokenizer.pad_id,
            "bos_token_id": tokenizer.cls_id,
            "eos_token_id": tokenizer.sep_id,
        }
        ours |= {
            "normalization": _normalization(tokenizer),
            "vocabulary_sha256": tokenizer.sha256,
        }
    with new_folder(folder, replace=replace) as partial:
        write_json(partial / CONFIG, fields)
        write_json(partial / OURS, ours)
        prefix = "" if head["kind"] == "encoder" else "albert."
        write_weights(model, groups_for(config.sharing_pattern), prefix, partial / WEIGHTS)
        # safetensors makes the file private to this user.
        shutil.copymode(partial / CONFIG, partial / WEIGHTS)
        if tokenizer is not None:
            tokenizer.save(partial)


def load_albert(
    folder: str | Path,
    *,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
    output_all_layers: bool = False,
) -> tuple[tf.keras.Model, Tokenizer | None]:
    """The model that a folder holds, whichever it is, and its tokenizer if there is one.

    Args:
        folder: written by `save_albert`, or by Hugging Face's `save_pretrained`.
        allow_missing: patterns (as of a shell) of tensors that it may lack, such as
            "sop_classifier.*": those weights are drawn anew.
        allow_unused: patterns of tensors to leave out, such as "predictions.*": a head whose
            tensors are all left out is not built.
        output_all_layers: of the encoder, see `build_albert`. Default False.

    Warns:
        UserWarning: weights were drawn anew or tensors left out; it names them.

    Raises:
        ValueError: a file is missing, damaged or contradicts another; tensors are missing,
            unexpected, of another shape or not finite (all of them are listed); copies of a
            shared weight differ; or the vocabulary is not the one the model was saved with.

    Example:

    >>> save_albert(build_pretrainer(build_albert("tiny")), "my-pretrainer")
    >>> load_albert("my-pretrainer")[0].name
    'albert_pretrainer'
    """
    model, tokenizer, fit = read_folder(
        folder,
        allow_missing=allow_missing,
        allow_unused=allow_unused,
        output_all_layers=output_all_layers,
    )
    if fit.missing or fit.unused:
        new, left = (", ".join(names) or "nothing" for names in (fit.missing, fit.unused))
        warnings.warn(
            f"{folder} is not exactly the model. Drawn anew: {new}. Left out: {left}.", stacklevel=2
        )
    return model, tokenizer


def read_folder(
    folder: str | Path,
    *,
    allow_missing: Sequence[str] = (),
    allow_unused: Sequence[str] = (),
    output_all_layers: bool = False,
) -> tuple[tf.keras.Model, Tokenizer | None, Fit]:
    """As `load_albert`, with which tensors were missing or unused instead of a warning."""
    folder = Path(folder)
    fields, ours = _read(folder)
    config, groups = _config(folder, fields, ours)
    head = _head(folder, fields, ours, allow_unused)
    tokenizer = _read_tokenizer(folder, ours)
    if tokenizer is not None:
        check_size(tokenizer, config)
    if head["kind"] == "pretrainer" and tokenizer is not None:
        head = {"mask_id": tokenizer.mask_id, **head}  # which Hugging Face does not keep
    model = build_head(build_albert(config, output_all_layers=output_all_layers), head)
    if head["kind"] in WITHOUT_POOLER:
        # Their older files have the pooler, which does nothing for this head.
        allow_unused = [*allow_unused, "*pooler.*"]
    fit = read_weights(model, groups, folder / WEIGHTS, allow_missing, allow_unused)
    return model, tokenizer, fit


def is_folder(path: str | Path) -> bool:
    """Whether `path` looks like a checkpoint folder of this library or of Hugging Face."""
    return (Path(path) / CONFIG).is_file()


def load_config(folder: str | Path) -> AlbertConfig:
    """The config of the model that a folder holds, without its weights."""
    folder = Path(folder)
    return _config(folder, *_read(folder))[0]


def load_head(folder: str | Path, *, allow_unused: Sequence[str] = ()) -> dict[str, Any]:
    """What stands on the encoder in a folder: `kind` ("encoder", "pretrainer", "classifier",
    "span_predictor", "answerable_span_predictor" or "multiple_choice") and `max_length`, pieces of
    the longest row of training or None; of the last four `dropout`; of a classifier `labels`, in
    the order of its logits.

    Args:
        allow_unused: as `load_albert` was given it.
    """
    folder = Path(folder)
    return _head(folder, *_read(folder), allow_unused)


def _config(folder, fields, ours):
    """The config, and the groups in which its file is written."""
    config, groups = from_huggingface(fields, str(folder / CONFIG))
    if ours is not None:
        try:
            config = AlbertConfig.from_dict({**config.to_dict(), "sharing": ours["sharing"]})
        except ValueError as error:
            raise ValueError(f"{folder / OURS}: {error}") from error
    if config.embedding_size == config.hidden_size:
        projects = has_projection(folder / WEIGHTS, config.hidden_size)
        config = dataclasses.replace(config, always_project=projects)
    return config, groups


def _head(folder, fields, ours, allow_unused):
    if ours is not None and not allow_unused:
        return ours["head"]
    names = unmatched(shapes_in(folder / WEIGHTS), allow_unused)
    head = head_in_file(names, fields, str(folder / CONFIG))
    if ours is None:
        return head
    if head["kind"] == ours["head"]["kind"]:
        return ours["head"]
    return {**head, "max_length": ours["head"]["max_length"]}


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """`config.json`, and `albert_keras.json` if this library wrote the folder."""
    if not folder.is_dir():
        raise ValueError(f"A checkpoint is a folder. Received: {folder}, which is none.")
    if not (folder / CONFIG).is_file():
        raise ValueError(f"A checkpoint folder must hold {CONFIG}. Received: {folder} without it.")
    fields = read_json(folder / CONFIG)
    if not (folder / OURS).exists():
        return fields, None
    ours = read_json(folder / OURS)
    if ours.get("format") != FORMAT or set(ours) != OURS_KEYS:
        raise ValueError(
            f"{folder / OURS} must have format {FORMAT} and the keys {sorted(OURS_KEYS)}. "
            f"Received: format {ours.get('format')!r} and {sorted(ours)}. It may be from another "
            "version of this library."
        )
    check_head(ours["head"], str(folder / OURS))
    labels = ours["head"].get("labels")
    if labels is not None and labels != labels_in(fields, str(folder / CONFIG)):
        raise ValueError(
            f"{CONFIG} and {OURS} must name the same labels. Received: {folder} with "
            f"{labels_in(fields, str(folder / CONFIG))} and {labels}."
        )
    return fields, ours


def _read_tokenizer(folder: Path, ours: dict[str, Any] | None) -> Tokenizer | None:
    path = find_vocabulary(folder)
    tokenizer = Tokenizer.load(folder) if path else None
    if ours is None:
        return tokenizer
    if tokenizer and ours["normalization"] not in (None, _normalization(tokenizer)):
        raise ValueError(
            f"{folder / 'tokenizer_config.json'} and {OURS} must say the same. Received: "
            f"{_normalization(tokenizer)} and {ours['normalization']}."
        )
    found = tokenizer.sha256 if tokenizer else None
    if found != ours["vocabulary_sha256"]:
        raise ValueError(
            f"{path or folder} must be the vocabulary that the model was saved with. Received: "
            f"sha256 {found}, {OURS} has {ours['vocabulary_sha256']}. With other pieces the "
            "model's ids mean other words."
        )
    return tokenizer


def _normalization(tokenizer: Tokenizer) -> dict[str, bool]:
    return {"lowercase": tokenizer.lowercase, "keep_accents": tokenizer.keep_accents}


def check_size(tokenizer: Tokenizer, config: AlbertConfig) -> None:
    """Raises a `ValueError` for a tokenizer with more pieces than the model."""
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            "A tokenizer must not have more pieces than the model. Received: "
            f"{tokenizer.vocab_size} pieces, vocab_size {config.vocab_size}. They belong to "
            "different models."
        )
