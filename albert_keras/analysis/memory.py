"""Memory of a training step and of an answer, in bytes, from the numbers of a configuration.

What a layer keeps for its gradient is known from the code of `layers/`: one kernel each for GELU,
LayerNorm and softmax, so nothing that lies between, and of attention one number a query instead of
its probabilities. A step is as large as its largest moment: the backward pass at its first or its
last layer, or the update.

The order in which TensorFlow computes what is ready, and so what is there at once, was learnt from
traces of steps on a CPU. With dropout nothing was measured.
"""

from albert_keras.analysis.parameters import parameters_of
from albert_keras.analysis.setting import Setting
from albert_keras.config import AlbertConfig

PEAK = "peak"
# TensorFlow's allocator hands out up to twice what it is asked for. Measured with oneDNN's on a
# CPU, over weights that have been updated too: 4 to 20 % more than the tensors have; of an answer,
# whose weights are as they were made, 5 to 25 % of the rest.
_ROUNDING, _ANSWER_ROUNDING = 0.1, 0.15
_FLOAT32 = 4


def training_memory(config: AlbertConfig, setting: Setting) -> dict[str, int]:
    """Bytes of a step of pretraining with LAMB or AdamW on one device.

    Returns:
        weights, both moments and whole gradients; "activations" that wait for the backward pass;
        "logits", the gradient of those of the masked positions; "weights as read", joined or cast;
        "one layer at work", what its gradient needs for a moment; "backward pass" and
        "update", the most that each takes beside weights and moments; "rounding" by the allocator;
        and the peak, of all of it.
    """
    size = _bytes(setting)
    parameters = parameters_of(config)
    weights = _FLOAT32 * sum(parameters.values())
    table = config.vocab_size * config.embedding_size
    depth = config.num_hidden_layers
    # Of each half a block's gradient, in the type of the layers, and how many blocks there are.
    halves = zip(("attention", "feed-forward"), config.sharing_pattern, strict=True)
    halves = [(size * parameters[part] // (max(half) + 1), max(half) + 1) for part, half in halves]
    one_block = sum(block for block, _ in halves)

    rows = setting.pieces * config.hidden_size * size
    layer = _kept_by_a_layer(config, setting)
    layers = depth * (rows if setting.recompute else layer)
    embeddings = 3 * _FLOAT32 * setting.pieces * config.embedding_size + rows
    logits = setting.batch * setting.masked * config.vocab_size * size
    read = _weights_as_read(config, setting)
    inner = setting.pieces * config.intermediate_size * size
    scores = setting.batch * config.num_attention_heads * setting.length**2 * size
    # Two of its width in the gradient of GELU; scores, probabilities and the gradients of both in
    # that of attention.
    ffn, attention = 2 * inner, 4 * scores
    if setting.recompute:
        # All that the layer keeps is there, but for what its second half has done with. Gradients
        # of its weights stand beside the sums that they will be added to.
        ffn, attention = layer + ffn + one_block, layer - 2 * inner + attention + 2 * one_block
    work = max(ffn, attention) + 2 * rows
    # In 16 bits the table's gradient is there in both types.
    table_gradient = table * (_FLOAT32 if size == _FLOAT32 else _FLOAT32 + size)

    first = layers + embeddings + logits + read + work + table_gradient
    # At the last layer what layers kept has gone. Instead there is each layer's share of the
    # gradients: those of weights that are shared wait for one another, and for their sum.
    shares = sum(block * (depth + (count if count < depth else 0)) for block, count in halves)
    backward = first + (0 if setting.recompute else max(0, shares - layers))
    # New weights and moments of one variable at a time; the largest is a table or a block's kernel.
    largest = max(table, config.hidden_size * config.intermediate_size)
    update = weights + 3 * _FLOAT32 * largest
    whole = 3 * weights + max(backward, update)
    return {
        "weights": weights,
        "moments": 2 * weights,
        "gradients": weights,
        "activations": layers + embeddings,
        "logits": logits,
        "weights as read": read,
        "one layer at work": work,
        "backward pass": backward,
        "update": update,
        "rounding": round(_ROUNDING * whole),
        PEAK: round((1 + _ROUNDING) * whole),
    }


def inference_memory(config: AlbertConfig, setting: Setting) -> dict[str, int]:
    """Bytes of an encoder's answer to a batch: its weights, as they are and as read, the largest
    moment of a layer, the rounding of what is not weights, and the peak."""
    size, pieces = _bytes(setting), setting.pieces
    parameters = parameters_of(config)
    heads = parameters["masked-word head"] + parameters["pair head"]
    weights = _FLOAT32 * (sum(parameters.values()) - heads)
    rows = pieces * config.hidden_size * size
    scores = setting.batch * config.num_attention_heads * setting.length**2
    attention = scores * (_FLOAT32 if size == _FLOAT32 else _FLOAT32 + size) + 5 * rows
    # GELU's steps, in float32: its input and one or two more.
    steps = 1 if config.hidden_act == "relu" else 2 if size == _FLOAT32 else 3
    ffn = pieces * config.intermediate_size * steps * _FLOAT32 + rows
    read, work = _weights_as_read(config, setting, table=False), max(attention, ffn)
    return {
        "weights": weights,
        "weights as read": read,
        "one layer at work": work,
        "rounding": round(_ANSWER_ROUNDING * (read + work)),
        PEAK: weights + round((1 + _ANSWER_ROUNDING) * (read + work)),
    }


def _bytes(setting):
    return _FLOAT32 if setting.policy == "float32" else 2


def _kept_by_a_layer(config, setting):
    """What waits for the backward pass of one layer."""
    size, hidden = _bytes(setting), config.hidden_size
    # Its input; query, key and value; the heads' outputs side by side; the outputs of both halves,
    # before their LayerNorm; what stands between the halves.
    a_piece = (8 * hidden + 2 * config.intermediate_size) * size
    # The context, by head, is kept in float32 for the mean of a query's gradients.
    a_piece += hidden * _FLOAT32
    dropped = size + 1  # the output, and a mask of bytes
    if config.hidden_dropout_prob:
        a_piece += 2 * hidden * dropped
    queries = setting.pieces * config.num_attention_heads
    if config.attention_probs_dropout_prob:
        attention = queries * setting.length * (size + dropped)
    else:
        attention = queries * _FLOAT32
    return setting.pieces * a_piece + attention


def _weights_as_read(config, setting, table=True):
    """Kernels of query, key and value side by side; in 16 bits every kernel is cast."""
    parts = parameters_of(config)
    blocks = max(config.sharing_pattern.attention) + 1
    joined = blocks * 3 * config.hidden_size**2
    if setting.policy == "float32":
        return _FLOAT32 * joined
    cast = blocks * config.hidden_size**2 + parts["feed-forward"]
    return 2 * (joined + cast + (parts["token table"] if table else 0))
