"""Packing sentences into chunks, and the bytes of a record."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.data.chunks import (
    Chunk,
    ChunkFormat,
    decode_chunks,
    document_key,
    encode_chunks,
    pack_document,
    split_records,
)


def random_bounds(rng):
    lengths = rng.integers(1, rng.choice([3, 12, 80]), rng.integers(1, 60))
    return np.concatenate([[0], np.cumsum(lengths)]).tolist()


@pytest.mark.parametrize("short_fraction", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("length", [8, 20, 64])
def test_every_token_is_in_exactly_one_chunk(length, short_fraction):
    rng = np.random.default_rng(length)
    layout = ChunkFormat(length, short_fraction)
    for _ in range(200):
        bounds = random_bounds(rng)
        chunks = pack_document(bounds, int(rng.integers(2**63)), layout)
        edges = [chunk.start for chunk in chunks] + [chunks[-1].end]
        assert edges == [0, *(chunk.end for chunk in chunks)] and edges[-1] == bounds[-1]
        for start, end, starts in chunks:
            assert 0 < end - start <= length - 3
            if len(starts) > 1:
                inner = [bound - start for bound in bounds if start <= bound < end]
                assert starts == inner and {start, end} <= set(bounds)
            else:
                assert starts == [0]


def test_a_full_chunk_ends_where_the_next_sentence_does_not_fit():
    layout = ChunkFormat(length=13, short_fraction=0.0)
    assert pack_document([0, 4, 8, 11, 20], 0, layout) == [
        Chunk(0, 8, [0, 4]),
        Chunk(8, 11, [0]),
        Chunk(11, 20, [0]),
    ]


def test_a_sentence_longer_than_a_chunk_is_split_into_chunks_of_its_own():
    layout = ChunkFormat(length=9, short_fraction=0.0)
    assert pack_document([0, 2, 16, 18, 20], 0, layout) == [
        Chunk(0, 2, [0]),
        Chunk(2, 8, [0]),
        Chunk(8, 14, [0]),
        Chunk(14, 16, [0]),
        Chunk(16, 20, [0, 2]),
    ]


def test_a_tenth_of_the_chunks_is_short_with_uniform_targets():
    layout = ChunkFormat(length=23, short_fraction=0.1)  # at most 20 tokens
    lengths = []
    for key in range(400):
        chunks = pack_document(list(range(2001)), key * 0x2468ACE, layout)
        lengths += [chunk.end - chunk.start for chunk in chunks[:-1]]
    counts = np.bincount(lengths, minlength=21)
    assert counts[:2].tolist() == [0, 0]
    short = counts[2:20]
    # A short target is uniform in 2..20, and one of 20 looks full.
    expected = 0.1 * len(lengths) / 19
    assert ((short - expected) ** 2 / expected).sum() < 42.31  # 99.9 % of chi-square, 18 degrees


def test_a_short_chunk_takes_two_sentences_so_that_it_can_be_a_pair():
    layout = ChunkFormat(length=103, short_fraction=1.0)
    for key in range(50):
        chunks = pack_document(list(range(0, 1001, 40)), key, layout)
        for chunk in chunks[1:] if key % 2 else chunks[:-1]:  # but for the rest
            assert len(chunk.sentence_starts) == 2


def test_half_of_the_documents_is_packed_from_the_end():
    layout = ChunkFormat(length=13, short_fraction=0.0)
    lengths = [4, 4, 3, 9, 2, 5, 1]
    forward = pack_document(np.cumsum([0, *lengths]).tolist(), 0, layout)
    backward = pack_document(np.cumsum([0, *reversed(lengths)]).tolist(), 1, layout)
    sentences = [np.diff([*chunk.sentence_starts, chunk.end - chunk.start]) for chunk in forward]
    mirrored = [np.diff([*chunk.sentence_starts, chunk.end - chunk.start]) for chunk in backward]
    assert [list(reversed(part)) for part in reversed(mirrored)] == list(map(list, sentences))


def test_the_first_segment_of_a_chunk_is_not_the_longer_one():
    layout = ChunkFormat(length=128, short_fraction=0.1)
    rng = np.random.default_rng(0)
    firsts, lasts = [], []
    for _ in range(400):
        lengths = np.maximum(1, rng.lognormal(2.8, 0.8, 200).astype(int))  # of sentences in novels
        chunks = pack_document(np.cumsum([0, *lengths]).tolist(), int(rng.integers(2**63)), layout)
        for chunk in chunks:
            if len(chunk.sentence_starts) > 1:
                firsts.append(chunk.sentence_starts[1])
                lasts.append(chunk.end - chunk.start - chunk.sentence_starts[-1])
    difference = np.subtract(firsts, lasts)
    # With all documents packed from their start, a first sentence has 12 tokens more.
    assert abs(difference.mean()) < 3 * difference.std() / np.sqrt(len(difference))


def test_targets_depend_on_the_document_and_the_chunk_alone():
    layout = ChunkFormat(length=40, short_fraction=0.5)
    bounds = list(range(0, 3000, 5))
    assert pack_document(bounds, 12, layout) == pack_document(bounds, 12, layout)
    assert pack_document(bounds, 12, layout) != pack_document(bounds, 14, layout)
    longer = pack_document([*bounds, 3005], 12, layout)
    assert longer[:-1] == pack_document(bounds, 12, layout)[: len(longer) - 1]


def test_a_document_key_is_a_64_bit_hash_that_stays_the_same():
    # From `b2sum --length 64`.
    assert document_key(b"One.\nTwo.") == int.from_bytes(
        bytes.fromhex("8bf5d73fd9f1048b"), "little"
    )
    assert document_key(b"One.\nTwo.") != document_key(b"One. Two.")


@pytest.mark.parametrize("unit_bytes,largest", [(2, 65_535), (4, 200_000)])
def test_records_come_back_from_their_bytes(unit_bytes, largest):
    layout = ChunkFormat(length=16, unit_bytes=unit_bytes)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, largest + 1, 60)
    ids[7] = largest
    chunks = [Chunk(0, 13, [0, 5, 6]), Chunk(13, 20, [0]), Chunk(20, 33, list(range(13)))]
    records = encode_chunks(ids.astype(layout.dtype).tobytes(), chunks, 2**64 - 5, layout)
    assert split_records(b"".join(records), unit_bytes) == [
        (records[0], 3, 13),
        (records[1], 1, 7),
        (records[2], 13, 13),
    ]

    batch = decode_chunks(tf.constant([*records, b""]), layout, max_sentences=13)
    assert batch.num_tokens.numpy().tolist() == [13, 7, 13, 0]
    assert batch.num_sentences.numpy().tolist() == [3, 1, 13, 0]
    for row, (start, end, starts) in enumerate(chunks):
        first = int(batch.first_token[row])
        np.testing.assert_array_equal(batch.units[row, first : first + end - start], ids[start:end])
        np.testing.assert_array_equal(batch.sentence_starts[row, : len(starts)], starts)


def test_a_record_is_laid_out_as_documented():
    layout = ChunkFormat(length=16)
    ids = np.array([5, 6, 300], layout.dtype).tobytes()
    (record,) = encode_chunks(ids, [Chunk(0, 3, [0, 2])], 0x0102030405060708, layout)
    assert record == bytes(
        [1, 2, 3, 4, 5, 6, 7, 8]  # key
        + [0, 0, 0, 0]
        + [2, 0, 0, 0]
        + [3, 0, 0, 0]  # number, sentences, tokens
        + [0, 0, 2, 0]  # starts
        + [5, 0, 6, 0, 44, 1]  # ids
    )


def test_records_are_ordered_by_document_and_then_by_chunk_number():
    layout = ChunkFormat(length=8)
    ids = np.arange(600, dtype=layout.dtype).tobytes()
    chunks = [Chunk(at, at + 2, [0]) for at in range(0, 600, 2)]
    low, high = (encode_chunks(ids, chunks, key, layout) for key in (255, 256))
    shuffled = np.random.default_rng(0).permutation(np.array(high + low, object))
    assert sorted(shuffled) == low + high
