"""ALBERT's arithmetic in a few lines of NumPy, float64: what the layers are compared with."""

import math

import numpy as np


def layer_norm(x, gamma, beta, epsilon=1e-12):
    mean = x.mean(-1, keepdims=True)
    return gamma * (x - mean) / np.sqrt(x.var(-1, keepdims=True) + epsilon) + beta


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(x, padding_mask, weights, num_heads):
    """One head at a time, one row at a time."""
    query, key, value = (
        x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]
        for name in ("query", "key", "value")
    )
    size = x.shape[-1] // num_heads
    context = np.zeros_like(x)
    for row in range(len(x)):
        for head in range(num_heads):
            part = slice(head * size, (head + 1) * size)
            scores = query[row, :, part] @ key[row, :, part].T / math.sqrt(size)
            scores = scores - 10000.0 * (1 - padding_mask[row])
            context[row, :, part] = softmax(scores) @ value[row, :, part]
    output = context @ weights["dense/kernel"] + weights["dense/bias"]
    return layer_norm(x + output, weights["LayerNorm/gamma"], weights["LayerNorm/beta"])


def feed_forward(x, weights, activation=gelu_tanh):
    inner = activation(x @ weights["intermediate/kernel"] + weights["intermediate/bias"])
    output = inner @ weights["output_dense/kernel"] + weights["output_dense/bias"]
    return layer_norm(x + output, weights["LayerNorm/gamma"], weights["LayerNorm/beta"])


def log_softmax(x):
    return np.log(softmax(x))
