"""export_edge: a folder for a device, proven by running it; load_edge: running it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from albert_keras.checkpoints.head import head_of
from albert_keras.json_file import read_json, write_json
from albert_keras.model import config_of, layers_of
from albert_keras.new_folder import new_folder, refuse_existing
from albert_keras.tasks.task_names import NUMBER
from albert_keras.text.tokenizer import Tokenizer

from ..saved_model import checked_length, dtype_and_shape, raw_variables, versions
from .accuracy import check_accuracy, check_batches
from .model_function import Run, model_function


class Format(NamedTuple):
    """How a model is kept, and what that may cost.

    Attributes:
        file: str, the name of the file.
        weight_bytes: int, of a number in a matrix.
        tolerance, agreement: as of `check_accuracy`.
    """

    file: str
    weight_bytes: int
    tolerance: float
    agreement: float


# Measured, the largest difference of any output: 8 bits 0.011 of its largest value in a trained
# classifier, 0.035 in ALBERT-base with random weights of 0.02 and 0.057 with such of 0.05; 16 bits
# 0.002; float32 1e-6. No clear label changed anywhere.
FORMATS = {
    "litert-int8": Format("model.tflite", 1, tolerance=0.1, agreement=0.95),
    "litert-fp16": Format("model.tflite", 2, tolerance=0.01, agreement=1.0),
    "onnx": Format("model.onnx", 4, tolerance=1e-4, agreement=1.0),
    "onnx-int8": Format("model.onnx", 1, tolerance=0.1, agreement=0.95),
}
METADATA = "metadata.json"
# By the kind of a checkpoint, what the export of one answers; as of a served folder.
_KINDS = {
    "encoder": "embed",
    "classifier": "classify",
    "span_predictor": "answer",
    "answerable_span_predictor": "answer",
    "multiple_choice": "choose",
}
# What a file has beside its weights: this for the ops of a layer, and as much for the others.
_GRAPH_BYTES = 60_000


def export_edge(
    model: tf.keras.Model,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    format: str = "litert-int8",
    labels: Sequence[str] | None = None,
    pair: bool = False,
    max_length: int | None = None,
) -> Path:
    """Writes a model for a device, with what a program there needs to answer a text.

        model.tflite or model.onnx       the encoder with its head: integers to scores
        spiece.model                     the vocabulary, for the sentencepiece library
        tokenizer_config.json            what is said of it to Hugging Face
        metadata.json                    labels, inputs, outputs, sizes, what was checked

    The formats:

        litert-int8   LiteRT (TensorFlow Lite), matrices and tables in 8 bits, and what is
                      multiplied with them rounded to 8 bits at run time
        litert-fp16   LiteRT, weights in 16 bits
        onnx          ONNX, float32
        onnx-int8     ONNX, as litert-int8

    Inputs and outputs are those of the model, by name; batch and length are open, from one row of
    5 pieces on. Layers that share weights share them in the file. Text becomes a row as in
    `examples/edge_classify.py`; windows over a long context are left to the program.

    Before the folder appears the file is run by the device's own library, on texts in many
    languages, alone and in batches, and compared with the model.

    Args:
        model: of `build_albert` or a builder of `task_models`.
        tokenizer: the one the model was trained with.
        folder: must not exist yet.
        format: a name of `FORMATS`. Default "litert-int8".
        labels: of a classifier, C names in the order of the logits. Default None.
        pair: whether a classifier, a regression or an encoder takes two texts. Default False.
        max_length: int, longest row in pieces; None (default) for as many as the model has
            positions.

    Returns:
        The folder.

    Raises:
        ImportError: the extra `edge` is not installed.
        ValueError: an unknown format, a folder that exists, a model of another kind, or labels,
            tokenizer or `max_length` that do not fit it.
        RuntimeError: the file answers too differently, cannot be run, or is larger than its
            weights; the message says how, and nothing is written.

    Example:

    >>> export_edge(classifier, tokenizer, "phone/mail", labels=["ham", "spam"])
    PosixPath('phone/mail')
    """
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}.")
    target = Path(folder)
    refuse_existing(target)
    max_length = checked_length(model, tokenizer, max_length)
    kind = _kind_of(model, labels)
    if pair and kind not in ("classify", "regress", "embed"):
        raise ValueError(
            "`pair` is for classifiers, regressions and encoders; others know how many texts they "
            f"take. Received: pair={pair} with a model of the kind {kind}."
        )
    chosen, function = FORMATS[format], model_function(model)
    content = _converted(model, function, format)
    _check_size(model, len(content), chosen.weight_bytes)
    with new_folder(target) as partial:
        (partial / chosen.file).write_bytes(content)
        tokenizer.save(partial)
        takes_pairs = pair or kind in ("answer", "choose")
        batches = check_batches(model, tokenizer, max_length, takes_pairs)
        try:
            accuracy = check_accuracy(
                *(model, _loaded(partial / chosen.file), batches),
                *(chosen.tolerance, chosen.agreement),
            )
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(
                f"The {format} file does not answer as the model, so {target} was not written. "
                f"Another format may.\n{error}"
            ) from error
        concrete = function.get_concrete_function()
        metadata = {
            "kind": kind,
            "format": format,
            "file": chosen.file,
            "labels": None if labels is None else list(labels),
            "pair": pair,
            "max_length": max_length,
            "inputs": {spec.name: dtype_and_shape(spec) for spec in function.input_signature},
            "outputs": {
                name: dtype_and_shape(spec) for name, spec in concrete.structured_outputs.items()
            },
            "vocabulary": tokenizer.file_name,
            "vocabulary_sha256": tokenizer.sha256,
            "lowercase": tokenizer.lowercase,
            "keep_accents": tokenizer.keep_accents,
            "cls_id": tokenizer.cls_id,
            "sep_id": tokenizer.sep_id,
            "parameters": model.count_params(),
            "bytes": {path.name: path.stat().st_size for path in sorted(partial.iterdir())},
            "accuracy": accuracy,
            "config": config_of(model).to_dict(),
            "versions": versions(),
        }
        write_json(partial / METADATA, metadata)
    return target


def load_edge(folder: str | Path, threads: int | None = None) -> tuple[Run, dict[str, Any]]:
    """A function that runs the model of `export_edge`, and its metadata.

    Args:
        folder: of `export_edge`.
        threads: int > 0; None (default) for what the runtime takes by itself.

    Returns:
        The function takes and gives NumPy arrays by name; inputs are int32.

    Raises:
        ImportError: the extra `edge` is not installed.
        ValueError: it is no such folder, or a file in it is damaged.

    Example:

    >>> run, metadata = load_edge("phone/mail")
    >>> ids = np.array([[2, 17, 45, 3]], np.int32)
    >>> run({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1})["logits"]
    array([[ 1.21, -0.87]], dtype=float32)
    """
    metadata = read_json(Path(folder) / METADATA, keys=["format", "file"])
    return _loaded(Path(folder) / metadata["file"], threads), metadata


def _kind_of(model, labels) -> str:
    layers = layers_of(model)
    is_number = "classifier" in layers and layers["classifier"].units == 1
    if is_number and labels is not None:
        raise ValueError(f"A regression has no `labels`. Received: {list(labels)}.")
    kind = head_of(model, [NUMBER] if is_number else labels, None)["kind"]
    if kind not in _KINDS:
        # Its table is also the matrix of the words' scores, which converters copy, transposed.
        raise ValueError(
            f"A model for a device is one of {', '.join(_KINDS)}. Received: a {kind}, which would "
            "have its vocabulary in the file twice. Export the encoder in it, encoder_of(model)."
        )
    if "layer_outputs" in model.output:
        raise ValueError(
            "A model for a device has outputs that are one array each. Received: an encoder with "
            "`layer_outputs`. Build it without output_all_layers."
        )
    return "regress" if is_number else _KINDS[kind]


def _converted(model, function, format) -> bytes:
    # Each library when it is needed: whoever converts to one need not have the other.
    if format.startswith("litert"):
        from .litert import to_litert

        return to_litert(function, raw_variables(model), format.removeprefix("litert-"))
    from .onnx_file import to_onnx, with_int8_weights

    content = to_onnx(function)
    return with_int8_weights(content) if format == "onnx-int8" else content


def _loaded(path: Path, threads: int | None = None) -> Run:
    if path.suffix == ".tflite":
        from .litert import load_litert as load
    else:
        from .onnx_file import load_onnx as load
    try:
        return load(path, threads)
    except Exception as error:  # any: each runtime has errors of its own
        raise ValueError(
            f"{path} cannot be loaded: {error}. It is damaged or cut off; export the model again."
        ) from error


def _check_size(model, size: int, weight_bytes: int) -> None:
    """Raises RuntimeError for a file in which layers have copies of the weights that they share."""
    layers = config_of(model).num_hidden_layers
    expected = weight_bytes * model.count_params()
    limit = 1.1 * expected + _GRAPH_BYTES * (layers + 1)
    if size > limit:
        raise RuntimeError(
            f"The file would have {size:,} bytes, and {model.count_params():,} parameters should "
            f"take {expected:,}: the converter has copied weights that layers share. Nothing was "
            "written."
        )
