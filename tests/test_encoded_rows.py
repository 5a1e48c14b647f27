"""Encoded rows: what is stored of an example, and a cache that is never trusted blindly."""

import multiprocessing

import numpy as np
import pytest
import tensorflow as tf
from small_tokenizer import small_tokenizer

from albert_keras.tasks.encoded_rows import EncodedRows, encoded_blocks
from albert_keras.tasks.row_cache import cached_rows
from albert_keras.text.packing import Rows, pack_texts, pad_rows

PAIRS = [("a license", "of the work"), ("", "it"), ("the work " * 40, "source code " * 40)]


def examples(pairs=PAIRS):
    return ((pair, {"logits": place}) for place, pair in enumerate(pairs))


def two_questions():
    """Three choices, then two: pieces of choice c of question q are all 10 * q + c."""
    choices = [[10], [11, 11, 11], [12, 12], [20, 20], [21]]
    return EncodedRows(
        ids=np.array(sum(choices, []), np.uint16),
        lengths=np.array([1, 3, 2, 2, 1], np.int32),
        second_starts=np.array([1, 2, 1, 2, 0], np.int32),
        targets={"logits": np.array([2, 0], np.int32)},
        choices=np.array([3, 2], np.int32),
    )


def row(rows, place):
    return rows.ids[rows.splits[place] : rows.splits[place + 1]].tolist()


def test_rows_of_a_stream_are_what_a_server_packs():
    tokenizer = small_tokenizer()
    for texts in (PAIRS, [(first,) for first, _ in PAIRS]):
        rows = EncodedRows.concatenated(encoded_blocks(examples(texts), tokenizer, 24))
        stored = Rows(
            tf.RaggedTensor.from_row_splits(rows.ids.astype(np.int32), rows.splits),
            tf.constant(rows.second_starts),
        )
        columns = [tf.constant(column) for column in zip(*texts, strict=True)]
        served = pack_texts(columns[0], tokenizer, 24, *columns[1:])
        for name, expected in served.items():
            np.testing.assert_array_equal(pad_rows(stored, 24)[name], expected)
        assert rows.targets["logits"].tolist() == [0, 1, 2]
        assert rows.ids.dtype == np.uint16 and rows.lengths.max() == 24


def test_a_block_is_made_before_the_stream_goes_on():
    read = []

    def endless():
        while True:
            read.append(len(read))
            yield ("a",), {"logits": read[-1]}

    blocks = encoded_blocks(endless(), small_tokenizer(), 16)
    first, second = next(blocks), next(blocks)
    assert len(read) == len(first) + len(second)
    np.testing.assert_array_equal(second.targets["logits"], read[len(first) :])


def test_a_vocabulary_of_more_than_65536_pieces_takes_four_bytes():
    packed = Rows(tf.ragged.constant([[2, 70_000, 3]]), tf.constant([3]))
    assert EncodedRows.of(packed, 1 << 16, {}).ids.dtype == np.uint16
    assert EncodedRows.of(packed, 70_001, {}).ids.tolist() == [2, 70_000, 3]


def test_some_examples_are_taken_with_all_of_their_rows():
    rows = two_questions()
    np.testing.assert_array_equal(rows.example_lengths, [3, 2])
    taken = rows.take(np.array([1, 0, 1]))
    assert len(taken) == 3 and taken.choices.tolist() == [2, 3, 2]
    assert [row(taken, place) for place in range(7)] == [
        *([20, 20], [21]),
        *([10], [11, 11, 11], [12, 12]),
        *([20, 20], [21]),
    ]
    assert taken.second_starts.tolist() == [2, 0, 1, 2, 1, 2, 0]
    assert taken.targets["logits"].tolist() == [0, 2, 0]
    assert len(rows.take(np.array([], int))) == 0


def test_blocks_put_together_again_are_the_same_rows():
    rows = two_questions()
    again = EncodedRows.concatenated(rows.blocks(1))
    for name in ("ids", "lengths", "second_starts", "choices"):
        np.testing.assert_array_equal(getattr(again, name), getattr(rows, name))
    assert again.targets["logits"].tolist() == [2, 0]


@pytest.mark.parametrize(
    "change",
    [
        {"ids": np.zeros(3, np.uint16)},
        {"second_starts": np.zeros(3, np.int32)},
        {"targets": {"logits": np.zeros(2, np.int32)}},
        {"choices": np.array([1, 1], np.int32)},
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(change):
    one = {
        "ids": np.zeros(2, np.uint16),
        "lengths": np.array([2], np.int32),
        "second_starts": np.array([2], np.int32),
        "targets": {"logits": np.zeros(1, np.int32)},
    }
    EncodedRows(**one)
    with pytest.raises(ValueError, match="must belong together"):
        EncodedRows(**one | change)


def test_no_examples_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must be examples"):
        EncodedRows.concatenated([])
    with pytest.raises(ValueError, match="must be examples"):
        Cached(tmp_path, pairs=[]).rows()
    assert not list(tmp_path.glob("cache/*"))


class Cached:
    """Calls `cached_rows` for a file and counts how often the rows were made."""

    def __init__(self, folder, pairs=PAIRS, **changes):
        self.folder, self.made = folder / "cache", 0
        self.source = folder / "train.tsv"
        self.source.write_text(repr(pairs))
        self._pairs = pairs
        self._arguments = {
            "sources": [self.source],
            "tokenizer": small_tokenizer(),
            "max_length": 24,
            "settings": {"task": "rte"},
        } | changes

    def rows(self):
        return cached_rows(self.folder, self._make, **self._arguments)

    def _make(self):
        self.made += 1
        return encoded_blocks(examples(self._pairs), self._arguments["tokenizer"], 24)


def test_rows_are_made_once_and_then_mapped_from_the_cache(tmp_path):
    cached = Cached(tmp_path)
    expected = EncodedRows.concatenated(encoded_blocks(examples(), small_tokenizer(), 24))
    for _ in range(2):
        rows = cached.rows()
        assert isinstance(rows.ids, np.memmap)
        for name in ("ids", "lengths", "second_starts"):
            np.testing.assert_array_equal(getattr(rows, name), getattr(expected, name))
            assert getattr(rows, name).dtype == getattr(expected, name).dtype
        assert rows.targets.keys() == {"logits"} and rows.choices is None
        assert rows.targets["logits"].tolist() == [0, 1, 2]
    assert cached.made == 1


def test_several_blocks_and_choices_come_back_from_the_cache(tmp_path):
    rows = cached_rows(
        tmp_path / "cache",
        lambda: two_questions().blocks(1),
        sources=[],
        tokenizer=small_tokenizer(),
        max_length=3,
        settings={},
    )
    assert rows.choices.tolist() == [3, 2] and rows.targets["logits"].tolist() == [2, 0]
    assert [row(rows, place) for place in (1, 4)] == [[11, 11, 11], [21]]


def test_whatever_shapes_the_rows_makes_another_entry(tmp_path):
    Cached(tmp_path).rows()
    for number, change in enumerate(
        [
            {"max_length": 23},
            {"settings": {"task": "mrpc"}},
            {"tokenizer": small_tokenizer(lowercase=False)},
            {"pairs": PAIRS[:2]},
        ]
    ):
        cached = Cached(tmp_path, **change)
        cached.rows()
        assert cached.made == 1 and len(list(cached.folder.iterdir())) == number + 2


def files_of(cached):
    (entry,) = cached.folder.iterdir()
    return {path.name: path for path in entry.iterdir()}


@pytest.mark.parametrize("name", ["ids.npy", "target.logits.npy", "rows.json"])
@pytest.mark.parametrize("damage", ["a bit", "cut", "missing"])
def test_a_damaged_entry_is_made_again_with_a_note(tmp_path, name, damage):
    cached = Cached(tmp_path)
    expected = np.array(cached.rows().ids)
    file = files_of(cached)[name]
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(content[:-7])
    else:
        content[-9] ^= 1
        file.write_bytes(content)
    with pytest.warns(UserWarning, match="are damaged and are made again"):
        np.testing.assert_array_equal(cached.rows().ids, expected)
    assert cached.made == 2
    cached.rows()
    assert cached.made == 2


def test_what_is_not_finished_leaves_nothing(tmp_path):
    def broken():
        yield next(encoded_blocks(examples(), small_tokenizer(), 24))
        raise ValueError("train.tsv, line 3: no label")

    cached = Cached(tmp_path)
    cached._make = broken
    with pytest.raises(ValueError, match="train.tsv, line 3"):
        cached.rows()
    assert not cached.folder.exists()


def test_targets_that_change_their_form_are_refused(tmp_path):
    cached = Cached(tmp_path)
    block = next(encoded_blocks(examples(), small_tokenizer(), 24))
    other = EncodedRows(
        block.ids, block.lengths, block.second_starts, {"logits": np.zeros(3, np.float32)}
    )
    cached._make = lambda: [block, other]
    with pytest.raises(ValueError, match="target.logits must be alike.*float32.*int32"):
        cached.rows()


def test_another_process_that_was_faster_wins(tmp_path):
    slow, fast = Cached(tmp_path), Cached(tmp_path)
    make = slow._make

    def overtaken():
        yield from make()
        fast.rows()

    slow._make = overtaken
    np.testing.assert_array_equal(slow.rows().ids, fast.rows().ids)
    assert fast.made == 1 and len(list(slow.folder.iterdir())) == 1


def _make_in_a_process(folder, barrier, results):
    barrier.wait(120)
    results.put(Cached(folder).rows().ids.tolist())


def test_processes_that_make_the_same_entry_at_once_all_get_it(tmp_path):
    Cached(tmp_path)  # writes the source
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=_make_in_a_process, args=(tmp_path, barrier, results))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    first, second = (results.get(timeout=300) for _ in processes)
    for process in processes:
        process.join()
    expected = EncodedRows.concatenated(encoded_blocks(examples(), small_tokenizer(), 24))
    assert first == second == expected.ids.tolist()
    assert len(list((tmp_path / "cache").iterdir())) == 1
