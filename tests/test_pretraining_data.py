"""Record sets to batches: the contract, exact resume, epochs, and the pass for evaluation."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.data import pretraining
from albert_keras.data.pretraining import pretraining_batches
from albert_keras.data.records import RecordSet, write_records
from albert_keras.masking import ngram_mask

SPECIAL = {"cls_id": 2, "sep_id": 3}
KINDS = np.array([0] * 5 + [2] * 5000, np.int8)
DOCUMENTS = 91


class WordNumbers:
    """Reads "7 8" as the ids 7 and 8, so that a test knows where a token comes from."""

    vocab_size, sha256, model_bytes, lowercase, keep_accents = 5005, "0" * 64, b"", True, False

    def encode_lines(self, lines):
        words = [line.split() for line in lines]
        splits = np.cumsum([0, *map(len, words)])
        return np.array([int(word) for line in words for word in line], np.int32), splits


def mask(token_ids, seed):
    return ngram_mask(token_ids, KINDS, seed, max_predictions=4)


@pytest.fixture(scope="module")
def record_folder(tmp_path_factory):
    """Ninety-one documents of fifty tokens, no token twice, in five shards; 2 or 3 chunks each."""
    folder = tmp_path_factory.mktemp("records")
    tokens = iter(range(5, 5 + 50 * DOCUMENTS))
    lines = []
    for _ in range(DOCUMENTS):
        lines += [" ".join(str(next(tokens)) for _ in range(5)) for _ in range(10)] + [""]
    (folder / "text.txt").write_text("\n".join(lines))
    write_records([folder / "text.txt"], WordNumbers(), folder / "set", length=32, shards=5)
    return folder / "set"


@pytest.fixture
def records(record_folder, monkeypatch):
    monkeypatch.setattr(pretraining, "_GROUP_RECORDS", 16)  # many groups, across shards
    return RecordSet.load(record_folder)


def batches(records, count, **options):
    options = {"batch_size": 8, "sequence_length": 32, "mask": mask, **SPECIAL, **options}
    dataset = pretraining_batches(records, **options)
    return [
        {name: value.numpy() for name, value in batch.items()}
        for batch in (dataset if count is None else dataset.take(count))
    ]


def assert_equal(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def chunks_of(batch):
    """The smallest token of each row names its chunk, since no token occurs twice."""
    ids = np.where(batch["padding_mask"] == 1, batch["token_ids"], 0)
    return [int(row[row >= 5].min()) for row in ids if (row >= 5).any()]


def unmasked(token_ids, seed):
    return {}


@pytest.mark.parametrize("repeat", [True, False])
def test_a_batch_has_the_documented_names_types_and_static_shapes(records, repeat):
    dataset = pretraining_batches(
        records, batch_size=8, sequence_length=20, mask=mask, repeat=repeat, **SPECIAL
    )
    row, slots, ids = [8, 20], [8, 4], tf.int32
    assert {
        name: (spec.shape.as_list(), spec.dtype) for name, spec in dataset.element_spec.items()
    } == {
        "token_ids": (row, ids),
        "segment_ids": (row, ids),
        "padding_mask": (row, ids),
        "masked_positions": (slots, ids),
        "masked_ids": (slots, ids),
        "masked_weights": (slots, tf.float32),
        "sop_labels": ([8], ids),
        "sop_weights": ([8], tf.float32),
    }


def test_masks_are_of_the_pair_in_the_batch(records):
    for batch in batches(records, 5):
        restored = batch["token_ids"].copy()
        used = batch["masked_weights"] > 0
        rows, slots = np.nonzero(used)
        restored[rows, batch["masked_positions"][rows, slots]] = batch["masked_ids"][rows, slots]
        tokens = np.where(batch["padding_mask"] == 1, restored, 0)
        assert ((tokens == 2).sum(axis=1) == 1).all() and not (restored == 4).any()
        assert (batch["token_ids"] == 4).any()
        for row in tokens:  # unmasked, a row is a chunk: tokens that follow each other
            np.testing.assert_array_equal(np.diff(np.sort(row[row >= 5])), 1)


def test_a_batch_resumes_exactly_wherever_the_run_stopped(records):
    per_epoch = records.num_records / 8
    assert per_epoch > 20 and records.num_records % 8, "the test wants batches over an epoch's end"
    whole = batches(records, 70, seed=5)
    for start in (1, int(per_epoch), int(per_epoch) + 1, 66):
        assert_equal(batches(records, 70 - start, seed=5, start_step=start), whole[start:])


def test_resuming_reads_no_shard_before_the_place(records, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(records.folder, copy)
    start = int(records.num_records * 0.9) // 8
    expected = batches(records, 2, start_step=start, mask=unmasked)

    def from_copy():
        copied = RecordSet(str(copy), records.manifest)
        return batches(copied, 2, start_step=start, mask=unmasked)

    read = []
    for path in RecordSet.load(copy).paths:  # which shards does the end of the epoch need?
        moved = Path(path).rename(path + ".away")
        try:
            from_copy()
        except tf.errors.NotFoundError:
            read.append(path)
        moved.rename(path)
    assert 1 <= len(read) <= 3
    for path in RecordSet.load(copy).paths:
        if path not in read:
            Path(path).unlink()
    assert_equal(from_copy(), expected)


def test_every_record_is_used_once_an_epoch_in_an_order_of_its_own(records):
    count = records.num_records
    stream = [
        chunk
        for batch in batches(records, 3 * count // 8 + 1, mask=unmasked)
        for chunk in chunks_of(batch)
    ]
    epochs = [stream[at * count : (at + 1) * count] for at in range(3)]
    in_files = [
        chunk
        for batch in batches(records, None, mask=unmasked, repeat=False)
        for chunk in chunks_of(batch)
    ]
    assert len(set(in_files)) == count
    for epoch in epochs:
        assert sorted(epoch) == sorted(in_files)
    assert len({tuple(order) for order in [*epochs, in_files]}) == 4


def test_chunks_of_a_document_do_not_stay_neighbours(records):
    stream = [chunk for batch in batches(records, 20, mask=unmasked) for chunk in chunks_of(batch)]
    documents = (np.array(stream) - 5) // 50
    assert (np.diff(documents) == 0).mean() < 0.2


def test_pairs_and_masks_are_drawn_anew_in_each_epoch(records):
    count = records.num_records
    rows = {}
    for batch in batches(records, 2 * count // 8 + 1, mask=unmasked):
        for chunk, row in zip(chunks_of(batch), batch["token_ids"], strict=True):
            rows.setdefault(chunk, []).append(tuple(row))
    changed = [len(set(seen)) > 1 for seen in rows.values() if len(seen) > 1]
    assert np.mean(changed) > 0.5


def test_another_seed_gives_another_stream(records):
    one, other = (batches(records, 2, seed=seed)[0]["token_ids"] for seed in (1, 2))
    assert (one != other).any()


def test_evaluation_is_one_fixed_pass_filled_up_with_rows_without_weight(records):
    passes = [batches(records, None, repeat=False, seed=3) for _ in range(2)]
    assert_equal(*passes)
    assert len(passes[0]) == -(-records.num_records // 8)
    last = passes[0][-1]
    filled = 8 - records.num_records % 8
    assert not last["masked_weights"][-filled:].any() and not last["sop_weights"][-filled:].any()
    assert last["token_ids"][-filled:, :2].tolist() == [[2, 3]] * filled
    assert last["padding_mask"][-filled:].sum() == 2 * filled
    real = sum(int((batch["padding_mask"].sum(axis=1) > 2).sum()) for batch in passes[0])
    assert real == records.num_records


def test_a_shorter_sequence_draws_windows_from_the_same_records(records):
    batch = batches(records, 1, sequence_length=16, mask=unmasked)[0]
    assert batch["token_ids"].shape == (8, 16)
    assert (batch["padding_mask"].sum(axis=1) <= 16).all()
    assert batch["sop_weights"].any()


@pytest.mark.parametrize(
    "options,message",
    [
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        (
            {"batch_size": 10_000},
            r"not be above .*Received: 10000, and \d+ records",
        ),
        ({"start_step": -1}, "`start_step` at least 0"),
        ({"seed": -1}, "`seed` in 0"),
        ({"sequence_length": 4}, "at least 5"),
    ],
)
def test_a_wrong_argument_is_named(records, options, message):
    with pytest.raises(ValueError, match=message):
        batches(records, 1, **options)
