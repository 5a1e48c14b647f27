"""Record sets -> pretraining batches: an endless, exactly resumable stream, made in graph."""

from collections.abc import Callable

import tensorflow as tf

from albert_keras.data.chunks import decode_chunks
from albert_keras.data.pairs import segment_pairs
from albert_keras.data.records import RecordSet

# Records that are in memory and permuted together (18 MB at 512 tokens each). Shards are sorted
# by a hash of the document, so what a group holds is a random draw of documents already.
_GROUP_RECORDS = 1 << 14

# Each kind of draw has its own stream of seeds.
_SHARD_ORDER, _GROUP_ORDER, _PAIRS, _MASKS = range(4)


def pretraining_batches(
    records: RecordSet,
    *,
    batch_size: int,
    sequence_length: int,
    mask: Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]],
    cls_id: int,
    sep_id: int,
    pad_id: int = 0,
    seed: int = 0,
    start_step: int = 0,
    repeat: bool = True,
) -> tf.data.Dataset:
    """Streams masked batches of segment pairs from a record set.

    Nothing is drawn from a state: the order of an epoch is a permutation computed from (seed,
    epoch), first of the shards, then of each group of 16,384 records; pairs and masks are drawn
    from (seed, step). So `start_step=k` gives exactly the batches that follow the first k, from
    the manifest's counts, without reading the shards before them. Batches run over the ends of
    epochs, so every record is used once an epoch.

    Args:
        records: a loaded record set.
        batch_size: B, rows of a batch.
        sequence_length: S, at least 5; may be shorter than the length of the records, of which
            windows are then drawn.
        mask: takes (token_ids int32 [B, S], seed int64 [2]) and gives the masked batch, as
            `NgramMaskedLM.mask` and `masking.ngram_mask` do.
        cls_id: id of `[CLS]`.
        sep_id: id of `[SEP]`.
        pad_id: id of padding, default 0.
        seed: 0..2**32 - 1, default 0.
        start_step: batches already seen, default 0.
        repeat: endless and shuffled. False, for evaluation: one pass in the order of the files,
            the last batch filled up with rows without any weight. Default True.

    Returns:
        A dataset of dicts with static shapes: `token_ids`, `segment_ids`, `padding_mask` int32
        [B, S]; `masked_positions`, `masked_ids` int32 and `masked_weights` float32 [B, M];
        `sop_labels` int32 and `sop_weights` float32 [B].

    Raises:
        ValueError: an argument out of its range, or, with `repeat`, fewer records than a batch;
            or rows longer than the records' chunks.

    Example:
        >>> batches = pretraining_batches(
        ...     RecordSet.load("records", tokenizer), batch_size=32, sequence_length=128,
        ...     mask=lambda ids, seed: ngram_mask(ids, kinds, seed, max_predictions=19),
        ...     cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id, start_step=1000)
        >>> next(iter(batches))["masked_ids"].shape
        TensorShape([32, 19])
    """
    if batch_size < 1 or start_step < 0 or not 0 <= seed < 2**32:
        raise ValueError(
            "`batch_size` must be at least 1, `start_step` at least 0 and `seed` in 0..2**32 - 1. "
            f"Received: {batch_size}, {start_step} and {seed}."
        )
    if repeat and batch_size > records.num_records:
        raise ValueError(
            f"`batch_size` must not be above the number of records. Received: {batch_size}, and "
            f"{records.num_records} records in {records.folder}. Use a smaller batch or more text."
        )
    records.refuse_rows_of(sequence_length)
    layout, max_sentences = records.layout, records.max_sentences

    def batch_of(step, serialized):
        if not repeat:
            missing = batch_size - tf.shape(serialized)[0]
            serialized = tf.concat([serialized, tf.fill([missing], "")], axis=0)
        serialized = tf.ensure_shape(serialized, [batch_size])
        pairs = segment_pairs(
            decode_chunks(serialized, layout, max_sentences),
            _seed(seed, _PAIRS, step),
            sequence_length=sequence_length,
            cls_id=cls_id,
            sep_id=sep_id,
            pad_id=pad_id,
        )
        return {**pairs, **mask(pairs["token_ids"], _seed(seed, _MASKS, step))}

    first_record = start_step * batch_size
    if repeat:
        first_epoch, first_record = divmod(first_record, records.num_records)
        epochs = tf.data.Dataset.counter(first_epoch)
        groups = epochs.flat_map(
            lambda epoch: _epoch(
                records,
                epoch,
                tf.where(epoch == first_epoch, tf.constant(first_record, tf.int64), 0),
                seed,
            )
        )
    else:
        groups = tf.data.TFRecordDataset(records.paths).skip(first_record).batch(batch_size)
    batches = groups.prefetch(1).rebatch(batch_size, drop_remainder=repeat)
    batches = batches.enumerate(start_step)
    batches = batches.map(batch_of, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    # Several workers each take their part of every batch. The default would give them parts of
    # the source, which is a count of epochs here.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return batches.with_options(options).prefetch(tf.data.AUTOTUNE)


def _epoch(records, epoch, first_record, seed):
    """The records of an epoch in its order, in groups, from `first_record` of that order on."""
    counts = tf.constant(records.record_counts, tf.int64)
    order = _permutation(len(records.paths), _seed(seed, _SHARD_ORDER, epoch))
    paths, counts = tf.gather(records.paths, order), tf.gather(counts, order)
    first_group = first_record // _GROUP_RECORDS
    group_start = first_group * _GROUP_RECORDS
    ends = tf.cumsum(counts)
    shard = tf.searchsorted(ends, group_start[None], side="right")[0]
    inside = group_start - (ends[shard] - counts[shard])

    def permuted(group, serialized):
        serialized = tf.gather(
            serialized,
            _permutation(tf.shape(serialized)[0], _seed(seed, _GROUP_ORDER, epoch * 2**32 + group)),
        )
        seen = tf.where(group == first_group, first_record - group_start, 0)
        return serialized[seen:]

    groups = tf.data.TFRecordDataset(paths[shard:]).skip(inside).batch(_GROUP_RECORDS)
    return groups.enumerate(first_group).map(permuted)


def _permutation(size, seed):
    # Equal draws keep their order, since the sort is stable: still the same on every machine.
    draws = tf.random.stateless_uniform(
        tf.reshape(size, [1]), seed, minval=None, maxval=None, dtype=tf.int64, alg="philox"
    )
    return tf.argsort(draws, stable=True)


def _seed(seed, stream, index):
    return tf.stack([tf.constant(seed * 4 + stream, tf.int64), tf.cast(index, tf.int64)])
