"""What the coherence filter keeps, drops, counts and writes."""

import gzip
import json
import random
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_keras import build_albert, build_classifier, build_pretrainer, cli, save_albert
from albert_keras.config import config_from
from albert_keras.data.corpus import read_documents
from albert_keras.data.record_set import RecordSet
from albert_keras.data.records import write_records
from albert_keras.recipes import PretrainingRecipe
from albert_keras.tasks.coherence import CoherenceScorer, ScoredDocument
from albert_keras.tasks.coherence_filter import filter_corpus
from albert_keras.tasks.pretraining import compiled, new_pretrainer, training_batches
from tests.small_tokenizer import VOCAB_SIZE, small_tokenizer

pytest.importorskip("matplotlib")

FILES = ["calibration.png", "kept.txt", "scores.jsonl", "summary.json"]


def by_first_words(documents):
    """A scorer that reads the probabilities in a document's first sentence: "0.8 -" for a pair, and
    one that is too long."""
    for sentences in documents:
        words = sentences[0].split()
        if words[0] == "empty":
            yield ScoredDocument(sentences, [], np.zeros(0), np.zeros(0))
            continue
        pairs = [] if words[0] == "alone" else words
        in_order = np.array([np.nan if word == "-" else float(word) for word in pairs])
        yield ScoredDocument(sentences, list(range(len(pairs) + 2)), in_order, 1 - in_order)


CORPUS = """
0.8 0.6 -
b
c
d

0.2 0.3
b
c

alone

empty

-
b

0.5
b
"""


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_text(CORPUS)
    return tmp_path / "corpus.txt"


def test_what_is_kept_is_decided_by_the_threshold_and_counted(corpus, tmp_path):
    summary = filter_corpus([corpus], by_first_words, tmp_path / "out", threshold=0.5, check=0)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert written == json.loads(json.dumps(summary))
    assert summary["counts"] == {
        "documents": 6,
        "kept": 4,
        "kept_without_a_pair": 2,
        "dropped_below_threshold": 1,
        "dropped_without_tokens": 1,
        "pairs": 5,
        "pairs_too_long": 2,
    }
    documents = list(read_documents([corpus]))
    kept = list(read_documents([tmp_path / "out" / "kept.txt"]))
    assert kept == [documents[place] for place in (0, 2, 4, 5)]
    # 0.8, 0.6 and the half of 0.5 of 5; swapped they have the same answers.
    assert summary["pairs"]["likelier"] == summary["pairs"]["sop_accuracy"] == 2.5 / 5
    assert summary["shuffled"] == {"seed": 0, "documents": 0, "without_a_pair": 0}


def test_scores_are_a_line_for_each_document_in_their_order(corpus, tmp_path):
    filter_corpus([corpus], by_first_words, tmp_path / "out", threshold=0.5, check=0)
    lines = list(map(json.loads, (tmp_path / "out" / "scores.jsonl").read_text().splitlines()))
    assert [line["document"] for line in lines] == list(range(6))
    assert [line["coherence"] for line in lines] == [0.7, 0.25, None, None, None, 0.5]
    assert [line["kept"] for line in lines] == [True, False, True, False, True, True]
    assert lines[0] == {
        "document": 0,
        "begins": "0.8 0.6 -",
        "sentences": 4,
        "coherence": 0.7,
        "kept": True,
        "segments": [0, 1, 2, 3],
        "in_order": [0.8, 0.6, None],
        "swapped": [0.2, 0.4, None],
    }


def test_the_check_scores_a_sample_of_the_documents_shuffled(tmp_path):
    def in_order(documents):
        for sentences in documents:
            right = [a < b for a, b in zip(sentences, sentences[1:], strict=False)]
            probabilities = np.array(right) * 0.8 + 0.1
            yield ScoredDocument(
                sentences, list(range(len(sentences) + 1)), probabilities, 1 - probabilities
            )

    texts = ["\n".join(f"{n:03}" for n in range(2 + place)) for place in range(150)]
    (tmp_path / "corpus.txt").write_text("\n\n".join([*texts, "same\nsame", "one"]))
    summary = filter_corpus([tmp_path / "corpus.txt"], in_order, tmp_path / "out", check=40)
    shuffled = summary["shuffled"]
    assert shuffled["documents"] == 40 and shuffled["auc"] == 1
    again = filter_corpus([tmp_path / "corpus.txt"], in_order, tmp_path / "again", check=40)
    other = filter_corpus([tmp_path / "corpus.txt"], in_order, tmp_path / "other", check=40, seed=1)
    assert again == summary and other["shuffled"] != shuffled


def test_documents_stream_through(corpus, tmp_path):
    """A block is scored before the next is read: what is in memory does not grow."""
    seen = []

    def score(documents):
        for number, document in enumerate(by_first_words(documents)):
            assert number == len(seen)  # all before were reported
            yield document

    filter_corpus(
        [corpus], score, tmp_path / "out", check=0, progress=lambda *done: seen.append(done)
    )
    assert len(seen) == 6
    done, total = seen[-1]
    assert total == len(CORPUS) and done <= total


def test_texts_of_json_are_read_and_kept_as_plain_text(tmp_path):
    rows = [{"text": "0.9\nb\0c\r\n\r\nd"}, {"text": " "}, {"text": "0.1\nx"}]
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    summary = filter_corpus(
        [tmp_path / "corpus.jsonl.gz"], by_first_words, tmp_path / "out", field="text", check=0
    )
    assert summary["dropped"] == {"empty_texts": 1}
    assert list(read_documents([tmp_path / "out" / "kept.txt"])) == [["0.9", "bc", "d"]]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("No space left on device")])
def test_what_stops_it_leaves_nothing(corpus, tmp_path, error):
    def stop(done, total):
        raise error

    before = sorted(tmp_path.iterdir())
    with pytest.raises(BaseException, match=None if error is KeyboardInterrupt else "No space"):
        filter_corpus([corpus], by_first_words, tmp_path / "deep" / "out", progress=stop)
    assert sorted(tmp_path.iterdir()) == before


def test_what_cannot_be_read_is_named_and_leaves_nothing(corpus, tmp_path):
    (tmp_path / "latin1.txt").write_bytes(b"0.9\nb\n\nCaf\xe9\n")
    (tmp_path / "empty.txt").write_text("\n\n")
    before = sorted(tmp_path.iterdir())
    for inputs, reason in (
        ([corpus, tmp_path / "latin1.txt"], "latin1.txt, line 4: not valid UTF-8 at byte 10"),
        ([tmp_path / "empty.txt"], "The corpus is empty. Received: .*empty.txt"),
        ([tmp_path / "none.txt"], "No such file or folder. Received: .*none.txt"),
    ):
        with pytest.raises(ValueError, match=reason):
            filter_corpus(inputs, by_first_words, tmp_path / "out")
    for settings in ({"threshold": float("nan")}, {"threshold": 1.1}, {"check": -1}):
        with pytest.raises(ValueError, match=f"`{next(iter(settings))}` must be"):
            filter_corpus([corpus], by_first_words, tmp_path / "out", **settings)
    with pytest.raises(ValueError, match="must not exist yet"):
        filter_corpus([corpus], by_first_words, tmp_path)
    assert sorted(tmp_path.iterdir()) == before


# Sentence k of a document begins with the k-th letter; what is behind it says nothing.
def alphabetical(rng, count):
    return [
        [f"{letter} {' '.join(rng.choices('mnopqrst', k=2))}." for letter in "abcdefgh"]
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A small model that has learned the order of the alphabet, on records as a run does."""
    folder = tmp_path_factory.mktemp("learned")
    tokenizer = small_tokenizer()
    text = "\n\n".join("\n".join(one) for one in alphabetical(random.Random(0), 2000))
    (folder / "text.txt").write_text(text)
    # Many short chunks, or the fourth and the fifth sentence would never be seen together.
    write_records(
        [folder / "text.txt"], tokenizer, folder / "records", length=32, short_fraction=0.7
    )
    recipe = PretrainingRecipe(
        sequence_length=32, batch_size=32, total_steps=450, warmup_steps=20, learning_rate=3e-3,
        optimizer="adamw",
    )  # fmt: skip
    config = config_from(
        "tiny",
        {
            "vocab_size": VOCAB_SIZE,
            "hidden_size": 64,
            "embedding_size": 32,
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "intermediate_size": 64,
            "initializer_range": 0.1,
        },
    )
    pretrainer = new_pretrainer(config, recipe, tokenizer)
    records = RecordSet.load(folder / "records", tokenizer)
    batches = training_batches(pretrainer, records, tokenizer, recipe)(0)
    training = compiled(pretrainer, recipe)
    training.fit(batches, steps_per_epoch=recipe.total_steps, verbose=0)
    save_albert(pretrainer, folder / "model", tokenizer=tokenizer, max_length=32)
    return pretrainer, folder / "model"


def test_a_model_that_knows_the_order_keeps_the_documents_that_have_one(learned, tmp_path):
    rng = random.Random(1)
    good = alphabetical(rng, 100)
    bad = [rng.sample(one, len(one)) for one in alphabetical(rng, 100)]
    mixed = [one for couple in zip(good, bad, strict=True) for one in couple]
    (tmp_path / "corpus.txt").write_text("\n\n".join("\n".join(one) for one in mixed))
    scorer = CoherenceScorer(learned[0], small_tokenizer(), max_length=32)
    summary = filter_corpus([tmp_path / "corpus.txt"], scorer, tmp_path / "out", threshold=0.7)
    kept = list(read_documents([tmp_path / "out" / "kept.txt"]))
    assert sum(one in good for one in kept) > 95
    assert sum(one in bad for one in kept) < 20
    # Of those, half of what is shuffled for the check was shuffled before.
    (tmp_path / "good.txt").write_text("\n\n".join("\n".join(one) for one in good))
    found = filter_corpus([tmp_path / "good.txt"], scorer, tmp_path / "good")
    assert found["shuffled"]["auc"] > 0.95 > summary["shuffled"]["auc"]
    assert found["pairs"]["likelier"] > 0.8
    assert found["pairs"]["calibration_error"] < 0.1


def test_the_command_says_what_it_kept(learned, tmp_path, albert_keras):
    good = alphabetical(random.Random(2), 20)
    (tmp_path / "corpus.txt").write_text("\n\n".join("\n".join(one) for one in [*good, ["a m."]]))
    command = ["coherence", learned[1], tmp_path / "corpus.txt", "--out", tmp_path / "new"]
    code, out, err = albert_keras(*command, "--threshold", "0.4", "--check", 9)
    assert code == 0, err
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == FILES
    summary = json.loads((tmp_path / "new" / "summary.json").read_text())
    assert summary["threshold"] == 0.4 and summary["shuffled"]["documents"] == 9
    assert f"new: 21 documents, {summary['counts']['kept']} kept, 1 kept_without_a_pair" in out
    assert f"area under the curve {summary['shuffled']['auc']:.3f} (" in out
    assert summary["shuffled"]["auc_interval"][0] > 0.5 and "note:" not in err
    code, _, err = albert_keras(*command)
    assert code == 2 and "--out must not exist yet" in err


@pytest.mark.parametrize("documents", [1, 20])
def test_a_filter_that_is_a_coin_is_told(tmp_path, albert_keras, documents):
    tf.keras.utils.set_random_seed(0)  # of some untrained models the interval is above 0.5
    pretrainer = build_pretrainer(build_albert("tiny", vocab_size=VOCAB_SIZE))
    save_albert(pretrainer, tmp_path / "model", tokenizer=small_tokenizer(), max_length=32)
    lines = alphabetical(random.Random(3), documents)
    (tmp_path / "corpus.txt").write_text("\n\n".join("\n".join(one) for one in lines))
    code, _, err = albert_keras(
        *("coherence", tmp_path / "model", tmp_path / "corpus.txt", "--out", tmp_path / "new")
    )
    assert code == 0 and "of which a coin has an area of 0.5" in err


def test_mistakes_of_the_command_are_told_and_leave_nothing(tmp_path, albert_keras, monkeypatch):
    tokenizer = small_tokenizer()
    encoder = build_albert("tiny", vocab_size=VOCAB_SIZE)
    for objective in ("nsp", "none"):
        model = build_pretrainer(encoder, pair_objective=objective)
        save_albert(model, tmp_path / objective, tokenizer=tokenizer, max_length=32)
    model = build_classifier(encoder, 2)
    save_albert(model, tmp_path / "labels", tokenizer, labels=["a", "b"], max_length=32)
    save_albert(build_pretrainer(encoder), tmp_path / "bare", max_length=32)
    save_albert(build_pretrainer(encoder), tmp_path / "unsaid", tokenizer=tokenizer)
    (tmp_path / "text.txt").write_text("a m.\nb n.\n")
    before = sorted(tmp_path.iterdir())

    def told(model, *options, corpus="text.txt"):
        command = ["coherence", tmp_path / model, tmp_path / corpus, "--out", tmp_path / "new"]
        code, _, err = albert_keras(*command, *options)
        assert code == 2 and sorted(tmp_path.iterdir()) == before, err
        return err

    for objective in ("nsp", "none"):
        assert f"which was trained with --objective {objective}" in told(objective)
    assert "a model of the kind classifier" in told("labels")
    assert "MODEL must have its vocabulary" in told("bare")
    assert "--length must be given" in told("unsaid")

    def started():
        raise AssertionError("TensorFlow was started")

    monkeypatch.setattr(cli.coherence, "start_tensorflow", started)
    assert "MODEL must be there" in told("nothing")
    assert "No such file or folder" in told("bare", corpus="none.txt")
    assert "--length must be at most the 64 positions" in told("bare", "--length", 65)
    for threshold in (2, "nan"):
        assert "--threshold" in told("bare", "--threshold", threshold)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install matplotlib, or this library with its extra `plots`" in told("bare")
