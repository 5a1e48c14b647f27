"""export_saved_model: a SavedModel that takes raw strings and answers them."""

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

import albert_keras
from albert_keras.json_file import write_json
from albert_keras.model import config_of, layers_of
from albert_keras.new_folder import new_folder, refuse_existing
from albert_keras.text.tokenizer import Tokenizer

from .answering import answering
from .choosing import choosing
from .embedding import embedding
from .labels import classifier, regression
from .pretrained import pretrained
from .self_check import check_export
from .serving import Serving, byte_limit
from .warm_up import write_warm_up

KERAS = "keras" if hasattr(tf.keras, "ops") else "tf_keras"  # tf.keras is one or the other
# A row of a question and a context has three special pieces, and two or more others.
_SHORTEST = 5


def export_saved_model(
    model: tf.keras.Model,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    labels: Sequence[str] | None = None,
    pair: bool = False,
    null_threshold: float = 0.0,
    version: int = 1,
    max_length: int | None = None,
) -> Path:
    """Writes `folder/version/`, a SavedModel that TensorFlow Serving can load, and proves it.

    Tokenizing, truncating, windows and padding happen in the graph, so a client sends text and
    there is nothing that could differ from training. Before the folder appears, processes without
    this library and without the model answer with it and must agree with the Keras model.

    What it answers depends on the model; the modules say it in detail:

        build_classifier          `labels`: a label for a text, or of one output a number
        build_span_predictor, build_answerable_span_predictor
                                  `answering`: the answer to a question in a context
        build_multiple_choice     `choosing`: the option that answers a question
        build_albert              `embedding`: vectors
        build_pretrainer          `pretrained`: words for `[MASK]`, and the order of two texts

    Every batch size B is answered, 0 included. What is not UTF-8 in a text becomes U+FFFD. A row
    holds at most `max_length` pieces, and rows are computed sorted by length, padded to multiples
    of 16, a slice at a time; what stands beside a text in a batch changes its answer by rounding
    alone (1e-5).

    Args:
        model: of one of the builders above.
        tokenizer: the one the model was trained with.
        folder: of the model's versions; made when missing.
        labels: of a classifier, C names in the order of the logits. Default None.
        pair: whether a classifier, a regression or an encoder takes two texts. Default False.
        null_threshold: of the head of SQuAD 2.0, the null score above which there is no answer.
        version: int > 0, the subfolder, which must not exist yet. Default 1.
        max_length: int, longest row in pieces; None (default) for as many as the model has
            positions.

    Returns:
        The version's folder.

    Raises:
        ValueError: the folder exists; labels, tokenizer or `max_length` do not fit the model; or
            the model does not compute in float32.
        RuntimeError: the self-check failed; the message says how, and nothing is written.

    Example:

    >>> export_saved_model(classifier, tokenizer, "served/mail", labels=["ham", "spam"])
    PosixPath('served/mail/1')
    """
    if type(version) is not int or version < 1:
        raise ValueError(f"`version` must be a whole number from 1 on. Received: {version!r}.")
    target = Path(folder) / str(version)
    refuse_existing(target)
    max_length = checked_length(model, tokenizer, max_length)
    serving = _serving_of(model, tokenizer, max_length, labels, pair, null_threshold)
    exported = _Exported(model, tokenizer, serving)
    with new_folder(target) as partial:
        tf.saved_model.save(exported, str(partial), signatures=exported.functions)
        try:
            report = check_export(partial, [*serving.questions, *serving.warm_up])
        except RuntimeError as error:
            raise RuntimeError(
                f"The export failed its self-check, so {target} was not written:\n{error}"
            ) from error
        (partial / "assets.extra").mkdir(exist_ok=True)
        metadata = {
            "kind": serving.kind,
            **serving.metadata,
            "max_length": max_length,
            "byte_limit": byte_limit(max_length),
            "signatures": exported.described(),
            "vocabulary_sha256": tokenizer.sha256,
            "lowercase": tokenizer.lowercase,
            "keep_accents": tokenizer.keep_accents,
            "config": config_of(model).to_dict(),
            "versions": versions(),
            "self_check": report,
        }
        write_json(partial / "assets.extra" / "metadata.json", metadata)
        write_warm_up(partial, serving.warm_up)
    return target


class _Exported(tf.Module):
    """The functions from raw strings, and the variables and the vocabulary that they need."""

    def __init__(self, model: tf.keras.Model, tokenizer: Tokenizer, serving: Serving):
        super().__init__()
        self.weights = raw_variables(model)
        self.tokenizer = tokenizer
        # Not to be compiled: TensorFlow Serving refuses to run a function that must be.
        self.functions = {
            name: tf.function(function, input_signature=specs, jit_compile=False)
            for name, (function, specs) in serving.signatures.items()
        }

    def described(self) -> dict[str, Any]:
        """Dtype and shape of each signature's inputs and outputs; null is any size."""
        signatures = {}
        for name, function in self.functions.items():
            concrete = function.get_concrete_function()
            inputs = function.input_signature
            signatures[name] = {
                "inputs": {spec.name: dtype_and_shape(spec) for spec in inputs},
                "outputs": {
                    output: dtype_and_shape(spec)
                    for output, spec in concrete.structured_outputs.items()
                },
            }
        return signatures


def raw_variables(model: tf.keras.Model) -> list[tf.Variable]:
    """The model's weights as plain variables.

    A SavedModel that holds the variables of Keras 3 themselves, or a model of Keras 3, loads and
    then fails at the first request in any loader that runs the graph's own restore op.
    """
    return [v.value if hasattr(tf.keras, "ops") else v for v in model.weights]


def dtype_and_shape(spec: tf.TensorSpec) -> list:
    """What metadata.json says of an input or output; null is any size."""
    return [spec.dtype.name, spec.shape.as_list()]


def versions() -> dict[str, str]:
    """Of what a model is exported with."""
    return {
        "albert_keras": albert_keras.__version__,
        "tensorflow": tf.__version__,
        "tensorflow_text": importlib.metadata.version("tensorflow-text"),
        KERAS: importlib.metadata.version(KERAS),
    }


def _serving_of(model, tokenizer, max_length, labels, pair, null_threshold) -> Serving:
    """Of the model's kind; raises ValueError for what does not belong to that."""
    layers = layers_of(model)
    outputs = set(model.output) if isinstance(model.output, dict) else set()
    is_classifier = "classifier" in layers and outputs == {"logits"}
    size = layers["classifier"].units if is_classifier else 1
    if (labels is not None) != (size > 1):
        raise ValueError(
            "`labels` belong to a classifier of two or more logits, which needs them. Received: "
            f"{labels if labels is None else list(labels)} with a model of the outputs "
            f"{', '.join(sorted(outputs)) or model.output}, {size} of them."
        )
    if labels is not None:
        labels = list(labels)
        if len(labels) != size or len(set(labels)) != size or not all(labels):
            raise ValueError(
                f"`labels` must be {size} different names, one for each logit. Received: {labels}."
            )
    takes_pairs = is_classifier or outputs == {"sequence_output", "pooled_output"}
    if pair and not takes_pairs:
        raise ValueError(
            "`pair` is for classifiers, regressions and encoders; others know how many texts they "
            f"take. Received: pair={pair} with a model of the outputs {', '.join(sorted(outputs))}."
        )
    if is_classifier and labels is not None:
        return classifier(model, tokenizer, max_length, labels, pair)
    if is_classifier:
        return regression(model, tokenizer, max_length, pair)
    if "answerable_span_predictor" in layers or outputs == {"start_logits", "end_logits"}:
        return answering(model, tokenizer, max_length, null_threshold=null_threshold)
    if "multiple_choice" in layers and outputs == {"logits"}:
        return choosing(model, tokenizer, max_length)
    if outputs == {"mlm_logits", "sop_logits"}:
        return pretrained(model, tokenizer, max_length)
    if takes_pairs:
        return embedding(model, tokenizer, max_length, pair)
    raise ValueError(
        "An exported model must be one of build_albert, build_pretrainer or a builder of "
        f"task_models. Received: {model.name} with the outputs "
        f"{', '.join(sorted(outputs)) or model.output}."
    )


def checked_length(model, tokenizer, max_length: int | None) -> int:
    """The longest row; raises ValueError for what does not fit the model."""
    config = config_of(model)
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            "A tokenizer must not have more pieces than the model. Received: "
            f"{tokenizer.vocab_size} pieces, vocab_size {config.vocab_size}."
        )
    computes_in = layers_of(model)["encoder"].compute_dtype
    if computes_in != "float32":
        raise ValueError(
            "An export computes in float32, so that it can be compared with the model; TensorFlow "
            f"Serving can lower that by itself. Received: a model that computes in {computes_in}. "
            "Save it with save_albert and load it under the float32 policy."
        )
    positions = config.max_position_embeddings
    if max_length is None:
        return positions
    if not _SHORTEST <= max_length <= positions:
        raise ValueError(
            f"`max_length` must lie between {_SHORTEST} and the model's {positions} positions. "
            f"Received: {max_length}."
        )
    return max_length
