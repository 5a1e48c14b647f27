"""Record sets to batches: the contract, exact resume, epochs, mixtures, the evaluation's pass."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.data import pretraining
from albert_keras.data.mixture import rows_seen
from albert_keras.data.pretraining import pretraining_batches
from albert_keras.data.record_set import RecordSet
from albert_keras.data.records import write_records
from albert_keras.masking import ngram_mask

SPECIAL = {"cls_id": 2, "sep_id": 3}
KINDS = np.array([0] * 5 + [2] * 6000, np.int8)
DOCUMENTS, OTHER_DOCUMENTS = 91, 29


class WordNumbers:
    """Reads "7 8" as the ids 7 and 8, so that a test knows where a token comes from."""

    vocab_size, sha256, model_bytes, lowercase, keep_accents = 6005, "0" * 64, b"", True, False

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
    return written(folder, 5, DOCUMENTS, sentence=5, length=32, shards=5)


def written(folder, first_token, documents, sentence, **options):
    tokens = iter(range(first_token, first_token + 50 * documents))
    lines = []
    for _ in range(documents):
        lines += [
            " ".join(str(next(tokens)) for _ in range(sentence)) for _ in range(50 // sentence)
        ] + [""]
    (folder / "text.txt").write_text("\n".join(lines))
    write_records([folder / "text.txt"], WordNumbers(), folder / "set", **options)
    return folder / "set"


@pytest.fixture
def records(record_folder, monkeypatch):
    monkeypatch.setattr(pretraining, "_GROUP_RECORDS", 16)  # many groups, across shards
    return RecordSet.load(record_folder)


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory):
    """Other tokens in twenty-nine documents, in longer chunks of more and shorter sentences."""
    first = 5 + 50 * DOCUMENTS
    folder = tmp_path_factory.mktemp("other")
    return written(folder, first, OTHER_DOCUMENTS, sentence=2, length=40, shards=2)


@pytest.fixture
def two_sets(records, other_folder):
    return [records, RecordSet.load(other_folder)]


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


def test_evaluation_masks_do_not_depend_on_the_order_of_the_batches(records):
    whole = batches(records, None, repeat=False, seed=3)
    for step in (20, 3):
        assert_equal(batches(records, 1, repeat=False, seed=3, start_step=step), [whole[step]])
    masked = [(batch["masked_positions"] + 1) * (batch["masked_weights"] > 0) for batch in whole]
    assert len({positions.tobytes() for positions in masked}) == len(whole)


def test_a_list_of_one_set_is_that_set(records):
    assert_equal(batches([records], 30, weights=[0.3], seed=7), batches(records, 30, seed=7))


def record_of_each_token(sets):
    """(set, record) of every token, read from the files."""
    return {
        token: (number, record)
        for number, records in enumerate(sets)
        for record, raw in enumerate(tf.data.TFRecordDataset(records.paths).as_numpy_iterator())
        for token in np.frombuffer(raw, "<u2")[10 + int.from_bytes(raw[12:16], "little") :].tolist()
    }


def mixed_stream(sets, count, **options):
    """(set, record) of each row of so many batches."""
    owner = record_of_each_token(sets)
    found = []
    for batch in batches(sets, count, mask=unmasked, **options):
        for ids in batch["token_ids"]:
            owners = {owner[token] for token in ids[ids >= 5].tolist()}
            assert len(owners) == 1  # a row is of one record: it was decoded as it was written
            found.append(owners.pop())
    return found


@pytest.mark.parametrize("weights", [None, [3, 3]])
def test_a_mixture_has_each_set_at_its_share_in_epochs_of_its_own(two_sets, weights):
    steps = 100
    stream = mixed_stream(two_sets, steps, weights=weights)
    sizes = np.array([records.num_records for records in two_sets])
    shares = (sizes if weights is None else np.array(weights)) / sum(
        sizes if weights is None else weights
    )
    for seen, share, number in zip(
        rows_seen(two_sets, weights, batch_size=8, steps=steps), shares, (0, 1), strict=True
    ):
        rows = [record for which, record in stream if which == number]
        assert seen["rows"] == len(rows) and abs(len(rows) - share * len(stream)) < 2
        assert seen["epochs"] == len(rows) / sizes[number] > 2
        epochs = [rows[at : at + sizes[number]] for at in range(0, len(rows), sizes[number])][:-1]
        for epoch in epochs:
            assert sorted(epoch) == list(range(sizes[number]))
        assert len(set(map(tuple, epochs))) == len(epochs)
    for batch in np.array([which for which, _ in stream]).reshape(steps, 8):
        assert abs((batch == 1).sum() - 8 * shares[1]) < 2  # every batch is mixed


def test_the_sets_of_a_mixture_have_orders_of_their_own(records):
    both, alone = (
        [record for _, record in mixed_stream(sets, steps)]
        for sets, steps in (([records, records], 48), ([records], 24))
    )
    first, second = both[::2], both[1::2]  # equally large: a row from one, a row from the other
    assert first == alone != second


def test_a_mixture_resumes_exactly_wherever_the_run_stopped(two_sets):
    options = {"weights": [0.55, 0.45], "seed": 5}
    whole = batches(two_sets, 60, **options)
    for start in (17, 38):  # a period is of 20 rows, epochs are of about 45 and 16 batches
        assert_equal(batches(two_sets, 60 - start, start_step=start, **options), whole[start:])
    far = batches(two_sets, 1, start_step=10**12, mask=unmasked, **options)  # replays nothing
    assert far[0]["token_ids"].shape == (8, 32)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"sequence_length": 36}, r"which are of 32 pieces in .*Received: `sequence_length` 36"),
        ({"repeat": False}, r"over one record set. Received: .*records\d*/set, .*other\d*/set"),
        (
            {"batch_size": 200},
            r"share of it .*Received: 200, and \d+ records in .*other\d*/set for 0.5 of the rows",
        ),
        ({"weights": [1]}, "`weights` must be"),
    ],
)
def test_a_wrong_argument_of_a_mixture_is_named(two_sets, options, message):
    with pytest.raises(ValueError, match=message):
        batches(two_sets, 1, **{"weights": [1, 1], **options})


def test_sets_of_two_vocabularies_are_not_mixed(two_sets, tmp_path):
    records, other = two_sets
    vocabulary = {**other.manifest["vocabulary"], "sha256": "1" * 64}
    other = RecordSet(other.folder, {**other.manifest, "vocabulary": vocabulary})
    with pytest.raises(ValueError, match="must have the same vocabulary"):
        batches([records, other], 1)


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


def test_pairs_of_a_set_without_any_are_refused_and_masked_words_are_not(tmp_path, records):
    (tmp_path / "text").write_text("5 6\n\n7 8\n\n9\n")
    write_records([tmp_path / "text"], WordNumbers(), tmp_path / "set", length=32)
    alone = RecordSet.load(tmp_path / "set")
    for objective in ("sop", "nsp"):
        with pytest.raises(ValueError, match=f"{objective}' needs chunks.*{tmp_path}/set, with"):
            batches(alone, 1, batch_size=2, objective=objective)
    (batch,) = batches(alone, 1, batch_size=2, objective="none")
    assert batch["padding_mask"].any(axis=1).all()
    batches([alone, records], 1, weights=[1, 9])  # of the other set there are pairs
