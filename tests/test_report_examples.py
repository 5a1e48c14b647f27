"""Masked examples: the guesses are the model's, the text is the row's."""

import numpy as np
import pytest
import tensorflow as tf
from report_page import parse, rows_of
from small_tokenizer import small_tokenizer

from albert_keras.model import build_albert, build_pretrainer
from albert_keras.report.example_cards import example_card
from albert_keras.report.masked_examples import HiddenPiece, MaskedExample, Piece, masked_examples
from albert_keras.text.wordpiece_tokenizer import WordpieceTokenizer

pytestmark = pytest.mark.both_kerases

LENGTH, SLOTS = 64, 6
PAIRS = [
    ("Redistribution of the work is permitted.", "The notice must stay in the files."),
    ("Each contributor grants you a licence.", "It may be used, sold <or> changed."),
    ("You may add your own statement", None),
]


def pretrainer(tokenizer, objective="sop"):
    tf.keras.utils.set_random_seed(1)
    # Large weights, so that no two guesses are as good.
    encoder = build_albert("tiny", vocab_size=tokenizer.vocab_size, initializer_range=0.4)
    return build_pretrainer(
        encoder, max_predictions=SLOTS, mask_id=tokenizer.mask_id, pair_objective=objective
    )


def batch_of(pairs, tokenizer, hidden=(2, 3, 5, 9)):
    """A batch as of an evaluation, and the ids of each row before anything was hidden."""
    size = len(pairs)
    batch = {
        "token_ids": np.full([size, LENGTH], tokenizer.pad_id, np.int32),
        "segment_ids": np.zeros([size, LENGTH], np.int32),
        "padding_mask": np.zeros([size, LENGTH], np.int32),
        "masked_positions": np.zeros([size, SLOTS], np.int32),
        "masked_ids": np.zeros([size, SLOTS], np.int32),
        "masked_weights": np.zeros([size, SLOTS], np.float32),
        "sop_labels": np.array([row % 2 for row in range(size)], np.int32),
        "sop_weights": np.array([float(second is not None) for _, second in pairs], np.float32),
    }
    rows = []
    for row, (first, second) in enumerate(pairs):
        ids = [tokenizer.cls_id, *tokenizer.encode(first), tokenizer.sep_id]
        middle = len(ids)
        if second is not None:
            ids += [*tokenizer.encode(second), tokenizer.sep_id]
        places = [place for place in hidden if ids[place] != tokenizer.sep_id]
        batch["token_ids"][row, : len(ids)] = ids
        batch["token_ids"][row, places] = tokenizer.mask_id
        batch["segment_ids"][row, middle : len(ids)] = 1
        batch["padding_mask"][row, : len(ids)] = 1
        batch["masked_positions"][row, : len(places)] = places
        batch["masked_ids"][row, : len(places)] = np.array(ids)[places]
        batch["masked_weights"][row, : len(places)] = 1
        rows.append(ids)
    return {name: tf.constant(values) for name, values in batch.items()}, rows


def softmax(logits):
    powers = np.exp(np.asarray(logits, np.float64))
    return powers / powers.sum()


def words_of(example):
    """The text of each segment, with what was hidden in its place."""
    texts = []
    for segment in example.segments:
        pieces = [part.truth if isinstance(part, HiddenPiece) else part for part in segment]
        texts.append("".join(" " * piece.space + piece.letters for piece in pieces).strip())
    return texts


def test_guesses_probabilities_and_ranks_are_those_of_the_logits():
    tokenizer = small_tokenizer()
    model = pretrainer(tokenizer)
    batch, _ = batch_of(PAIRS, tokenizer)
    outputs = model.predict_on_batch({name: batch[name] for name in model.input})
    examples = masked_examples(model, tokenizer, [batch])
    assert len(examples) == len(PAIRS)
    for row, example in enumerate(examples):
        slots = int(batch["masked_weights"][row].numpy().sum())
        assert len(example.hidden) == slots > 2
        for slot, hidden in enumerate(example.hidden):
            shares = softmax(outputs["mlm_logits"][row, slot])
            truth = int(batch["masked_ids"][row, slot])
            best = sorted(range(len(shares)), key=lambda piece: -shares[piece])[:5]  # noqa: B023
            assert hidden.truth.name == tokenizer.piece(truth)
            assert hidden.probability == pytest.approx(shares[truth], rel=1e-4)
            assert hidden.rank == 1 + sum(share > shares[truth] for share in shares)
            assert hidden.right == (best[0] == truth)
            assert [guess.name for guess, _ in hidden.guesses] == [
                tokenizer.piece(piece) for piece in best
            ]
            assert [share for _, share in hidden.guesses] == pytest.approx(shares[best], rel=1e-4)
    assert len({hidden.rank for example in examples for hidden in example.hidden}) > 5


def test_the_answer_for_the_pair_is_that_of_the_logits():
    tokenizer = small_tokenizer()
    for objective in ("sop", "nsp"):
        model = pretrainer(tokenizer, objective)
        batch, _ = batch_of(PAIRS, tokenizer)
        outputs = model.predict_on_batch({name: batch[name] for name in model.input})
        examples = masked_examples(model, tokenizer, [batch])
        for row, example in enumerate(examples[:2]):
            logits = outputs["sop_logits"][row]
            assert example.pair.objective == objective
            assert example.pair.label == row
            assert example.pair.probabilities == pytest.approx(softmax(logits), rel=1e-4)
            assert example.pair.right == (logits.argmax() == row)
        assert examples[2].pair is None  # a single segment


def test_without_a_pair_objective_there_is_no_answer():
    tokenizer = small_tokenizer()
    batch, _ = batch_of(PAIRS, tokenizer)
    examples = masked_examples(pretrainer(tokenizer, "none"), tokenizer, [batch])
    assert [example.pair for example in examples] == [None] * 3
    assert [len(example.segments) for example in examples] == [2, 2, 1]


def test_the_text_is_joined_from_the_pieces_as_the_tokenizer_does_it():
    tokenizer = small_tokenizer()
    batch, rows = batch_of(PAIRS, tokenizer)
    for example, ids in zip(
        masked_examples(pretrainer(tokenizer), tokenizer, [batch]), rows, strict=True
    ):
        middle = ids.index(tokenizer.sep_id)
        segments = [tokenizer.decode(part) for part in (ids[:middle], ids[middle:]) if part[1:]]
        assert words_of(example) == [text.replace(" \u2047 ", "<unk>") for text in segments]


def test_wordpieces_are_joined_too():
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*specials, *"the cat ##s sat on a mat . 日 本 ##ting".split()]
    tokenizer = WordpieceTokenizer("\n".join(pieces).encode())
    batch, rows = batch_of([("The cats sat.", "日本 on a mat.")], tokenizer)
    [example] = masked_examples(pretrainer(tokenizer), tokenizer, [batch])
    assert words_of(example) == ["the cats sat .", "日 本 on a mat ."]
    assert [hidden.truth.name for hidden in example.hidden] == ["cat", "##s", ".", "on"]


def test_only_as_many_rows_and_batches_are_taken_as_are_shown():
    tokenizer = small_tokenizer()
    model = pretrainer(tokenizer)
    taken = []

    def batches():
        for number in range(10):
            taken.append(number)
            yield batch_of(PAIRS, tokenizer)[0]

    assert len(masked_examples(model, tokenizer, batches(), rows=5)) == 5
    assert taken == [0, 1]
    assert len(masked_examples(model, tokenizer, [next(batches())])) == 3


def test_rows_with_a_pair_come_first():
    tokenizer = small_tokenizer()
    batch, _ = batch_of([PAIRS[2], PAIRS[0], PAIRS[2], PAIRS[1]], tokenizer)
    examples = masked_examples(pretrainer(tokenizer), tokenizer, [batch], rows=3)
    assert [words_of(example)[0][:4] for example in examples] == ["redi", "each", "you "]


def test_rows_in_which_nothing_is_hidden_are_left_out():
    tokenizer = small_tokenizer()
    batch, _ = batch_of(PAIRS, tokenizer)
    weights = batch["masked_weights"].numpy()
    weights[1] = 0
    examples = masked_examples(
        pretrainer(tokenizer), tokenizer, [{**batch, "masked_weights": weights}]
    )
    assert [words_of(example)[0][:4] for example in examples] == ["redi", "you "]


def test_a_card_shows_text_guesses_and_what_is_right():
    tokenizer = small_tokenizer()
    model = pretrainer(tokenizer)
    batch, rows = batch_of(PAIRS, tokenizer)
    # Two pieces are what the model guesses, so that some are right.
    outputs = model({name: batch[name] for name in model.input})
    truth = batch["masked_ids"].numpy()
    truth[1, :2] = outputs["mlm_logits"].numpy()[1, :2].argmax(axis=-1)
    examples = masked_examples(model, tokenizer, [{**batch, "masked_ids": truth}])
    example = examples[1]
    card = parse(example_card(7, example)).one("article")
    assert card.one("h3").text == "7. 2 of 4 pieces right"
    signs = [mark.one("sup").text for mark in card.all("mark")]
    assert signs == ["1✓", "2✓", "3✗", "4✗"]
    assert [mark.attributes["class"] for mark in card.all("mark")] == ["right"] * 2 + ["wrong"] * 2
    table = rows_of(card.one("table"))[1:]
    for number, (row, hidden) in enumerate(zip(table, example.hidden, strict=True), 1):
        sign = "✓" if number < 3 else "✗"
        guesses = "".join(f"{guess.name} {100 * share:.1f}" for guess, share in hidden.guesses)
        assert row == [
            f"{number} {sign}",
            hidden.truth.name,
            f"{100 * hidden.probability:.1f}",
            f"{hidden.rank:,}",
            guesses,
        ]
    answer = {0: "swapped", 1: "in order"}
    share = max(example.pair.probabilities)
    assert (
        f"Order of A and B: in order. The model says: {answer[example.pair.answer]} "
        f"({100 * share:.1f}\u00a0%) {'✓' if example.pair.right else '✗'}"
    ) in card.text
    # This vocabulary has no "<", and what it has instead looks like markup.
    assert "sold <unk>or<unk> changed" in "".join(p.text for p in card.all("p", class_="text"))


def test_pieces_cannot_become_markup():
    bad = Piece("<script>\x00", True, "</span><script>\x00")
    hidden = HiddenPiece(truth=bad, probability=0.1, rank=2, guesses=[(bad, 0.2)])
    card = parse(example_card(1, MaskedExample([[bad, hidden], [bad]], None)))
    assert not list(card.all("script"))
    assert [mark.children[0] for mark in card.all("mark")] == ["</span><script>\ufffd"]
    assert card.one("mark").attributes["title"] == "<script>\ufffd 20.0\u00a0%"


def test_a_long_row_lists_the_first_guesses_and_counts_the_rest():
    tokenizer = small_tokenizer()
    tf.keras.utils.set_random_seed(1)
    encoder = build_albert("tiny", vocab_size=tokenizer.vocab_size)
    model = build_pretrainer(encoder, max_predictions=SLOTS)
    [example] = masked_examples(model, tokenizer, [batch_of(PAIRS[:1], tokenizer)[0]])
    many = [*example.segments[0], *[example.hidden[0]] * 30]
    card = parse(example_card(1, MaskedExample([many], None)))
    count = 30 + sum(isinstance(part, HiddenPiece) for part in example.segments[0])
    assert len(list(card.all("mark"))) == count
    assert len(rows_of(card.one("table"))) == 1 + 12
    assert f"and {count - 12} more in the text" in card.text
