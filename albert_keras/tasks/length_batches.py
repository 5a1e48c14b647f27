"""length_batches: batches of rows that are about as long, and the model's answers in input order.

Attention and everything else is computed for padding as well, so a batch costs what its longest row
costs. Sorting all rows by length would spare the most and train badly; here only pools of some
batches are sorted, which the stream of the epoch's permutation is cut into.
"""

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf

from albert_keras.tasks.encoded_rows import EncodedRows
from albert_keras.text.packing import Rows, pad_rows

# With 32 rows in a batch, 2,048 in a pool.
POOL_BATCHES = 64

NO_CHOICE = -1

# Each kind of draw has its own stream of keys.
_EPOCHS, _POOLS = range(2)


def length_batches(
    rows: EncodedRows,
    *,
    batch_size: int,
    max_length: int,
    multiple: int = 16,
    seed: int = 0,
    pool_batches: int = POOL_BATCHES,
) -> Callable[[int], tf.data.Dataset]:
    """A function that gives the training batches from any step on, endless, for `train`.

    Which examples a step has is computed from (seed, step); see `BatchOrder`. So `batches_from(k)`
    gives exactly what follows the first k batches of `batches_from(0)`, and reads nothing twice.

    Args:
        rows: to train on. They may be mapped from a file; only a batch of them is read at a time.
        batch_size: int > 0, B, in examples.
        max_length: int > 0, the longest row, as they were encoded.
        multiple: int > 0, the width of a batch is a multiple of this, or `max_length`. With
            `max_length` itself all batches have that one static shape, as a TPU needs it. Default
            16, which makes 32 shapes up to 512.
        seed: 0..2**32 - 1. Default 0.
        pool_batches: int > 0, batches that are sorted together. 1 sorts nothing. Default 64.

    Returns:
        A function of a step. Its datasets give pairs of the model's inputs and the targets, each a
        dict. Inputs are int32 `(B, S)`. In multiple choice they are `(B, C, S)`, C being the most
        choices of the batch: choices that an example lacks are rows of padding. A target is then
        int32 `(B, C)`, 1 for the choice that `rows` has as target, 0 for the others and NO_CHOICE
        for what is no choice, so that a loss can leave it out.

    Raises:
        ValueError: a number out of its range, or a row longer than `max_length`.

    Example:
        >>> batches_from = length_batches(rows, batch_size=32, max_length=128)
        >>> model.fit(batches_from(0), steps_per_epoch=1000)
    """
    order = BatchOrder(rows, batch_size=batch_size, seed=seed, pool_batches=pool_batches)
    _refuse_lengths(rows, max_length, multiple)

    def batches_from(step: int) -> tf.data.Dataset:
        steps = tf.data.Dataset.counter(step)
        return _batches(rows, order.examples, steps, batch_size, max_length, multiple)

    return batches_from


class BatchOrder:
    """Which examples each step of a training has, in closed form.

        stream      the examples of epoch 0 in its permutation, then those of epoch 1, ...
        step k      has places kB to kB + B of it, if nothing were sorted
        pool        the places of up to 64 such steps in a row, all of one epoch, sorted by length
                    and cut into batches again, whose order is shuffled

    So every example occurs once an epoch. The one batch in which an epoch ends and the next begins
    is in no pool. Permutations come from Philox with a key of (seed, epoch), or (seed, first step
    of the pool), whose bits are the same with every NumPy.

    Args:
        rows: of which the lengths and numbers of choices count.
        batch_size, seed, pool_batches: as of `length_batches`.

    Raises:
        ValueError: a number out of its range.

    Example:
        >>> BatchOrder(rows, batch_size=32).examples(step=1000).shape
        (32,)
    """

    def __init__(
        self,
        rows: EncodedRows,
        *,
        batch_size: int,
        seed: int = 0,
        pool_batches: int = POOL_BATCHES,
    ):
        if batch_size < 1 or pool_batches < 1 or not 0 <= seed < 2**32:
            raise ValueError(
                "`batch_size` and `pool_batches` must be at least 1 and `seed` in 0..2**32 - 1. "
                f"Received: {batch_size}, {pool_batches} and {seed}."
            )
        self._rows, self._batch_size, self._pool_batches = rows, batch_size, pool_batches
        self._seed = seed
        # Steps are asked for one after the other, and an epoch ends in the middle of one.
        self._epoch = functools.lru_cache(2)(lambda epoch: self._draw(_EPOCHS, epoch, len(rows)))
        self._pool = functools.lru_cache(1)(self._sorted_pool)

    def examples(self, step: int) -> np.ndarray:
        """int64 `(B,)`, the examples of a step, counted from 0."""
        size, batch = len(self._rows), self._batch_size
        epoch = step * batch // size
        first, end = -(-epoch * size // batch), (epoch + 1) * size // batch  # its whole batches
        if step >= end:
            return self._stream(step, step + 1)
        pool = first + (step - first) // self._pool_batches * self._pool_batches
        return self._pool(pool, min(pool + self._pool_batches, end))[step - pool]

    def _stream(self, step, end):
        size, start, stop = len(self._rows), step * self._batch_size, end * self._batch_size
        first = start // size
        epochs = range(first, -(-stop // size))
        stream = np.concatenate([self._epoch(epoch) for epoch in epochs])
        return stream[start - first * size : stop - first * size]

    def _sorted_pool(self, step, end):
        examples = self._stream(step, end)
        examples = examples[_by_length(self._rows, examples)].reshape(end - step, -1)
        return examples[self._draw(_POOLS, step, end - step)]

    def _draw(self, stream, index, size):
        """A permutation. Equal draws keep their order: the same one on every machine."""
        key = np.array([2 * self._seed + stream, index], np.uint64)
        return np.argsort(np.random.Philox(key=key).random_raw(size), kind="stable")


class Predictor:
    """What a model says about each example, in the order of the examples.

    A block of some thousand examples is sorted by length, goes through the model in batches, and
    its answers are put in order again; only one block and its answers are in memory at a time. On
    several devices each computes its share of a batch.

    Args:
        model: whose output is a dict. Under its own strategy.
        batch_size: int > 0, B, in examples.
        max_length, multiple: as of `length_batches`.

    Raises:
        ValueError: a number out of its range.

    Example:
        >>> predictor = Predictor(model, batch_size=64, max_length=128)
        >>> blocks = encoded_blocks(examples, tokenizer, max_length=128)
        >>> for answer in predictor(blocks):
        ...     print(answer["logits"].argmax())
    """

    def __init__(
        self, model: tf.keras.Model, *, batch_size: int, max_length: int, multiple: int = 16
    ):
        if batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}.")
        self._model, self._strategy = model, model.distribute_strategy
        self._batch_size, self._max_length, self._multiple = batch_size, max_length, multiple
        self._run = self._spec = None

    def __call__(
        self, blocks: EncodedRows | Iterable[EncodedRows]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields for each example a dict of the model's outputs, each without the batch's axis.

        They may be longer than the example, by answers about padding: cut what belongs to pieces to
        the row's length, and what belongs to choices to their number.

        Args:
            blocks: as of `encoded_blocks`, or rows that are encoded already.

        Raises:
            ValueError: a row longer than `max_length`.
        """
        for block in blocks.blocks() if isinstance(blocks, EncodedRows) else blocks:
            _refuse_lengths(block, self._max_length, self._multiple)
            order = _by_length(block, np.arange(len(block)))
            batches = self._strategy.experimental_distribute_dataset(
                _prediction_batches(
                    block, order, self._batch_size, self._max_length, self._multiple
                )
            )
            if self._spec != batches.element_spec:
                # One trace for batches of any width; fixed shapes differ by the block's choices.
                self._spec = batches.element_spec
                self._run = tf.function(self._answers, input_signature=[self._spec])
            outputs = [_rows_of(self._run(inputs), self._strategy) for inputs in batches]
            outputs = [answer for batch in outputs for answer in batch][: len(order)]
            yield from (outputs[place] for place in np.argsort(order))

    def _answers(self, inputs):
        return self._strategy.run(lambda share: self._model(share, training=False), (inputs,))


def _prediction_batches(block, order, batch_size, max_length, multiple):
    if multiple >= max_length:  # one shape for all batches: the last is filled up
        order = np.pad(order, (0, -len(order) % batch_size), mode="edge")

    def examples(step):
        return order[step * batch_size : (step + 1) * batch_size]

    steps = tf.data.Dataset.range(-(-len(order) // batch_size))
    size = batch_size if multiple >= max_length else None
    batches = _batches(block, examples, steps, size, max_length, multiple)
    return batches.map(lambda inputs, targets: inputs)


def _rows_of(outputs, strategy):
    """One dict for each row of a batch, from what each replica gives for its share of it."""
    shares = {name: strategy.experimental_local_results(value) for name, value in outputs.items()}
    return (
        dict(zip(shares, answer, strict=True))
        for replica in zip(*shares.values(), strict=True)
        for answer in zip(*(share.numpy() for share in replica), strict=True)
    )


def _batches(rows, examples_of, steps, batch_size, max_length, multiple):
    """Dataset of inputs and targets: for each step the examples that `examples_of` names."""
    fixed = multiple >= max_length
    names = list(rows.targets)
    has_choices = rows.choices is not None
    most_choices = int(rows.choices.max()) if has_choices and fixed else None

    def gather(step):
        some = rows.take(examples_of(int(step)))
        lengths, starts, targets = some.lengths, some.second_starts, some.targets
        if has_choices:
            present = np.arange(most_choices or some.choices.max()) < some.choices[:, np.newaxis]
            lengths, starts = np.zeros([2, *present.shape], np.int32)
            lengths[present], starts[present] = some.lengths, some.second_starts
            targets = {name: _marks(target, present) for name, target in targets.items()}
        arrays = [some.ids.astype(np.int32), lengths, starts, *(targets[name] for name in names)]
        return [np.ascontiguousarray(array) for array in arrays]

    def batch_of(step):
        types = [tf.int32] * 3 + [
            tf.int32 if has_choices else tf.as_dtype(rows.targets[name].dtype) for name in names
        ]
        ids, lengths, starts, *targets = tf.numpy_function(gather, [step], types)
        shape = [batch_size, most_choices] if has_choices else [batch_size]
        lengths.set_shape(shape)
        for name, target in zip(names, targets, strict=True):
            target.set_shape(shape if has_choices else shape + list(rows.targets[name].shape[1:]))
        token_ids = tf.RaggedTensor.from_row_lengths(ids, tf.reshape(lengths, [-1]), validate=False)
        inputs = pad_rows(Rows(token_ids, tf.reshape(starts, [-1])), max_length, multiple)
        width = max_length if fixed else None
        for name, value in inputs.items():
            value = tf.reshape(value, tf.concat([tf.shape(lengths), tf.shape(value)[-1:]], axis=0))
            inputs[name] = tf.ensure_shape(value, [*shape, width])
        return inputs, dict(zip(names, targets, strict=True))

    # Several workers each take their part of every batch. The default would give them parts of
    # the source, which is a count of steps here.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return steps.map(batch_of).with_options(options).prefetch(tf.data.AUTOTUNE)


def _marks(targets, present):
    """1 for the choice that is right, 0 for the others, NO_CHOICE for what is none."""
    marks = np.where(present, 0, NO_CHOICE).astype(np.int32)
    right = targets >= 0
    marks[right, targets[right]] = 1
    return marks


def _by_length(rows, examples):
    """Places that sort examples by their number of choices, then by length; ties as they are."""
    lengths = rows.example_lengths[examples]
    if rows.choices is None:
        return np.argsort(lengths, kind="stable")
    return np.lexsort([lengths, rows.choices[examples]])


def _refuse_lengths(rows, max_length, multiple):
    longest = int(rows.lengths.max())
    if multiple < 1 or longest > max_length:
        raise ValueError(
            "`multiple` must be at least 1, and no row longer than `max_length`. Received: "
            f"{multiple}, and a row of {longest} pieces with a `max_length` of {max_length}."
        )
