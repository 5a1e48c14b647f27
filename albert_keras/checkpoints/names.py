"""Names: what a checkpoint format calls each weight of a model, and how it lies there.

A model is walked once, in `parts_of`; a format is a table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_keras.model import layers_of
from albert_keras.task_models import TASK_HEADS


class Layout(NamedTuple):
    """How an array of ours becomes one of theirs, and back."""

    to_file: Callable[[np.ndarray], np.ndarray]
    to_model: Callable[[np.ndarray], np.ndarray]


SAME = Layout(lambda x: x, lambda x: x)
# Our kernels are [in, out]; theirs, where transposed, [out, in]. Heads need no reordering.
TRANSPOSED = Layout(lambda x: x.T, lambda x: x.T)
# Label 1 is "swapped" in theirs and "in order" (SOP_IN_ORDER) in ours.
SOP_KERNEL = Layout(lambda x: x.T[::-1], lambda x: x[::-1].T)
SOP_BIAS = Layout(lambda x: x[::-1], lambda x: x[::-1])

# What follows a module's name, and how the weight lies there, in TensorFlow's files and in torch's.
TENSORFLOW_WEIGHTS = {
    "table": ("", SAME),
    "kernel": ("/kernel", SAME),
    "bias": ("/bias", SAME),
    "gamma": ("/gamma", SAME),
    "beta": ("/beta", SAME),
}
TORCH_WEIGHTS = {
    "table": (".weight", SAME),
    "kernel": (".weight", TRANSPOSED),
    "bias": (".bias", SAME),
    "gamma": (".weight", SAME),
    "beta": (".bias", SAME),
}


class HeadLayouts(NamedTuple):
    """Layouts of an attention in files that give the heads an axis of their own."""

    kernel: Layout  # of query, key and value
    bias: Layout
    output_kernel: Layout


def head_layouts(hidden_size: int, num_heads: int) -> HeadLayouts:
    """The layouts for these sizes.

    >>> [layout.to_file(np.zeros(shape)).shape
    ...  for layout, shape in zip(head_layouts(6, 2), [(6, 6), (6,), (6, 6)])]
    [(6, 2, 3), (2, 3), (2, 3, 6)]
    """
    square = (hidden_size, hidden_size)
    return HeadLayouts(
        Layout(lambda x: x.reshape(hidden_size, num_heads, -1), lambda x: x.reshape(square)),
        Layout(lambda x: x.reshape(num_heads, -1), lambda x: x.reshape(hidden_size)),
        Layout(lambda x: x.reshape(num_heads, -1, hidden_size), lambda x: x.reshape(square)),
    )


class Part(NamedTuple):
    """A variable of the model by its place: the module, the weight in it, and of which layer."""

    module: str
    weight: str
    layer: int | None
    variable: tf.Variable


class Tensor(NamedTuple):
    """A tensor of the file and the variable whose values it holds."""

    name: str
    variable: tf.Variable
    layout: Layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape in the file."""
        return self.layout.to_file(np.broadcast_to(np.float32(0), tuple(self.variable.shape))).shape


class Names(NamedTuple):
    """The table of a format.

    Args:
        modules: `{our module: their name}`; "{layer}" stands for the name of a single layer, and
            other fields may be given to `tensors_of`.
        weights: `{our weight: (what follows the module's name, layout)}`.
        exceptions: `{"module/weight": (their whole name, layout)}`.
    """

    modules: Mapping[str, str]
    weights: Mapping[str, tuple[str, Layout]]
    exceptions: Mapping[str, tuple[str, Layout]]

    def tensors_of(
        self, model: tf.keras.Model, layers: Sequence[str], **fields: str
    ) -> list[Tensor]:
        """Every tensor of the model's file, each name once.

        Where their layers cannot say what shares, several names lead to one variable.

        Args:
            model: an encoder, or one built around it.
            layers: the name of each single layer, first to last; equal where the file shares.
            fields: for the names of the modules.

        Raises:
            ValueError: one name for several weights, as where `layers` has one for layers that do
                not share.
        """
        tensors: dict[str, Tensor] = {}
        contradictions = []
        for part in parts_of(model):
            key = f"{part.module}/{part.weight}"
            if key in self.exceptions:
                name, layout = self.exceptions[key]
            else:
                suffix, layout = self.weights[part.weight]
                name = self.modules[part.module] + suffix
            layer = None if part.layer is None else layers[part.layer]
            name = name.format(layer=layer, **fields)
            tensor = tensors.setdefault(name, Tensor(name, part.variable, layout))
            if tensor.variable is not part.variable:
                contradictions.append(name)
        if contradictions:
            raise ValueError(
                "A tensor of the file must be one weight of the model. Received: several weights "
                f"for {', '.join(dict.fromkeys(contradictions))}. The sharing and the layer groups "
                "contradict each other, or the model has two heads of one name."
            )
        return list(tensors.values())


def parts_of(model: tf.keras.Model) -> Iterator[Part]:
    """Every weight of the model; a shared one once for each layer that uses it."""
    layers = layers_of(model)
    embeddings, stack = layers["embeddings"], layers["encoder"]
    for table in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
        yield Part(table, "table", None, getattr(embeddings, table))
    yield from _norm("embeddings_norm", embeddings.layer_norm)
    if embeddings.embedding_hidden_mapping_in is not None:
        yield from _dense("projection", embeddings.embedding_hidden_mapping_in)
    blocks = zip(stack.attention_pattern, stack.ffn_pattern, strict=True)
    for layer, (attention_block, ffn_block) in enumerate(blocks):
        attention, ffn = stack.attention_blocks[attention_block], stack.ffn_blocks[ffn_block]
        for projection in ("query", "key", "value"):
            yield from _dense(projection, getattr(attention, projection), layer)
        yield from _dense("attention_output", attention.dense, layer)
        yield from _norm("attention_norm", attention.layer_norm, layer)
        yield from _dense("intermediate", ffn.intermediate, layer)
        yield from _dense("ffn_output", ffn.output_dense, layer)
        yield from _norm("ffn_norm", ffn.layer_norm, layer)
    if "pooler" in layers:
        yield from _dense("pooler", layers["pooler"].dense)
    if "masked_lm" in layers:
        head = layers["masked_lm"]
        yield from _dense("masked_lm_dense", head.dense)
        yield from _norm("masked_lm_norm", head.layer_norm)
        yield Part("masked_lm", "bias", None, head.output_bias)
    if "sop" in layers:
        # By what it was trained for: no other head of two columns is taken for it.
        yield from _dense(layers["sop"].objective, layers["sop"].dense)
    for head in TASK_HEADS:
        if head == "answerable_span_predictor" and head in layers:
            yield from _answerable_spans(layers[head])
        elif head in layers:
            yield from _dense(head, layers[head])


def _answerable_spans(head):
    yield from _dense("answer_start", head.start_score)
    yield from _dense("answer_end_dense", head.end_dense)
    yield from _norm("answer_end_norm", head.end_norm)
    yield from _dense("answer_end", head.end_score)
    yield from _dense("answerability_dense", head.answer_dense)
    yield Part("answerability", "kernel", None, head.answer_score.kernel)


def _dense(module, layer, index=None):
    yield Part(module, "kernel", index, layer.kernel)
    yield Part(module, "bias", index, layer.bias)


def _norm(module, layer, index=None):
    yield Part(module, "gamma", index, layer.gamma)
    yield Part(module, "beta", index, layer.beta)
