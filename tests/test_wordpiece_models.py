"""A WordPiece vocabulary from text to records, a pretrained checkpoint, a classifier, an export."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import build_albert, build_classifier, load_albert, save_albert
from albert_keras.config import config_from
from albert_keras.data.record_set import RecordSet
from albert_keras.data.records import write_records
from albert_keras.export import ServedModel, export_saved_model
from albert_keras.recipes import PretrainingRecipe
from albert_keras.tasks import pretraining
from albert_keras.tasks.finetuning_data import encoded_training_rows
from albert_keras.tasks.finetuning_task import Member
from albert_keras.tasks.length_batches import length_batches
from albert_keras.tasks.text_examples import TextColumns
from albert_keras.tasks.text_task import TextSource, TextTask
from albert_keras.text.tokenizer import Tokenizer
from albert_keras.text.wordpiece_tokenizer import WordpieceTokenizer
from tests.original_wordpiece import OriginalWordpiece, file_of, vocabulary_of

pytestmark = pytest.mark.both_kerases

LICENCE = Path(__file__).parents[1] / "LICENSE"
LENGTH = 32
RECIPE = PretrainingRecipe(
    sequence_length=LENGTH, batch_size=4, total_steps=2, warmup_steps=1, mask_rate=0.3
)


@pytest.fixture(scope="module")
def pieces():
    """Some that no text has, and the special ones not at the ids that they have elsewhere."""
    found = vocabulary_of(LICENCE.read_text().splitlines(), 400)
    return ["[unused1]", "##.", "The", *found[::-1]]


@pytest.fixture(scope="module")
def tokenizer(pieces):
    return WordpieceTokenizer(file_of(pieces))


@pytest.fixture(scope="module")
def records(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records") / "set"
    write_records([LICENCE], tokenizer, folder, length=LENGTH, shards=2)
    return RecordSet.load(folder, tokenizer)


@pytest.fixture(scope="module")
def saved(tokenizer, records, tmp_path_factory):
    """A pretrained model in its folder."""
    config = config_from("tiny", {"vocab_size": tokenizer.vocab_size})
    pretrainer = pretraining.new_pretrainer(config, RECIPE, tokenizer)
    batches = pretraining.training_batches(pretrainer, records, tokenizer, RECIPE)
    history = pretraining.compiled(pretrainer, RECIPE).fit(
        batches(0), steps_per_epoch=2, shuffle=False, verbose=0
    )
    assert np.isfinite(history.history["loss"]).all()
    folder = tmp_path_factory.mktemp("checkpoint") / "model"
    save_albert(pretrainer, folder, tokenizer=tokenizer)
    return folder


def test_batches_have_the_vocabularys_special_pieces_and_mask_whole_words(
    tokenizer, pieces, records
):
    config = config_from("tiny", {"vocab_size": tokenizer.vocab_size})
    pretrainer = pretraining.new_pretrainer(config, RECIPE, tokenizer)
    batches = pretraining.training_batches(pretrainer, records, tokenizer, RECIPE)
    continues = np.array([piece.startswith("##") for piece in pieces])
    special = [index for index, piece in enumerate(pieces) if piece.startswith("[")]
    special = {*special, pieces.index("##."), pieces.index("The")} - {pieces.index("[")}
    words = Counter()
    for batch in batches(0).take(20):
        batch = {name: value.numpy() for name, value in batch.items()}
        ids, mask = batch["token_ids"], batch["padding_mask"] == 1
        assert (ids[:, 0] == tokenizer.cls_id).all()
        assert (ids[~mask] == tokenizer.pad_id).all() and not (ids[mask] == tokenizer.pad_id).any()
        assert ((ids == tokenizer.sep_id).sum(axis=1) >= 1).all()
        for row, positions, labels, weights in zip(
            ids, *(batch[f"masked_{name}"] for name in ("positions", "ids", "weights")), strict=True
        ):
            positions, labels = positions[weights > 0], labels[weights > 0]
            assert not special & set(labels.tolist())
            allowed = {tokenizer.mask_id}  # or another piece, or the same
            assert not (special - allowed) & set(row[positions].tolist())
            whole = row.copy()
            whole[positions] = labels
            # Words are masked as a whole, unless they are longer than the row's budget.
            chosen = np.isin(np.arange(LENGTH), positions)
            for word in np.split(np.arange(LENGTH), np.flatnonzero(~continues[whole])[1:]):
                if special & set(whole[word].tolist()):
                    continue  # it ends there, as "a##." does
                if len(word) <= 0.3 * (whole != tokenizer.pad_id).sum() - 1 and len(word) <= 8:
                    words[chosen[word].sum() / len(word), len(word) > 1] += 1
    assert {share for share, _ in words} == {0, 1} and words[1, True] > 20


def test_records_of_other_settings_are_refused(pieces, records):
    cased = WordpieceTokenizer(file_of(pieces), lowercase=False)
    with pytest.raises(ValueError, match="written with another vocabulary"):
        RecordSet.load(records.folder, cased)


def test_a_checkpoint_takes_its_vocabulary_along(saved, tokenizer):
    model, loaded = load_albert(saved)
    assert type(loaded) is WordpieceTokenizer and loaded.sha256 == tokenizer.sha256
    assert {"vocab.txt", "tokenizer_config.json"} <= {path.name for path in saved.iterdir()}
    config = json.loads((saved / "config.json").read_text())
    expected = [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id]
    assert [config[f"{name}_token_id"] for name in ("pad", "bos", "eos")] == expected
    assert isinstance(Tokenizer.load(saved), WordpieceTokenizer)


@pytest.mark.parametrize(
    "name,change,message",
    [
        (
            "vocab.txt",
            lambda data: data.replace(b"\nlicense\n", b"\nlicence\n"),
            "must be the vocab",
        ),
        ("tokenizer_config.json", lambda data: data.replace(b"true", b"false", 1), "say the same"),
    ],
)
def test_a_folder_whose_vocabulary_was_changed_is_refused(saved, tmp_path, name, change, message):
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    changed = change((saved / name).read_bytes())
    assert changed != (saved / name).read_bytes()
    (tmp_path / name).write_bytes(changed)
    with pytest.raises(ValueError, match=message):
        load_albert(tmp_path)


def test_a_classifier_is_trained_and_exported_and_answers_raw_strings(
    saved, pieces, tokenizer, tmp_path
):
    _, loaded = load_albert(saved)
    encoder = build_albert(config_from("tiny", {"vocab_size": tokenizer.vocab_size}))
    classifier = build_classifier(encoder, 2)
    texts = [
        "The Licensor grants, [MASK] you 日本 a license.",
        "Work",
        "",
        "distribution of copies",
    ]
    rows = [
        {"text": text, "label": label} for text, label in zip(texts, ["yes", "no"] * 2, strict=True)
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = TextTask(["yes", "no"])
    source = TextSource(str(tmp_path / "train.jsonl"), TextColumns())
    classifier.compile("adam", **task.compile_arguments(classifier))
    encoded = encoded_training_rows(task, source, loaded, 16)
    batches = length_batches(encoded, batch_size=2, max_length=16)
    classifier.fit(batches(0), steps_per_epoch=2, shuffle=False, verbose=0)
    (answered,) = Member(classifier, loaded, 16).answered(task, source)
    probabilities = answered.answers

    # The model by itself on ids of the original's algorithm.
    for ids, expected in zip(OriginalWordpiece(pieces).encode(texts), probabilities, strict=True):
        row = np.array([[tokenizer.cls_id, *ids[:14], tokenizer.sep_id]], np.int32)
        inputs = {"token_ids": row, "segment_ids": 0 * row, "padding_mask": 0 * row + 1}
        logits = classifier(inputs, training=False)["logits"]
        np.testing.assert_allclose(tf.nn.softmax(logits)[0], expected, atol=1e-6)

    # Its self-check asks the export in a process without this library.
    folder = export_saved_model(
        classifier, loaded, tmp_path / "x", labels=["yes", "no"], max_length=16
    )
    answers = ServedModel(folder).ask({"text": texts})
    for answer, row in zip(answers, probabilities, strict=True):
        assert answer["label"] == ["yes", "no"][row.argmax()]
        assert abs(answer["score"] - row.max()) < 1e-5
