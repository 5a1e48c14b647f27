"""How a document is cut into segments, and what is asked about each two of them."""

import numpy as np
import pytest
import tensorflow as tf

from albert_keras.data import packer
from albert_keras.data.chunks import ChunkFormat, document_key, pack_document
from albert_keras.layers.sop_head import SOP_IN_ORDER
from albert_keras.model import build_albert, build_pretrainer
from albert_keras.tasks.coherence import CoherenceScorer, segments_of
from tests.layer_contract import fill_weights
from tests.small_tokenizer import VOCAB_SIZE, small_tokenizer

pytestmark = pytest.mark.both_kerases

LENGTH = 24
DOCUMENTS = [
    ["The letter was posted.", "It rained.", "Nobody went out.", "Why?"],
    ["Alone."],
    ["\u0300", "It was late.", "\u0300", "We went home.", "\u0300"],  # these are no tokens
    ["\u0300"],
    ["Yes."] + ["It was a long, long, long day and a longer night, as all of them were."] + ["No."],
    ["We came.", "We saw.", "We left.", "It rained.", "It was late.", "So we slept.", "Well?"],
]


@pytest.fixture(scope="module")
def pretrainer():
    pretrainer = build_pretrainer(build_albert("tiny", vocab_size=VOCAB_SIZE), max_predictions=3)
    fill_weights(pretrainer)
    return pretrainer


def scored(pretrainer, documents, batch_size=3):
    scorer = CoherenceScorer(
        pretrainer, small_tokenizer(), max_length=LENGTH, batch_size=batch_size
    )
    return list(scorer(documents))


def cuts(lengths, max_tokens, sentences=None):
    bounds = np.cumsum([0, *lengths]) + 7  # a document is somewhere in its block
    sentences = sentences or [str(length) for length in lengths]
    return segments_of(sentences, bounds, ChunkFormat(max_tokens + 3, 0.0))


def with_key(parity, count):
    """Sentences whose document is packed from its start (0) or its end (1)."""
    for salt in range(100):
        sentences = [f"{salt} {number}" for number in range(count)]
        if document_key("\n".join(sentences).encode()) % 2 == parity:
            return sentences


def test_a_chunk_is_cut_at_the_sentence_nearest_to_its_middle():
    assert cuts([3, 5, 4, 4], 16) == [0, 2, 4]
    assert cuts([9, 2, 2], 16) == [0, 1, 3]
    assert cuts([2, 2, 9], 16) == [0, 2, 3]
    assert cuts([5], 16) == [0, 1]
    assert cuts([3, 5, 4, 4, 9, 1], 16, with_key(0, 6)) == [0, 2, 4, 5, 6]
    # Packed from the end: 4 9 1, and before it 3 5 4.
    assert cuts([3, 5, 4, 4, 9, 1], 16, with_key(1, 6)) == [0, 2, 3, 4, 6]


def test_a_sentence_longer_than_a_chunk_is_a_segment_and_nothing_is_cut_in_it():
    for parity in (0, 1):
        assert cuts([4, 40, 4], 16, with_key(parity, 3)) == [0, 1, 2, 3]


def test_sentences_without_tokens_stay_with_what_is_before_them():
    assert cuts([0, 5, 0, 5, 0], 16) == [0, 3, 5]
    assert cuts([0, 0], 16) == []


def test_segments_are_chunks_of_records_or_halves_of_them():
    rng = np.random.default_rng(0)
    for _ in range(200):
        lengths = rng.integers(0, 12, rng.integers(1, 30)).tolist()
        sentences = [f"{number} {length}" for number, length in enumerate(lengths)]
        found = cuts(lengths, 20, sentences)
        if not any(lengths):
            assert found == []
            continue
        assert found[0] == 0 and found[-1] == len(lengths) and found == sorted(set(found))
        bounds = np.cumsum([0, *lengths])
        starts = [0, *(bounds[1:][np.array(lengths) > 0])]
        key = document_key("\n".join(sentences).encode())
        chunks = pack_document(list(map(int, starts)), key, ChunkFormat(23, 0.0))
        offsets = {int(bounds[cut]) for cut in found}
        assert {chunk.start for chunk in chunks} <= offsets
        halves = [sum(c.start < at < c.end for at in offsets) for c in chunks]
        assert halves == [int(len(chunk.sentence_starts) > 1) for chunk in chunks]


def asked(pretrainer, first, second):
    """What the model says of two texts, in a row made by hand."""
    tokenizer = small_tokenizer()
    a = [tokenizer.cls_id, *first, tokenizer.sep_id]
    b = [*second, tokenizer.sep_id]
    ids = tf.constant([a + b])
    logits = pretrainer(
        {
            "token_ids": ids,
            "segment_ids": tf.constant([[0] * len(a) + [1] * len(b)]),
            "padding_mask": tf.ones_like(ids),
            "masked_positions": tf.zeros([1, 3], tf.int32),
        }
    )["sop_logits"]
    return tf.nn.softmax(logits)[0, SOP_IN_ORDER].numpy()


def test_each_two_segments_are_asked_about_in_both_orders_sentence_by_sentence(pretrainer):
    tokenizer = small_tokenizer()
    asked_pairs = too_long = 0
    for document in scored(pretrainer, DOCUMENTS):
        ids = [tokenizer.encode(sentence) for sentence in document.sentences]
        segments = [
            sum(ids[first:last], [])
            for first, last in zip(document.segments, document.segments[1:], strict=False)
        ]
        assert len(document.in_order) == len(document.swapped) == max(len(segments) - 1, 0)
        for number, (first, second) in enumerate(zip(segments, segments[1:], strict=False)):
            if len(first) + len(second) + 3 > LENGTH:
                assert np.isnan(document.in_order[number]) and np.isnan(document.swapped[number])
                too_long += 1
                continue
            asked_pairs += 1
            for found, expected in (
                (document.in_order[number], asked(pretrainer, first, second)),
                (document.swapped[number], asked(pretrainer, second, first)),
            ):
                assert found == pytest.approx(expected, abs=1e-5)
    assert asked_pairs >= 5 and too_long >= 2


def test_the_coherence_is_the_mean_over_the_pairs(pretrainer):
    document = scored(pretrainer, DOCUMENTS)[-1]
    assert len(document.in_order) > 1
    expected = np.mean([(a + 1 - b) / 2 for a, b in zip(*document[2:], strict=True)])
    assert document.coherence == pytest.approx(expected)


def test_two_segments_turned_round_have_the_rest_of_the_coherence(pretrainer):
    one, other = scored(pretrainer, [["We came.", "We left."], ["We left.", "We came."]])
    assert one.coherence == pytest.approx(1 - other.coherence, abs=1e-6)
    assert abs(one.coherence - 0.5) > 1e-4


def test_without_a_pair_there_is_no_coherence(pretrainer):
    documents = scored(pretrainer, DOCUMENTS)
    assert [document.coherence is None for document in documents] == [
        *(False, True, False, True, True, False),
    ]
    assert [bool(document.segments) for document in documents] == [True] * 3 + [False] + [True] * 2


def test_documents_come_in_their_order_whatever_block_they_are_in(pretrainer, monkeypatch):
    together = scored(pretrainer, DOCUMENTS)
    monkeypatch.setattr(packer, "_BLOCK_CHARACTERS", 20)
    alone = scored(pretrainer, iter(DOCUMENTS), batch_size=1)
    assert [one.sentences for one in alone] == DOCUMENTS
    for one, other in zip(alone, together, strict=True):
        assert one.segments == other.segments
        np.testing.assert_allclose(one.in_order, other.in_order, atol=1e-6)


@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_a_model_of_another_objective_is_refused(objective):
    model = build_pretrainer(build_albert("tiny", vocab_size=400), pair_objective=objective)
    with pytest.raises(ValueError, match=f"trained with the objective {objective}"):
        CoherenceScorer(model, small_tokenizer(), max_length=LENGTH)
