"""compute_rows: rows of any lengths through a model, a slice of similar length at a time."""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from albert_keras.text.packing import Rows, pad_rows

# Padded positions in a slice, or one row if that is longer. Fewer make the products of matrices
# small, more bring rows of different lengths together and padding with them. ALBERT-base, 32 texts
# of 10 to 200 words on two cores (EPYC, AVX-512), seconds: 1.89 with 384, 1.76 with 512, 1.84 with
# 1,024 (`python -m benchmarks.serving`).
POSITIONS = 512

Outputs = dict[str, tf.Tensor]


def compute_rows(
    function: Callable[[Outputs], Outputs],
    rows: Rows,
    max_length: int,
    beside: Mapping[str, tf.Tensor] | None = None,
    by_position: Sequence[str] = (),
) -> Outputs:
    """Computes rows in graph, sorted by length and sliced, and gives the results in their order.

    A batch of texts as they come is half padding when every row is as wide as the longest, and as
    large as whoever asks makes it. So the work follows the pieces that there are, and the memory
    of the model's inside is that of one slice.

    Args:
        function: takes a slice's inputs, those of `pad_rows` and `beside`, and gives tensors whose
            first axis are its rows. Called once, with symbolic tensors.
        rows: R of them, 0 included, each of at most `max_length` pieces.
        max_length: int > 0.
        beside: further inputs, `(R, ...)`. Default None.
        by_position: which of the outputs are `(n, S, ...)`, S being the slice's width: they come
            padded with 0 to the width of the longest row.

    Returns:
        The function's outputs, `(R, ...)`.
    """
    beside = dict(beside or {})
    lengths = tf.cast(rows.token_ids.row_lengths(), tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    total = tf.shape(order)[0]
    widest = tf.shape(pad_rows(_taken(rows, order[:1]), max_length)["token_ids"])[1]
    integers = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(function, jit_compile=False).get_concrete_function(
        {name: integers for name in ("token_ids", "segment_ids", "padding_mask")}
        | {
            name: tf.TensorSpec([None, *value.shape[1:]], value.dtype, name=name)
            for name, value in beside.items()
        }
    )
    shapes = {name: output.shape for name, output in graph.structured_outputs.items()}

    def end_of(start):
        width = tf.maximum(tf.reduce_max(tf.gather(lengths, order[start : start + 1])), 1)
        return start + tf.maximum(POSITIONS // width, 1)

    def more(start, index, *_):
        # A batch without rows is computed as well: its outputs have shapes too.
        return (start < total) | (index == 0)

    # Counted first: arrays that grow need an attribute that servers before 2.13 do not know.
    _, slices = tf.while_loop(more, lambda start, index: (end_of(start), index + 1), (0, 0))
    arrays = {
        name: tf.TensorArray(output.dtype, slices, infer_shape=False, element_shape=shapes[name])
        for name, output in graph.structured_outputs.items()
    }

    def step(start, index, arrays):
        end = end_of(start)
        some = order[start:end]
        inputs = pad_rows(_taken(rows, some), max_length)
        inputs |= {name: tf.gather(value, some) for name, value in beside.items()}
        outputs = graph(inputs)
        for name in by_position:
            outputs[name] = _widened(outputs[name], widest)
        return end, index + 1, {name: arrays[name].write(index, outputs[name]) for name in arrays}

    _, _, arrays = tf.while_loop(more, step, (0, 0, arrays), parallel_iterations=1)
    back = tf.argsort(order)
    return {name: tf.gather(array.concat(), back) for name, array in arrays.items()}


def _taken(rows, some):
    return Rows(tf.gather(rows.token_ids, some), tf.gather(rows.second_starts, some))


def _widened(output, width):
    missing = width - tf.shape(output)[1]
    return tf.pad(output, [[0, 0], [0, missing], *[[0, 0]] * (len(output.shape) - 2)])
