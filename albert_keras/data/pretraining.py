"""Record sets -> pretraining batches: an endless, exactly resumable stream, made in graph."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_keras.data.chunks import decode_chunks
from albert_keras.data.mixture import mixed_sets, mixing_pattern, rows_before
from albert_keras.data.pairs import segment_pairs
from albert_keras.data.record_set import RecordSet

# Records that are in memory and permuted together (18 MB at 512 tokens each). Shards are sorted
# by a hash of the document, so what a group holds is a random draw of documents already.
_GROUP_RECORDS = 1 << 14

# Each kind of draw has its own stream of seeds.
_SHARD_ORDER, _GROUP_ORDER, _PAIRS, _MASKS = range(4)


def pretraining_batches(
    records: RecordSet | Sequence[RecordSet],
    weights: Sequence[float] | None = None,
    *,
    batch_size: int,
    sequence_length: int,
    mask: Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]],
    cls_id: int,
    sep_id: int,
    pad_id: int = 0,
    objective: str = "sop",
    seed: int = 0,
    start_step: int = 0,
    repeat: bool = True,
) -> tf.data.Dataset:
    """Streams masked batches of segment pairs from a record set, or from several that are mixed.

    Nothing is drawn from a state: the order of an epoch is a permutation computed from (seed,
    epoch), first of the shards, then of each group of 16,384 records; pairs and masks are drawn
    from (seed, step). So `start_step=k` gives exactly the batches that follow the first k, from
    the manifest's counts, without reading the shards before them. Batches run over the ends of
    epochs, so every record is used once an epoch.

    In a mixture every set has epochs and orders of its own. Which set a row is from follows a fixed
    pattern (`mixture.mixing_pattern`), so what was seen of each is known at any step
    (`mixture.rows_seen`).

    Args:
        records: a loaded record set, or several of one vocabulary, which may have been written at
            different lengths. Batches depend on the order of the sets.
        weights: a number above 0 for each set, in the ratio of the shares of the rows. Default: the
            numbers of records.
        batch_size: B, rows of a batch.
        sequence_length: S, at least 5; may be shorter than the length of the records, of which
            windows are then drawn.
        mask: takes (token_ids int32 [B, S], seed int64 [2]) and gives the masked batch, as
            `NgramMaskedLM.mask` and `masking.ngram_mask` do.
        cls_id: id of `[CLS]`.
        sep_id: id of `[SEP]`.
        pad_id: id of padding, default 0.
        objective: what pairs are drawn for, "sop", "nsp" or "none"; see `segment_pairs`. Default
            "sop".
        seed: 0..2**32 - 1, default 0.
        start_step: batches already seen, default 0.
        repeat: endless and shuffled. False, for evaluation: one pass in the order of the files
            (for "nsp" in a fixed permutation) of a single set, the last batch filled up with rows
            without any weight. Default True.

    Returns:
        A dataset of dicts with static shapes: `token_ids`, `segment_ids`, `padding_mask` int32
        [B, S]; `masked_positions`, `masked_ids` int32 and `masked_weights` float32 [B, M];
        `sop_labels` int32 and `sop_weights` float32 [B].

    Raises:
        ValueError: an argument out of its range; with `repeat`, a set with fewer records than its
            rows in a batch, or an objective of pairs and no chunk of two sentences; without it,
            more than one set; sets of two vocabularies; or rows longer than a set's chunks.

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
    sets = mixed_sets(records)
    pattern = mixing_pattern(sets, weights)
    _refuse_misfit(sets, pattern, batch_size, sequence_length, objective, repeat)
    layout = max((one.layout for one in sets), key=lambda layout: layout.length)
    max_sentences = max(one.max_sentences for one in sets)

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
            objective=objective,
        )
        return {**pairs, **mask(pairs["token_ids"], _seed(seed, _MASKS, step))}

    first_row = start_step * batch_size
    if not repeat and objective == "nsp":
        # Neighbours in the files are of one document, and B must come from another one.
        groups = _epoch(sets[0], tf.constant(0, tf.int64), tf.constant(first_row, tf.int64), seed)
    elif not repeat:
        groups = tf.data.TFRecordDataset(sets[0].paths).skip(first_row).batch(batch_size)
    elif len(sets) == 1:
        groups = _epochs(sets[0], first_row, seed)
    else:
        groups = _mixed(sets, pattern, first_row, seed).batch(batch_size)
    batches = groups.prefetch(1).rebatch(batch_size, drop_remainder=repeat)
    batches = batches.enumerate(start_step)
    batches = batches.map(batch_of, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    # Several workers each take their part of every batch. The default would give them parts of
    # the source, which is a count of epochs here.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return batches.with_options(options).prefetch(tf.data.AUTOTUNE)


def _refuse_misfit(sets, pattern, batch_size, sequence_length, objective, repeat):
    """Raises ValueError where the sets cannot give such batches."""
    for records, rows in zip(sets, np.bincount(pattern), strict=True):
        if repeat and batch_size * rows > records.num_records * len(pattern):
            raise ValueError(
                "`batch_size` must not be above the number of records, nor a set's share of it "
                f"above that of the set. Received: {batch_size}, and {records.num_records} records "
                f"in {records.folder} for {rows / len(pattern):.4g} of the rows. Use a smaller "
                "batch, another weight or more text."
            )
        records.refuse_rows_of(sequence_length)
    if repeat and objective != "none" and not any(records.has_pairs for records in sets):
        raise ValueError(
            f"The objective {objective!r} needs chunks with two sentences. Received: "
            f"{', '.join(records.folder for records in sets)}, without any. Write the records "
            "again with a greater length, with blank lines only between documents, or from "
            'paragraphs with sentences="split"; or train with the objective "none".'
        )
    if not repeat and len(sets) > 1:
        raise ValueError(
            "Without `repeat` a pass is over one record set. Received: "
            f"{', '.join(records.folder for records in sets)}. Evaluate on each by itself."
        )


def _mixed(sets, pattern, first_row, seed):
    """The records of the sets in turn, by the pattern, from a row of the mixture on."""
    streams = [
        # Seeds are below 2**32, so each set has streams of draws of its own, the first the run's.
        _epochs(records, first, seed + number * 2**32).prefetch(1).unbatch()
        for number, (records, first) in enumerate(
            zip(sets, rows_before(pattern, first_row), strict=True)
        )
    ]
    turns = np.roll(pattern, -(first_row % len(pattern)))
    turns = tf.data.Dataset.from_tensor_slices(turns).repeat()
    return tf.data.Dataset.choose_from_datasets(streams, turns)


def _epochs(records, first_row, seed):
    """The records of one epoch after the other, in groups, from a row of them all on."""
    first_epoch, first_record = divmod(first_row, records.num_records)
    return tf.data.Dataset.counter(first_epoch).flat_map(
        lambda epoch: _epoch(
            records,
            epoch,
            tf.where(epoch == first_epoch, tf.constant(first_record, tf.int64), 0),
            seed,
        )
    )


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
