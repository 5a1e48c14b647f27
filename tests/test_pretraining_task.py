"""The pretraining recipe and its score."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from small_tokenizer import small_tokenizer

from albert_keras.config import PRESETS, config_from
from albert_keras.data.pretraining import pretraining_batches
from albert_keras.data.record_set import RecordSet
from albert_keras.data.records import write_records
from albert_keras.masking import ngram_mask
from albert_keras.model import build_albert, build_pretrainer
from albert_keras.recipes import PretrainingRecipe
from albert_keras.tasks import pretraining_scores
from albert_keras.tasks.pretraining import compiled, new_pretrainer, training_batches
from albert_keras.tasks.pretraining_scores import EVALUATION_SEED, evaluate

LENGTH = 32
RECIPE = PretrainingRecipe(
    sequence_length=LENGTH, batch_size=4, total_steps=40, warmup_steps=3, learning_rate=1e-2
)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    licence = Path(__file__).parents[1] / "LICENSE"
    write_records([licence], small_tokenizer(), folder / "set", length=LENGTH, shards=2)
    return RecordSet.load(folder / "set", small_tokenizer())


@pytest.fixture
def pretrainer():
    config = config_from("tiny", {"vocab_size": small_tokenizer().vocab_size})
    return new_pretrainer(config, RECIPE, small_tokenizer())


def test_masked_slots_are_15_percent_of_the_length(pretrainer):
    assert pretrainer.get_layer("masked_lm").max_predictions == 5  # 4.8
    config = config_from("tiny", {"max_position_embeddings": 512})
    longer = new_pretrainer(config, PretrainingRecipe(sequence_length=512), small_tokenizer())
    slots = longer.get_layer("masked_lm").max_predictions
    assert slots == 77  # 76.8, what the paper's users take at 512
    more = new_pretrainer(
        config, PretrainingRecipe(sequence_length=512, mask_rate=0.3), small_tokenizer()
    )
    layer = more.get_layer("masked_lm")
    assert (layer.max_predictions, layer.rate) == (154, 0.3)


def test_every_model_is_scored_on_the_same_masks(records, pretrainer):
    config = config_from("tiny", {"vocab_size": small_tokenizer().vocab_size})
    for rate in (0.05, 0.4):
        recipe = dataclasses.replace(RECIPE, mask_rate=rate, ngram=1, seed=3)
        other = new_pretrainer(config, recipe, small_tokenizer())
        ours, theirs = (
            evaluate(model, records, small_tokenizer(), sequence_length=LENGTH)
            for model in (pretrainer, other)
        )
        for name in ("masked_tokens", "unigram_entropy", "sop_examples"):
            assert ours[name] == theirs[name]
        assert ours["mlm_loss"] != theirs["mlm_loss"]


def test_no_masked_piece_is_visible_in_an_evaluation(records, pretrainer, monkeypatch):
    tokenizer = small_tokenizer()

    def noting(token_ids, *arguments, **settings):
        masked = ngram_mask(token_ids, *arguments, **settings)
        hidden = tf.gather(masked["token_ids"], masked["masked_positions"], batch_dims=1)
        tf.print(
            tf.boolean_mask(hidden, masked["masked_weights"] > 0), summarize=-1, output_stream=out
        )
        return masked

    out = "file://" + str(records.folder) + ".seen"
    monkeypatch.setattr(pretraining_scores, "ngram_mask", noting)
    evaluate(pretrainer, records, tokenizer, sequence_length=LENGTH)
    seen = Path(str(records.folder) + ".seen").read_text()
    assert set(re.findall(r"\d+", seen)) == {str(tokenizer.mask_id)}


def test_one_seed_gives_one_start(pretrainer):
    again = new_pretrainer(
        config_from("tiny", {"vocab_size": small_tokenizer().vocab_size}),
        RECIPE,
        small_tokenizer(),
    )
    for ours, theirs in zip(pretrainer.weights, again.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_score_is_what_the_logits_say(records, pretrainer):
    tokenizer = small_tokenizer()
    scores = evaluate(pretrainer, records, tokenizer, sequence_length=LENGTH, batch_size=16)
    batches = pretraining_batches(
        records,
        batch_size=16,
        sequence_length=LENGTH,
        mask=lambda ids, seed: ngram_mask(
            ids,
            tokenizer.piece_kinds,
            seed,
            max_predictions=5,
            mask_fraction=1.0,
            random_fraction=0.0,
        ),
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        seed=EVALUATION_SEED,
        repeat=False,
    )
    losses, right, pieces, order_losses, order_right = [], [], [], [], []
    for batch in batches:
        batch = {name: value.numpy() for name, value in batch.items()}
        outputs = pretrainer.predict_on_batch({name: batch[name] for name in pretrainer.input})
        for row in range(16):
            logits = np.asarray(outputs["sop_logits"][row], np.float64)
            if batch["sop_weights"][row]:
                label = batch["sop_labels"][row]
                order_losses.append(np.log(np.exp(logits).sum()) - logits[label])
                order_right.append(logits.argmax() == label)
            for slot in np.flatnonzero(batch["masked_weights"][row]):
                logits = np.asarray(outputs["mlm_logits"][row, slot], np.float64)
                piece = batch["masked_ids"][row, slot]
                losses.append(np.log(np.exp(logits).sum()) - logits[piece])
                right.append(logits.argmax() == piece)
                pieces.append(piece)
    shares = np.unique(pieces, return_counts=True)[1] / len(pieces)
    assert scores["masked_tokens"] == len(pieces) and scores["sop_examples"] == len(order_losses)
    for name, expected in {
        "mlm_loss": np.mean(losses),
        "mlm_accuracy": np.mean(right),
        "sop_loss": np.mean(order_losses),
        "sop_accuracy": np.mean(order_right),
        "unigram_entropy": -(shares * np.log(shares)).sum(),
    }.items():
        assert scores[name] == pytest.approx(expected, rel=1e-4), name


def test_a_set_without_pairs_has_no_score_of_pairs(tmp_path, pretrainer):
    text = tmp_path / "text.txt"
    text.write_text("the licence and the work\n\n" * 40)
    write_records([text], small_tokenizer(), tmp_path / "set", length=LENGTH)
    alone = RecordSet.load(tmp_path / "set")
    scores = evaluate(pretrainer, alone, small_tokenizer(), sequence_length=LENGTH)
    assert scores["masked_tokens"] > 0 and scores["mlm_loss"] > 0
    assert {name for name in scores if name.startswith("sop")} == {"sop_examples"}
    assert scores["sop_examples"] == 0


def test_a_few_steps_lower_the_loss(records, pretrainer):
    model = compiled(pretrainer, RECIPE)
    batches = training_batches(pretrainer, records, small_tokenizer(), RECIPE)(0)
    history = []
    keep = tf.keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: history.append(logs["mlm_loss"])
    )
    model.fit(batches, steps_per_epoch=RECIPE.total_steps, verbose=0, callbacks=[keep])
    assert history[-1] < history[0] - 0.1  # the log is a running mean


def test_a_model_of_one_segment_is_refused(records):
    config = config_from("tiny", {"vocab_size": small_tokenizer().vocab_size, "type_vocab_size": 1})
    model = new_pretrainer(config, RECIPE, small_tokenizer())
    with pytest.raises(ValueError, match="`type_vocab_size` must be at least 2. Received: 1"):
        training_batches(model, records, small_tokenizer(), RECIPE)
    with pytest.raises(ValueError, match="`type_vocab_size` must be at least 2. Received: 1"):
        evaluate(model, records, small_tokenizer(), sequence_length=LENGTH)


def test_sequences_longer_than_the_positions_are_refused():
    with pytest.raises(ValueError, match="length 65, 64 positions"):
        new_pretrainer(PRESETS["tiny"], PretrainingRecipe(sequence_length=65), small_tokenizer())


def test_rows_longer_than_the_records_are_refused(records, pretrainer):
    recipe = dataclasses.replace(RECIPE, sequence_length=40)
    batches_from = training_batches(pretrainer, records, small_tokenizer(), recipe)
    with pytest.raises(ValueError, match="chunks, which are of 32 pieces .* `sequence_length` 40"):
        batches_from(0)


def test_an_evaluation_without_room_for_its_masks_is_refused(records):
    config = config_from("tiny", {"vocab_size": small_tokenizer().vocab_size})
    model = build_pretrainer(build_albert(config), max_predictions=2)
    with pytest.raises(ValueError, match="masks 5 positions of a row of 32. .* 2"):
        evaluate(model, records, small_tokenizer(), sequence_length=LENGTH)
